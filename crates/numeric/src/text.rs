//! The text of a numeric, as PostgreSQL shows it.

use std::fmt;

use crate::digits::DECIMALS;
use crate::value::{Long, Numeric, Repr};

/// The greatest number of decimal digits in an `i128`.
const MOST: usize = 39;

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small { mantissa, scale } => {
                if *mantissa < 0 {
                    f.write_str("-")?;
                }
                let mut room = [b'0'; MOST];
                let digits = decimals(mantissa.unsigned_abs(), &mut room);
                let scale = *scale as usize;
                let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
                f.write_str(if whole.is_empty() { "0" } else { whole })?;
                if scale > 0 {
                    f.write_str(".")?;
                    zeros(scale - fraction.len(), f)?;
                    f.write_str(fraction)?;
                }
                Ok(())
            }
            Repr::Long(long) => write_long(long, f),
            Repr::Infinite { negative } => f.write_str(if *negative { "-Infinity" } else { "Infinity" }),
            Repr::NaN => f.write_str("NaN"),
        }
    }
}

/// Writes a number in decimal digits to the end of `room`, and returns the digits. Zero has no digits.
pub(crate) fn decimals(mut rest: u128, room: &mut [u8; MOST]) -> &str {
    const LARGE: u128 = 10u128.pow(19);
    let mut at = MOST;
    while rest > 0 {
        let (upper, lower) = if rest < LARGE { (0, rest) } else { crate::power::divide(rest, LARGE) };
        let end = at;
        let mut lower = lower as u64;
        while lower >= 10 {
            at -= 2;
            let pair = (lower % 100) as u8;
            room[at] = b'0' + pair / 10;
            room[at + 1] = b'0' + pair % 10;
            lower /= 100;
        }
        if lower > 0 {
            at -= 1;
            room[at] = b'0' + lower as u8;
        }
        rest = upper;
        if rest > 0 {
            // The leading zeros of this part are already in `room`.
            at = end - 19;
        }
    }
    str::from_utf8(&room[at..]).expect("digits")
}

fn zeros(mut count: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const ZEROS: &str = "0000000000000000000000000000000000000000";
    while count > 0 {
        let some = count.min(ZEROS.len());
        f.write_str(&ZEROS[..some])?;
        count -= some;
    }
    Ok(())
}

fn write_long(long: &Long, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digit = |weight: i32| {
        let at = usize::try_from(long.weight - weight).ok();
        at.and_then(|at| long.digits.get(at)).copied().unwrap_or(0)
    };
    let scale = long.scale as usize;
    let mut text = String::with_capacity(8 + (long.weight.max(0) as usize + 1) * DECIMALS as usize + scale);
    for weight in (0..=long.weight.max(0)).rev() {
        push(&mut text, digit(weight));
    }
    let whole = text.len();
    for group in 1..=(scale as i32 + DECIMALS - 1) / DECIMALS {
        push(&mut text, digit(-group));
    }
    let (before, behind) = text.split_at(whole);
    let before = before.trim_start_matches('0');
    if long.negative {
        f.write_str("-")?;
    }
    f.write_str(if before.is_empty() { "0" } else { before })?;
    if scale > 0 {
        f.write_str(".")?;
        f.write_str(&behind[..scale])?;
    }
    Ok(())
}

fn push(text: &mut String, digit: u16) {
    for unit in [1000, 100, 10, 1] {
        text.push((b'0' + (digit / unit % 10) as u8) as char);
    }
}
