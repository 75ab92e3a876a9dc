//! Percentiles of a group's sorted values, and the most frequent value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, UInt32Array};
use arrow_schema::DataType;
use arrow_select::take::take;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use plan::{Interval, Listing};
use protocol::request::FailureKind;

use super::list_of::{ListOf, Second};
use super::order::Order;
use super::rows::Grouped;
use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::functions::time::interval_values::{Outcome, difference, number, out_of_range, sum, times};

pub fn made(list: &ListOf, rows: &mut Grouped, order: &Order) -> Result<ArrayRef> {
    if list.of == Listing::Mode {
        return found(rows, |rows| {
            order.sort(rows);
            most_frequent(rows, order)
        });
    }
    match share(list)? {
        None => found(rows, |_| None),
        Some(share) if list.of == Listing::Discrete => found(rows, |rows| {
            let number = (share * rows.len() as f64).ceil() as usize;
            (!rows.is_empty()).then(|| order.at(rows, number.saturating_sub(1)).0)
        }),
        Some(share) => between(share, rows, order),
    }
}

/// The fraction of a percentile, such as 0.5 for the median. A fraction outside of 0 to 1 is an error even if there are
/// no values.
pub fn share(list: &ListOf) -> Result<Option<f64>> {
    match list.second {
        Second::Constant(ScalarValue::Float64(Some(share))) if !(0.0..=1.0).contains(&share) => {
            Err(QueryError(FailureKind::PercentileOutOfRange).into())
        }
        Second::Constant(ScalarValue::Float64(share)) => Ok(share),
        _ => Err(DataFusionError::Internal("a percentile of an unknown share".into())),
    }
}

/// The value of the row that `find` chooses in each group.
fn found(rows: &mut Grouped, mut find: impl FnMut(&mut [u32]) -> Option<u32>) -> Result<ArrayRef> {
    let mut places = Vec::with_capacity(rows.groups());
    rows.each(|_, rows| {
        places.push(find(rows));
        Ok(())
    })?;
    Ok(take(&rows.columns[0], &UInt32Array::from(places), None)?)
}

/// The first row of the longest run of equal rows. `rows` are sorted.
fn most_frequent(rows: &[u32], order: &Order) -> Option<u32> {
    let runs = rows.chunk_by(|a, b| order.are_equal(*a, *b));
    let longest = runs.reduce(|longest, run| if run.len() > longest.len() { run } else { longest });
    longest?.first().copied()
}

/// For each group, the value at the fraction `share` of the way from its first value to its last. Interpolates as
/// PostgreSQL does.
fn between(share: f64, rows: &mut Grouped, order: &Order) -> Result<ArrayRef> {
    Ok(match rows.columns[0].data_type() {
        DataType::Float64 => {
            let float = |low: f64, next: f64, part: f64| Ok(low + part * (next - low));
            Arc::new(interpolated::<Float64Type>(share, rows, order, float)?)
        }
        _ => {
            let intervals = interpolated::<Decimal128Type>(share, rows, order, between_intervals)?;
            Arc::new(intervals.with_data_type(RAW_DECIMAL))
        }
    })
}

/// Interpolates in each group. `between` receives a value, the next value, and the fraction of the way between them.
fn interpolated<T: ArrowPrimitiveType>(
    share: f64,
    rows: &mut Grouped,
    order: &Order,
    between: impl Fn(T::Native, T::Native, f64) -> Outcome<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let mut found: Vec<Option<T::Native>> = Vec::with_capacity(rows.groups());
    rows.each(|columns, rows| {
        let Some(last) = rows.len().checked_sub(1) else {
            found.push(None);
            return Ok(());
        };
        let values = columns[0].as_primitive::<T>();
        let place = share * last as f64;
        let (low, next) = order.at(rows, place.floor() as usize);
        let low = values.value(low as usize);
        found.push(Some(match next {
            Some(next) if place.ceil() > place.floor() => {
                between(low, values.value(next as usize), place - place.floor())?
            }
            _ => low,
        }));
        Ok(())
    })?;
    Ok(PrimitiveArray::from_iter(found))
}

fn between_intervals(low: i128, next: i128, part: f64) -> Outcome<i128> {
    let [low, next] = [low, next].map(Interval::of_number);
    let way = difference(next, low).and_then(|whole| times(whole, part));
    number(way.and_then(|way| sum(way, low)).ok_or_else(out_of_range)?)
}
