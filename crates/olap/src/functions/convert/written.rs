//! Values as texts, in the form in which PostgreSQL shows them.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use plan::{Interval, Type};
use protocol::request::FailureKind;

use crate::base::error::QueryError;
use crate::functions::time::calendar::{DAY, SECOND, civil};

type Outcome = std::result::Result<(), QueryError>;

/// Applies the conversion for operands of this type. If there is a second operand, it selects the format.
pub fn apply(operand: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let array = args[0].to_array(rows)?;
    let style = match args.get(1) {
        None => Style::Plain,
        Some(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(style)))) => Style::of(operand, style),
        Some(_) => Style::Unknown,
    };
    let known = || match style {
        Style::Plain => Ok(()),
        Style::Unknown => Err(QueryError(FailureKind::UnknownStyle)),
    };
    let wrong = || DataFusionError::Internal(format!("{operand:?} that is not written"));
    match operand {
        Type::Bool => {
            let bools = array.as_boolean();
            texts(&array, |row, out| {
                out.push_str(if bools.value(row) { "true" } else { "false" });
                Ok(())
            })
        }
        Type::Time => {
            let times = array.as_primitive::<Int64Type>();
            texts(&array, |row, out| {
                time(times.value(row), out);
                Ok(())
            })
        }
        Type::Uuid => {
            let uuids = array.as_primitive::<Decimal128Type>();
            texts(&array, |row, out| {
                uuid(uuids.value(row), out);
                Ok(())
            })
        }
        Type::Date => {
            let dates = array.as_primitive::<Int32Type>();
            texts(&array, |row, out| {
                known()?;
                date(dates.value(row), out);
                Ok(())
            })
        }
        Type::Timestamp => {
            let times = array.as_primitive::<Int64Type>();
            texts(&array, |row, out| {
                known()?;
                timestamp(times.value(row), None, out);
                Ok(())
            })
        }
        Type::Interval => {
            let intervals = array.as_primitive::<Decimal128Type>();
            texts(&array, |row, out| {
                known()?;
                interval(Interval::of_number(intervals.value(row)), out);
                Ok(())
            })
        }
        Type::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            texts(&array, |row, out| {
                known()?;
                double(floats.value(row), out)
            })
        }
        Type::Float32 => {
            let floats = array.as_primitive::<Float64Type>();
            texts(&array, |row, out| {
                known()?;
                real(floats.value(row) as f32, out)
            })
        }
        _ => Err(wrong()),
    }
}

/// Points in time as texts. `east` returns the zone's offset from UTC at a point in time.
pub fn zoned(args: &[ColumnarValue], rows: usize, east: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let array = args[0].to_array(rows)?;
    let times = array.as_primitive::<Int64Type>();
    let is_known = matches!(
        &args[1],
        ColumnarValue::Scalar(ScalarValue::Utf8View(Some(style))) if matches!(Style::of(Type::Date, style), Style::Plain)
    );
    texts(&array, |row, out| {
        if !is_known {
            return Err(QueryError(FailureKind::UnknownStyle));
        }
        let time = times.value(row);
        timestamp(time, Some(east(time.div_euclid(SECOND))), out);
        Ok(())
    })
}

enum Style {
    /// The engine writes values in this style.
    Plain,
    Unknown,
}

impl Style {
    fn of(operand: Type, style: &str) -> Style {
        let plain = match operand {
            Type::Interval => style == "postgres",
            Type::Float32 | Type::Float64 => style.parse::<i32>().is_ok_and(|digits| digits > 0),
            _ => style.starts_with("ISO"),
        };
        if plain { Style::Plain } else { Style::Unknown }
    }
}

fn texts(array: &ArrayRef, write: impl Fn(usize, &mut String) -> Outcome) -> Result<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        write(row, &mut text)?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = text.write_fmt(what);
}

fn date(days: i32, out: &mut String) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            let is_bc = day(days.into(), out);
            era(is_bc, out);
        }
    }
}

fn timestamp(micros: i64, east: Option<i64>, out: &mut String) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let local = micros + east.unwrap_or(0) * SECOND;
    let is_bc = day(local.div_euclid(DAY), out);
    out.push(' ');
    time(local.rem_euclid(DAY), out);
    if let Some(east) = east {
        let seconds = east.abs();
        put(out, format_args!("{}{:02}", if east < 0 { '-' } else { '+' }, seconds / 3600));
        if seconds % 3600 != 0 {
            put(out, format_args!(":{:02}", seconds / 60 % 60));
        }
        if seconds % 60 != 0 {
            put(out, format_args!(":{:02}", seconds % 60));
        }
    }
    era(is_bc, out);
}

/// Appends a date, and returns whether its year is before Christ.
fn day(days: i64, out: &mut String) -> bool {
    let (year, month, day) = civil(days);
    let shown = if year > 0 { year } else { 1 - year };
    put(out, format_args!("{shown:04}-{month:02}-{day:02}"));
    year <= 0
}

fn era(is_bc: bool, out: &mut String) {
    if is_bc {
        out.push_str(" BC");
    }
}

fn time(micros: i64, out: &mut String) {
    put(out, format_args!("{:02}:", micros / (3600 * SECOND)));
    minutes(micros % (3600 * SECOND), out);
}

fn minutes(micros: i64, out: &mut String) {
    put(out, format_args!("{:02}:{:02}", micros / (60 * SECOND), micros / SECOND % 60));
    if micros % SECOND != 0 {
        put(out, format_args!(".{:06}", micros % SECOND));
        out.truncate(out.trim_end_matches('0').len());
    }
}

fn uuid(number: i128, out: &mut String) {
    let bytes = (number ^ i128::MIN).to_be_bytes();
    for (at, byte) in bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            out.push('-');
        }
        put(out, format_args!("{byte:02x}"));
    }
}

/// Appends the years, months and days that are not zero, and the time. A positive part behind a negative one gets a
/// plus sign.
fn interval(interval: Interval, out: &mut String) {
    let Interval { months, days, microseconds } = interval;
    let mut is_before = false;
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value == 0 {
            continue;
        }
        let blank = if out.is_empty() { "" } else { " " };
        let sign = if is_before && value > 0 { "+" } else { "" };
        put(out, format_args!("{blank}{sign}{value} {unit}{}", if value == 1 { "" } else { "s" }));
        is_before = value < 0;
    }
    if microseconds == 0 && !out.is_empty() {
        return;
    }
    let blank = if out.is_empty() { "" } else { " " };
    let sign = match microseconds < 0 {
        true => "-",
        false if is_before => "+",
        false => "",
    };
    let time = microseconds.unsigned_abs();
    let hour = 3600 * SECOND as u64;
    put(out, format_args!("{blank}{sign}{:02}:", time / hour));
    minutes((time % hour) as i64, out);
}

fn double(value: f64, out: &mut String) -> Outcome {
    let is_same = |text: &str| text.parse::<f64>().is_ok_and(|read| read == value.abs());
    match special(value, out) {
        true => Ok(()),
        false => shortest(&format!("{:e}", value.abs()), 15, is_same, |more| format!("{:.more$e}", value.abs()), out),
    }
}

fn real(value: f32, out: &mut String) -> Outcome {
    let is_same = |text: &str| text.parse::<f32>().is_ok_and(|read| read == value.abs());
    match special(value.into(), out) {
        true => Ok(()),
        false => shortest(&format!("{:e}", value.abs()), 6, is_same, |more| format!("{:.more$e}", value.abs()), out),
    }
}

/// Appends NaN, an infinity or a zero, and returns true. For any other float, it appends only the sign, and returns
/// false.
fn special(value: f64, out: &mut String) -> bool {
    match () {
        _ if value.is_nan() => out.push_str("NaN"),
        _ if value.is_infinite() => out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        _ if value == 0.0 => out.push_str(if value.is_sign_negative() { "-0" } else { "0" }),
        _ => {
            if value < 0.0 {
                out.push('-');
            }
            return false;
        }
    }
    true
}

/// Appends the fewest digits that identify a float, taken from `scientific`. If these digits lie exactly between two
/// floats, PostgreSQL writes other digits, so as not to rely on rounding. Such a float is an error here, so that the
/// query runs on the heap. From 10^`large` on, and below 10^-4, the text has an exponent. `rounded(n)` is the float
/// with `n` digits after the first.
fn shortest(
    scientific: &str,
    large: i32,
    is_same: impl Fn(&str) -> bool,
    rounded: impl Fn(usize) -> String,
    out: &mut String,
) -> Outcome {
    let unknown = || QueryError(FailureKind::UnknownStyle);
    let (mantissa, exponent) = scientific.split_once('e').ok_or_else(unknown)?;
    let exponent: i32 = exponent.parse().map_err(|_| unknown())?;
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let mut number: u64 = digits.parse().map_err(|_| unknown())?;
    let last = exponent - digits.len() as i32 + 1;
    // A float may lie exactly between two neighbours with this many digits; PostgreSQL then takes the even one. With
    // fewer digits, at most one of two neighbours is read as this float.
    let may_be_between = digits.len() as i32 > large && !number.is_multiple_of(2);
    if let Some(even) = may_be_between.then(|| even_neighbour(number, digits.len(), rounded)).flatten()
        && is_same(&format!("{even}e{last}"))
    {
        number = even;
    }
    let digits = number.to_string();
    let above = format!("{number}{:0>30}e{}", 1, last - 30);
    let below = format!("{}{:9>30}e{}", number - 1, 9, last - 30);
    if !is_same(&above) || !is_same(&below) {
        return Err(unknown());
    }
    if exponent < -4 || exponent >= large {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        put(out, format_args!("{first}{point}{rest}e{sign}{:02}", exponent.abs()));
    } else if exponent < 0 {
        put(out, format_args!("0.{:0>width$}{digits}", "", width = (-exponent - 1) as usize));
    } else {
        let whole = exponent as usize + 1;
        match digits.get(whole..).filter(|fraction| !fraction.is_empty()) {
            Some(fraction) => put(out, format_args!("{}.{fraction}", &digits[..whole])),
            None => put(out, format_args!("{digits:0<whole$}")),
        }
    }
    Ok(())
}

/// The even one of two neighbouring numbers with `digits` digits, if the float lies exactly between them and `number`
/// is the odd one.
fn even_neighbour(number: u64, digits: usize, rounded: impl Fn(usize) -> String) -> Option<u64> {
    /// More digits than any float has.
    const ALL: usize = 800;
    let mantissa = |more: usize| {
        let text = rounded(more);
        text.split('e').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect::<String>()
    };
    if !mantissa(digits).ends_with('5') {
        return None;
    }
    let all = mantissa(ALL);
    let (below, rest) = all.split_at_checked(digits)?;
    let half = rest.strip_prefix('5')?;
    let below: u64 = below.parse().ok()?;
    let is_between = half.bytes().all(|digit| digit == b'0') && (number == below || number == below + 1);
    is_between.then(|| if below.is_multiple_of(2) { below } else { below + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn floats() {
        for (value, text) in [
            (0.1, "0.1"),
            (-2.0, "-2"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1_234_567_890_123_456.0, "1.234567890123456e+15"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            // The value lies exactly between two numbers with this many digits, so the even one is taken.
            (999_999_999_876_543.0 + 0.25, "999999999876543.2"),
            (999_999_999_876_543.0 + 0.75, "999999999876543.8"),
            (10_000_123_456.0 + 0.789_062_5, "10000123456.789062"),
            (4_503_599_627_370_497.5, "4.503599627370498e+15"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (100.25, "100.25"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shown(|out| double(value, out).unwrap()), text);
        }
        for (value, text) in [(0.1f32, "0.1"), (1e6, "1e+06"), (123_456.0, "123456"), (16_777_216.0, "1.6777216e+07")] {
            assert_eq!(shown(|out| real(value, out).unwrap()), text);
        }
    }

    #[test]
    fn what_is_between_two_floats_is_not_said() {
        // 9007199254740993 lies exactly between two floats. It is read as the lower float, whose last bit is even, and
        // has as many digits as the lower float.
        let mut out = String::new();
        let is_same = |text: &str| text.parse::<f64>().is_ok_and(|read| read == 9_007_199_254_740_992.0);
        let rounded = |more| format!("{:.more$e}", 9_007_199_254_740_992f64);
        assert!(shortest("9.007199254740993e15", 15, is_same, rounded, &mut out).is_err());
    }

    #[test]
    fn intervals() {
        let of = |months, days, microseconds| shown(|out| interval(Interval { months, days, microseconds }, out));
        assert_eq!(of(0, 0, 0), "00:00:00");
        assert_eq!(of(14, 1, 3_723_500_000), "1 year 2 mons 1 day 01:02:03.5");
        assert_eq!(of(-1, 2, 0), "-1 mons +2 days");
        assert_eq!(of(0, -1, 60_000_000), "-1 days +00:01:00");
        assert_eq!(of(1, 0, -1), "1 mon -00:00:00.000001");
        assert_eq!(of(0, 0, 400 * 3_600_000_000), "400:00:00");
    }
}
