//! Conversion from and to integers, and integers with a scale (decimals).

use crate::power;
use crate::value::{Numeric, Repr};

/// The least magnitude that a Decimal128 cannot represent.
const LIMIT: u128 = 10u128.pow(38);

impl Numeric {
    /// The numeric value / 10^scale, with display scale `scale`.
    #[inline]
    pub fn from_decimal(value: i128, scale: u8) -> Numeric {
        Numeric::small(value, scale as u16)
    }

    #[inline]
    pub fn from_i64(value: i64) -> Numeric {
        Numeric::small(value as i128, 0)
    }

    /// The value times 10^scale, rounded half away from zero. `None` if the value is not finite, or if the result has
    /// more than 38 digits.
    pub fn to_decimal(&self, scale: u8) -> Option<i128> {
        match self.0 {
            Repr::Small { scale: shown, .. } if shown <= scale as u16 => self.to_decimal_exact(scale),
            _ => match self.round(scale as i32).0 {
                Repr::Small { mantissa, .. } => limited(mantissa),
                _ => None,
            },
        }
    }

    /// Like `to_decimal`, but `None` if rounding would change the value.
    #[inline]
    pub fn to_decimal_exact(&self, scale: u8) -> Option<i128> {
        let scale = scale as u16;
        match &self.0 {
            Repr::Small { mantissa, scale: shown } if *shown <= scale => {
                limited(power::shift(*mantissa, (scale - shown) as u32)?)
            }
            Repr::Small { mantissa, scale: shown } => {
                let (quotient, 0) = (match power::ten((shown - scale) as u32) {
                    Some(unit) => power::divide(mantissa.unsigned_abs(), unit),
                    None => (0, mantissa.unsigned_abs()),
                }) else {
                    return None;
                };
                limited(power::signed(*mantissa < 0, quotient)?)
            }
            // The value has too many digits for an `i128`. If its last digits are zeros, it may fit without them.
            Repr::Long(_) => match self.trimmed() {
                trimmed @ Numeric(Repr::Small { .. }) => trimmed.to_decimal_exact(scale as u8),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value as an integer, rounded half away from zero. `None` if it is not finite, or out of range.
    pub fn to_i64(&self) -> Option<i64> {
        match self.round(0).0 {
            Repr::Small { mantissa, .. } => i64::try_from(mantissa).ok(),
            _ => None,
        }
    }
}

fn limited(value: i128) -> Option<i128> {
    (value.unsigned_abs() < LIMIT).then_some(value)
}
