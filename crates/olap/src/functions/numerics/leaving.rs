//! Functions of numerics whose results have other types.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, Decimal128Array, PrimitiveArray};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use plan::Named;
use protocol::request::FailureKind;

use super::{Collected, Given, Outcome, Values, wide};
use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::base::operand::for_number;

/// Rounds to `scale` decimal places.
pub fn to_decimal(scale: u8, args: &[Given], rows: usize) -> Result<ArrayRef> {
    let rounded = |value: &Numeric| value.to_decimal(scale);
    let decimals: Decimal128Array =
        to_primitive::<Decimal128Type>(&args[0], rows, FailureKind::DecimalTooWide, rounded)?;
    Ok(Arc::new(decimals.with_data_type(RAW_DECIMAL)))
}

pub fn apply(function: Named, args: &[Given], rows: usize) -> Result<ArrayRef> {
    match function {
        Named::ToText => {
            let values = Values::of(&args[0])?;
            texts((0..rows).map(|row| values.get(row)))
        }
        Named::ToStored => {
            let (values, mut out) = (Values::of(&args[0])?, Collected::with_capacity(rows));
            for row in 0..rows {
                out.push_bytes(values.get(row)?.as_deref(), Numeric::write_stored);
            }
            Ok(out.finish())
        }
        Named::ToInt16 => {
            let narrow = |value: &Numeric| i16::try_from(value.to_i64()?).ok();
            Ok(Arc::new(to_primitive::<Int16Type>(&args[0], rows, FailureKind::SmallintOutOfRange, narrow)?))
        }
        Named::ToInt32 => {
            let narrow = |value: &Numeric| i32::try_from(value.to_i64()?).ok();
            Ok(Arc::new(to_primitive::<Int32Type>(&args[0], rows, FailureKind::IntegerOutOfRange, narrow)?))
        }
        Named::ToInt64 => {
            Ok(Arc::new(to_primitive::<Int64Type>(&args[0], rows, FailureKind::BigintOutOfRange, Numeric::to_i64)?))
        }
        Named::ToFloat => {
            Ok(Arc::new(to_primitive::<Float64Type>(&args[0], rows, FailureKind::FloatOverflow, Numeric::to_f64)?))
        }
        other => Err(DataFusionError::Internal(format!("no {other:?} of numerics"))),
    }
}

fn to_primitive<T: ArrowPrimitiveType>(
    given: &Given,
    rows: usize,
    kind: FailureKind,
    f: impl Fn(&Numeric) -> Option<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let values = Values::of(given)?;
    let converted = |row| match values.get(row)? {
        Some(value) => f(&value).map(Some).ok_or(QueryError(kind)),
        None => Ok(None),
    };
    Ok((0..rows).map(converted).collect::<Outcome<PrimitiveArray<T>>>()?)
}

/// Integers in the text form of numerics.
pub fn written(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let numbers = args[0].to_array(rows)?;
    texts(for_number!(numbers.data_type(), T => Ok(wide::<T>(&numbers)))?.into_iter().map(Ok))
}

/// The greatest number of bytes in the results of one call for one batch.
pub const MAX_BYTES: usize = 64 << 20;

fn texts<T: std::fmt::Display>(values: impl Iterator<Item = Outcome<Option<T>>>) -> Result<ArrayRef> {
    let (mut out, mut text, mut bytes) = (StringViewBuilder::new(), String::new(), 0);
    for value in values {
        match value? {
            None => out.append_null(),
            Some(value) => {
                text.clear();
                write!(text, "{value}").map_err(|_| QueryError(FailureKind::Internal))?;
                bytes += text.len();
                if bytes > MAX_BYTES {
                    return Err(QueryError(FailureKind::OutOfMemory).into());
                }
                out.append_value(&text);
            }
        }
    }
    Ok(Arc::new(out.finish()))
}
