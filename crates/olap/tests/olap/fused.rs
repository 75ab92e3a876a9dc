//! Tests of sums and counts that are computed within a scan, over stored tables of several chunks. The results are
//! compared with the interpreter's.

use std::cell::Cell;

use plan::{Agg, ArithOp, CmpOp, Expr, FailureKind, Literal, Type};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::build::{arith, cast, cmp, column, integer, literal};
use crate::interpreter::Interpreter;
use crate::level::AsPlan;
use crate::stored::stored;
use crate::table::{Row, engine, grouping, plan_over, rows, tokio_runtime};

const MONEY: Type = Type::Decimal64 { scale: 2 };
const WIDE: Type = Type::Decimal128 { scale: 2 };
const TYPES: [Type; 8] = [Type::Text, Type::Int16, Type::Int32, MONEY, MONEY, Type::Int64, WIDE, Type::Date];

const OVERFLOWS: [FailureKind; 4] = [
    FailureKind::SmallintOutOfRange,
    FailureKind::IntegerOutOfRange,
    FailureKind::BigintOutOfRange,
    FailureKind::DecimalTooWide,
];

/// The properties of a random table.
#[derive(Debug)]
struct Pattern {
    rows: usize,
    nulls: f64,
    /// The greatest magnitude of the numbers in arithmetic.
    magnitude: i64,
    /// The number of distinct keys of groups.
    kinds: i64,
    /// The share of rows that are changed after the view was taken. The view must not show the changes.
    changed: f64,
}

fn table(rng: &mut StdRng, pattern: &Pattern) -> Vec<Row> {
    let texts = ["", "A", "R", "N", "a text that is longer than a view", "ä", "another that is longer than a view"];
    let kinds = pattern.kinds;
    let mut row = || -> Row {
        let far = |rng: &mut StdRng| rng.random_range(-pattern.magnitude..=pattern.magnitude);
        let values = [
            Literal::Text((*texts[..texts.len().min(kinds as usize)].choose(rng).unwrap()).into()),
            Literal::Int(rng.random_range(0..kinds) % 30_000 - 3),
            Literal::Int(far(rng).clamp(i32::MIN.into(), i32::MAX.into())),
            Literal::Int(far(rng)),
            Literal::Int(rng.random_range(0..=10)),
            Literal::Int(far(rng)),
            Literal::Decimal(i128::from(far(rng)) * if rng.random_bool(0.0001) { 1 << 60 } else { 1 }),
            Literal::Int(rng.random_range(0..2500)),
        ];
        values.into_iter().map(|value| (!rng.random_bool(pattern.nulls)).then_some(value)).collect()
    };
    (0..pattern.rows).map(|_| row()).collect()
}

/// A random expression of arithmetic on the table's numbers.
fn number(rng: &mut StdRng, depth: u32) -> (Expr, Type) {
    let decimal = Type::Decimal128 { scale: 2 };
    match if depth == 0 { rng.random_range(0..5) } else { rng.random_range(0..10) } {
        0 => (column(0, 3), MONEY),
        1 => (column(0, 4), MONEY),
        2 => (column(0, 6), WIDE),
        3 => (cast(MONEY, column(0, 2)), MONEY),
        4 => (cast(decimal, column(0, 5)), decimal),
        5 => (literal(MONEY, Some(Literal::Int(rng.random_range(-200..200)))), MONEY),
        6 => {
            let (arg, ty) = number(rng, depth - 1);
            (Expr::Neg(arg.into()), Type::Decimal128 { scale: ty.scale() })
        }
        7 => {
            let (arg, ty) = number(rng, depth - 1);
            let (other, other_type) = number(rng, 0);
            let ty = Type::Decimal128 { scale: ty.scale() + other_type.scale() };
            (arith(ArithOp::Mul, ty, arg, other), ty)
        }
        _ => {
            let ((left, left_type), (right, right_type)) = (number(rng, depth - 1), number(rng, depth - 1));
            let ty = Type::Decimal128 { scale: left_type.scale().max(right_type.scale()) };
            let op = if rng.random() { ArithOp::Add } else { ArithOp::Sub };
            (arith(op, ty, left, right), ty)
        }
    }
}

fn integers(rng: &mut StdRng) -> Expr {
    let constant = integer(Type::Int32, rng.random_range(-3..=3));
    let op = *[ArithOp::Add, ArithOp::Sub, ArithOp::Mul].choose(rng).unwrap();
    let small = cast(Type::Int32, column(0, 1));
    let wide = cast(Type::Int64, column(0, 2));
    match rng.random_range(0..4) {
        0 => arith(op, Type::Int32, column(0, 2), constant),
        1 => arith(op, Type::Int32, column(0, 2), small),
        2 => arith(op, Type::Int64, column(0, 5), wide),
        _ => column(0, [1, 2, 5][rng.random_range(0..3)]),
    }
}

fn aggregates(rng: &mut StdRng) -> Vec<Agg> {
    let mut aggregates = Vec::new();
    for _ in 0..rng.random_range(1..6) {
        aggregates.push(match rng.random_range(0..6) {
            0 => Agg::CountStar,
            1 => Agg::Count(column(0, rng.random_range(0..8))),
            2 => Agg::Sum(integers(rng)),
            3 => Agg::Avg(number(rng, 1).0),
            _ => Agg::Sum(number(rng, 2).0),
        });
    }
    aggregates
}

/// Runs random queries, and compares the results with the interpreter's. Returns the number of queries that were fused.
fn check(pattern: &Pattern, queries: u64) -> u64 {
    let rng = &mut StdRng::seed_from_u64(pattern.rows as u64 ^ pattern.magnitude as u64);
    let table = table(rng, pattern);
    let views = [stored(rng, &TYPES, &table, pattern.changed)];
    let tables = [table];
    let (runtime, engines) = (tokio_runtime(), [engine(1), engine(2)]);
    let (mut answered, mut fused) = (0, 0);
    for query in 0..queries {
        let mut level = plan_over(&[&TYPES]);
        let key = |at: u16| column(0, at);
        let keys = [vec![], vec![key(0)], vec![key(0), key(1)], vec![key(1)], vec![key(7)], vec![key(1), key(2)]];
        level.grouping = grouping(keys.choose(rng).unwrap().clone(), aggregates(rng));
        let op = *[CmpOp::Lt, CmpOp::Ge, CmpOp::Ne].choose(rng).unwrap();
        level.filters = match rng.random_range(0..5) {
            0 | 1 => vec![],
            2 => vec![cmp(op, column(0, 4), literal(MONEY, Some(Literal::Int(rng.random_range(-1..12)))))],
            3 => vec![cmp(op, column(0, 2), integer(Type::Int32, rng.random_range(-3..=3)))],
            _ => {
                let few = vec![cmp(CmpOp::Eq, column(0, 4), literal(MONEY, Some(Literal::Int(7))))];
                [few, vec![cmp(CmpOp::Lt, column(0, 3), column(0, 4))]].concat()
            }
        };
        let plan = level.plan();
        let interpreter = Interpreter { plan: &plan, params: &[], tables: &tables, largest_float: Cell::default() };
        let expected = interpreter.run();
        let context = || format!("query {query} of {pattern:?}: {plan:#?}");
        let text = engines[0].explain(&plan, &[], views.to_vec()).unwrap();
        // If all aggregates are over constants, the query is not fused.
        fused += u64::from(text.contains("FusedGroups"));
        for engine in &engines {
            let told = runtime.block_on(rows(engine, &level, &[], &views));
            match (told, &expected) {
                (Ok(told), Ok(expected)) => {
                    assert!(sorted(&told) == sorted(expected), "{told:?}\n{expected:?}\n{}", context());
                    answered += 1;
                }
                (Err(failure), Err(_)) => assert!(OVERFLOWS.contains(&failure.kind), "{failure:?} {}", context()),
                (told, expected) => panic!("{told:?}\n{expected:?}\n{}", context()),
            }
        }
    }
    assert!(fused > queries / 2, "{fused} of {queries} were computed from codes");
    answered
}

fn sorted(rows: &[Row]) -> Vec<String> {
    let mut shown: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    shown.sort();
    shown
}

fn pattern(rows: usize, magnitude: i64) -> Pattern {
    Pattern { rows, nulls: 0.0, magnitude, kinds: 4, changed: 0.0 }
}

#[test]
fn sums_of_ordinary_values_are_exact() {
    for rows in [0, 1, 70, 8_192, 20_000] {
        assert!(check(&pattern(rows, 10_000), 30) > 50);
        check(&Pattern { nulls: 0.2, ..pattern(rows, 10_000) }, 20);
    }
}

#[test]
fn sums_are_exact_up_to_the_ends_of_64_bits_and_beyond() {
    for bits in [20, 28, 31, 32, 40, 47, 49, 50, 51, 55, 60, 62, 63] {
        let magnitude = ((1u64 << bits) - 1) as i64;
        check(&Pattern { nulls: 0.05, ..pattern(9_000, magnitude) }, 15);
    }
}

#[test]
fn groups_are_right_be_they_few_or_many() {
    for (kinds, rows, queries) in [(1, 20_000, 15), (2, 20_000, 15), (7, 20_000, 15), (30, 12_000, 15)] {
        check(&Pattern { kinds, nulls: 0.01, ..pattern(rows, 1_000) }, queries);
    }
    // With 200 keys, codes have one byte; with 300, two bytes; with 3,000, there would be too many slots for groups.
    for (kinds, rows, queries) in [(200, 10_000, 12), (300, 10_000, 12), (3_000, 9_000, 6)] {
        check(&Pattern { kinds, nulls: 0.01, ..pattern(rows, 1_000) }, queries);
    }
}

#[test]
fn values_as_they_were_are_summed() {
    for changed in [0.0001, 0.01, 0.5] {
        check(&Pattern { changed, nulls: 0.02, ..pattern(18_000, 1 << 33) }, 20);
    }
}

#[test]
fn nothing_but_nulls_has_no_sum() {
    check(&Pattern { nulls: 1.0, ..pattern(9_000, 100) }, 20);
    check(&Pattern { nulls: 0.999, ..pattern(9_000, 100) }, 20);
}
