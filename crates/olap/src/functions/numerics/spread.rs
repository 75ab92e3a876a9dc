//! Variance and standard deviation of integers and decimals, computed as numerics with PostgreSQL's digits.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use datafusion_common::error::Result;
use numeric::Numeric;
use plan::catalogue::Spread;

use super::{Given, Outcome, Output, Values, failure};

/// Variance or standard deviation, as PostgreSQL computes them. `args` are the raw spread N·Σx² − (Σx)², and N. The raw
/// spread is divided by N² or N·(N − 1). The quotient has the scale that PostgreSQL gives to a division of numerics.
/// The square root keeps this scale.
pub fn finished(of: Spread, args: &[Given], rows: usize, out: &mut impl Output) -> Result<()> {
    let (raw, counts) = (Values::of(&args[0])?, args[1].to_array(rows)?);
    let counts = counts.as_primitive::<Int64Type>().values();
    for (row, count) in counts.iter().enumerate() {
        out.put(match raw.get(row)? {
            Some(raw) => one(of, &raw, (*count).into())?,
            None => None,
        });
    }
    Ok(())
}

fn one(of: Spread, raw: &Numeric, count: i128) -> Outcome<Option<Numeric>> {
    let divisor = match of {
        Spread::VarPop | Spread::StddevPop => count * count,
        Spread::VarSamp | Spread::StddevSamp => count * (count - 1),
    };
    if divisor == 0 || raw.is_zero() {
        return Ok((divisor != 0).then_some(Numeric::ZERO));
    }
    let variance = raw.div(&Numeric::from_decimal(divisor, 0)).map_err(failure)?;
    Ok(match of {
        Spread::VarPop | Spread::VarSamp => Some(variance),
        Spread::StddevPop | Spread::StddevSamp => variance.root(variance.scale().unwrap_or(0)),
    })
}
