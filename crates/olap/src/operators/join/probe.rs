//! Looks up the rows of the probe side, batch by batch.
//!
//! ```text
//!   batch -> words and ranks -> candidates of each row -> pairs -> [equal keys] -> [other conditions] -> output
//!                                                                                            |              ^
//!               which rows have a partner -> rows that are output alone ---------------------|--------------+
//!                         ^                                                                  |
//!                         +------------------------------------------------------------------+
//! ```
//!
//! A word is a row's keys, packed into 64 bits; a rank is an integer in the order of a limit's values. Stages in
//! brackets run only where they are needed. The build side's columns are assembled only for rows that are output.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_select::coalesce::BatchCoalescer;
use arrow_select::filter::FilterBuilder;
use datafusion_common::JoinType;
use datafusion_common::error::{DataFusionError, Result};

use super::building::put_together;
use super::built::{Built, Finder};
use super::equal::retain_equal;
use super::ordered::Ordered;
use super::output::{Rows, Side, batch_of, columns_of};
use super::pairs::Pairs;
use super::shape::{First, Shape};

/// Output batches of at most this many rows are combined.
const SMALL_BATCH: usize = 1024;

/// The number of candidates that are examined for each row of an output batch, before other tasks get their turn.
const WALKED: usize = 16;

/// If one partner is enough: the number of each row's candidates that are tried in the first round. A partner is
/// usually among them. Each further round tries `NEXT_SHARE` times as many.
const FIRST_SHARE: usize = 4;
const NEXT_SHARE: usize = 8;

/// The result of a step.
pub enum Step {
    Rows(RecordBatch),
    /// No rows yet; other tasks may have their turn.
    Nothing,
    /// The batch is completed.
    End,
}

/// Joins batches with a build side, one after the other.
pub struct Prober {
    shape: Arc<Shape>,
    built: Arc<Built>,
    batch_size: usize,
    current: Option<Current>,
    /// Whether this is the last build side with which the rows are joined. A row that has no partner so far then has
    /// none.
    is_last: bool,
    /// For each row of the last batch, whether it has a partner; empty if the kind of join does not need this.
    met: Vec<bool>,
    small: Option<BatchCoalescer>,
    words: Vec<u64>,
}

/// A batch whose rows are being looked up.
struct Current {
    rows: RecordBatch,
    keys: Vec<ArrayRef>,
    /// For each row, the next candidate in the build side, counted from 1.
    found: Vec<u32>,
    /// The last candidate of each row, if candidates are adjacent and not linked.
    last: Vec<u32>,
    /// The first row that is not completed.
    row: usize,
    /// If one partner is enough: the number of candidates that are tried for a row before other rows have their turn.
    share: usize,
    /// Whether an earlier row has further candidates, which are tried in the next round.
    is_shared: bool,
    /// If only the first partners are needed: the number of partners that each row has so far.
    partners: Vec<usize>,
    /// For each row, whether it has a partner; empty if the kind of join does not need this.
    met: Vec<bool>,
    /// Whether there is only one build side for the rows.
    once: bool,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    Pairs,
    /// Rows of the probe side that are output alone, without a row of the build side.
    Alone,
    Done,
}

impl Prober {
    pub fn new(shape: Arc<Shape>, built: Arc<Built>, batch_size: usize) -> Prober {
        let small = (!shape.schema.fields().is_empty()).then(|| {
            let together = BatchCoalescer::new(shape.schema.clone(), batch_size);
            together.with_biggest_coalesce_batch_size(Some(SMALL_BATCH))
        });
        Prober { shape, built, batch_size, current: None, is_last: true, met: Vec::new(), small, words: Vec::new() }
    }

    /// Drops the build side, so that its memory is free for the next one.
    pub fn let_go(&mut self) -> Result<()> {
        self.built = Arc::new(put_together(&self.shape, Vec::new())?);
        Ok(())
    }

    /// Goes on with another build side for the same rows.
    pub fn turn_to(&mut self, built: Arc<Built>, is_last: bool) {
        (self.built, self.is_last) = (built, is_last);
    }

    /// Begins with rows of the probe side in their layout. `met` says which of these rows have a partner in another
    /// build side.
    pub fn begin(&mut self, rows: RecordBatch, met: Option<Vec<bool>>) -> Result<()> {
        let keys = self.shape.probe.keys_of(&rows);
        let (found, last) = self.built.finder.find(&self.shape.probe, &rows, &mut self.words)?;
        let marked = if self.shape.marks_probe() { rows.num_rows() } else { 0 };
        let once = met.is_none();
        let met = met.unwrap_or_else(|| vec![false; marked]);
        let (row, is_shared, stage) = (0, false, Stage::Pairs);
        let (share, partners) = match self.shape.first {
            Some(first) => (first.count, vec![0; rows.num_rows()]),
            None => (FIRST_SHARE, Vec::new()),
        };
        self.current = Some(Current { rows, keys, found, last, row, share, is_shared, partners, met, once, stage });
        Ok(())
    }

    pub fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// The next rows; small batches are combined.
    pub fn next(&mut self) -> Result<Step> {
        if self.small.is_none() {
            return self.step();
        }
        loop {
            if let Some(batch) = self.small.as_mut().and_then(BatchCoalescer::next_completed_batch) {
                return Ok(Step::Rows(batch));
            }
            match (self.step()?, &mut self.small) {
                (Step::Rows(batch), Some(small)) => {
                    // A large batch is not copied to the end of the waiting rows. Instead, the waiting rows are
                    // returned first.
                    if batch.num_rows() > SMALL_BATCH {
                        small.finish_buffered_batch()?;
                    }
                    small.push_batch(batch)?;
                }
                (other, _) => return Ok(other),
            }
        }
    }

    /// The rows that still wait to be combined, after all batches.
    pub fn rest(&mut self) -> Result<Option<RecordBatch>> {
        let Some(small) = &mut self.small else { return Ok(None) };
        small.finish_buffered_batch()?;
        Ok(small.next_completed_batch())
    }

    /// For each probe row of the last batch, whether it has a partner. Empty if the kind of join does not need this.
    /// Can be taken only once per batch.
    pub fn met(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.met)
    }

    fn step(&mut self) -> Result<Step> {
        let (shape, built) = (&self.shape, &self.built);
        let Some(current) = &mut self.current else { return Ok(Step::End) };
        loop {
            let rows = match current.stage {
                Stage::Pairs if needs_no_pairs(shape, built) => {
                    current.meet_all(shape, built);
                    current.stage = Stage::Alone;
                    None
                }
                Stage::Pairs if current.once && gives_each_once(shape, built) => {
                    current.stage = Stage::Done;
                    Some(current.each_once(shape, built)?)
                }
                Stage::Pairs => {
                    let rows = current.pairs(shape, built, self.batch_size)?;
                    if rows.is_none() && current.stage == Stage::Pairs {
                        return Ok(Step::Nothing);
                    }
                    rows
                }
                Stage::Alone => {
                    current.stage = Stage::Done;
                    if self.is_last && shape.marks_probe() { current.alone(shape, built)? } else { None }
                }
                Stage::Done => {
                    self.met = self.current.take().map_or_else(Vec::new, |current| current.met);
                    return Ok(Step::End);
                }
            };
            if let Some(rows) = rows {
                return Ok(Step::Rows(rows));
            }
        }
    }
}

/// Whether no pairs are needed: only rows of one side are output, and equal words alone tell whether a row has a
/// partner.
fn needs_no_pairs(shape: &Shape, built: &Built) -> bool {
    !shape.gives_pairs() && shape.residual.is_none() && built.finder.is_exact()
}

/// Whether each row of the probe side is output once, with its partner or without one.
fn gives_each_once(shape: &Shape, built: &Built) -> bool {
    let same_key = shape.residual.is_none() && built.finder.is_exact() && built.finder.is_unique();
    shape.kind == JoinType::Right && same_key
}

impl Current {
    fn meet_all(&mut self, shape: &Shape, built: &Built) {
        if shape.marks_probe() {
            self.met.iter_mut().zip(&self.found).for_each(|(met, found)| *met |= *found != 0);
        }
        if shape.marks_build() {
            for found in self.found.iter().filter(|found| **found != 0) {
                let mut row = *found;
                // All rows of the build side with the same word are marked together, beginning with this row. So if
                // this row is marked, the other rows are marked, too.
                while row != 0 && !built.is_met(row - 1) {
                    built.meet(row - 1);
                    row = built.finder.next(row, 0);
                }
            }
        }
    }

    fn each_once(&self, shape: &Shape, built: &Built) -> Result<RecordBatch> {
        let partners = UInt32Array::from_iter(self.found.iter().map(|found| found.checked_sub(1)));
        let build = Side { layout: &shape.build, columns: &built.columns, rows: Rows::These(&partners) };
        let probe = Side { layout: &shape.probe, columns: self.rows.columns(), rows: Rows::All };
        batch_of(shape, &build, &probe, self.rows.num_rows(), None)
    }

    /// Finds some more pairs.
    fn pairs(&mut self, shape: &Shape, built: &Built, limit: usize) -> Result<Option<RecordBatch>> {
        let mut pairs = match (&built.finder, shape.first) {
            (Finder::Ordered(ordered), Some(first)) => self.first_pairs(ordered, first, limit),
            (finder, _) if finder.is_unique() => self.only_pairs(limit),
            _ => self.some_pairs(shape, built, limit),
        };
        if self.row == self.found.len() {
            match std::mem::take(&mut self.is_shared) {
                true => (self.row, self.share) = (0, self.share.saturating_mul(NEXT_SHARE)),
                false => self.stage = Stage::Alone,
            }
        }
        if !built.finder.is_exact() {
            retain_equal(&mut pairs, &shape.build.keys_of_columns(&built.columns), &self.keys)?;
        }
        let Some(pairs) = self.passed(shape, built, pairs)? else { return Ok(None) };
        if shape.marks_build() {
            pairs.build.values().iter().for_each(|row| built.meet(*row));
        }
        if shape.marks_probe() {
            pairs.probe.values().iter().for_each(|row| self.met[*row as usize] = true);
        }
        if shape.first.is_some() {
            pairs.probe.values().iter().for_each(|row| self.partners[*row as usize] += 1);
        }
        if !shape.gives_pairs() || pairs.build.is_empty() {
            return Ok(None);
        }
        let [build, probe] = self.sides(shape, built, &pairs);
        batch_of(shape, &build, &probe, pairs.build.len(), None).map(Some)
    }

    /// The next pairs, if each row of the probe side has at most one candidate.
    fn only_pairs(&mut self, limit: usize) -> Pairs {
        let rows = self.row..self.found.len().min(self.row + limit);
        let (mut build, mut probe, mut count) = (vec![0; rows.len()], vec![0; rows.len()], 0);
        for (row, found) in (rows.start as u32..).zip(&self.found[rows.clone()]) {
            (build[count], probe[count]) = (found.wrapping_sub(1), row);
            count += usize::from(*found != 0);
        }
        build.truncate(count);
        probe.truncate(count);
        self.row = rows.end;
        Pairs { build, probe }
    }

    fn some_pairs(&mut self, shape: &Shape, built: &Built, limit: usize) -> Pairs {
        let mut pairs = Pairs::with_capacity(limit);
        // If only the existence of a partner matters, a row needs no second partner.
        let one_of_probe = shape.marks_probe() && !shape.gives_pairs();
        let one_of_build = shape.marks_build() && !shape.gives_pairs();
        let share = if one_of_probe { self.share } else { usize::MAX };
        let mut walked = 0;
        while self.row < self.found.len() {
            let mut found = self.found[self.row];
            if found != 0 && one_of_probe && self.met[self.row] {
                found = 0;
            }
            let last = self.last.get(self.row).copied().unwrap_or(0);
            let mut looked_at = 0;
            while found != 0 && looked_at < share {
                if !(one_of_build && built.is_met(found - 1)) {
                    pairs.push(found - 1, self.row as u32);
                }
                found = built.finder.next(found, last);
                walked += 1;
                looked_at += 1;
                if pairs.len() == limit || walked == limit * WALKED {
                    self.found[self.row] = found;
                    self.row += usize::from(found == 0);
                    return pairs;
                }
            }
            self.found[self.row] = found;
            self.is_shared |= found != 0;
            self.row += 1;
        }
        pairs
    }

    /// The next candidates in the wanted order, for each row that has too few partners. Candidates that tie with the
    /// last one of these are included.
    fn first_pairs(&mut self, ordered: &Ordered, first: First, limit: usize) -> Pairs {
        let ranks = ordered.ranks(first.limit);
        let mut pairs = Pairs::with_capacity(limit);
        while self.row < self.found.len() && pairs.len() < limit {
            let (mut from, mut to) = (self.found[self.row], self.last[self.row]);
            if from != 0 && self.partners[self.row] < first.count {
                let (mut looked_at, mut rank) = (0, None);
                while from <= to {
                    let candidate = if first.descending { to } else { from } - 1;
                    let this = Some(ranks[candidate as usize]);
                    if looked_at >= self.share && this != rank {
                        break;
                    }
                    pairs.push(candidate, self.row as u32);
                    (looked_at, rank) = (looked_at + 1, this);
                    if first.descending { to -= 1 } else { from += 1 }
                }
                from = if from <= to { from } else { 0 };
                (self.found[self.row], self.last[self.row]) = (from, to);
                self.is_shared |= from != 0;
            }
            self.row += 1;
        }
        pairs
    }

    /// The pairs that pass the other conditions.
    fn passed(&self, shape: &Shape, built: &Built, pairs: Pairs) -> Result<Option<Indices>> {
        let pairs = Indices { build: pairs.build.into(), probe: pairs.probe.into() };
        let count = pairs.build.len();
        let Some(residual) = shape.residual.as_ref().filter(|_| count > 0) else { return Ok(Some(pairs)) };
        let [build, probe] = self.sides(shape, built, &pairs);
        let passed = residual.passed(columns_of(&residual.columns, &build, &probe, count, None)?, count)?;
        match passed.true_count() {
            0 => Ok(None),
            all if all == count => Ok(Some(pairs)),
            _ => {
                let filter = FilterBuilder::new(&passed).optimize().build();
                let of = |rows: &UInt32Array| Ok::<_, DataFusionError>(filter.filter(rows)?.as_primitive().clone());
                Ok(Some(Indices { build: of(&pairs.build)?, probe: of(&pairs.probe)? }))
            }
        }
    }

    fn sides<'a>(&'a self, shape: &'a Shape, built: &'a Built, pairs: &'a Indices) -> [Side<'a>; 2] {
        // Usually each row has one partner, and the batch can be used unchanged.
        let all = pairs.probe.len() == self.rows.num_rows()
            && (0..pairs.probe.len() as u32).eq(pairs.probe.values().iter().copied());
        let rows = if all { Rows::All } else { Rows::These(&pairs.probe) };
        [
            Side { layout: &shape.build, columns: &built.columns, rows: Rows::These(&pairs.build) },
            Side { layout: &shape.probe, columns: self.rows.columns(), rows },
        ]
    }

    /// The rows of the probe side that are output without a row of the build side. In a mark join, these are all rows;
    /// in a semi join, the rows with a partner; in other joins, the rows without a partner.
    fn alone(&self, shape: &Shape, built: &Built) -> Result<Option<RecordBatch>> {
        let all = self.rows.num_rows();
        let build = Side { layout: &shape.build, columns: &built.columns, rows: Rows::Absent };
        let mut probe = Side { layout: &shape.probe, columns: self.rows.columns(), rows: Rows::All };
        if shape.kind == JoinType::RightMark {
            let mark: ArrayRef = Arc::new(BooleanArray::from(self.met.clone()));
            return batch_of(shape, &build, &probe, all, Some(&mark)).map(Some);
        }
        let wanted = shape.kind == JoinType::RightSemi;
        let rows = (0..).zip(&self.met).filter(|(_, met)| **met == wanted).map(|(row, _)| row);
        let rows = UInt32Array::from(rows.collect::<Vec<u32>>());
        match rows.len() {
            0 => return Ok(None),
            count if count == all => {}
            _ => probe.rows = Rows::These(&rows),
        }
        batch_of(shape, &build, &probe, rows.len(), None).map(Some)
    }
}

/// Pairs as arrays of row numbers, with which Arrow picks rows.
struct Indices {
    build: UInt32Array,
    probe: UInt32Array,
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};
    use datafusion_physical_expr::PhysicalExpr;
    use datafusion_physical_expr::expressions::Column;

    use super::*;
    use crate::operators::join::layout::Layout;
    use crate::operators::join::shape::Given;

    fn rows(name: &str, keys: Vec<Option<i64>>) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        RecordBatch::try_from_iter_with_nullable([
            (format!("{name}k"), keys, true),
            (format!("{name}n"), numbers, true),
        ])
        .unwrap()
    }

    /// A join by the first columns of both sides, which outputs as many columns as it can.
    fn shape(kind: JoinType) -> Arc<Shape> {
        let layout = |name: &str| {
            let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&format!("{name}k"), 0));
            Layout::new(&rows(name, vec![]).schema(), vec![0, 1], &[key], &[]).unwrap()
        };
        let output = match kind {
            JoinType::RightSemi | JoinType::RightAnti => vec![Given::Probe(0), Given::Probe(1)],
            _ => vec![Given::Build(0), Given::Build(1), Given::Probe(0), Given::Probe(1)],
        };
        let fields = output.iter().enumerate().map(|(at, _)| Field::new(format!("c{at}"), DataType::Int64, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let (build, probe) = (layout("b"), layout("p"));
        Arc::new(Shape { kind, build, probe, bounds: vec![], first: None, residual: None, output, schema })
    }

    fn built(shape: &Shape, keys: Vec<Option<i64>>) -> Arc<Built> {
        Arc::new(put_together(shape, vec![rows("b", keys)]).unwrap())
    }

    /// All output batches of one input batch.
    fn batches(prober: &mut Prober) -> Vec<RecordBatch> {
        let mut all = Vec::new();
        loop {
            match prober.next().unwrap() {
                Step::Rows(batch) => all.push(batch),
                Step::Nothing => {}
                Step::End => return all,
            }
        }
    }

    fn values(batch: &RecordBatch, column: usize) -> Vec<Option<i64>> {
        batch.column(column).as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn the_probe_side_comes_out_as_it_is_where_each_row_has_one_partner() {
        let shape = shape(JoinType::Inner);
        let built = built(&shape, (0..5000).map(Some).collect());
        let mut prober = Prober::new(shape, built, 8192);
        let probe = rows("p", (0..4000).map(|key| Some(key * 7 % 5000)).collect());
        prober.begin(probe.clone(), None).unwrap();
        let told = batches(&mut prober);
        assert_eq!(told.len(), 1);
        assert!(Arc::ptr_eq(told[0].column(2), probe.column(0)) && Arc::ptr_eq(told[0].column(3), probe.column(1)));
        assert_eq!(values(&told[0], 0), values(&told[0], 2));
        assert!(prober.rest().unwrap().is_none());
    }

    #[test]
    fn many_partners_come_in_batches_and_few_rows_together() {
        let shape = shape(JoinType::Inner);
        let built = built(&shape, (0..10_000).map(|at| Some(if at < 9000 { 1 } else { at })).collect());
        let mut prober = Prober::new(shape, built, 2000);
        prober.begin(rows("p", vec![Some(5), Some(1), None, Some(9500)]), None).unwrap();
        let mut told = batches(&mut prober);
        for at in 0..100 {
            prober.begin(rows("p", vec![Some(9000 + at)]), None).unwrap();
            told.extend(batches(&mut prober));
        }
        told.extend(prober.rest().unwrap());
        assert!(told.iter().all(|batch| batch.num_rows() <= 2000) && told.len() <= 8, "{}", told.len());
        let mut rows: Vec<i64> = told.iter().flat_map(|batch| values(batch, 1)).flatten().collect();
        rows.sort();
        let expected = (0..9000).chain([9500]).chain(9000..9100);
        let mut expected: Vec<i64> = expected.collect();
        expected.sort();
        assert_eq!(rows, expected);
    }

    #[test]
    fn rows_without_a_partner_come_out_when_all_of_the_build_side_was_seen() {
        for (kind, expected) in [
            (JoinType::Right, [vec![0], vec![3], vec![1, 2]].concat()),
            (JoinType::RightAnti, vec![1, 2]),
            (JoinType::RightSemi, vec![0, 3]),
        ] {
            let shape = shape(kind);
            let mut prober = Prober::new(shape.clone(), built(&shape, vec![]), 8192);
            let (mut met, mut told) = (vec![false; 4], Vec::new());
            for (keys, is_last) in [(vec![Some(10)], false), (vec![Some(13), None], false), (vec![Some(77)], true)] {
                prober.turn_to(built(&shape, keys), is_last);
                prober.begin(rows("p", vec![Some(10), None, Some(12), Some(13)]), Some(met)).unwrap();
                told.extend(batches(&mut prober));
                met = prober.met();
            }
            told.extend(prober.rest().unwrap());
            assert_eq!(met, [true, false, false, true]);
            let number = shape.schema.fields().len() - 1;
            let rows: Vec<i64> = told.iter().flat_map(|batch| values(batch, number)).flatten().collect();
            assert_eq!(rows, expected, "{kind:?}");
        }
    }
}
