//! Numerics of any number of digits, with PostgreSQL's arithmetic: see `anker_numeric`, whose key form they travel in.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryViewArray, Decimal128Array, PrimitiveArray};
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use plan::{ArithOp, Named};
use protocol::request::FailureKind;

use crate::arrow_form::RAW_DECIMAL;
use crate::error::QueryError;
use crate::numbers::decimals::Slot;
use crate::operand::for_number;

type Outcome<T> = std::result::Result<T, QueryError>;

/// An operand.
enum Values {
    Array(BinaryViewArray),
    /// The same for every row.
    One(Numeric),
    Null,
}

impl Values {
    fn of(arg: &ColumnarValue) -> Result<Values> {
        Ok(match arg {
            ColumnarValue::Array(array) => match array.as_binary_view_opt() {
                Some(array) => Values::Array(array.clone()),
                None => return Err(DataFusionError::Internal(format!("{} is no numeric", array.data_type()))),
            },
            ColumnarValue::Scalar(ScalarValue::BinaryView(None)) => Values::Null,
            ColumnarValue::Scalar(ScalarValue::BinaryView(Some(bytes))) => Values::One(decoded(bytes)?),
            ColumnarValue::Scalar(other) => {
                return Err(DataFusionError::Internal(format!("{other:?} is no numeric")));
            }
        })
    }

    fn get(&self, row: usize) -> Outcome<Option<Cow<'_, Numeric>>> {
        Ok(match self {
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

/// Collects numerics.
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

fn map(arg: &ColumnarValue, rows: usize, f: impl Fn(&Numeric) -> Outcome<Numeric>) -> Result<ArrayRef> {
    let (values, mut out) = (Values::of(arg)?, Collected::with_capacity(rows));
    for row in 0..rows {
        let value = values.get(row)?.map(|value| f(&value)).transpose()?;
        out.push(value.as_ref());
    }
    Ok(out.finish())
}

fn map_pairs(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(&Numeric, &Numeric) -> std::result::Result<Numeric, numeric::Error>,
) -> Result<ArrayRef> {
    map_both(args, rows, |left, right| f(left, right).map_err(failure))
}

fn map_both(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(&Numeric, &Numeric) -> Outcome<Numeric>,
) -> Result<ArrayRef> {
    let (left, right) = (Values::of(&args[0])?, Values::of(&args[1])?);
    let mut out = Collected::with_capacity(rows);
    for row in 0..rows {
        let value = match (left.get(row)?, right.get(row)?) {
            (Some(left), Some(right)) => Some(f(&left, &right)?),
            _ => None,
        };
        out.push(value.as_ref());
    }
    Ok(out.finish())
}

/// With an integer that goes with each.
fn map_with(args: &[ColumnarValue], rows: usize, f: impl Fn(&Numeric, i32) -> Outcome<Numeric>) -> Result<ArrayRef> {
    let (values, integers) = (Values::of(&args[0])?, args[1].to_array(rows)?);
    let integers = integers.as_primitive::<Int32Type>();
    let mut out = Collected::with_capacity(rows);
    for row in 0..rows {
        let value = match values.get(row)?.filter(|_| integers.is_valid(row)) {
            Some(value) => Some(f(&value, integers.value(row))?),
            None => None,
        };
        out.push(value.as_ref());
    }
    Ok(out.finish())
}

fn to_primitive<T: arrow_array::ArrowPrimitiveType>(
    arg: &ColumnarValue,
    rows: usize,
    kind: FailureKind,
    f: impl Fn(&Numeric) -> Option<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let values = Values::of(arg)?;
    let converted = |row| match values.get(row)? {
        Some(value) => f(&value).map(Some).ok_or(QueryError(kind)),
        None => Ok(None),
    };
    Ok((0..rows).map(converted).collect::<Outcome<PrimitiveArray<T>>>()?)
}

pub fn arithmetic(op: ArithOp, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match op {
        ArithOp::Add => map_pairs(args, rows, Numeric::add),
        ArithOp::Sub => map_pairs(args, rows, Numeric::sub),
        ArithOp::Mul => map_pairs(args, rows, Numeric::mul),
        ArithOp::Div => map_pairs(args, rows, Numeric::div),
        ArithOp::Mod => map_pairs(args, rows, Numeric::rem),
    }
}

pub fn negated(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    map(&args[0], rows, |value| Ok(value.neg()))
}

/// Of integers, or of decimals, which show as many digits as their type has.
pub fn from_numbers(scale: u8, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let numbers = args[0].to_array(rows)?;
    let mut out = Collected::with_capacity(rows);
    for number in for_number!(numbers.data_type(), T => Ok(wide::<T>(&numbers)))? {
        out.push(number.map(|number| Numeric::from_decimal(number, scale)).as_ref());
    }
    Ok(out.finish())
}

/// Of decimals of this scale that show other numbers of digits.
fn shown_with(scale: u8, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let shown = args[1].to_array(rows)?;
    let shown = shown.as_primitive::<Int32Type>();
    let numbers = args[0].to_array(rows)?;
    let mut out = Collected::with_capacity(rows);
    let numbers: Vec<Option<i128>> = for_number!(numbers.data_type(), T => Ok(wide::<T>(&numbers)))?;
    for (row, number) in numbers.into_iter().enumerate() {
        let value = number.filter(|_| shown.is_valid(row));
        let value = value.map(|number| Numeric::from_decimal(number, scale).round(shown.value(row)));
        out.push(value.as_ref());
    }
    Ok(out.finish())
}

fn wide<T: arrow_array::ArrowPrimitiveType>(array: &ArrayRef) -> Vec<Option<i128>>
where
    T::Native: Slot,
{
    array.as_primitive::<T>().iter().map(|value| value.map(Slot::wide)).collect()
}

/// Of floats, with the digits that they are sure of.
pub fn from_floats(of_reals: bool, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let floats = args[0].to_array(rows)?;
    let mut out = Collected::with_capacity(rows);
    for float in floats.as_primitive::<Float64Type>() {
        let numeric = |float: f64| if of_reals { Numeric::from_f32(float as f32) } else { Numeric::from_f64(float) };
        out.push(float.map(numeric).as_ref());
    }
    Ok(out.finish())
}

/// Rounded to so many digits.
pub fn to_decimal(scale: u8, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let rounded = |value: &Numeric| value.to_decimal(scale);
    let decimals: Decimal128Array =
        to_primitive::<Decimal128Type>(&args[0], rows, FailureKind::DecimalTooWide, rounded)?;
    Ok(Arc::new(decimals.with_data_type(RAW_DECIMAL)))
}

/// One of the functions of numerics, or what makes a numeric of something of that scale.
pub fn apply(function: Named, scale: u8, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match function {
        Named::Abs => map(&args[0], rows, |value| Ok(value.abs())),
        Named::Sign => map(&args[0], rows, |value| Ok(value.sign())),
        Named::Ceil => map(&args[0], rows, |value| value.ceil().checked().map_err(failure)),
        Named::Floor => map(&args[0], rows, |value| value.floor().checked().map_err(failure)),
        Named::Trimmed => map(&args[0], rows, |value| Ok(value.trimmed())),
        Named::Round => map_with(args, rows, |value, digits| value.round(digits).checked().map_err(failure)),
        Named::Trunc => map_with(args, rows, |value, digits| Ok(value.trunc(digits))),
        Named::Fitted => map_with(args, rows, fitted),
        Named::ToText => match args[0].data_type() {
            DataType::BinaryView => {
                let values = Values::of(&args[0])?;
                texts((0..rows).map(|row| values.get(row)))
            }
            _ => {
                let numbers = args[0].to_array(rows)?;
                texts(for_number!(numbers.data_type(), T => Ok(wide::<T>(&numbers)))?.into_iter().map(Ok))
            }
        },
        Named::WholeQuotient => map_pairs(args, rows, Numeric::div_trunc),
        Named::Sqrt => map(&args[0], rows, |value| affordable(value)?.sqrt().map_err(failure)),
        Named::Exp => map(&args[0], rows, |value| affordable_power(value, DIGITS_OF_E)?.exp().map_err(failure)),
        Named::Ln => map(&args[0], rows, |value| affordable(value)?.ln().map_err(failure)),
        Named::Log => map_both(args, rows, |base, value| affordable(value)?.log(affordable(base)?).map_err(failure)),
        Named::Power => map_both(args, rows, |base, by| {
            let digits = base.to_f64().map_or(f64::INFINITY, |base| base.abs().log10());
            affordable(base)?.power(affordable_power(by, digits)?).map_err(failure)
        }),
        Named::ShownWith => shown_with(scale, args, rows),
        Named::FromStored => from_stored(&args[0], rows),
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

/// The time that roots, logarithms and powers take grows with the square of the digits, and nothing ends it within a batch:
/// what is longer than this is the heap's.
const LONGEST_SCALE: u16 = 100;
const LONGEST_POWER: f64 = 500.0;
const DIGITS_OF_E: f64 = std::f64::consts::LOG10_E;

fn affordable(value: &Numeric) -> Outcome<&Numeric> {
    match value.heap_bytes() == 0 && value.scale().is_none_or(|scale| scale <= LONGEST_SCALE) {
        true => Ok(value),
        false => Err(QueryError(FailureKind::DecimalTooWide)),
    }
}

/// Of what has about so many digits.
fn affordable_power(exponent: &Numeric, digits: f64) -> Outcome<&Numeric> {
    let by = exponent.to_f64().unwrap_or(f64::INFINITY);
    match !exponent.is_finite() || by == 0.0 || (by * digits).abs() <= LONGEST_POWER || digits == f64::NEG_INFINITY {
        true => affordable(exponent),
        false => Err(QueryError(FailureKind::DecimalTooWide)),
    }
}

/// What the results of one call for one batch may take.
const MAX_BYTES: usize = 64 << 20;

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

fn from_stored(arg: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let stored = arg.to_array(rows)?;
    let stored = stored.as_binary_view();
    let mut out = Collected::with_capacity(rows);
    for bytes in stored {
        let value = bytes.map(|bytes| Numeric::from_stored(bytes).ok_or(QueryError(FailureKind::Internal)));
        out.push(value.transpose()?.as_ref());
    }
    Ok(out.finish())
}

/// As numeric(precision, scale) keeps it: an infinity fits nowhere, what is not a number anywhere.
fn fitted(value: &Numeric, modifier: i32) -> Outcome<Numeric> {
    let Some((precision, scale)) = plan::numeric_modifier(modifier) else { return Ok(value.clone()) };
    if value.is_nan() {
        return Ok(value.clone());
    }
    let rounded = value.round(scale);
    let limit = i128::from(10).checked_pow(precision as u32).map(|power| Numeric::from_decimal(power, 0));
    let scaled = if scale <= 38 { rounded.to_decimal(scale.max(0) as u8) } else { None };
    match (value.is_finite(), limit, scaled) {
        (true, Some(limit), Some(scaled)) if scale >= 0 && Numeric::from_decimal(scaled, 0).abs() < limit => {
            Ok(rounded)
        }
        _ => Err(QueryError(FailureKind::DecimalTooWide)),
    }
}
