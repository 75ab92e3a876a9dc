//! What aggregates of floats are, by exact sums; the engine, as PostgreSQL, comes near to that in any order of rows.

use plan::catalogue::{FloatAgg, MAX_SUMMED, Spread};
use plan::{Agg, Literal, Plan, Rel};

use crate::interpreter::Raised;
use crate::table::{Row, Value};

/// An aggregate of values, and the greatest of their magnitudes, on which rounding errors depend.
pub fn aggregate(agg: FloatAgg, values: &[Literal]) -> Result<(Value, f64), Raised> {
    let floats: Vec<f64> = values.iter().map(float).collect();
    let largest = largest(&floats)?;
    let sum = sum(&floats);
    let count = floats.len() as f64;
    let value = match agg {
        _ if floats.is_empty() => None,
        FloatAgg::Sum => Some(sum),
        FloatAgg::Avg => Some(sum / count),
        FloatAgg::Spread(spread) => {
            let squares = products(&floats, &floats);
            match spread {
                Spread::VarPop => Some(squares / count),
                Spread::StddevPop => Some((squares / count).sqrt()),
                Spread::VarSamp => (count > 1.0).then_some(squares / (count - 1.0)),
                Spread::StddevSamp => (count > 1.0).then_some((squares / (count - 1.0)).sqrt()),
            }
        }
    };
    Ok((value.map(Literal::Float), largest))
}

fn float(value: &Literal) -> f64 {
    match value {
        Literal::Float(f) => *f,
        other => panic!("{other:?} is not a float"),
    }
}

/// Of the finite ones.
fn largest(floats: &[f64]) -> Result<f64, Raised> {
    let largest = floats.iter().filter(|f| f.is_finite()).fold(0.0, |a, f| f64::max(a, f.abs()));
    if largest > MAX_SUMMED { Err(Raised) } else { Ok(largest) }
}

/// With one rounding at the end: what additions lose is kept in parts that do not overlap.
fn sum(floats: &[f64]) -> f64 {
    if floats.iter().any(|f| !f.is_finite()) {
        return floats.iter().filter(|f| !f.is_finite()).sum();
    }
    let mut parts: Vec<f64> = Vec::new();
    for &float in floats {
        let mut rest = float;
        let mut kept = Vec::new();
        for &part in &parts {
            let (large, small) = if rest.abs() > part.abs() { (rest, part) } else { (part, rest) };
            let sum = large + small;
            let lost = small - (sum - large);
            kept.extend((lost != 0.0).then_some(lost));
            rest = sum;
        }
        kept.push(rest);
        parts = kept;
    }
    parts.iter().sum()
}

/// The sum of the products of the differences from the means.
fn products(a: &[f64], b: &[f64]) -> f64 {
    let mean = |floats: &[f64]| sum(floats) / floats.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    sum(&a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).collect::<Vec<f64>>())
}

/// Whether the plan has aggregates whose last digits depend on the order of rows.
pub fn are_summed(plan: &Plan) -> bool {
    let mut found = false;
    plan.root.visit(&mut |rel| {
        if let Rel::Aggregate { aggregates, .. } = rel {
            found |= aggregates.iter().any(|aggregation| matches!(aggregation.agg, Agg::Float(..)));
        }
    });
    found
}

/// Whether two results are the same but for the rounding of floats up to this magnitude.
pub fn alike(a: &[Row], b: &[Row], largest: f64) -> bool {
    let mut left: Vec<&Row> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|row| {
            let partner = left.iter().position(|other| row.iter().zip(*other).all(|(a, b)| near(a, b, largest)));
            partner.map(|at| left.swap_remove(at)).is_some()
        })
}

fn near(a: &Value, b: &Value, largest: f64) -> bool {
    match (a, b) {
        (Some(Literal::Float(a)), Some(Literal::Float(b))) => {
            let rounding = if largest > 1e4 { 1e-6 * largest + 1e-10 * largest * largest } else { 0.0 };
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs())) + rounding
        }
        _ => a == b,
    }
}
