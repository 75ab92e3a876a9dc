//! Reading values from text, as PostgreSQL does.

use std::fmt;
use std::str::FromStr;

use crate::digits::{DECIMALS, Digits};
use crate::power;
use crate::value::{Numeric, SCALE_LIMIT, WEIGHT_LIMIT};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// PostgreSQL's error "invalid input syntax for type numeric".
    Syntax,
    /// PostgreSQL's error "value overflows numeric format".
    Overflow,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Syntax => "invalid input syntax for type numeric",
            ParseError::Overflow => "value overflows numeric format",
        })
    }
}

impl std::error::Error for ParseError {}

/// The greatest exponent, and with a minus sign the least. Beyond it, PostgreSQL reports an overflow, whatever the
/// digits are.
const EXPONENT_LIMIT: i64 = i32::MAX as i64 / 2;

impl FromStr for Numeric {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Numeric, ParseError> {
        let text = text.trim_matches(is_space);
        if text.eq_ignore_ascii_case("nan") {
            return Ok(Numeric::NAN);
        }
        let (negative, text) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        if text.eq_ignore_ascii_case("infinity") || text.eq_ignore_ascii_case("inf") {
            return Ok(Numeric::infinite(negative));
        }
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut bytes = whole.bytes().chain(fraction.bytes());
        if whole.len() + fraction.len() == 0 || !bytes.all(|b| b.is_ascii_digit()) {
            return Err(ParseError::Syntax);
        }
        if exponent.abs() >= EXPONENT_LIMIT {
            return Err(ParseError::Overflow);
        }
        let digits = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0');
        build(negative, digits, whole.len() + fraction.len(), exponent - fraction.len() as i64)
            .ok_or(ParseError::Overflow)
    }
}

/// Whether C's `isspace` accepts the character.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Reads an exponent. PostgreSQL 15 alone accepts spaces before it; here they are an error.
fn exponent(text: &str) -> Result<i64, ParseError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Syntax);
    }
    // An exponent that does not fit 64 bits exceeds the limit in any case.
    let value = digits.parse().unwrap_or(i64::MAX);
    Ok(if text.starts_with('-') { -value } else { value })
}

/// The value of decimal digits, if the last of them is multiplied by 10^exponent. `None` if the value exceeds the
/// limits of PostgreSQL's format.
pub(crate) fn build(
    negative: bool,
    digits: impl Iterator<Item = u8> + Clone,
    count: usize,
    exponent: i64,
) -> Option<Numeric> {
    let scale = (-exponent).max(0);
    if scale > SCALE_LIMIT as i64 {
        return None;
    }
    let scale = scale as u16;
    let zeros = digits.clone().take_while(|&d| d == 0).count();
    if zeros == count {
        return Some(Numeric::small(0, scale));
    }
    let digits = digits.skip(zeros);
    // The weight of the first base-10000 digit follows from the power of ten of the first decimal digit.
    let first = (count - zeros) as i64 - 1 + exponent;
    let weight = first.div_euclid(DECIMALS as i64);
    if weight > WEIGHT_LIMIT as i64 {
        return None;
    }
    if first + (scale as i64) < 38 {
        let mantissa = digits.clone().fold(0u128, |value, d| value.wrapping_mul(10).wrapping_add(d as u128));
        let mantissa = match exponent {
            1.. => mantissa.checked_mul(power::ten(exponent as u32)?)?,
            _ => mantissa,
        };
        if let Some(mantissa) = power::signed(negative, mantissa) {
            return Some(Numeric::small(mantissa, scale));
        }
    }
    let bottom = exponent.div_euclid(DECIMALS as i64);
    let mut groups = Digits::zeros((weight - bottom + 1) as usize);
    for (i, digit) in digits.enumerate() {
        let place = first - i as i64;
        let group = (weight - place.div_euclid(DECIMALS as i64)) as usize;
        groups[group] += digit as u16 * 10u16.pow(place.rem_euclid(DECIMALS as i64) as u32);
    }
    Some(Numeric::from_digits(negative, weight as i32, groups, scale))
}
