//! Parses texts as values of other types. PostgreSQL accepts more forms than this module does. For any other form the
//! query runs on the heap.

use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use plan::{Named, Type};
use protocol::request::FailureKind;

use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::functions::numerics::Collected;
use crate::functions::time::calendar::{DAY, SECOND, day_of};

const UNREAD: QueryError = QueryError(FailureKind::TextUnread);

/// The texts of `args` as values of `ty`.
pub fn apply(function: Named, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let texts = args[0].to_array(rows)?;
    Ok(match (function, ty) {
        (Named::ToBool, _) => {
            let mut bools = BooleanBuilder::with_capacity(rows);
            for text in texts.as_string_view() {
                bools.append_option(text.map(|text| bool_of(text).ok_or(UNREAD)).transpose()?);
            }
            Arc::new(bools.finish())
        }
        (Named::ToInt16, _) => Arc::new(numbers::<Int16Type>(&texts, |text| integer(text)?.try_into().ok())?),
        (Named::ToInt32, _) => Arc::new(numbers::<Int32Type>(&texts, |text| integer(text)?.try_into().ok())?),
        (Named::ToInt64, _) => Arc::new(numbers::<Int64Type>(&texts, integer)?),
        (Named::ToFloat, _) => Arc::new(numbers::<Float64Type>(&texts, float)?),
        (Named::ReadDate, _) => {
            Arc::new(numbers::<Int32Type>(&texts, |text| moment(text)?.without_zone()?.0.try_into().ok())?)
        }
        (Named::ReadTimestamp, _) => Arc::new(numbers::<Int64Type>(&texts, |text| {
            let (day, time) = moment(text)?.without_zone()?;
            Some(day * DAY + time)
        })?),
        (Named::ReadUuid, _) => Arc::new(numbers::<Decimal128Type>(&texts, uuid)?.with_data_type(RAW_DECIMAL)),
        (Named::ToNumeric, _) => {
            let mut numerics = Collected::with_capacity(rows);
            for text in texts.as_string_view() {
                let read = text.map(|text| text.parse::<Numeric>().map_err(|_| UNREAD)).transpose()?;
                numerics.push(read.as_ref());
            }
            numerics.finish()
        }
        _ => return Err(DataFusionError::Internal(format!("{function:?} reads no text"))),
    })
}

/// Texts as points in time. `instant` converts a local time of the zone to a point in time, both in microseconds.
pub fn instants(args: &[ColumnarValue], rows: usize, instant: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let texts = args[0].to_array(rows)?;
    Ok(Arc::new(numbers::<Int64Type>(&texts, |text| {
        let Moment { day, time, east } = moment(text)?;
        let local = day * DAY + time;
        Some(match east {
            Some(east) => local - east * SECOND,
            None => instant(local),
        })
    })?))
}

fn numbers<T: ArrowPrimitiveType>(
    texts: &ArrayRef,
    read: impl Fn(&str) -> Option<T::Native>,
) -> std::result::Result<PrimitiveArray<T>, QueryError> {
    let read = |text: Option<&str>| text.map(|text| read(text).ok_or(UNREAD)).transpose();
    texts.as_string_view().iter().map(read).collect()
}

/// A text without the characters around it that C's `isspace` takes for blanks.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c| matches!(c, ' ' | '\t'..='\r'))
}

fn integer(text: &str) -> Option<i64> {
    let text = trimmed(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn float(text: &str) -> Option<f64> {
    let text = trimmed(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return match () {
            _ if digits.eq_ignore_ascii_case("infinity") => text.parse().ok(),
            _ if text.eq_ignore_ascii_case("nan") => Some(f64::NAN),
            _ => None,
        };
    }
    let value: f64 = text.parse().ok()?;
    // The parser turns a number that is out of range into infinity or zero, but PostgreSQL raises an error.
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    (value.is_finite() && (value != 0.0 || is_zero)).then_some(value)
}

/// A truth value. Its word may be shortened as long as it stays unambiguous.
fn bool_of(text: &str) -> Option<bool> {
    let text = trimmed(text).to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    match () {
        _ if begins("true", 1) || begins("yes", 1) || text == "on" || text == "1" => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" => Some(false),
        _ => None,
    }
}

fn uuid(text: &str) -> Option<i128> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut number = 0u128;
    for (at, byte) in bytes.iter().enumerate() {
        match (*byte, [8, 13, 18, 23].contains(&at)) {
            (b'-', true) => {}
            (digit, false) => number = number << 4 | u128::from((digit as char).to_digit(16)?),
            _ => return None,
        }
    }
    Some(number as i128 ^ i128::MIN)
}

struct Moment {
    /// Days since 2000-01-01. `time` holds the microseconds within the day.
    day: i64,
    time: i64,
    /// The offset from UTC in seconds, if the text has one.
    east: Option<i64>,
}

impl Moment {
    fn without_zone(self) -> Option<(i64, i64)> {
        self.east.is_none().then_some((self.day, self.time))
    }
}

/// A date, or a date with a time: `2023-05-01`, `2023-05-01 12:30`, `2023-05-01T12:30:45.5+02:00` and the like.
fn moment(text: &str) -> Option<Moment> {
    let bytes = trimmed(text).as_bytes();
    let mut at = 0;
    let number = |at: &mut usize, digits: usize| -> Option<i64> {
        let field = bytes.get(*at..*at + digits)?;
        *at += digits;
        field.iter().try_fold(0, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))
    };
    let takes = |at: &mut usize, wanted: &[u8]| {
        let found = bytes.get(*at).is_some_and(|byte| wanted.contains(byte));
        *at += usize::from(found);
        found
    };
    let year = number(&mut at, 4)?;
    let month = if takes(&mut at, b"-") { number(&mut at, 2)? } else { return None };
    let of_month = if takes(&mut at, b"-") { number(&mut at, 2)? } else { return None };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=longest).contains(&of_month) {
        return None;
    }
    let mut moment = Moment { day: day_of(year, month, of_month), time: 0, east: None };
    if at == bytes.len() {
        return Some(moment);
    }
    if !takes(&mut at, b" T") {
        return None;
    }
    let hour = number(&mut at, 2)?;
    let minute = if takes(&mut at, b":") { number(&mut at, 2)? } else { return None };
    let second = if takes(&mut at, b":") { number(&mut at, 2)? } else { 0 };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut fraction = 0;
    if takes(&mut at, b".") {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        // PostgreSQL rounds a fraction of more digits, so the query then runs on the heap.
        if !(1..=6).contains(&digits) {
            return None;
        }
        fraction = number(&mut at, digits)? * 10i64.pow(6 - digits as u32);
    }
    moment.time = (hour * 3600 + minute * 60 + second) * SECOND + fraction;
    if at == bytes.len() {
        return Some(moment);
    }
    moment.east = Some(if takes(&mut at, b"Z") {
        0
    } else {
        let sign = if takes(&mut at, b"+") {
            1
        } else if takes(&mut at, b"-") {
            -1
        } else {
            return None;
        };
        let hours = number(&mut at, 2)?;
        let minutes = if takes(&mut at, b":") { number(&mut at, 2)? } else { 0 };
        // With greater offsets, the query runs on the heap.
        if hours > 14 || minutes > 59 {
            return None;
        }
        sign * (hours * 3600 + minutes * 60)
    });
    (at == bytes.len()).then_some(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truths() {
        for (text, value) in
            [("12", Some(12)), (" -7\n", Some(-7)), ("+0", Some(0)), ("", None), ("1.0", None), ("+ 1", None)]
        {
            assert_eq!(integer(text), value, "{text}");
        }
        assert_eq!((integer("9223372036854775807"), integer("9223372036854775808")), (Some(i64::MAX), None));
        for (text, value) in
            [("1e3", Some(1000.0)), (".5", Some(0.5)), ("-0", Some(0.0)), ("1e400", None), ("1e-400", None)]
        {
            assert_eq!(float(text), value, "{text}");
        }
        assert!(float("NaN").is_some_and(f64::is_nan) && float("-infinity") == Some(f64::NEG_INFINITY));
        assert!(float("0x1").is_none() && float("1e").is_none() && float("e1").is_none() && float("inf").is_none());
        for (text, value) in [("T", Some(true)), (" off ", Some(false)), ("o", None), ("truee", None), ("", None)] {
            assert_eq!(bool_of(text), value, "{text}");
        }
    }

    #[test]
    fn moments() {
        let micros = |text: &str| moment(text).map(|m| m.day * DAY + m.time - m.east.unwrap_or(0) * SECOND);
        assert_eq!(micros("2000-01-01"), Some(0));
        assert_eq!(micros("2000-01-02 01:00"), Some(25 * 3600 * SECOND));
        assert_eq!(micros("2000-01-01T00:00:01.5Z"), Some(1_500_000));
        assert_eq!(micros("2000-01-01 00:00:00+01:30"), Some(-5400 * SECOND));
        for text in [
            "2023-02-29",
            "2023-13-01",
            "0000-01-01",
            "2023-1-1",
            "20230101",
            "2023-01-01 24:00",
            "2023-01-01 1:00",
            "2023-01-01 00:00:00.1234567",
            "2023-01-01x",
            "2023-01-01 00:00 UTC",
            "infinity",
            "",
            "2023-01-01 00:00+1",
        ] {
            assert_eq!(micros(text), None, "{text}");
        }
        assert_eq!(uuid("00000000-0000-0000-0000-0000000000Ff"), Some(255 ^ i128::MIN));
        assert_eq!(uuid("00000000000000000000000000000000"), None);
    }
}
