//! A build side whose rows are in an order, so that those whose values lie between two others follow each other.
//!
//! ```text
//!   rows, by the rank of one limit's value       1   3   4   7   9
//!   of a limit "at least", the greatest so far   2   5   5   8   9    what is less than the probe's, at the beginning, is no partner
//!   of a limit "at most", the least from here    1   3   4   7   9    what is greater, at the end, is none
//! ```
//!
//! Both grow with the rows, so each limit is one search. What lies between them are candidates: of a value that is between two
//! columns, as periods have them that do not overlap, it is the one, though the rows are in the order of one of the columns.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_select::take::take;
use datafusion_common::error::Result;

use super::building::together;
use super::built::{Built, Finder};
use super::shape::Shape;
use crate::bytes::bytes_of;

/// What a value of the build side is to one of the probe side, at the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl Bound {
    /// Whether it is the probe's value that is the lower one.
    pub fn is_lower(self) -> bool {
        matches!(self, Bound::AtLeast | Bound::MoreThan)
    }

    pub fn operator(self) -> &'static str {
        match self {
            Bound::AtLeast => ">=",
            Bound::MoreThan => ">",
            Bound::AtMost => "<=",
            Bound::LessThan => "<",
        }
    }
}

/// For each limit what grows with the rows.
#[derive(Debug)]
pub struct Ordered(Vec<(Bound, Vec<i64>)>);

impl Ordered {
    /// For each row of the probe side, whose ranks are given for each limit, its first candidate and its last one, counted from 1.
    pub fn find(&self, ranks: &[ArrayRef], rows: usize, first: &mut Vec<u32>, last: &mut Vec<u32>) {
        let candidates = self.0.first().map_or(0, |(_, grown)| grown.len());
        let mut between = vec![(0, candidates); rows];
        for ((bound, grown), ranks) in self.0.iter().zip(ranks) {
            let ranks: &Int64Array = ranks.as_primitive();
            let lies = |rank: i64| {
                grown.partition_point(|grown| match bound {
                    Bound::AtLeast | Bound::LessThan => *grown < rank,
                    Bound::MoreThan | Bound::AtMost => *grown <= rank,
                })
            };
            for (at, (from, to)) in between.iter_mut().enumerate() {
                match ranks.is_valid(at) {
                    true if from >= to => {}
                    true if bound.is_lower() => *from = lies(ranks.value(at)).max(*from),
                    true => *to = lies(ranks.value(at)).min(*to),
                    false => *to = 0,
                }
            }
        }
        first.extend(between.iter().map(|(from, to)| if from < to { *from as u32 + 1 } else { 0 }));
        last.extend(between.iter().map(|(_, to)| *to as u32));
    }

    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, grown)| size_of_val(&grown[..])).sum()
    }
}

/// What [`in_order`] takes beside the rows themselves.
pub fn ordering_bytes(shape: &Shape, bounds: &[Bound], batches: &[RecordBatch]) -> usize {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let ordered = size_of::<(i64, u32)>() + size_of::<u32>() + bounds.len() * size_of::<i64>();
    let marks = usize::from(shape.marks_build());
    rows * (ordered + marks) + batches.iter().map(bytes_of).sum::<usize>()
}

/// A build side of rows that are laid out, with a rank for each limit among their keys.
pub fn in_order(shape: &Shape, bounds: &[Bound], batches: Vec<RecordBatch>) -> Result<Built> {
    let layout = &shape.build;
    let column = |place: usize| {
        let parts = batches.iter().map(|batch| batch.column(place).clone()).collect();
        together(layout.data_type(place), parts)
    };
    let ranks: Vec<ArrayRef> = layout.key_places().iter().map(|place| column(*place)).collect::<Result<_>>()?;
    let ranks: Vec<&Int64Array> = ranks.iter().map(|ranks| ranks.as_primitive::<Int64Type>()).collect();
    let rows = ranks.first().map_or(0, |ranks| ranks.len()) as u32;
    let (mut known, unknown): (Vec<u32>, Vec<u32>) =
        (0..rows).partition(|row| ranks.iter().all(|ranks| ranks.is_valid(*row as usize)));
    sort(&mut known, ranks[key_of(bounds, &ranks)].values());
    let limits = bounds.iter().zip(&ranks).map(|(bound, ranks)| (*bound, growing(*bound, &known, ranks.values())));
    let limits = Ordered(limits.collect());
    if shape.keeps_nulls_of_build() {
        known.extend(unknown);
    }
    let is_in_place = known.len() == rows as usize && known.is_sorted();
    let order = UInt32Array::from(known);
    let ordered = |place| {
        let column = column(place)?;
        Ok(if is_in_place { column } else { take(&column, &order, None)? })
    };
    let columns = (0..layout.kept()).map(ordered).collect::<Result<_>>()?;
    Ok(Built::new(shape, order.len(), columns, Finder::Between(limits)))
}

/// The limit by whose ranks rows are sorted: if there is one, one of two between which the same values lie.
fn key_of(bounds: &[Bound], ranks: &[&Int64Array]) -> usize {
    let is_other_end = |at: usize, other: usize| {
        bounds[at].is_lower() != bounds[other].is_lower() && ranks[at].values() == ranks[other].values()
    };
    (0..bounds.len()).find(|at| (at + 1..bounds.len()).any(|other| is_other_end(*at, other))).unwrap_or(0)
}

fn sort(rows: &mut [u32], ranks: &[i64]) {
    let rank = |row: &u32| ranks[*row as usize];
    if rows.is_sorted_by_key(rank) {
        return;
    }
    let mut keys: Vec<(i64, u32)> = rows.iter().map(|row| (rank(row), *row)).collect();
    keys.sort_unstable();
    rows.iter_mut().zip(keys).for_each(|(row, (_, sorted))| *row = sorted);
}

/// A limit's ranks in the order of the rows, the greatest so far or the least from there.
fn growing(bound: Bound, rows: &[u32], ranks: &[i64]) -> Vec<i64> {
    let mut grown: Vec<i64> = rows.iter().map(|row| ranks[*row as usize]).collect();
    if bound.is_lower() {
        let mut greatest = i64::MIN;
        for rank in &mut grown {
            greatest = greatest.max(*rank);
            *rank = greatest;
        }
    } else {
        let mut least = i64::MAX;
        for rank in grown.iter_mut().rev() {
            least = least.min(*rank);
            *rank = least;
        }
    }
    grown
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};
    use datafusion_common::JoinType;
    use datafusion_physical_expr::PhysicalExpr;
    use datafusion_physical_expr::expressions::Column;

    use super::*;
    use crate::join::layout::Layout;
    use crate::join::shape::{Given, Search};

    const ALL: [Bound; 4] = [Bound::AtLeast, Bound::MoreThan, Bound::AtMost, Bound::LessThan];

    fn holds(bound: Bound, build: i64, probe: i64) -> bool {
        match bound {
            Bound::AtLeast => build >= probe,
            Bound::MoreThan => build > probe,
            Bound::AtMost => build <= probe,
            Bound::LessThan => build < probe,
        }
    }

    /// A join by the first columns of both sides, each a rank.
    fn shape(kind: JoinType, bounds: &[Bound]) -> Shape {
        let fields = (0..bounds.len()).map(|at| Field::new(format!("k{at}"), DataType::Int64, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let key = |at: usize| Arc::new(Column::new(&format!("k{at}"), at)) as Arc<dyn PhysicalExpr>;
        let keys: Vec<_> = (0..bounds.len()).map(key).collect();
        let layout = Layout::new(&schema, (0..bounds.len()).collect(), &keys).unwrap();
        let output = (0..bounds.len()).map(Given::Build).collect();
        let (build, probe, search) = (layout.clone(), layout, Search::Between(bounds.to_vec()));
        Shape { kind, build, probe, search, residual: None, output, schema }
    }

    /// Numbers that look random, every eleventh of them unknown.
    fn numbers(seed: u64, rows: usize, values: u64) -> Vec<Option<i64>> {
        let number = |row: u64| (seed * 1_000_003 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        (0..rows as u64).map(|row| Some(number(row)).filter(|n| n % 11 != 0).map(|n| (n % values) as i64)).collect()
    }

    fn batch(shape: &Shape, columns: &[Vec<Option<i64>>]) -> RecordBatch {
        let arrays = columns.iter().map(|column| Arc::new(Int64Array::from(column.clone())) as ArrayRef);
        shape.build.batch(arrays.collect(), columns[0].len()).unwrap()
    }

    /// Ranks of the build side in its order.
    fn ordered(shape: &Shape, bounds: &[Bound], columns: &[Vec<Option<i64>>]) -> (Vec<Vec<Option<i64>>>, Ordered) {
        let all = batch(shape, columns);
        let parts =
            vec![all.slice(0, all.num_rows() / 3), all.slice(all.num_rows() / 3, all.num_rows() - all.num_rows() / 3)];
        let built = in_order(shape, bounds, parts).unwrap();
        let columns = built.columns.iter().map(|column| column.as_primitive::<Int64Type>().iter().collect());
        let Finder::Between(ordered) = built.finder else { panic!("not in an order") };
        (columns.collect(), ordered)
    }

    fn candidates(ordered: &Ordered, probe: &[Vec<Option<i64>>]) -> Vec<std::ops::Range<usize>> {
        let ranks: Vec<ArrayRef> =
            probe.iter().map(|ranks| Arc::new(Int64Array::from(ranks.clone())) as ArrayRef).collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        ordered.find(&ranks, probe[0].len(), &mut first, &mut last);
        let range = |(first, last): (&u32, &u32)| if *first == 0 { 0..0 } else { *first as usize - 1..*last as usize };
        first.iter().zip(&last).map(range).collect()
    }

    #[test]
    fn no_partner_is_left_out() {
        for (seed, limits) in (1..).zip([1, 2, 3].into_iter().cycle().take(60)) {
            let bounds: Vec<Bound> =
                (0..limits).map(|at| ALL[(seed as usize * 7 + at * (1 + seed as usize)) % 4]).collect();
            let shape = shape(JoinType::Inner, &bounds);
            let rows = [0, 1, 40, 200][seed as usize % 4];
            let side =
                |seed: u64, rows| (0..limits as u64).map(|at| numbers(seed * 10 + at, rows, 50)).collect::<Vec<_>>();
            let (build, ordered) = ordered(&shape, &bounds, &side(seed, rows));
            let probe = side(seed + 1000, 60);
            for (row, candidates) in candidates(&ordered, &probe).into_iter().enumerate() {
                let holds = |at: usize, other: usize| Some(holds(bounds[at], build[at][other]?, probe[at][row]?));
                let others = build.first().map_or(0, Vec::len);
                for other in 0..others {
                    let is_partner = (0..limits).all(|at| holds(at, other) == Some(true));
                    assert!(!is_partner || candidates.contains(&other), "{seed}: {bounds:?} of {row} and {other}");
                    // Of one limit these are all.
                    assert!(limits > 1 || is_partner == candidates.contains(&other), "{seed}: {bounds:?} of {row}");
                }
            }
        }
    }

    #[test]
    fn between_two_values_of_a_row_that_do_not_overlap_is_one_candidate() {
        // From the lower one, up to the higher one, in another order; the probe has the same value for both.
        let bounds = [Bound::AtMost, Bound::AtLeast];
        let shape = shape(JoinType::Inner, &bounds);
        let lower: Vec<Option<i64>> = (0..100).map(|row| Some(row * 37 % 100 * 10)).collect();
        let higher = lower.iter().map(|low| Some((*low)? + 9)).collect();
        let (build, ordered) = ordered(&shape, &bounds, &[lower, higher]);
        let values: Vec<Option<i64>> = (-5..1005).map(Some).collect();
        for (value, candidates) in values.iter().flatten().zip(candidates(&ordered, &[values.clone(), values.clone()]))
        {
            let expected = build[0].iter().position(|low| *low == Some(value.div_euclid(10) * 10));
            assert_eq!(candidates.collect::<Vec<_>>(), Vec::from_iter(expected), "{value}");
        }
        // One value between two of the probe's.
        let bounds = [Bound::AtLeast, Bound::LessThan];
        let same: Vec<Option<i64>> = (0..100).map(|row| Some(row * 37 % 100)).collect();
        let (_, ordered) = self::ordered(&shape, &bounds, &[same.clone(), same]);
        let probe = [vec![Some(10), Some(98), Some(5), None], vec![Some(20), Some(1000), Some(5), Some(7)]];
        assert_eq!(candidates(&ordered, &probe), [10..20, 98..100, 0..0, 0..0]);
    }

    #[test]
    fn rows_without_a_rank_are_kept_where_they_come_out() {
        let bounds = [Bound::AtLeast];
        for (kind, kept) in
            [(JoinType::Inner, 2), (JoinType::Left, 3), (JoinType::LeftSemi, 2), (JoinType::LeftAnti, 3)]
        {
            let (build, _) = ordered(&shape(kind, &bounds), &bounds, &[vec![Some(7), None, Some(3)]]);
            assert_eq!(build[0], [Some(3), Some(7), None][..kept], "{kind:?}");
        }
    }
}
