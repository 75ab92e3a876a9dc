//! Numerics of any number of digits, with PostgreSQL's arithmetic: see `anker_numeric`. Arrays hold them as bytes, in
//! the form that `Numeric::write_key` writes. Within an expression, they are passed on without arrays.

mod giving;
mod leaving;
mod spread;

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use protocol::request::FailureKind;

pub use giving::{Function, compute, from_floats, from_stored};
pub use leaving::{MAX_BYTES, apply, to_decimal, written};

use crate::base::error::QueryError;
use crate::functions::numbers::decimals::Slot;

type Outcome<T> = std::result::Result<T, QueryError>;

/// An operand of a function of numerics; it need not be a numeric itself.
pub enum Given {
    /// The results of another function.
    Computed(Vec<Option<Numeric>>),
    Other(ColumnarValue),
}

impl Given {
    fn to_array(&self, rows: usize) -> Result<ArrayRef> {
        match self {
            Given::Other(other) => other.to_array(rows),
            Given::Computed(_) => Err(DataFusionError::Internal("numerics in place of something else".into())),
        }
    }
}

/// The values of an operand.
enum Values<'a> {
    Computed(&'a [Option<Numeric>]),
    Array(BinaryViewArray),
    /// The same value for every row.
    One(Numeric),
    Null,
}

impl<'a> Values<'a> {
    fn of(given: &'a Given) -> Result<Values<'a>> {
        Ok(match given {
            Given::Computed(values) => Values::Computed(values),
            Given::Other(ColumnarValue::Array(array)) => match array.as_binary_view_opt() {
                Some(array) => Values::Array(array.clone()),
                None => return Err(DataFusionError::Internal(format!("{} is no numeric", array.data_type()))),
            },
            Given::Other(ColumnarValue::Scalar(ScalarValue::BinaryView(None))) => Values::Null,
            Given::Other(ColumnarValue::Scalar(ScalarValue::BinaryView(Some(bytes)))) => Values::One(decoded(bytes)?),
            Given::Other(ColumnarValue::Scalar(other)) => {
                return Err(DataFusionError::Internal(format!("{other:?} is no numeric")));
            }
        })
    }

    fn get(&self, row: usize) -> Outcome<Option<Cow<'_, Numeric>>> {
        Ok(match self {
            Values::Computed(values) => values[row].as_ref().map(Cow::Borrowed),
            Values::Array(array) if array.is_valid(row) => Some(Cow::Owned(decoded(array.value(row))?)),
            Values::Array(_) | Values::Null => None,
            Values::One(value) => Some(Cow::Borrowed(value)),
        })
    }
}

pub fn decoded(key: &[u8]) -> Outcome<Numeric> {
    Numeric::from_key(key).ok_or(QueryError(FailureKind::Internal))
}

pub fn failure(error: numeric::Error) -> QueryError {
    QueryError(match error {
        numeric::Error::DivisionByZero => FailureKind::DivisionByZero,
        numeric::Error::Overflow => FailureKind::DecimalTooWide,
        numeric::Error::NegativeSquareRoot
        | numeric::Error::LogarithmOfZero
        | numeric::Error::LogarithmOfNegative
        | numeric::Error::ZeroToNegativePower
        | numeric::Error::ComplexPower => FailureKind::Undefined,
    })
}

/// A destination of computed numerics: the operand of another function, or an array.
pub trait Output {
    fn put(&mut self, value: Option<Numeric>);
}

impl Output for Vec<Option<Numeric>> {
    fn put(&mut self, value: Option<Numeric>) {
        self.push(value);
    }
}

impl Output for Collected {
    fn put(&mut self, value: Option<Numeric>) {
        self.push(value.as_ref());
    }
}

/// Collects numerics in an array.
pub struct Collected {
    builder: BinaryViewBuilder,
    scratch: Vec<u8>,
}

impl Collected {
    pub fn with_capacity(rows: usize) -> Collected {
        Collected { builder: BinaryViewBuilder::with_capacity(rows), scratch: Vec::new() }
    }

    pub fn push(&mut self, value: Option<&Numeric>) {
        self.push_bytes(value, Numeric::write_key);
    }

    fn push_bytes(&mut self, value: Option<&Numeric>, write: impl Fn(&Numeric, &mut Vec<u8>)) {
        match value {
            None => self.builder.append_null(),
            Some(value) => {
                self.scratch.clear();
                write(value, &mut self.scratch);
                self.builder.append_value(&self.scratch);
            }
        }
    }

    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

fn wide<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<Option<i128>>
where
    T::Native: Slot,
{
    array.as_primitive::<T>().iter().map(|value| value.map(Slot::wide)).collect()
}
