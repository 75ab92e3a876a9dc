//! Sorts the rows of a build side by the words of their keys. Rows with equal words are sorted by the ranks of a limit.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array};
use arrow_select::take::take;
use datafusion_common::error::Result;

use super::built::{Built, Finder};
use super::layout::places_kept;
use super::ordered::Ordered;
use super::shape::{Inequality, Shape};
use super::table::Table;
use super::words::{NONE, Packing};

/// The memory for sorting this many rows, with columns of these sizes.
pub fn ordering_bytes(rows: usize, limits: usize, columns: &[usize]) -> usize {
    let row = size_of::<u64>() + size_of::<Key>() + 2 * size_of::<u32>() + limits * size_of::<i64>();
    rows * row + columns.iter().sum::<usize>()
}

/// The word, the rank and the number of a row.
type Key = (u64, i64, u32);

/// A sorted build side, from all columns of its layout.
pub fn in_order(shape: &Shape, rows: usize, mut columns: Vec<ArrayRef>, packing: Packing) -> Result<Built> {
    let layout = &shape.build;
    let ranks: Vec<ArrayRef> = layout.ranks_of(&columns).to_vec();
    let ranks: Vec<&Int64Array> = ranks.iter().map(|ranks| ranks.as_primitive::<Int64Type>()).collect();
    let mut words = Vec::new();
    packing.words(&layout.keys_of_columns(&columns), rows, &mut words)?;
    columns.truncate(places_kept(layout, &packing));

    let is_known = |row: &u32| words[*row as usize] != NONE && ranks.iter().all(|ranks| ranks.is_valid(*row as usize));
    let (mut known, unknown): (Vec<u32>, Vec<u32>) = (0..rows as u32).partition(is_known);
    let key = shape.first.map_or_else(|| key_of(&shape.bounds, &ranks), |first| first.limit);
    if let Some(ranks) = ranks.get(key) {
        sort(&mut known, &words, ranks.values());
    }
    let (groups, starts) = grouped(&known, &words, &packing);
    let growing =
        |(bound, ranks): (&Inequality, &&Int64Array)| (*bound, growing(*bound, &known, &starts, ranks.values()));
    let limits = shape.bounds.iter().zip(&ranks).map(growing).collect();
    let ordered = Finder::Ordered(Ordered { packing, groups, starts, limits });

    if shape.keeps_nulls_of_build() {
        known.extend(unknown);
    }
    if known.len() == rows && known.is_sorted() {
        return Ok(Built::new(shape, rows, columns, ordered));
    }
    let order = UInt32Array::from(known);
    let columns = columns.iter().map(|column| take(column, &order, None)).collect::<Result<_, _>>()?;
    Ok(Built::new(shape, order.len(), columns, ordered))
}

/// Divides `rows`, which are sorted by word, into groups of equal words. Returns the table from words to groups, and
/// the start of each group.
fn grouped(rows: &[u32], words: &[u64], packing: &Packing) -> (Table, Vec<u32>) {
    let (mut own, mut starts, mut end) = (Vec::new(), vec![0], 0);
    for group in rows.chunk_by(|a, b| words[*a as usize] == words[*b as usize]) {
        own.push(words[group[0] as usize]);
        end += group.len() as u32;
        starts.push(end);
    }
    let mut groups = Table::new(own.len(), packing.limit());
    groups.insert(0, &own, false);
    groups.complete();
    (groups, starts)
}

/// The limit by whose ranks rows are sorted. If two limits bound the same value of the build side from both ends, one
/// of these two is chosen.
fn key_of(bounds: &[Inequality], ranks: &[&Int64Array]) -> usize {
    let is_other_end = |at: usize, other: usize| {
        bounds[at].is_lower() != bounds[other].is_lower() && ranks[at].values() == ranks[other].values()
    };
    (0..bounds.len()).find(|at| (at + 1..bounds.len()).any(|other| is_other_end(*at, other))).unwrap_or(0)
}

fn sort(rows: &mut [u32], words: &[u64], ranks: &[i64]) {
    let key = |row: &u32| (words[*row as usize], ranks[*row as usize]);
    if rows.is_sorted_by_key(key) {
        return;
    }
    let keyed = |row: &u32| (words[*row as usize], ranks[*row as usize], *row);
    let mut keys: Vec<Key> = rows.iter().map(keyed).collect();
    keys.sort_unstable();
    rows.iter_mut().zip(keys).for_each(|(row, (.., sorted))| *row = sorted);
}

/// A limit's ranks in the order of the rows. Within a group, each rank is replaced: for a lower bound by the greatest
/// rank so far, for an upper bound by the least rank from there on.
fn growing(bound: Inequality, rows: &[u32], starts: &[u32], ranks: &[i64]) -> Vec<i64> {
    let mut grown: Vec<i64> = rows.iter().map(|row| ranks[*row as usize]).collect();
    for group in starts.windows(2) {
        let group = &mut grown[group[0] as usize..group[1] as usize];
        if bound.is_lower() {
            let mut greatest = i64::MIN;
            for rank in group {
                greatest = greatest.max(*rank);
                *rank = greatest;
            }
        } else {
            let mut least = i64::MAX;
            for rank in group.iter_mut().rev() {
                least = least.min(*rank);
                *rank = least;
            }
        }
    }
    grown
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use arrow_array::RecordBatch;
    use arrow_schema::{DataType, Field, Schema};
    use datafusion_common::JoinType;
    use datafusion_physical_expr::PhysicalExpr;
    use datafusion_physical_expr::expressions::Column;

    use super::*;
    use crate::operators::join::building::put_together;
    use crate::operators::join::layout::Layout;
    use crate::operators::join::shape::Given;

    const ALL: [Inequality; 4] = [Inequality::AtLeast, Inequality::MoreThan, Inequality::AtMost, Inequality::LessThan];

    type Numbers = Vec<Option<i64>>;

    fn holds(bound: Inequality, build: i64, probe: i64) -> bool {
        match bound {
            Inequality::AtLeast => build >= probe,
            Inequality::MoreThan => build > probe,
            Inequality::AtMost => build <= probe,
            Inequality::LessThan => build < probe,
        }
    }

    fn input(columns: &[Numbers]) -> RecordBatch {
        let column = |(at, numbers): (usize, &Numbers)| {
            (format!("c{at}"), Arc::new(Int64Array::from(numbers.clone())) as ArrayRef, true)
        };
        RecordBatch::try_from_iter_with_nullable(columns.iter().enumerate().map(column)).unwrap()
    }

    /// A join whose sides have a column for each limit, and then one for each key.
    fn shape(kind: JoinType, bounds: &[Inequality], keys: usize) -> Shape {
        let all = bounds.len() + keys;
        let schema =
            Schema::new((0..all).map(|at| Field::new(format!("c{at}"), DataType::Int64, true)).collect::<Vec<_>>());
        let columns: Vec<Arc<dyn PhysicalExpr>> =
            (0..all).map(|at| Arc::new(Column::new(&format!("c{at}"), at)) as Arc<dyn PhysicalExpr>).collect();
        let (ranks, keys) = columns.split_at(bounds.len());
        let layout = Layout::new(&schema, (0..all).collect(), keys, ranks).unwrap();
        let output = (0..all).map(Given::Build).collect();
        let (build, probe, bounds, schema) = (layout.clone(), layout, bounds.to_vec(), Arc::new(schema));
        Shape { kind, build, probe, bounds, first: None, residual: None, output, schema }
    }

    /// Numbers that look random; about every eleventh is null.
    fn numbers(seed: u64, rows: usize, values: u64) -> Numbers {
        let number = |row: u64| (seed * 1_000_003 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        (0..rows as u64).map(|row| Some(number(row)).filter(|n| n % 11 != 0).map(|n| (n % values) as i64)).collect()
    }

    /// The sorted build side.
    fn built(shape: &Shape, columns: &[Numbers]) -> (Vec<Numbers>, Built) {
        let all = shape.build.of(&input(columns)).unwrap();
        let third = all.num_rows() / 3;
        let built = put_together(shape, vec![all.slice(0, third), all.slice(third, all.num_rows() - third)]).unwrap();
        let columns = built.columns.iter().map(|column| column.as_primitive::<Int64Type>().iter().collect());
        (columns.collect(), built)
    }

    fn candidates(shape: &Shape, built: &Built, probe: &[Numbers]) -> Vec<Range<usize>> {
        assert!(matches!(built.finder, Finder::Ordered(_)));
        let rows = shape.probe.of(&input(probe)).unwrap();
        let (first, last) = built.finder.find(&shape.probe, &rows, &mut Vec::new()).unwrap();
        let range = |(first, last): (u32, u32)| if first == 0 { 0..0 } else { first as usize - 1..last as usize };
        first.into_iter().zip(last).map(range).collect()
    }

    #[test]
    fn no_partner_is_left_out() {
        for (seed, limits) in (1..).zip([1, 2, 3].into_iter().cycle().take(120)) {
            let keys = seed as usize / 3 % 2;
            let bounds: Vec<Inequality> =
                (0..limits).map(|at| ALL[(seed as usize * 7 + at * (1 + seed as usize)) % 4]).collect();
            let shape = shape(JoinType::Inner, &bounds, keys);
            let rows = if keys == 0 { [0, 1, 40, 200][seed as usize % 4] } else { 500 };
            let side = |seed: u64, rows| -> Vec<Numbers> {
                let column = |at: usize| numbers(seed * 10 + at as u64, rows, if at < limits { 50 } else { 4 });
                (0..limits + keys).map(column).collect()
            };
            let (build, built) = built(&shape, &side(seed, rows));
            let probe = side(seed + 1000, 60);
            for (row, candidates) in candidates(&shape, &built, &probe).into_iter().enumerate() {
                let holds = |at: usize, other: usize| match (build[at][other], probe[at][row]) {
                    (Some(build), Some(probe)) if at < limits => holds(bounds[at], build, probe),
                    (Some(build), Some(probe)) => build == probe,
                    _ => false,
                };
                let others = build.first().map_or(0, Vec::len);
                for other in 0..others {
                    let is_partner = (0..limits + keys).all(|at| holds(at, other));
                    assert!(!is_partner || candidates.contains(&other), "{seed}: {bounds:?} of {row} and {other}");
                    // With one limit, the candidates are exactly the partners.
                    assert!(limits > 1 || is_partner == candidates.contains(&other), "{seed}: {bounds:?} of {row}");
                }
            }
        }
    }

    #[test]
    fn between_two_values_of_a_row_that_do_not_overlap_is_one_candidate() {
        // The build side has periods from `lower` to `higher`, in no order. Each row of the probe side has one value
        // for both limits.
        let periods = shape(JoinType::Inner, &[Inequality::AtMost, Inequality::AtLeast], 0);
        let lower: Numbers = (0..100).map(|row| Some(row * 37 % 100 * 10)).collect();
        let higher = lower.iter().map(|low| Some((*low)? + 9)).collect();
        let (build, found) = built(&periods, &[lower, higher]);
        let values: Numbers = (-5..1005).map(Some).collect();
        for (value, range) in
            values.iter().flatten().zip(candidates(&periods, &found, &[values.clone(), values.clone()]))
        {
            let expected = build[0].iter().position(|low| *low == Some(value.div_euclid(10) * 10));
            assert_eq!(range.collect::<Vec<_>>(), Vec::from_iter(expected), "{value}");
        }
        // A value of the build side lies between two of the probe side.
        let between = shape(JoinType::Inner, &[Inequality::AtLeast, Inequality::LessThan], 0);
        let same: Numbers = (0..100).map(|row| Some(row * 37 % 100)).collect();
        let (_, found) = built(&between, &[same.clone(), same]);
        let probe = [vec![Some(10), Some(98), Some(5), None], vec![Some(20), Some(1000), Some(5), Some(7)]];
        assert_eq!(candidates(&between, &found, &probe), [10..20, 98..100, 0..0, 0..0]);
    }

    #[test]
    fn rows_without_a_rank_are_kept_where_they_come_out() {
        for (kind, kept) in
            [(JoinType::Inner, 2), (JoinType::Left, 3), (JoinType::LeftSemi, 2), (JoinType::LeftAnti, 3)]
        {
            let (build, _) = built(&shape(kind, &[Inequality::AtLeast], 0), &[vec![Some(7), None, Some(3)]]);
            assert_eq!(build[0], [Some(3), Some(7), None][..kept], "{kind:?}");
        }
    }

    #[test]
    fn few_rows_of_each_key_are_not_sorted() {
        let shape = shape(JoinType::Inner, &[Inequality::AtLeast], 1);
        let keyed = |keys: i64| [numbers(5, 2000, 50), (0..2000).map(|row| Some(row % keys)).collect()];
        let is_sorted = |keys| matches!(built(&shape, &keyed(keys)).1.finder, Finder::Ordered(_));
        assert_eq!([10, 2000, 1000].map(is_sorted), [true, false, false]);
        assert_eq!(built(&shape, &keyed(2000)).0[0], keyed(2000)[0]);
    }
}
