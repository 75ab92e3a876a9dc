//! Points in time moved by months, days and microseconds.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::NullBuffer;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::Named;
use protocol::request::FailureKind;

use crate::calendar::{DAY, END, FIRST, JULIAN, civil, day_of};
use crate::computed::map;
use crate::error::QueryError;
use crate::operand::Operand;

pub fn is_infinite(time: i64) -> bool {
    time == i64::MIN || time == i64::MAX
}

pub fn times(array: &ArrayRef) -> Result<&Int64Array> {
    let wrong = || DataFusionError::Internal(format!("{} is no point in time", array.data_type()));
    array.as_primitive_opt::<Int64Type>().ok_or_else(wrong)
}

/// Dates as timestamps, those beyond all timestamps between them and infinity.
pub fn comparable(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    map::<Int32Type, Int64Type>(args, rows, |date| (compared_date(date), false), FailureKind::Internal)
}

pub fn compared_date(date: i32) -> i64 {
    match date {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        _ => i64::from(date).saturating_mul(DAY).clamp(FIRST - 1, END),
    }
}

/// Timestamps and intervals, whose months and days are those of all calendars.
pub fn shifted(function: Named, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let same = |time| time;
    shift_all(args, rows, function == Named::MinusInterval, same, same)
}

#[derive(Clone, Copy)]
struct Interval {
    months: i32,
    days: i32,
    microseconds: i64,
}

/// Operands are points in time, months, days, microseconds; `local` shows such a point as a time of the calendar that
/// months and days are of, `instant` is what such a time means.
pub fn shift_all(
    args: &[ColumnarValue],
    rows: usize,
    minus: bool,
    local: impl Fn(i64) -> i64,
    instant: impl Fn(i64) -> i64,
) -> Result<ArrayRef> {
    let (times, microseconds) = (Operand::<Int64Type>::new(&args[0])?, Operand::<Int64Type>::new(&args[3])?);
    let (months, days) = (Operand::<Int32Type>::new(&args[1])?, Operand::<Int32Type>::new(&args[2])?);
    if times.is_null() || microseconds.is_null() || months.is_null() || days.is_null() {
        return Ok(Arc::new(Int64Array::new_null(rows)));
    }
    let nulls = NullBuffer::union(times.nulls(), microseconds.nulls());
    let nulls = NullBuffer::union(nulls.as_ref(), NullBuffer::union(months.nulls(), days.nulls()).as_ref());
    let mut values = Vec::with_capacity(rows);
    for row in 0..rows {
        let interval = Interval { months: months.get(row), days: days.get(row), microseconds: microseconds.get(row) };
        // As PostgreSQL negates them.
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

/// First by months, then by days, then by time, each a time on its way.
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
        // Where PostgreSQL's count of Julian days ends.
        if !(0..=i64::from(i32::MAX)).contains(&(day + JULIAN)) {
            return None;
        }
        time = valid(instant(day.checked_mul(DAY)?.checked_add(shown.rem_euclid(DAY))?))?;
    }
    valid(time.checked_add(interval.microseconds)?)
}
