//! Reference aggregates of floats, computed from exact sums. In whichever order the engine or PostgreSQL adds the rows,
//! their results must be close to these.

use plan::catalogue::{FloatAgg, MAX_SUMMED, PairAgg, Spread};
use plan::{Literal, Plan, Rel};

use crate::interpreter::Raised;
use crate::table::{Row, Value};

/// The aggregate of the values, and the greatest magnitude among them, which determines the size of rounding errors.
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

/// A result that equals any result. It is used where only rounding decides whether the points lie on a vertical or
/// horizontal line.
const ANYTHING: &str = "anything";

/// Like [`aggregate`], for pairs of y and x.
pub fn of_pairs(pair: PairAgg, values: &[(Literal, Literal)]) -> Result<(Value, f64), Raised> {
    let (y, x): (Vec<f64>, Vec<f64>) = values.iter().map(|(y, x)| (float(y), float(x))).unzip();
    let (largest_y, largest_x) = (largest(&y)?, largest(&x)?);
    let (count, sum_y, sum_x) = (y.len() as f64, sum(&y), sum(&x));
    let (xx, yy, xy) = (products(&x, &x), products(&y, &y), products(&x, &y));
    let on_a_line = on_a_line(&x, xx, largest_x) || on_a_line(&y, yy, largest_y);
    use PairAgg::*;
    let value = match pair {
        _ if y.is_empty() => None,
        Corr | Intercept | R2 | Slope if on_a_line => {
            return Ok((Some(Literal::Text(ANYTHING.into())), 0.0));
        }
        Corr | Intercept | R2 | Slope if xx == 0.0 => None,
        Corr if yy == 0.0 => None,
        Corr => Some(xy / (xx * yy).sqrt()),
        R2 if yy == 0.0 => Some(1.0),
        R2 => Some(xy * xy / (xx * yy)),
        Slope => Some(xy / xx),
        Intercept => Some((sum_y - sum_x * xy / xx) / count),
        CovarPop => Some(xy / count),
        CovarSamp => (count > 1.0).then_some(xy / (count - 1.0)),
        AvgX => Some(sum_x / count),
        AvgY => Some(sum_y / count),
        Sxx => Some(xx),
        Sxy => Some(xy),
        Syy => Some(yy),
    };
    Ok((value.map(Literal::Float), largest_y.max(largest_x)))
}

/// Whether only rounding decides if the sum of squares is zero, because all values are nearly equal. Floats with few
/// digits, such as halves, are computed without rounding, so they are excluded.
fn on_a_line(floats: &[f64], squares: f64, largest: f64) -> bool {
    let is_short = |float: &f64| (float * 1024.0).fract() == 0.0 && float.abs() < 1e6;
    squares < 1e-6 * largest * largest && !(squares == 0.0 && floats.iter().all(is_short))
}

fn float(value: &Literal) -> f64 {
    match value {
        Literal::Float(f) => *f,
        other => panic!("{other:?} is not a float"),
    }
}

/// The greatest magnitude of the finite floats; an error if it exceeds [`MAX_SUMMED`].
fn largest(floats: &[f64]) -> Result<f64, Raised> {
    let largest = floats.iter().filter(|f| f.is_finite()).fold(0.0, |a, f| f64::max(a, f.abs()));
    if largest > MAX_SUMMED { Err(Raised) } else { Ok(largest) }
}

/// The sum, rounded only once at the end: the digits that an addition would lose are kept in a list of smaller parts.
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

/// The sum over all pairs: the difference of `a` from its mean, times the difference of `b` from its mean.
fn products(a: &[f64], b: &[f64]) -> f64 {
    let mean = |floats: &[f64]| sum(floats) / floats.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    sum(&a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).collect::<Vec<f64>>())
}

/// Whether the plan has aggregates whose last digits depend on the order of rows.
pub fn are_summed(plan: &Plan) -> bool {
    let mut found = false;
    plan.root.visit(&mut |rel| {
        found |= rel.aggregates().iter().any(|aggregation| aggregation.agg.aggregate().row().is_inexact);
        if let Rel::Window { calls, .. } = rel {
            found |= calls.iter().any(|call| call.function.is_inexact());
        }
    });
    found
}

/// Whether two results are equal, apart from rounding errors that floats of the magnitude `largest` may have.
pub fn alike(a: &[Row], b: &[Row], largest: f64) -> bool {
    let mut left: Vec<&Row> = b.iter().collect();
    // Several rows may be near enough. The partner is the row that equals this row exactly in most columns, which
    // usually include the keys.
    let mut has_partner = |row: &Row| {
        let is_near = |other: &Row| row.iter().zip(other).all(|(a, b)| near(a, b, largest));
        let equal = |other: &Row| row.iter().zip(other).filter(|(a, b)| near(a, b, 0.0)).count();
        let partner = (0..left.len()).filter(|&at| is_near(left[at])).max_by_key(|&at| equal(left[at]));
        partner.map(|at| left.swap_remove(at)).is_some()
    };
    a.len() == b.len() && a.iter().all(&mut has_partner)
}

fn near(a: &Value, b: &Value, largest: f64) -> bool {
    match (a, b) {
        (Some(Literal::Float(a)), Some(Literal::Float(b))) => {
            let rounding = if largest > 1e4 { 1e-6 * largest + 1e-10 * largest * largest } else { 0.0 };
            let close = (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs())) + rounding;
            a == b || a.is_nan() && b.is_nan() || a.is_finite() && b.is_finite() && close
        }
        (_, Some(Literal::Text(text))) if text == ANYTHING => true,
        _ => a == b,
    }
}
