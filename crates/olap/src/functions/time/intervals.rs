//! Columns of intervals, and of points in time moved by them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Int64Array, PrimitiveArray};
use arrow_buffer::NullBuffer;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::{Interval, Named, Type};
use protocol::request::FailureKind;

use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::base::operand::{Operand, binary, map, unary};
use crate::functions::time::calendar::{DAY, END, FIRST, JULIAN, civil, day_of, is_infinite};
use crate::functions::time::interval_values::{self as values, Outcome, number, out_of_range};

pub fn times(array: &ArrayRef) -> Result<&Int64Array> {
    let wrong = || DataFusionError::Internal(format!("{} is no point in time", array.data_type()));
    array.as_primitive_opt::<Int64Type>().ok_or_else(wrong)
}

/// Dates as timestamps. Dates beyond all timestamps become values between the timestamps and infinity.
pub fn comparable(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    map::<Int32Type, Int64Type>(args, rows, |date| (compared_date(date), false), FailureKind::Internal)
}

pub fn compared_date(date: i32) -> i64 {
    match date {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        _ => between_infinities(i64::from(date).saturating_mul(DAY)),
    }
}

/// Moves a time that lies beyond all timestamps to a value between the timestamps and infinity. This value is not `END`
/// itself, because a rounded time may be exactly `END`.
pub fn between_infinities(time: i64) -> i64 {
    if time >= END { END + 1 } else { time.max(FIRST - 1) }
}

/// Applies a function of intervals; the first operand has type `operand`.
pub fn apply(function: Named, operand: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    use Named::*;
    // A product, or a sum with a time of day, accepts its operands in either order. If the first operand has type
    // `other`, the two are exchanged.
    let behind = |other: Type| match args {
        [a, b] if operand == other => vec![b.clone(), a.clone()],
        _ => args.to_vec(),
    };
    match function {
        Span => Ok(raw(of_one::<Decimal128Type, Decimal128Type>(args, rows, |n| Ok(Interval::span_of(n)))?)),
        IntervalOfStored => of_stored(&args[0], rows),
        IntervalSum => of_two(args, rows, values::sum),
        IntervalDifference => of_two(args, rows, values::difference),
        IntervalNegated => of_interval(args, rows, values::negated),
        JustifyHours => of_interval(args, rows, values::with_days),
        JustifyDays => of_interval(args, rows, values::with_months),
        JustifyInterval => of_interval(args, rows, values::justified),
        IntervalTimes => scaled(&behind(Type::Float64), rows, |a, b| made(values::times(a, b))),
        IntervalBy => scaled(args, rows, |a, b| match b {
            0.0 => Err(QueryError(FailureKind::DivisionByZero)),
            _ => made(values::by(a, b)),
        }),
        Extract(field) => {
            let part = |n| values::part(field, Interval::of_number(n)).ok_or(QueryError(FailureKind::DecimalTooWide));
            Ok(Arc::new(of_one::<Decimal128Type, Int64Type>(args, rows, part)?))
        }
        DatePart(field) => {
            let part = |n| Ok(values::float_part(field, Interval::of_number(n)));
            Ok(Arc::new(of_one::<Decimal128Type, Float64Type>(args, rows, part)?))
        }
        Between => {
            between(args, rows, |a, b| number(values::between(a, b).ok_or(QueryError(FailureKind::NoTimestamp))?))
        }
        BetweenTimes => {
            between(args, rows, |a, b| number(Interval { months: 0, days: 0, microseconds: a.wrapping_sub(b) }))
        }
        Age => between(args, rows, |a, b| number(values::age(a, b, a < b)?)),
        TimePlusInterval => on_the_clock(&behind(Type::Interval), rows, values::later),
        TimeMinusInterval => on_the_clock(args, rows, values::earlier),
        MakeInterval => of_parts(args, rows),
        other => Err(DataFusionError::Internal(format!("{other:?} is no function of intervals"))),
    }
}

fn made(interval: Option<Interval>) -> Outcome<i128> {
    number(interval.ok_or_else(out_of_range)?)
}

fn raw(numbers: Decimal128Array) -> ArrayRef {
    Arc::new(numbers.with_data_type(RAW_DECIMAL))
}

fn of_one<A: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native) -> Outcome<O::Native>,
) -> Result<PrimitiveArray<O>> {
    let array = args[0].to_array(rows)?;
    let wrong = || DataFusionError::Internal(format!("{} is no interval", array.data_type()));
    let why = |a| f(a).err().unwrap_or_else(out_of_range);
    let slot = |a| f(a).map_or((O::Native::default(), true), |value| (value, false));
    Ok(unary::<A, O, _>(array.as_primitive_opt::<A>().ok_or_else(wrong)?, slot, why)?)
}

fn pairs<A: ArrowPrimitiveType, B: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native, B::Native) -> Outcome<O::Native>,
) -> Result<PrimitiveArray<O>> {
    let (left, right) = (Operand::<A>::new(&args[0])?, Operand::<B>::new(&args[1])?);
    let why = |a, b| f(a, b).err().unwrap_or_else(out_of_range);
    let slot = |a, b| f(a, b).map_or((O::Native::default(), true), |value| (value, false));
    Ok(binary::<A, B, O, _>(&left, &right, rows, slot, why)?)
}

fn of_interval(args: &[ColumnarValue], rows: usize, f: impl Fn(Interval) -> Option<Interval>) -> Result<ArrayRef> {
    let f = |n| made(f(Interval::of_number(n)));
    Ok(raw(of_one::<Decimal128Type, Decimal128Type>(args, rows, f)?))
}

fn of_two(args: &[ColumnarValue], rows: usize, f: impl Fn(Interval, Interval) -> Option<Interval>) -> Result<ArrayRef> {
    let f = |a, b| made(f(Interval::of_number(a), Interval::of_number(b)));
    Ok(raw(pairs::<Decimal128Type, Decimal128Type, Decimal128Type>(args, rows, f)?))
}

fn scaled(args: &[ColumnarValue], rows: usize, f: impl Fn(Interval, f64) -> Outcome<i128>) -> Result<ArrayRef> {
    let f = |a, b| f(Interval::of_number(a), b);
    Ok(raw(pairs::<Decimal128Type, Float64Type, Decimal128Type>(args, rows, f)?))
}

/// The intervals between points in time.
pub fn between(args: &[ColumnarValue], rows: usize, f: impl Fn(i64, i64) -> Outcome<i128>) -> Result<ArrayRef> {
    Ok(raw(pairs::<Int64Type, Int64Type, Decimal128Type>(args, rows, f)?))
}

fn on_the_clock(args: &[ColumnarValue], rows: usize, f: impl Fn(i64, Interval) -> i64) -> Result<ArrayRef> {
    let f = |time, n| Ok(f(time, Interval::of_number(n)));
    Ok(Arc::new(pairs::<Int64Type, Decimal128Type, Int64Type>(args, rows, f)?))
}

/// Intervals from PostgreSQL's stored form.
fn of_stored(arg: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let stored = arg.to_array(rows)?;
    let wrong = || DataFusionError::Internal(format!("{} has no stored intervals", stored.data_type()));
    let stored = stored.as_binary_view_opt().ok_or_else(wrong)?;
    let number = |bytes: &[u8]| number(Interval::of_stored(bytes).ok_or(QueryError(FailureKind::Internal))?);
    let numbers = stored.iter().map(|bytes| bytes.map(number).transpose()).collect::<Outcome<Decimal128Array>>()?;
    Ok(raw(numbers))
}

/// Intervals from years, months, weeks, days, hours, minutes and seconds.
fn of_parts(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let [parts @ .., seconds] = args else {
        return Err(DataFusionError::Internal("an interval of nothing".into()));
    };
    let parts = parts.iter().map(|part| part.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let seconds = seconds.to_array(rows)?;
    let seconds = seconds.as_primitive::<Float64Type>();
    let interval = |row: usize| {
        if seconds.is_null(row) || parts.iter().any(|part| part.is_null(row)) {
            return Ok(None);
        }
        let part = |i: usize| parts[i].as_primitive::<Int32Type>().value(row);
        made(values::made(std::array::from_fn(part), seconds.value(row))).map(Some)
    };
    Ok(raw((0..rows).map(interval).collect::<Outcome<Decimal128Array>>()?))
}

/// Timestamps moved by intervals. Months and days are counted without a time zone.
pub fn shifted(function: Named, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let same = |time| time;
    shift_all(args, rows, function == Named::MinusInterval, same, same)
}

/// Points in time moved by intervals. `local` converts a point to a local time, in which months and days are counted.
/// `instant` converts a local time back to a point.
pub fn shift_all(
    args: &[ColumnarValue],
    rows: usize,
    minus: bool,
    local: impl Fn(i64) -> i64,
    instant: impl Fn(i64) -> i64,
) -> Result<ArrayRef> {
    let (times, intervals) = (Operand::<Int64Type>::new(&args[0])?, Operand::<Decimal128Type>::new(&args[1])?);
    if times.is_null() || intervals.is_null() {
        return Ok(Arc::new(Int64Array::new_null(rows)));
    }
    let nulls = NullBuffer::union(times.nulls(), intervals.nulls());
    let mut values = Vec::with_capacity(rows);
    for row in 0..rows {
        let interval = Interval::of_number(intervals.get(row));
        // PostgreSQL lets the negation wrap around, too.
        let interval = match minus {
            true => Interval {
                months: interval.months.wrapping_neg(),
                days: interval.days.wrapping_neg(),
                microseconds: interval.microseconds.wrapping_neg(),
            },
            false => interval,
        };
        let moved = shift(times.get(row), interval, &local, &instant);
        if moved.is_none() && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            return Err(QueryError(FailureKind::NoTimestamp).into());
        }
        values.push(moved.unwrap_or_default());
    }
    Ok(Arc::new(Int64Array::new(values.into(), nulls)))
}

/// Moves a time first by months, then by days, then by microseconds. Each step must give a valid timestamp.
fn shift(time: i64, interval: Interval, local: impl Fn(i64) -> i64, instant: impl Fn(i64) -> i64) -> Option<i64> {
    if is_infinite(time) {
        return Some(time);
    }
    let valid = |time: i64| (FIRST..END).contains(&time).then_some(time);
    let mut time = valid(time)?;
    if interval.months != 0 {
        let shown = local(time);
        let (year, month, day) = civil(shown.div_euclid(DAY));
        let months = year * 12 + month - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let first = day_of(year, month, 1);
        let length = day_of(year + month / 12, month % 12 + 1, 1) - first;
        let day = first + day.min(length) - 1;
        time = valid(instant(day.checked_mul(DAY)?.checked_add(shown.rem_euclid(DAY))?))?;
    }
    if interval.days != 0 {
        let shown = local(time);
        let day = shown.div_euclid(DAY) + i64::from(interval.days);
        // PostgreSQL has no Julian days outside of this range.
        if !(0..=i64::from(i32::MAX)).contains(&(day + JULIAN)) {
            return None;
        }
        time = valid(instant(day.checked_mul(DAY)?.checked_add(shown.rem_euclid(DAY))?))?;
    }
    valid(time.checked_add(interval.microseconds)?)
}
