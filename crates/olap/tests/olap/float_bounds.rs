//! Tests of aggregates over many floats, in one partition and in several: the error of each result stays within a
//! limit.

use plan::catalogue::{FloatAgg, PairAgg, Spread};
use plan::{Agg, Expr, Literal, Type};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::build::{cast, column, float, int};
use crate::floats;
use crate::table::{Row, TestView, chunk, engine, grouping, plan_over, rows, tokio_runtime};

const ROWS: usize = 40_000;
const GROUPS: i64 = 3;

/// Checks the aggregates over pairs of floats that `value` makes. The limits hold in whichever order the pairs are
/// added.
fn check(value: impl Fn(&mut StdRng) -> f64) {
    let types = [Type::Int64, Type::Float64, Type::Float64];
    let mut rng = StdRng::seed_from_u64(5);
    let mut row = |i: i64| vec![int(i % GROUPS), float(value(&mut rng)), float(value(&mut rng))];
    let table: Vec<Row> = (0..ROWS as i64).map(&mut row).collect();
    let views = [TestView::of_chunks(types.to_vec(), table.chunks(1000).map(|c| chunk(&types, c, None)).collect())];

    let of = |agg| Agg::Float(agg, column(0, 1));
    let pair = |agg| Agg::Pair(agg, Box::new([column(0, 1), column(0, 2)]));
    let aggregates = vec![
        of(FloatAgg::Sum),
        of(FloatAgg::Avg),
        of(FloatAgg::Spread(Spread::VarPop)),
        of(FloatAgg::Spread(Spread::StddevSamp)),
        pair(PairAgg::CovarPop),
        pair(PairAgg::Corr),
        pair(PairAgg::AvgX),
    ];
    let integer = column(0, 0);
    let wide = cast(Type::Decimal128 { scale: 0 }, column(0, 0));
    for keys in [vec![], vec![integer], vec![wide]] {
        let mut plan = plan_over(&[&types]);
        plan.grouping = grouping(keys.clone(), aggregates.clone());
        for threads in [1, 3] {
            let told = tokio_runtime().block_on(rows(&engine(threads), &plan, &[], &views)).unwrap();
            assert_eq!(told.len(), if keys.is_empty() { 1 } else { GROUPS as usize });
            told.iter().for_each(|row| check_group(&table, row, &keys));
        }
    }
}

fn check_group(table: &[Row], told: &Row, keys: &[Expr]) {
    let key = match told[..keys.len()] {
        [Some(Literal::Int(key))] => Some(key),
        [Some(Literal::Decimal(key))] => Some(key as i64),
        _ => None,
    };
    let members = || table.iter().filter(|row| key.is_none_or(|key| row[0] == int(key)));
    let literals = |at: usize| members().map(|row| row[at].clone().unwrap()).collect::<Vec<Literal>>();
    let pairs: Vec<(Literal, Literal)> = literals(1).into_iter().zip(literals(2)).collect();
    let number = |value: &Option<Literal>| match value {
        Some(Literal::Float(f)) => *f,
        other => panic!("{other:?}"),
    };
    let exact = |agg| number(&floats::aggregate(agg, &literals(1)).unwrap().0);
    let exact_pair = |agg| number(&floats::of_pairs(agg, &pairs).unwrap().0);

    let values: Vec<f64> = literals(1).iter().map(|value| number(&Some(value.clone()))).collect();
    let (n, magnitudes) = (values.len() as f64, values.iter().map(|value| value.abs()).sum::<f64>());
    let variance = exact(FloatAgg::Spread(Spread::VarPop));
    let (sum, avg) = (exact(FloatAgg::Sum), exact(FloatAgg::Avg));
    let condition = (values.iter().map(|value| value * value).sum::<f64>() / n / variance).sqrt();
    let relative = n * f64::EPSILON * condition;
    let bounds = [
        (sum, 4.0 * f64::EPSILON * sum.abs() + 1e-24 * magnitudes),
        (avg, 4.0 * f64::EPSILON * avg.abs() + 1e-24 * magnitudes / n),
        (variance, relative * variance),
        (exact(FloatAgg::Spread(Spread::StddevSamp)), relative * variance.sqrt()),
        (exact_pair(PairAgg::CovarPop), 10.0 * relative * variance),
        (exact_pair(PairAgg::Corr), 10.0 * relative),
        (exact_pair(PairAgg::AvgX), n * f64::EPSILON * magnitudes / n * 10.0),
    ];
    for ((exact, bound), value) in bounds.into_iter().zip(&told[keys.len()..]) {
        let told = number(value);
        assert!((told - exact).abs() <= bound, "{told} instead of {exact}, by more than {bound}");
    }
}

#[test]
fn floats_of_one_size() {
    check(|rng| rng.random_range(-1.0..1.0));
}

#[test]
fn floats_of_many_sizes() {
    check(|rng| rng.random_range(-1.0..1.0) * 10f64.powi(rng.random_range(-12..12)));
}

#[test]
fn floats_whose_mean_is_far_from_zero() {
    check(|rng| 1e4 + rng.random_range(-1.0..1.0));
}
