//! Tests of grouping by integers, over batches of full size. The results are compared with sums in a map.

use std::collections::BTreeMap;

use plan::{Agg, Type};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::build::{column, decimal, int};
use crate::level::AsPlan;
use crate::table::{Row, TestView, Value, chunk, engine, grouping, int as number, plan_over, rows, tokio_runtime};

/// The ranges from which the keys and values of a chunk are chosen.
struct Pattern {
    keys: [std::ops::Range<i64>; 2],
    values: std::ops::RangeInclusive<i64>,
    nulls: f64,
    same_group: bool,
}

fn chunk_of(rng: &mut StdRng, pattern: &Pattern, rows: usize) -> Vec<Row> {
    let one = pattern.keys.clone().map(|range| rng.random_range(range));
    let maybe = |rng: &mut StdRng, value: i64| if rng.random_bool(pattern.nulls) { None } else { int(value) };
    let mut row = || {
        let keys = if pattern.same_group { one } else { pattern.keys.clone().map(|range| rng.random_range(range)) };
        let value = rng.random_range(pattern.values.clone());
        let small = rng.random_range(i16::MIN..=i16::MAX) as i64;
        if pattern.same_group {
            return vec![int(keys[0]), int(keys[1]), maybe(rng, value), int(small)];
        }
        vec![maybe(rng, keys[0]), maybe(rng, keys[1]), maybe(rng, value), maybe(rng, small)]
    };
    (0..rows).map(|_| row()).collect()
}

type Keys = [Option<i64>; 2];

/// For one group: the number of its rows; and for each argument, the sum and the number of its values.
type Totals = (i64, [(i128, i64); 2]);

/// The expected rows. Each has the keys, the number of rows, and the sum and the number of each argument's values.
fn expected(table: &[Row]) -> Vec<Row> {
    let mut groups: BTreeMap<Keys, Totals> = BTreeMap::new();
    for row in table {
        let key = [0, 1].map(|i| row[i].as_ref().map(number));
        let (rows, sums) = groups.entry(key).or_default();
        *rows += 1;
        for (sum, value) in sums.iter_mut().zip(&row[2..]) {
            if let Some(value) = value {
                *sum = (sum.0 + number(value) as i128, sum.1 + 1);
            }
        }
    }
    let back = |(key, (rows, sums)): (Keys, Totals)| {
        let avg = sums.map(|(sum, count)| -> [Value; 2] { [decimal(sum).filter(|_| count > 0), int(count)] });
        let narrow = avg[1][0].as_ref().map(|_| plan::Literal::Int(sums[1].0 as i64));
        let keys = key.map(|k| k.and_then(int));
        [&keys[..], &[int(rows)], &avg[0], &[narrow, int(sums[1].1)]].concat()
    };
    groups.into_iter().map(back).collect()
}

fn check(patterns: &[Pattern]) {
    let types = [Type::Int32, Type::Int64, Type::Decimal64 { scale: 2 }, Type::Int16];
    let mut plan = plan_over(&[&types]);
    let aggregates = vec![Agg::CountStar, Agg::Avg(column(0, 2)), Agg::Sum(column(0, 3)), Agg::Count(column(0, 3))];
    plan.grouping = grouping(vec![column(0, 0), column(0, 1)], aggregates);
    let mut rng = StdRng::seed_from_u64(7);
    let (mut table, mut chunks) = (vec![], vec![]);
    for pattern in patterns {
        let rows = chunk_of(&mut rng, pattern, 8192);
        chunks.push(chunk(&types, &rows, None));
        table.extend(rows);
    }
    let views = [TestView::of_chunks(types.to_vec(), chunks)];
    let text = engine(2).explain(&plan.plan(), &[], views.to_vec()).unwrap();
    assert!(text.contains("DenseGroups"), "{text}");
    let expected = expected(&table);
    for threads in [1, 2] {
        let mut told = tokio_runtime().block_on(rows(&engine(threads), &plan, &[], &views)).unwrap();
        told.sort_by_key(|row| [0, 1].map(|i| row[i].as_ref().map(number)));
        assert!(told == expected, "{} groups for {}", told.len(), expected.len());
    }
}

fn pattern(keys: [std::ops::Range<i64>; 2], magnitude: i64, nulls: f64) -> Pattern {
    Pattern { keys, values: -magnitude..=magnitude, nulls, same_group: false }
}

#[test]
fn few_groups() {
    check(&(0..12).map(|_| pattern([1..11, -3..4], 1_000_000, 0.0)).collect::<Vec<_>>());
    check(&(0..12).map(|_| pattern([1..11, -3..4], 1_000_000, 0.2)).collect::<Vec<_>>());
}

#[test]
fn large_values_empty_the_lanes_and_larger_ones_pass_them_by() {
    check(&(40..63).map(|bits| pattern([1..3, 0..2], 1 << bits, 0.1)).collect::<Vec<_>>());
    // These sums exceed the operator's partial sums of 64 bits, unless it adds the partial sums to the totals in time.
    let large = || Pattern { values: (1 << 48) - 9..=(1 << 48) - 1, ..pattern([1..2, 0..2], 0, 0.0) };
    check(&(0..50).map(|_| large()).collect::<Vec<_>>());
    check(&(0..12).map(|_| pattern([1..3, 0..2], i64::MAX, 0.1)).collect::<Vec<_>>());
}

#[test]
fn windows_grow_in_both_directions() {
    let around = |i: i64| [50 - 3 * i..51 + i, 1000 - i..1001];
    check(&(0..10).map(|i| pattern(around(i), 1000, if i > 5 { 0.1 } else { 0.0 })).collect::<Vec<_>>());
}

#[test]
fn a_group_a_batch() {
    let clustered = |i: i64| Pattern { same_group: true, ..pattern([i / 3..i / 3 + 1, 5..6], i64::MAX, 0.1) };
    check(&(0..12).map(clustered).collect::<Vec<_>>());
}

#[test]
fn keys_that_spread_too_far_take_the_general_path() {
    let spread = |i: i64| pattern([0..10 + i * i * i, 0..10], 1 << 40, 0.1);
    check(&(0..12).map(spread).collect::<Vec<_>>());
    let ends = |i: i64| match i {
        5 => pattern([0..2, i64::MIN..i64::MIN + 2], 9, 0.0),
        9 => pattern([0..2, i64::MAX - 2..i64::MAX], 9, 0.5),
        _ => pattern([0..2, 0..2], 9, 0.0),
    };
    check(&(0..12).map(ends).collect::<Vec<_>>());
}
