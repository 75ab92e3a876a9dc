//! Differences of points in time, and dates made from parts.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use protocol::request::FailureKind;

use crate::base::error::QueryError;
use crate::base::operand::Operand;
use crate::functions::time::calendar::{END, FIRST, JULIAN, day_of, is_infinite};

/// `date_bin`; the operands are times, origins, and the length of a bin.
pub fn date_bin(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let all = args.iter().map(Operand::<Int64Type>::new).collect::<Result<Vec<_>>>()?;
    let bin = |row: usize| bin(all[0].get(row), all[1].get(row), all[2].get(row));
    each(&all, rows, bin, FailureKind::NoTimestamp)
}

/// The beginning of a time's bin; `None` for an error, or where PostgreSQL's minor versions differ.
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
    time.checked_sub(since.rem_euclid(length)).filter(|begin| (FIRST..END).contains(begin))
}

/// `make_date`; the operands are years, months and days.
pub fn make_date(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let all = args.iter().map(Operand::<Int32Type>::new).collect::<Result<Vec<_>>>()?;
    let date = |row: usize| date(all[0].get(row), all[1].get(row), all[2].get(row));
    each(&all, rows, date, FailureKind::DateOutOfRange)
}

/// A date; `None` if there is no such date. Years count from 1, and backwards from -1, which is 1 BC.
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

/// Applies `value` to each row in which no operand is null. If `value` returns `None`, the error is `kind`.
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
