//! The rows of a chunk that a scan returns. They pass these tests, in this order:
//!
//! ```text
//!   bounds of the chunk     if they show that no row can pass, the chunk is not read
//!   keys of joins           here only if few rows have a partner: the other rows are dropped
//!   codes                   conditions on one column, tested on ranges of codes or once for each distinct value
//!   values                  the other conditions, one after the other, tested on the remaining rows
//!   keys of joins           otherwise here: rows without a partner are dropped
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::nullif::nullif;
use arrow_select::take::take;
use colstore::TableView;
use datafusion_common::error::Result;
use datafusion_physical_expr::PhysicalExpr;
use protocol::tree::Step;

use super::pruning::Pruning;
use super::{ChunkOf, exhausted};
use crate::operators::scan::runtime_filter::KeyTest;

/// If fewer than one row in this many is left, values are compared instead of codes.
const SPARSE: usize = 4;
/// If fewer than one row in this many is left, a condition is evaluated for each row, and not for each distinct value
/// of the chunk.
const FEW: usize = 16;

#[derive(Debug, Default)]
pub struct Filter {
    /// The conditions, all of which a row must meet. None of them raises an error.
    pub conditions: Vec<Condition>,
    pub pruning: Pruning,
    pub keys: Vec<KeyTest>,
    /// The scan's step and expected rows, if the scan is observed for EXPLAIN.
    pub scan: Option<(Step, f64)>,
}

#[derive(Debug)]
pub struct Condition {
    pub expr: Arc<dyn PhysicalExpr>,
    /// The view's columns that the condition reads; `schema` has a field for each.
    pub columns: Vec<usize>,
    pub schema: SchemaRef,
    /// Present if the condition means exactly this: its only column is not null, and lies in one of these ranges.
    pub ranges: Option<Vec<RangeInclusive<i128>>>,
}

/// The wanted rows of a chunk, with the columns that were read already.
pub struct Wanted {
    /// The rows; `None` stands for all.
    pub rows: Option<Vec<u32>>,
    /// The columns that were read for the filter, reduced to these rows.
    pub read: Vec<(usize, ArrayRef)>,
}

/// The result of filtering a chunk.
pub struct Filtered {
    pub wanted: Wanted,
    /// The time that was spent on reading.
    pub nanoseconds: u64,
    /// The number of rows that were dropped because they would find no partner.
    pub without_partner: usize,
}

impl Filter {
    /// Whether no row of a chunk passes.
    pub fn excludes(&self, view: &dyn TableView, index: usize) -> bool {
        self.pruning.excludes(view, index) || self.keys.iter().any(|keys| keys.excludes(view, index))
    }

    /// The rows of a chunk that pass.
    pub fn passing(&self, chunk: &ChunkOf<'_>, live: Option<BooleanBuffer>) -> Result<Filtered> {
        let asked = self.keys.iter().filter(|keys| keys.is_worth_it());
        let view = chunk.source.view.as_ref();
        let (early, late): (Vec<_>, Vec<_>) = asked.partition(|keys| keys.leaves_few(view, chunk.index));
        let wanted = Wanted { rows: None, read: Vec::new() };
        let mut narrowing = Narrowing { chunk, wanted, mask: None, nanoseconds: 0 };
        let mut live = live;
        let mut without_partner = 0;
        if !early.is_empty() {
            narrowing.keep(live.take())?;
            without_partner += narrowing.ask(&early)?;
        }
        let mut rest: Vec<&Condition> = self.conditions.iter().collect();
        if narrowing.len() * SPARSE > chunk.count {
            (live, rest) = by_codes(rest, chunk, live)?;
        }
        narrowing.keep(live)?;
        narrowing.meet(rest)?;
        without_partner += narrowing.ask(&late)?;
        let Narrowing { wanted, nanoseconds, .. } = narrowing;
        Ok(Filtered { wanted, nanoseconds, without_partner })
    }
}

/// The rows of a chunk that pass.
pub enum Passed {
    /// The rows as a mask, from codes alone; `None` stands for all.
    Mask(Option<BooleanBuffer>),
    Rows(Filtered),
}

impl Filter {
    /// The passing rows as a mask, if codes are enough.
    pub fn passed(&self, chunk: &ChunkOf<'_>, live: Option<BooleanBuffer>) -> Result<Passed> {
        if !self.keys.is_empty() {
            return self.passing(chunk, live).map(Passed::Rows);
        }
        let (mask, rest) = by_codes(self.conditions.iter().collect(), chunk, live)?;
        if rest.is_empty() {
            return Ok(Passed::Mask(mask));
        }
        let wanted = Wanted { rows: None, read: Vec::new() };
        let mut narrowing = Narrowing { chunk, wanted, mask: None, nanoseconds: 0 };
        narrowing.keep(mask)?;
        narrowing.meet(rest)?;
        let Narrowing { wanted, nanoseconds, .. } = narrowing;
        Ok(Passed::Rows(Filtered { wanted, nanoseconds, without_partner: 0 }))
    }
}

/// The rows of a chunk that pass by their codes, and the conditions for which codes are not enough.
fn by_codes<'a>(
    conditions: Vec<&'a Condition>,
    chunk: &ChunkOf<'_>,
    live: Option<BooleanBuffer>,
) -> Result<(Option<BooleanBuffer>, Vec<&'a Condition>)> {
    let (mut left, mut rest) = (live, Vec::new());
    // Ranges come first, because they are the cheapest conditions.
    let (ranges, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|condition| condition.ranges.is_some());
    for condition in ranges.into_iter().chain(others) {
        let is_sparse = |left: &BooleanBuffer| left.count_set_bits() * FEW < chunk.count;
        if condition.ranges.is_none() && left.as_ref().is_some_and(is_sparse) {
            rest.push(condition);
            continue;
        }
        match condition.by_codes(chunk, left.as_ref())? {
            Some(passed) => left = Some(left.map_or(passed.clone(), |left| &left & &passed)),
            None => rest.push(condition),
        }
    }
    Ok((left, rest))
}

impl Condition {
    /// The rows that pass, if the codes decide it. Only rows of `live` count.
    fn by_codes(&self, chunk: &ChunkOf<'_>, live: Option<&BooleanBuffer>) -> Result<Option<BooleanBuffer>> {
        let (view, [column]) = (&chunk.source.view, &self.columns[..]) else { return Ok(None) };
        if let Some(ranges) = &self.ranges {
            let mut all: Option<BooleanBuffer> = None;
            for range in ranges {
                let within = view.within(chunk.index, *column, range.clone()).map_err(exhausted)?;
                let Some(within) = within else { return Ok(None) };
                all = Some(all.map_or(within.clone(), |all| &all | &within));
            }
            return Ok(all);
        }
        let Some(distinct) = view.distinct(chunk.index, *column).map_err(exhausted)? else { return Ok(None) };
        let count = distinct.values.len();
        let values = match distinct.values.data_type() {
            // Slots that no row has, such as the slot of null, become null: not every function can read the bytes in
            // them.
            DataType::BinaryView => nullif(&distinct.values, &BooleanArray::new(!&distinct.used(live), None))?,
            _ => distinct.values.clone(),
        };
        let passed = self.passed(vec![values], count)?;
        Ok(Some(distinct.rows_of(&passed)))
    }

    fn passed(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        let passed = self.expr.evaluate(&batch)?.into_array(rows)?;
        Ok(where_true(passed.as_boolean()))
    }
}

/// The positions of the set bits in a mask.
pub fn places_of(mask: &BooleanBuffer) -> Vec<u32> {
    let mut places = Vec::with_capacity(mask.count_set_bits());
    places.extend(mask.set_indices_u32());
    places
}

fn where_true(passed: &BooleanArray) -> BooleanBuffer {
    match passed.nulls() {
        Some(known) => passed.values() & known.inner(),
        None => passed.values().clone(),
    }
}

/// The rows of a chunk that have passed all tests so far.
struct Narrowing<'a> {
    chunk: &'a ChunkOf<'a>,
    wanted: Wanted,
    /// A mask over `wanted.rows`, set for rows that have passed all tests since `wanted.rows` was last reduced. `None`
    /// if all of them have passed.
    mask: Option<BooleanBuffer>,
    nanoseconds: u64,
}

impl Narrowing<'_> {
    fn len(&self) -> usize {
        self.wanted.rows.as_ref().map_or(self.chunk.count, Vec::len)
    }

    /// Keeps the rows of the chunk whose bit is set; `None` keeps all rows.
    fn keep(&mut self, among_all: Option<BooleanBuffer>) -> Result<()> {
        let Some(among_all) = among_all else { return Ok(()) };
        self.mask = Some(match &self.wanted.rows {
            Some(rows) => BooleanBuffer::collect_bool(rows.len(), |at| among_all.value(rows[at] as usize)),
            None => among_all,
        });
        self.narrow()
    }

    /// Keeps the rows that meet conditions.
    fn meet(&mut self, conditions: Vec<&Condition>) -> Result<()> {
        for condition in conditions {
            self.apply(&condition.columns, |arrays, rows| condition.passed(arrays, rows))?;
        }
        self.narrow()
    }

    /// Keeps the rows that may have a partner, and returns the number of rows that were dropped.
    fn ask(&mut self, tests: &[&KeyTest]) -> Result<usize> {
        let before = self.len();
        for keys in tests {
            self.apply(&[keys.column], |arrays, _| keys.passed(&arrays[0]))?;
        }
        self.narrow()?;
        Ok(before - self.len())
    }

    /// Keeps the rows that pass a test of some columns.
    fn apply(
        &mut self,
        columns: &[usize],
        test: impl FnOnce(Vec<ArrayRef>, usize) -> Result<BooleanBuffer>,
    ) -> Result<()> {
        // If fewer than half of the rows are left, `wanted` is reduced to them, because that halves the work of the
        // next test.
        if self.mask.as_ref().is_some_and(|mask| mask.count_set_bits() < mask.len() / 2) {
            self.narrow()?;
        }
        if self.len() == 0 {
            return Ok(());
        }
        let before = Instant::now();
        let arrays = columns.iter().map(|column| self.column(*column)).collect::<Result<Vec<_>>>()?;
        self.nanoseconds += before.elapsed().as_nanos() as u64;
        let passed = test(arrays, self.len())?;
        self.mask = Some(self.mask.take().map_or(passed.clone(), |mask| &mask & &passed));
        Ok(())
    }

    fn column(&mut self, column: usize) -> Result<ArrayRef> {
        if let Some((_, array)) = self.wanted.read.iter().find(|(read, _)| *read == column) {
            return Ok(array.clone());
        }
        let array = self.chunk.column(column, &self.wanted)?;
        self.wanted.read.push((column, array.clone()));
        Ok(array)
    }

    /// Reduces `wanted` to the rows that have passed.
    fn narrow(&mut self) -> Result<()> {
        let Some(mask) = self.mask.take() else { return Ok(()) };
        if mask.count_set_bits() == mask.len() {
            return Ok(());
        }
        let places: UInt32Array = places_of(&mask).into();
        self.wanted.rows = Some(match &self.wanted.rows {
            Some(rows) => places.values().iter().map(|place| rows[*place as usize]).collect(),
            None => places.values().to_vec(),
        });
        for (_, array) in &mut self.wanted.read {
            *array = take(array, &places, None)?;
        }
        Ok(())
    }
}
