//! Functions whose results are numerics.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use plan::{ArithOp, Named, Type};
use protocol::request::FailureKind;

use super::{Collected, Given, Outcome, Output, Values, failure, spread, wide};
use crate::base::error::QueryError;
use crate::base::operand::for_number;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Arithmetic(ArithOp),
    Negated,
    /// Converts integers, or decimals that show as many digits as their type has.
    OfNumbers {
        scale: u8,
    },
    /// Converts decimals of this scale. A second operand says how many decimal places each one shows.
    ShownWith {
        scale: u8,
    },
    /// The quotient of a sum and a count. The sum is a decimal of this scale, or a numeric.
    Average {
        scale: Option<u8>,
    },
    Named(Named),
}

impl Function {
    pub fn named(function: Named, operand: Type) -> Option<Function> {
        match function {
            Named::ShownWith => Some(Function::ShownWith { scale: operand.scale() }),
            Named::ShownAverage => {
                Some(Function::Average { scale: (operand != Type::Numeric).then_some(operand.scale()) })
            }
            _ if operand != Type::Numeric => None,
            Named::Abs
            | Named::Sign
            | Named::Ceil
            | Named::Floor
            | Named::Trimmed
            | Named::Round
            | Named::Trunc
            | Named::Fitted
            | Named::WholeQuotient
            | Named::Spread(_)
            | Named::Sqrt
            | Named::Exp
            | Named::Ln
            | Named::Log
            | Named::Power
            | Named::PowerSince16 => Some(Function::Named(function)),
            _ => None,
        }
    }
}

/// The function's results for `rows` rows.
pub fn compute(function: Function, args: &[Given], rows: usize, out: &mut impl Output) -> Result<()> {
    match function {
        Function::Arithmetic(ArithOp::Add) => pairs(args, rows, out, fallible(Numeric::add)),
        Function::Arithmetic(ArithOp::Sub) => pairs(args, rows, out, fallible(Numeric::sub)),
        Function::Arithmetic(ArithOp::Mul) => pairs(args, rows, out, fallible(Numeric::mul)),
        Function::Arithmetic(ArithOp::Div) => pairs(args, rows, out, fallible(Numeric::div)),
        Function::Arithmetic(ArithOp::Mod) => pairs(args, rows, out, fallible(Numeric::rem)),
        Function::Negated => each(args, rows, out, |value| Ok(value.neg())),
        Function::OfNumbers { scale } => of_numbers(scale, &args[0], rows, out),
        Function::ShownWith { scale } => shown_with(scale, args, rows, out),
        Function::Average { scale } => averages(scale, args, rows, out),
        Function::Named(Named::Spread(of)) => spread::finished(of, args, rows, out),
        Function::Named(Named::Abs) => each(args, rows, out, |value| Ok(value.abs())),
        Function::Named(Named::Sign) => each(args, rows, out, |value| Ok(value.sign())),
        Function::Named(Named::Ceil) => each(args, rows, out, |value| value.ceil().checked().map_err(failure)),
        Function::Named(Named::Floor) => each(args, rows, out, |value| value.floor().checked().map_err(failure)),
        Function::Named(Named::Trimmed) => each(args, rows, out, |value| Ok(value.trimmed())),
        Function::Named(Named::Round) => {
            with_integers(args, rows, out, |value, digits| value.round(digits).checked().map_err(failure))
        }
        Function::Named(Named::Trunc) => with_integers(args, rows, out, |value, digits| Ok(value.trunc(digits))),
        Function::Named(Named::Fitted) => with_integers(args, rows, out, fitted),
        Function::Named(Named::WholeQuotient) => pairs(args, rows, out, fallible(Numeric::div_trunc)),
        Function::Named(Named::Sqrt) => each(args, rows, out, |value| affordable(value)?.sqrt().map_err(failure)),
        Function::Named(Named::Exp) => {
            each(args, rows, out, |value| affordable_power(value, DIGITS_OF_E)?.exp().map_err(failure))
        }
        Function::Named(Named::Ln) => each(args, rows, out, |value| affordable(value)?.ln().map_err(failure)),
        Function::Named(Named::Log) => {
            pairs(args, rows, out, |base, value| affordable(value)?.log(affordable(base)?).map_err(failure))
        }
        Function::Named(Named::Power) => pairs(args, rows, out, power(Numeric::power)),
        Function::Named(Named::PowerSince16) => pairs(args, rows, out, power(Numeric::power_since_16)),
        Function::Named(other) => Err(DataFusionError::Internal(format!("{other:?} does not give a numeric"))),
    }
}

/// A power whose base and exponent are short enough to be computed with.
fn power(
    of: impl Fn(&Numeric, &Numeric) -> std::result::Result<Numeric, numeric::Error>,
) -> impl Fn(&Numeric, &Numeric) -> Outcome<Numeric> {
    move |base, by| {
        let digits = base.to_f64().map_or(f64::INFINITY, |base| base.abs().log10());
        of(affordable(base)?, affordable_power(by, digits)?).map_err(failure)
    }
}

fn fallible(
    f: impl Fn(&Numeric, &Numeric) -> std::result::Result<Numeric, numeric::Error>,
) -> impl Fn(&Numeric, &Numeric) -> Outcome<Numeric> {
    move |left, right| f(left, right).map_err(failure)
}

fn each(args: &[Given], rows: usize, out: &mut impl Output, f: impl Fn(&Numeric) -> Outcome<Numeric>) -> Result<()> {
    let values = Values::of(&args[0])?;
    for row in 0..rows {
        out.put(values.get(row)?.map(|value| f(&value)).transpose()?);
    }
    Ok(())
}

fn pairs(
    args: &[Given],
    rows: usize,
    out: &mut impl Output,
    f: impl Fn(&Numeric, &Numeric) -> Outcome<Numeric>,
) -> Result<()> {
    let (left, right) = (Values::of(&args[0])?, Values::of(&args[1])?);
    for row in 0..rows {
        out.put(match (left.get(row)?, right.get(row)?) {
            (Some(left), Some(right)) => Some(f(&left, &right)?),
            _ => None,
        });
    }
    Ok(())
}

/// Applies a function of a numeric and an integer.
fn with_integers(
    args: &[Given],
    rows: usize,
    out: &mut impl Output,
    f: impl Fn(&Numeric, i32) -> Outcome<Numeric>,
) -> Result<()> {
    let (values, integers) = (Values::of(&args[0])?, args[1].to_array(rows)?);
    let integers = integers.as_primitive::<Int32Type>();
    for row in 0..rows {
        out.put(match values.get(row)?.filter(|_| integers.is_valid(row)) {
            Some(value) => Some(f(&value, integers.value(row))?),
            None => None,
        });
    }
    Ok(())
}

fn of_numbers(scale: u8, given: &Given, rows: usize, out: &mut impl Output) -> Result<()> {
    let numbers = given.to_array(rows)?;
    for number in for_number!(numbers.data_type(), T => Ok(wide::<T>(&numbers)))? {
        out.put(number.map(|number| Numeric::from_decimal(number, scale)));
    }
    Ok(())
}

fn shown_with(scale: u8, args: &[Given], rows: usize, out: &mut impl Output) -> Result<()> {
    let (numbers, shown) = (args[0].to_array(rows)?, args[1].to_array(rows)?);
    let shown = shown.as_primitive::<Int32Type>();
    let numbers: Vec<Option<i128>> = for_number!(numbers.data_type(), T => Ok(wide::<T>(&numbers)))?;
    for (row, number) in numbers.into_iter().enumerate() {
        let value = number.filter(|_| shown.is_valid(row));
        out.put(value.map(|number| Numeric::from_decimal(number, scale).round(shown.value(row))));
    }
    Ok(())
}

/// Divides sums by counts. A sum is null, and so is its average, where the count is 0.
fn averages(scale: Option<u8>, args: &[Given], rows: usize, out: &mut impl Output) -> Result<()> {
    let counts = args[1].to_array(rows)?;
    let counts = counts.as_primitive::<Int64Type>().values();
    let average = |sum: &Numeric, row: usize| sum.div(&Numeric::from_i64(counts[row])).map_err(failure);
    let Some(scale) = scale else {
        let sums = Values::of(&args[0])?;
        for row in 0..rows {
            out.put(sums.get(row)?.map(|sum| average(&sum, row)).transpose()?);
        }
        return Ok(());
    };
    let sums = args[0].to_array(rows)?;
    for (row, sum) in for_number!(sums.data_type(), T => Ok(wide::<T>(&sums)))?.into_iter().enumerate() {
        out.put(sum.map(|sum| average(&Numeric::from_decimal(sum, scale), row)).transpose()?);
    }
    Ok(())
}

/// Converts floats, with as many digits as are certain.
pub fn from_floats(of_reals: bool, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let floats = args[0].to_array(rows)?;
    let mut out = Collected::with_capacity(rows);
    for float in floats.as_primitive::<Float64Type>() {
        let numeric = |float: f64| if of_reals { Numeric::from_f32(float as f32) } else { Numeric::from_f64(float) };
        out.put(float.map(numeric));
    }
    Ok(out.finish())
}

/// Converts PostgreSQL's stored form.
pub fn from_stored(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let stored = args[0].to_array(rows)?;
    let mut out = Collected::with_capacity(rows);
    for bytes in stored.as_binary_view() {
        let value = bytes.map(|bytes| Numeric::from_stored(bytes).ok_or(QueryError(FailureKind::Internal)));
        out.put(value.transpose()?);
    }
    Ok(out.finish())
}

/// The greatest scale of an operand of roots, logarithms and powers. Their time grows with the square of the digits,
/// and they cannot be cancelled within a batch. So a query with longer operands runs on the heap.
const LONGEST_SCALE: u16 = 100;
const LONGEST_POWER: f64 = 500.0;
const DIGITS_OF_E: f64 = std::f64::consts::LOG10_E;

fn affordable(value: &Numeric) -> Outcome<&Numeric> {
    match value.heap_bytes() == 0 && value.scale().is_none_or(|scale| scale <= LONGEST_SCALE) {
        true => Ok(value),
        false => Err(QueryError(FailureKind::DecimalTooWide)),
    }
}

/// Returns the exponent, if a number with about `digits` digits can be raised to it in acceptable time.
fn affordable_power(exponent: &Numeric, digits: f64) -> Outcome<&Numeric> {
    let by = exponent.to_f64().unwrap_or(f64::INFINITY);
    match !exponent.is_finite() || by == 0.0 || (by * digits).abs() <= LONGEST_POWER || digits == f64::NEG_INFINITY {
        true => affordable(exponent),
        false => Err(QueryError(FailureKind::DecimalTooWide)),
    }
}

/// The value as numeric(precision, scale) stores it. An infinity never fits; NaN always does.
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
