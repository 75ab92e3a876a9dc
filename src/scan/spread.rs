//! Variance and standard deviation of integers and numerics, finished by PostgreSQL's own arithmetic.
//!
//! `numeric_stddev_internal` divides N·Σx² − (Σx)² by N² or N·(N − 1), in the scale that a division of numerics has,
//! and takes the root in that same scale.

use std::ffi::CString;

use plan::catalogue::Spread;

use crate::pg::numeric::Numeric;

/// `difference`: N·Σx² − (Σx)², whose last `scale` digits are behind the point; null for too few values.
pub fn finished(wanted: Spread, difference: &str, scale: usize, count: i64) -> Result<Option<Numeric>, String> {
    let count = i128::from(count);
    let (divisor, root) = match wanted {
        Spread::VarPop => (count * count, false),
        Spread::VarSamp => (count * (count - 1), false),
        Spread::StddevPop => (count * count, true),
        Spread::StddevSamp => (count * (count - 1), true),
    };
    if divisor == 0 {
        return Ok(None);
    }
    if difference == "0" {
        return number("0").map(Some);
    }
    let variance = number(&with_point(difference, scale))?.divided_by(&number(&divisor.to_string())?);
    Ok(Some(if root { root_in_its_scale(&variance) } else { variance }))
}

fn number(digits: &str) -> Result<Numeric, String> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let text = CString::new(digits).ok().filter(|_| is_number);
    text.map(|text| Numeric::of_text(&text)).ok_or_else(|| format!("the engine sent {digits:?} for a number"))
}

fn with_point(digits: &str, scale: usize) -> String {
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, behind) = padded.split_at(padded.len() - scale);
    if scale == 0 { digits.into() } else { format!("{whole}.{behind}") }
}

/// The root with as many digits as the value has. PostgreSQL's function may choose more; rounding these would be
/// rounding twice where they end in the middle of two numbers.
fn root_in_its_scale(value: &Numeric) -> Numeric {
    let (root, scale) = (value.square_root(), value.scale());
    if root.scale() <= scale {
        return root;
    }
    let below = root.truncated(scale);
    let rounded = root.rounded(scale);
    let is_middle = rounded.minus(&root).compared_with(&root.minus(&below)).is_eq();
    if is_middle && root.times(&root).compared_with(value).is_gt() { below } else { rounded }
}
