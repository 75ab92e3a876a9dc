//! Functions on numbers that are called by their name.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use arrow_select::nullif::nullif;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::catalogue::Kind;
use plan::{Named, Type};
use protocol::request::FailureKind;

use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::base::operand::{Operand, binary, for_number, map};
use crate::functions::numbers::c_library;
use crate::functions::numbers::decimals::{self, Slot};
use crate::functions::numbers::{Integer, averages};
use crate::functions::time::calendar::{END, FIRST};

const NEVER: FailureKind = FailureKind::Internal;

/// Applies a function to `rows` rows. Its first operand has type `operand`, its result type `ty`.
pub fn apply(function: Named, operand: Type, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match operand.kind() {
        Kind::Real | Kind::Float => of_float(function, ty, args, rows),
        Kind::Decimal => for_number!(args[0].data_type(), T => of_decimal::<T>(function, operand, ty, args, rows)),
        Kind::Integer => match operand {
            Type::Int16 => of_integer::<Int16Type>(function, ty, args, rows),
            Type::Int32 => of_integer::<Int32Type>(function, ty, args, rows),
            _ => of_integer::<Int64Type>(function, ty, args, rows),
        },
        Kind::Bool => from_bool(args, rows),
        _ => Err(unknown(function, operand)),
    }
}

fn unknown(function: Named, operand: Type) -> DataFusionError {
    DataFusionError::Internal(format!("no {function:?} of {operand:?}"))
}

fn of_float(function: Named, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let plain = |f: fn(f64) -> f64| map::<Float64Type, Float64Type>(args, rows, |a| (f(a), false), NEVER);
    // After rounding, the float is a whole number. The bounds are exact as floats, so the comparison is exact, too.
    fn fits(a: f64, bits: i32) -> bool {
        let bound = 2f64.powi(bits - 1);
        (a >= -bound) & (a < bound)
    }
    match function {
        Named::Abs => plain(f64::abs),
        Named::Sign => plain(|a| f64::from(a > 0.0) - f64::from(a < 0.0)),
        Named::Round => plain(f64::round_ties_even),
        Named::Ceil => plain(f64::ceil),
        Named::Floor => plain(f64::floor),
        Named::Trunc => plain(f64::trunc),
        Named::Sqrt => {
            map::<Float64Type, Float64Type>(args, rows, |a| (a.sqrt(), a < 0.0), FailureKind::NegativeSquareRoot)
        }
        Named::Exp => usual(args, rows, |a| c_library::exp(a)),
        Named::Ln => usual(args, rows, |a| c_library::log(a)),
        Named::Log => usual(args, rows, |a| c_library::log10(a)),
        Named::Cbrt => of_angle(args, rows, c_library::cbrt),
        Named::Sin => of_angle(args, rows, |a| c_library::sin(a)),
        Named::Cos => of_angle(args, rows, |a| c_library::cos(a)),
        Named::Tan => of_angle(args, rows, |a| c_library::tan(a)),
        Named::Asin => of_angle(args, rows, |a| c_library::asin(a)),
        Named::Acos => of_angle(args, rows, |a| c_library::acos(a)),
        Named::Atan => of_angle(args, rows, |a| c_library::atan(a)),
        Named::Radians => of_angle(args, rows, |a| a * RADIANS),
        Named::Degrees => of_angle(args, rows, |a| a / RADIANS),
        Named::Atan2 => {
            let (ys, xs) = (Operand::<Float64Type>::new(&args[0])?, Operand::<Float64Type>::new(&args[1])?);
            let angle = |y: f64, x: f64| {
                let angle = c_library::atan2(y, x);
                (angle, !(y.is_finite() && x.is_finite() && (angle.is_normal() || angle == 0.0 && y == 0.0)))
            };
            let why = |_, _| QueryError(FailureKind::Undefined);
            Ok(Arc::new(binary::<Float64Type, Float64Type, Float64Type, _>(&ys, &xs, rows, angle, why)?))
        }
        Named::FromEpoch => map::<Float64Type, Int64Type>(args, rows, from_epoch, FailureKind::NoTimestamp),
        Named::Power => {
            let (bases, exponents) = (Operand::<Float64Type>::new(&args[0])?, Operand::<Float64Type>::new(&args[1])?);
            let power = |a: f64, b: f64| {
                let power = c_library::pow(a, b);
                (power, !(a.is_finite() && b.is_finite() && is_usual(power, a == 0.0)))
            };
            let why = |_, _| QueryError(FailureKind::Undefined);
            let powers = binary::<Float64Type, Float64Type, Float64Type, _>(&bases, &exponents, rows, power, why)?;
            Ok(Arc::new(powers))
        }
        Named::MovedDown => pairwise::<Float64Type, Float64Type>(args, rows, |a, by| (moved(a, by, false), false)),
        Named::MovedUp => pairwise::<Float64Type, Float64Type>(args, rows, |a, by| (moved(a, by, true), false)),
        Named::ToInt16 => {
            let round = |a: f64| (a.round_ties_even() as i16, !fits(a.round_ties_even(), 16));
            map::<Float64Type, Int16Type>(args, rows, round, FailureKind::SmallintOutOfRange)
        }
        Named::ToInt32 => {
            let round = |a: f64| (a.round_ties_even() as i32, !fits(a.round_ties_even(), 32));
            map::<Float64Type, Int32Type>(args, rows, round, FailureKind::IntegerOutOfRange)
        }
        Named::ToInt64 => {
            let round = |a: f64| (a.round_ties_even() as i64, !fits(a.round_ties_even(), 64));
            map::<Float64Type, Int64Type>(args, rows, round, FailureKind::BigintOutOfRange)
        }
        other => Err(unknown(other, ty)),
    }
}

/// Applies a function of the C library, which PostgreSQL uses, too. If a result is infinite, very small or undefined,
/// the query runs on the heap.
fn usual(args: &[ColumnarValue], rows: usize, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    let checked = |a: f64| match a.is_nan() {
        true => (a, false),
        false => (f(a), !(a.is_finite() && is_usual(f(a), a == 1.0))),
    };
    map::<Float64Type, Float64Type>(args, rows, checked, FailureKind::Undefined)
}

/// PostgreSQL's constant for one degree in radians.
#[allow(clippy::excessive_precision, clippy::approx_constant)]
const RADIANS: f64 = 0.0174532925199432957692;

/// Applies a trigonometric function or the cube root. A result of zero is right only at 0 or 1. If another result is
/// very small, infinite or undefined, the query runs on the heap.
fn of_angle(args: &[ColumnarValue], rows: usize, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    let checked = |a: f64| {
        if a.is_nan() {
            return (a, false);
        }
        let result = f(a);
        (result, !(a.is_finite() && (result.is_normal() || result == 0.0 && (a == 0.0 || a == 1.0))))
    };
    map::<Float64Type, Float64Type>(args, rows, checked, FailureKind::Undefined)
}

/// Converts seconds since 1970 to microseconds since 2000; the flag says that there is no such point in time.
fn from_epoch(seconds: f64) -> (i64, bool) {
    const DAY: f64 = 86_400.0;
    /// The Julian day of 1970-01-01. `LAST` is the Julian day after the last timestamp.
    const UNIX: f64 = 2_440_588.0;
    const LAST: f64 = 109_203_528.0;
    match seconds {
        f64::INFINITY => (i64::MAX, false),
        f64::NEG_INFINITY => (i64::MIN, false),
        _ if !(-DAY * UNIX..DAY * (LAST - UNIX)).contains(&seconds) => (0, true),
        _ => {
            let micros = ((seconds - 10_957.0 * DAY) * 1e6).round_ties_even();
            (micros as i64, !(FIRST as f64..END as f64).contains(&micros))
        }
    }
}

fn is_usual(result: f64, may_be_zero: bool) -> bool {
    result.is_normal() || may_be_zero && result == 0.0
}

fn of_decimal<A: ArrowPrimitiveType>(
    function: Named,
    operand: Type,
    ty: Type,
    args: &[ColumnarValue],
    rows: usize,
) -> Result<ArrayRef>
where
    A::Native: Slot,
{
    let power = decimals::power(operand.scale()).unwrap_or(NO_POWER);
    let whole = |f: fn(i128, i128) -> i128| {
        let result = map::<A, Decimal128Type>(args, rows, |a| (f(a.wide(), power), false), NEVER)?;
        Ok(raw(&result))
    };
    match function {
        Named::Abs => {
            let abs = |a: A::Native| a.wide().overflowing_abs();
            Ok(raw(&map::<A, Decimal128Type>(args, rows, abs, FailureKind::DecimalTooWide)?))
        }
        Named::Sign => map::<A, Int64Type>(args, rows, |a| (a.wide().signum() as i64, false), NEVER),
        Named::Round | Named::Trunc if args.len() > 1 => to_scale::<A>(function, operand.scale(), ty, args, rows),
        Named::Round => whole(rounded),
        Named::Ceil => whole(|a, power| a.div_euclid(power) + i128::from(a.rem_euclid(power) != 0)),
        Named::Floor => whole(|a, power| a.div_euclid(power)),
        Named::Trunc => whole(|a, power| a / power),
        Named::ToInt16 => {
            let round =
                |a: A::Native| (rounded(a.wide(), power) as i16, i16::try_from(rounded(a.wide(), power)).is_err());
            map::<A, Int16Type>(args, rows, round, FailureKind::SmallintOutOfRange)
        }
        Named::ToInt32 => {
            let round =
                |a: A::Native| (rounded(a.wide(), power) as i32, i32::try_from(rounded(a.wide(), power)).is_err());
            map::<A, Int32Type>(args, rows, round, FailureKind::IntegerOutOfRange)
        }
        Named::ToInt64 => {
            let round =
                |a: A::Native| (rounded(a.wide(), power) as i64, i64::try_from(rounded(a.wide(), power)).is_err());
            map::<A, Int64Type>(args, rows, round, FailureKind::BigintOutOfRange)
        }
        Named::Average => {
            let (sums, counts) = (Operand::<A>::new(&args[0])?, Operand::<Int64Type>::new(&args[1])?);
            let average = |sum: A::Native, count| averages::average(sum.wide(), operand.scale(), count);
            let why = |_, _| QueryError(FailureKind::DecimalTooWide);
            let result = binary::<A, Int64Type, Decimal128Type, _>(&sums, &counts, rows, average, why)?;
            Ok(Arc::new(result.with_data_type(RAW_DECIMAL)))
        }
        Named::ToFloat => map::<A, Float64Type>(args, rows, |a| (to_float(a.wide(), operand.scale()), false), NEVER),
        other => Err(unknown(other, ty)),
    }
}

/// Rounds or truncates to the decimal places of `ty`, which are no more than `scale`. If the last operand is null, so
/// is the result.
fn to_scale<A: ArrowPrimitiveType>(
    function: Named,
    scale: u8,
    ty: Type,
    args: &[ColumnarValue],
    rows: usize,
) -> Result<ArrayRef>
where
    A::Native: Slot,
{
    let unit = decimals::power(scale.saturating_sub(ty.scale())).unwrap_or(NO_POWER);
    let cut = if function == Named::Round { rounded } else { |value, unit| value / unit };
    let result = match ty {
        Type::Decimal64 { .. } => map::<A, Int64Type>(args, rows, |a| (cut(a.wide(), unit) as i64, false), NEVER)?,
        _ => raw(&map::<A, Decimal128Type>(args, rows, |a| (cut(a.wide(), unit), false), NEVER)?),
    };
    match args[1].to_array(rows)?.nulls() {
        Some(nulls) if nulls.null_count() > 0 => Ok(nullif(&result, &BooleanArray::new(!nulls.inner(), None))?),
        _ => Ok(result),
    }
}

/// Stands for 39 or more digits behind the point: every value is then less than a half.
const NO_POWER: i128 = i128::MAX;

/// The nearest number; if two are equally near, the one farther from zero.
fn rounded(value: i128, power: i128) -> i128 {
    if let (Ok(value), Ok(power)) = (i64::try_from(value), i64::try_from(power)) {
        let (whole, rest) = (value / power, value % power);
        let up = rest.unsigned_abs() >= power.unsigned_abs() - rest.unsigned_abs();
        return i128::from(whole + if up { value.signum() } else { 0 });
    }
    let (whole, rest) = (value / power, value % power);
    let up = rest.unsigned_abs() >= power.unsigned_abs() - rest.unsigned_abs();
    whole + if up && power != NO_POWER { value.signum() } else { 0 }
}

fn to_float(value: i128, scale: u8) -> f64 {
    // Both numbers are exact as floats, so the quotient is rounded only once.
    if value.unsigned_abs() < 1 << 53 && scale <= 22 {
        return value as f64 / 10f64.powi(scale as i32);
    }
    // The text is always a number.
    format!("{value}e-{scale}").parse().unwrap_or(f64::NAN)
}

fn raw(array: &ArrayRef) -> ArrayRef {
    Arc::new(array.as_primitive::<Decimal128Type>().clone().with_data_type(RAW_DECIMAL))
}

/// The bits of an integer.
trait Bits: Integer {
    fn and(self, other: Self) -> (Self, bool);
    fn or(self, other: Self) -> (Self, bool);
    fn xor(self, other: Self) -> (Self, bool);
    fn not(self) -> (Self, bool);
    fn shifted_left(self, by: i32) -> (Self, bool);
    fn shifted_right(self, by: i32) -> (Self, bool);
    fn wide(self) -> i64;
}

macro_rules! bits {
    ($ty:ty, $computed_as:ty) => {
        impl Bits for $ty {
            fn and(self, other: Self) -> (Self, bool) {
                (self & other, false)
            }
            fn or(self, other: Self) -> (Self, bool) {
                (self | other, false)
            }
            fn xor(self, other: Self) -> (Self, bool) {
                (self ^ other, false)
            }
            fn not(self) -> (Self, bool) {
                (!self, false)
            }
            fn shifted_left(self, by: i32) -> (Self, bool) {
                ((self as $computed_as).wrapping_shl(by as u32) as $ty, false)
            }
            fn shifted_right(self, by: i32) -> (Self, bool) {
                ((self as $computed_as).wrapping_shr(by as u32) as $ty, false)
            }
            fn wide(self) -> i64 {
                self as i64
            }
        }
    };
}
bits!(i16, i32);
bits!(i32, i32);
bits!(i64, i64);

fn of_integer<A: ArrowPrimitiveType>(function: Named, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef>
where
    A::Native: Bits + PartialOrd,
{
    match function {
        Named::OnlyRow => map::<A, A>(args, rows, |rows| (rows, rows.wide() > 1), FailureKind::SeveralRows),
        Named::Abs => {
            let abs = |a: A::Native| if a < A::Native::default() { a.neg() } else { (a, false) };
            map::<A, A>(args, rows, abs, A::Native::OUT_OF_RANGE)
        }
        Named::BitAnd => pairwise::<A, A>(args, rows, Bits::and),
        Named::BitOr => pairwise::<A, A>(args, rows, Bits::or),
        Named::BitXor => pairwise::<A, A>(args, rows, Bits::xor),
        Named::BitNot => map::<A, A>(args, rows, Bits::not, NEVER),
        Named::ShiftLeft => pairwise::<A, Int32Type>(args, rows, Bits::shifted_left),
        Named::ShiftRight => pairwise::<A, Int32Type>(args, rows, Bits::shifted_right),
        Named::ToInt16 => {
            let narrow = |a: A::Native| (a.wide() as i16, i16::try_from(a.wide()).is_err());
            map::<A, Int16Type>(args, rows, narrow, FailureKind::SmallintOutOfRange)
        }
        Named::ToInt32 => {
            let narrow = |a: A::Native| (a.wide() as i32, i32::try_from(a.wide()).is_err());
            map::<A, Int32Type>(args, rows, narrow, FailureKind::IntegerOutOfRange)
        }
        Named::ToBool => {
            let arg = args[0].to_array(rows)?;
            let values = arg.as_primitive::<A>().values();
            let set = BooleanBuffer::collect_bool(rows, |row| values[row] != A::Native::default());
            Ok(Arc::new(BooleanArray::new(set, arg.nulls().cloned())))
        }
        other => Err(unknown(other, ty)),
    }
}

/// The sum `a + by`. If that is infinity minus infinity, returns the infinity in the wanted direction. See
/// [`Named::MovedDown`].
fn moved(a: f64, by: f64, up: bool) -> f64 {
    match a + by {
        open if open.is_nan() && !a.is_nan() && !by.is_nan() => {
            if up {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        }
        sum => sum,
    }
}

/// A function on two numbers that cannot fail.
fn pairwise<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native, B::Native) -> (A::Native, bool),
) -> Result<ArrayRef> {
    let (l, r) = (Operand::<A>::new(&args[0])?, Operand::<B>::new(&args[1])?);
    Ok(Arc::new(binary::<A, B, A, _>(&l, &r, rows, f, |_, _| QueryError(NEVER))?))
}

fn from_bool(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let arg = args[0].to_array(rows)?;
    if arg.data_type() != &DataType::Boolean {
        return Err(DataFusionError::Internal(format!("{} is no boolean", arg.data_type())));
    }
    let values: Vec<i32> = arg.as_boolean().values().iter().map(i32::from).collect();
    Ok(Arc::new(Int32Array::new(values.into(), arg.nulls().cloned())))
}
