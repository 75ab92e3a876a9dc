//! Variance and standard deviation of integers and decimals, computed as numerics with PostgreSQL's digits.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use plan::catalogue::Spread;

use crate::functions::numerics::Collected;

/// Variance or standard deviation, as PostgreSQL computes them. The difference is divided by N² or N·(N − 1), in the
/// scale of a division of numerics, and the root has the same scale. `args` are the difference, N, and the decimal
/// places of the difference.
pub fn finished(of: Spread, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (differences, counts, scales) = (args[0].to_array(rows)?, args[1].to_array(rows)?, args[2].to_array(rows)?);
    let (counts, scales) = (counts.as_primitive::<Int64Type>(), scales.as_primitive::<Int32Type>());
    let mut out = Collected::with_capacity(rows);
    for (row, difference) in differences.as_string_view().iter().enumerate() {
        let finished = difference.map(|digits| one(of, digits, scales.value(row) as usize, counts.value(row)));
        out.push(finished.transpose()?.flatten().as_ref());
    }
    Ok(out.finish())
}

fn one(of: Spread, digits: &str, scale: usize, count: i64) -> Result<Option<Numeric>> {
    let count = i128::from(count);
    let divisor = match of {
        Spread::VarPop | Spread::StddevPop => count * count,
        Spread::VarSamp | Spread::StddevSamp => count * (count - 1),
    };
    if divisor == 0 || digits == "0" {
        return Ok((divisor != 0).then_some(Numeric::ZERO));
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, behind) = padded.split_at(padded.len() - scale);
    let text = if scale == 0 { digits.to_owned() } else { format!("{whole}.{behind}") };
    let wrong = || DataFusionError::Internal(format!("a variance of {digits}"));
    let difference = text.parse::<Numeric>().map_err(|_| wrong())?;
    let variance = difference.div(&Numeric::from_decimal(divisor, 0)).map_err(|_| wrong())?;
    match of {
        Spread::VarPop | Spread::VarSamp => Ok(Some(variance)),
        Spread::StddevPop | Spread::StddevSamp => Ok(variance.root(variance.scale().unwrap_or(0))),
    }
}
