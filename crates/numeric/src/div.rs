//! Quotients and remainders.

use crate::digits::DECIMALS;
use crate::power;
use crate::value::{Error, Long, Numeric, Repr};

/// The least number of significant decimal digits in a quotient.
const SIGNIFICANT: i32 = 16;
/// The greatest display scale that is chosen for a quotient.
const QUOTIENT_SCALE_LIMIT: i32 = 1000;

impl Numeric {
    pub fn div(&self, other: &Numeric) -> Result<Numeric, Error> {
        if let (Repr::Small { mantissa: a, scale: s }, Repr::Small { mantissa: b, scale: t }) = (&self.0, &other.0)
            && *b != 0
            && let Some(quotient) = divide_small(*a, *s, *b, *t)
        {
            return Ok(quotient);
        }
        match (self.long(), other.long()) {
            (Some(a), Some(b)) => {
                let first = |long: &Long| long.digits.first().map_or((0, 0), |&digit| (long.weight, digit as u64));
                let scale = quotient_scale(first(&a), a.scale, first(&b), b.scale);
                a.over(&b, scale, true)?.checked()
            }
            _ => self.over_special(other),
        }
    }

    /// PostgreSQL's `div`: the integer part of the quotient.
    pub fn div_trunc(&self, other: &Numeric) -> Result<Numeric, Error> {
        if let Some((a, b, _)) = self.aligned_with(other)
            && let Some(quotient) = a.checked_div(b)
        {
            return Ok(Numeric::small(quotient, 0));
        }
        match (self.long(), other.long()) {
            (Some(a), Some(b)) => a.over(&b, 0, false)?.checked(),
            _ => self.over_special(other),
        }
    }

    /// The remainder. It has the sign of the dividend, and the larger of the operands' display scales.
    pub fn rem(&self, other: &Numeric) -> Result<Numeric, Error> {
        if let Some((a, b, scale)) = self.aligned_with(other)
            && let Some(remainder) = a.checked_rem(b)
        {
            return Ok(Numeric::small(remainder, scale));
        }
        match (self.long(), other.long()) {
            (Some(a), Some(b)) => {
                let whole = a.over(&b, 0, false)?;
                self.plus(&whole.times(other).neg()).checked()
            }
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::NAN),
            (Some(_), None) => Ok(self.clone()),
            _ if other.direction() == Some(0) => Err(Error::DivisionByZero),
            _ => Ok(Numeric::NAN),
        }
    }

    fn aligned_with(&self, other: &Numeric) -> Option<(i128, i128, u16)> {
        match (&self.0, &other.0) {
            (Repr::Small { mantissa: a, scale: s }, Repr::Small { mantissa: b, scale: t }) => {
                crate::add::aligned(*a, *s, *b, *t)
            }
            _ => None,
        }
    }

    /// The quotient if at least one operand is not finite.
    fn over_special(&self, other: &Numeric) -> Result<Numeric, Error> {
        match (self.direction(), other.direction()) {
            (None, _) | (_, None) => Ok(Numeric::NAN),
            _ if self.is_finite() => Ok(Numeric::ZERO),
            _ if !other.is_finite() => Ok(Numeric::NAN),
            (_, Some(0)) => Err(Error::DivisionByZero),
            (a, b) => Ok(Numeric::infinite(a != b)),
        }
    }
}

/// The display scale that PostgreSQL chooses for a quotient. It makes sure that the quotient has at least 16
/// significant digits, as estimated from the weight and the value of each operand's first base-10000 digit. It is not
/// less than the display scale of either operand.
fn quotient_scale(a: (i32, u64), s: u16, b: (i32, u64), t: u16) -> u16 {
    let weight = a.0 - b.0 - (a.1 <= b.1) as i32;
    (SIGNIFICANT - weight * DECIMALS).max(s as i32).max(t as i32).min(QUOTIENT_SCALE_LIMIT) as u16
}

/// The weight and the value of the first base-10000 digit of magnitude / 10^scale.
#[inline]
fn first_digit(magnitude: u128, scale: u16) -> Option<(i32, u64)> {
    if magnitude == 0 {
        return Some((0, 0));
    }
    let small = u64::try_from(magnitude);
    let decimals = small.map_or_else(|_| magnitude.ilog10(), |small| small.ilog10()) as i32;
    let weight = (decimals - scale as i32).div_euclid(DECIMALS);
    // The number of decimal digits after the first base-10000 digit.
    let behind = scale as i32 + weight * DECIMALS;
    let power = power::ten(behind.unsigned_abs())?;
    let digit = match small {
        _ if behind < 0 => magnitude * power,
        Ok(small) => (small / power as u64) as u128,
        Err(_) => magnitude / power,
    };
    Some((weight, digit as u64))
}

fn divide_small(a: i128, s: u16, b: i128, t: u16) -> Option<Numeric> {
    let negative = (a < 0) != (b < 0);
    let (a, b) = (a.unsigned_abs(), b.unsigned_abs());
    let scale = quotient_scale(first_digit(a, s)?, s, first_digit(b, t)?, t);
    let shift = u32::try_from(scale as i32 - s as i32 + t as i32).ok()?;
    let (low, high) = match power::ten(shift) {
        Some(power) => a.carrying_mul(power, 0),
        None if a == 0 => (0, 0),
        None => return None,
    };
    if high >= b {
        return None;
    }
    let (quotient, remainder) = power::divide_wide(high, low, b);
    // Rounds half away from zero: `remainder >= b - remainder` means at least half of `b`.
    let quotient = quotient.checked_add((remainder >= b - remainder) as u128)?;
    Some(Numeric::small(power::signed(negative, quotient)?, scale))
}
