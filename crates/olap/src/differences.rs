//! What lies between points in time, and what is counted from one of them.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use plan::Field;
use protocol::request::FailureKind;

use crate::calendar::{DAY, JULIAN, SECOND, day_of};
use crate::error::QueryError;
use crate::intervals::is_infinite;
use crate::operand::{Operand, binary};

const HOUR: i64 = 3600 * SECOND;
const MINUTE: i64 = 60 * SECOND;

/// A part of the difference of two points in time, in the units of its type.
pub fn elapsed(field: Field, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (a, b) = (Operand::<Int64Type>::new(&args[0])?, Operand::<Int64Type>::new(&args[1])?);
    let part = |a: i64, b: i64| match between(a, b) {
        Some(microseconds) => (part(field, microseconds), false),
        None => (0, true),
    };
    let why = |_, _| QueryError(FailureKind::NoTimestamp);
    Ok(Arc::new(binary::<Int64Type, Int64Type, Int64Type, _>(&a, &b, rows, part, why)?))
}

/// The same as a float, with every digit as PostgreSQL's division gives it.
pub fn elapsed_part(field: Field, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (a, b) = (Operand::<Int64Type>::new(&args[0])?, Operand::<Int64Type>::new(&args[1])?);
    let part = |a: i64, b: i64| match between(a, b) {
        Some(microseconds) => (float_part(field, microseconds), false),
        None => (0.0, true),
    };
    let why = |_, _| QueryError(FailureKind::NoTimestamp);
    Ok(Arc::new(binary::<Int64Type, Int64Type, Float64Type, _>(&a, &b, rows, part, why)?))
}

fn between(a: i64, b: i64) -> Option<i64> {
    if is_infinite(a) || is_infinite(b) { None } else { a.checked_sub(b) }
}

/// Everything has the sign of the whole.
fn part(field: Field, between: i64) -> i64 {
    match field {
        Field::Epoch => between,
        Field::Day => between / DAY,
        Field::Hour => between % DAY / HOUR,
        Field::Minute => between % HOUR / MINUTE,
        _ => between % MINUTE,
    }
}

fn float_part(field: Field, between: i64) -> f64 {
    let (seconds, behind) = (between % MINUTE / SECOND, (between % SECOND) as f64);
    match field {
        Field::Epoch => (between % DAY) as f64 / 1e6 + 86_400.0 * (between / DAY) as f64,
        Field::Second => seconds as f64 + behind / 1e6,
        Field::Milliseconds => seconds as f64 * 1e3 + behind / 1e3,
        _ => part(field, between) as f64,
    }
}

/// Operands are times, origins, and the length of a bin.
pub fn date_bin(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let all = args.iter().map(Operand::<Int64Type>::new).collect::<Result<Vec<_>>>()?;
    let bin = |row: usize| bin(all[0].get(row), all[1].get(row), all[2].get(row));
    each(&all, rows, bin, FailureKind::NoTimestamp)
}

/// `None`: an error, or what PostgreSQL's minor versions differ in.
fn bin(time: i64, origin: i64, length: i64) -> Option<i64> {
    if is_infinite(time) {
        return Some(time);
    }
    if is_infinite(origin) || length <= 0 {
        return None;
    }
    let since = time.checked_sub(origin)?;
    if since < 0 && since % length == 0 {
        return None;
    }
    time.checked_sub(since.rem_euclid(length))
}

/// Operands are years, months and days.
pub fn make_date(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let all = args.iter().map(Operand::<Int32Type>::new).collect::<Result<Vec<_>>>()?;
    let date = |row: usize| date(all[0].get(row), all[1].get(row), all[2].get(row));
    each(&all, rows, date, FailureKind::DateOutOfRange)
}

/// Years count from 1, and from -1 back.
fn date(year: i32, month: i32, day: i32) -> Option<i32> {
    const LAST: i64 = 2_147_483_493 - JULIAN;
    let year = match i64::from(year) {
        0 => return None,
        year if year < 0 => year + 1,
        year => year,
    };
    let (month, day) = (i64::from(month), i64::from(day));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (first, next) = (day_of(year, month, 1), day_of(year + month / 12, month % 12 + 1, 1));
    let date = first + day - 1;
    if date >= next || !(-JULIAN..=LAST).contains(&date) { None } else { i32::try_from(date).ok() }
}

/// What `value` gives for rows of which no operand is null; nothing is a failure.
fn each<T: ArrowPrimitiveType>(
    args: &[Operand<T>],
    rows: usize,
    value: impl Fn(usize) -> Option<T::Native>,
    kind: FailureKind,
) -> Result<ArrayRef> {
    if args.iter().any(Operand::is_null) {
        return Ok(Arc::new(PrimitiveArray::<T>::new_null(rows)));
    }
    let nulls = args.iter().fold(None, |nulls: Option<NullBuffer>, arg| NullBuffer::union(nulls.as_ref(), arg.nulls()));
    let mut values = Vec::with_capacity(rows);
    for row in 0..rows {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        values.push(match value(row) {
            Some(value) => value,
            None if valid => return Err(QueryError(kind).into()),
            None => T::Native::default(),
        });
    }
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
}
