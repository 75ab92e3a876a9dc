//! Casts between numeric and double precision.

use std::fmt::{self, Write};

use crate::parse;
use crate::power;
use crate::value::{Numeric, Repr};

/// Integers below this bound are exact in double precision.
const EXACT: u128 = 1 << 53;
const EXACT_POWERS: u16 = 22;

impl Numeric {
    /// The value in double precision. Like PostgreSQL, it is rounded as if the value were converted to text and read
    /// back. `None` if it is too large or too small for double precision.
    pub fn to_f64(&self) -> Option<f64> {
        match &self.0 {
            Repr::NaN => Some(f64::NAN),
            Repr::Infinite { negative } => Some(if *negative { f64::NEG_INFINITY } else { f64::INFINITY }),
            Repr::Small { mantissa, scale } if mantissa.unsigned_abs() < EXACT && *scale <= EXACT_POWERS => {
                // Both floats are exact, so their quotient is the float nearest to the value.
                Some(*mantissa as f64 / power::ten(*scale as u32)? as f64)
            }
            Repr::Small { mantissa, scale } => {
                let mut text = Text::default();
                write!(text, "{mantissa}e-{scale}").ok()?;
                parse_f64(text.as_str(), *mantissa == 0)
            }
            Repr::Long(_) => parse_f64(&self.to_string(), false),
        }
    }

    /// The numeric of a float. Like PostgreSQL, it keeps the 15 digits that `%.15g` shows.
    pub fn from_f64(value: f64) -> Numeric {
        Numeric::from_digits_of(value, 15)
    }

    /// The numeric of a real. Like PostgreSQL, it keeps the 6 digits that `%.6g` shows.
    pub fn from_f32(value: f32) -> Numeric {
        Numeric::from_digits_of(value.into(), 6)
    }

    fn from_digits_of(value: f64, shown: usize) -> Numeric {
        if value.is_nan() {
            return Numeric::NAN;
        }
        if value.is_infinite() {
            return Numeric::infinite(value < 0.0);
        }
        let mut text = Text::default();
        // Writing cannot fail, because the buffer is large enough for any value.
        let _ = write!(text, "{:.*e}", shown - 1, value.abs());
        let (digits, exponent) = text.as_str().split_once('e').unwrap_or(("0", "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        let digits = digits.trim_end_matches('0');
        let count = digits.bytes().filter(|&b| b != b'.').count();
        let digits = digits.bytes().filter(|&b| b != b'.').map(|b| b - b'0');
        parse::build(value < 0.0, digits, count, exponent - count.max(1) as i64 + 1).unwrap_or(Numeric::ZERO)
    }
}

/// Reads a float as `strtod` does. Like PostgreSQL, it refuses values that are too large, and those that are so small
/// that they become 0, unless `zero` allows 0.
fn parse_f64(text: &str, zero: bool) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && (zero || value != 0.0)).then_some(value)
}

/// A text of limited length without a heap allocation.
struct Text {
    bytes: [u8; 64],
    used: usize,
}

impl Default for Text {
    fn default() -> Text {
        Text { bytes: [0; 64], used: 0 }
    }
}

impl Text {
    fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.used]).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.used..self.used + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.used += text.len();
        Ok(())
    }
}
