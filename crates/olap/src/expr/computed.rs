//! Expressions for which DataFusion's own rules would be wrong, as one kind of [`PhysicalExpr`]: a kernel and its
//! arguments.
//!
//! Functions are strict unless their row in the catalogue says otherwise: a null operand gives null, and never an
//! error.
//!
//! If a function of numerics is an argument of another one, its results are passed on directly, without an array
//! between them. This saves time, because converting a numeric to its stored bytes and back costs more than adding two
//! numerics.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal;
use plan::{ArithOp, CmpOp, Named, Type};
use protocol::request::FailureKind;

use crate::base::arrow_form::{RAW_DECIMAL, arrow_type};
use crate::base::error::QueryError;
use crate::base::operand::{Operand, binary, compare, for_number, map, unary};
use crate::expr::dispatch;
use crate::functions::numbers::decimals::Slot;
use crate::functions::numbers::{Divisor, Integer, dates, decimals, floats};
use crate::functions::numerics::{self, Collected, Given, Output};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Arithmetic on two integers of this type.
    Integer(IntegerType, ArithOp),
    NegInteger(IntegerType),
    /// A cast to this type from a narrower one.
    WidenInteger(IntegerType),
    /// A cast to the nearest real; if two are equally near, to the even one.
    IntegerToReal,
    IntegerToFloat,
    FloatToReal,
    /// Arithmetic on reals, which are held as doubles.
    Real(ArithOp),
    Float(ArithOp),
    NegFloat,
    /// Turns -0 into 0 and every NaN into the same NaN, so that Arrow's total order is PostgreSQL's.
    CanonicalFloat,
    /// Arithmetic on decimals of 64 or 128 bits. Each operand is first multiplied by 10^digits.
    Decimal {
        op: ArithOp,
        digits: [u8; 2],
    },
    NegDecimal,
    /// A function with a numeric result.
    Numerics(numerics::Function),
    NumericToDecimal {
        scale: u8,
    },
    /// A function of numerics whose result has the type `ty`, which is another type than numeric.
    OfNumerics {
        function: Named,
        ty: Type,
    },
    CompareDecimals {
        op: CmpOp,
        digits: [u8; 2],
    },
    /// A cast from an integer or a decimal, multiplied by 10^digits.
    ToDecimal64 {
        digits: u8,
    },
    ToDecimal128 {
        digits: u8,
    },
    /// Like `ToDecimal128`, but null if the result does not fit. A value that does not fit equals no decimal on the
    /// other side of the join.
    DecimalJoinKey {
        digits: u8,
    },
    DatePlusDays,
    DateMinusDays,
    DateMinusDate,
    DateToTimestamp,
    /// A named function, with the types of its first operand and its result.
    Named {
        function: Named,
        operand: Type,
        ty: Type,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntegerType {
    Int16,
    Int32,
    Int64,
}

impl IntegerType {
    fn arrow_type(self) -> DataType {
        match self {
            IntegerType::Int16 => DataType::Int16,
            IntegerType::Int32 => DataType::Int32,
            IntegerType::Int64 => DataType::Int64,
        }
    }
}

impl Kernel {
    pub fn named(function: Named, operand: Type, ty: Type) -> Kernel {
        match (numerics::Function::named(function, operand), operand) {
            (Some(function), _) => Kernel::Numerics(function),
            (None, Type::Numeric) => Kernel::OfNumerics { function, ty },
            (None, _) => Kernel::Named { function, operand, ty },
        }
    }

    fn result_type(self) -> DataType {
        match self {
            Kernel::Integer(ty, _) | Kernel::NegInteger(ty) | Kernel::WidenInteger(ty) => ty.arrow_type(),
            Kernel::IntegerToReal
            | Kernel::IntegerToFloat
            | Kernel::FloatToReal
            | Kernel::Real(_)
            | Kernel::Float(_)
            | Kernel::NegFloat
            | Kernel::CanonicalFloat => DataType::Float64,
            Kernel::Decimal { .. }
            | Kernel::NegDecimal
            | Kernel::ToDecimal128 { .. }
            | Kernel::NumericToDecimal { .. }
            | Kernel::DecimalJoinKey { .. } => RAW_DECIMAL,
            Kernel::Numerics(_) => DataType::BinaryView,
            Kernel::CompareDecimals { .. } => DataType::Boolean,
            Kernel::ToDecimal64 { .. } | Kernel::DateToTimestamp => DataType::Int64,
            Kernel::DatePlusDays | Kernel::DateMinusDays | Kernel::DateMinusDate => DataType::Int32,
            Kernel::Named { ty, .. } | Kernel::OfNumerics { ty, .. } => arrow_type(ty),
        }
    }
}

/// A kernel applied to the results of other expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Computed {
    kernel: Kernel,
    args: Vec<Arc<dyn PhysicalExpr>>,
}

/// An expression that applies `kernel` to its arguments.
pub fn computed(kernel: Kernel, args: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Computed { kernel, args })
}

/// The number of rows for which chained functions of numerics are computed at a time. The number is small, because
/// numerics outside of arrays need more memory.
const BLOCK: usize = 512;

impl Computed {
    /// The function of numerics in an expression, if another function may take its results directly. Constants are
    /// excluded, because they are better computed once for all rows.
    fn chained(expr: &Arc<dyn PhysicalExpr>) -> Option<(&Computed, numerics::Function)> {
        let computed = (&**expr as &dyn Any).downcast_ref::<Computed>()?;
        match computed.kernel {
            Kernel::Numerics(function) if !is_constant(expr) => Some((computed, function)),
            _ => None,
        }
    }

    fn takes_over(&self) -> bool {
        let of_numerics = |kernel| {
            matches!(kernel, Kernel::Numerics(_) | Kernel::NumericToDecimal { .. } | Kernel::OfNumerics { .. })
        };
        of_numerics(self.kernel) && self.args.iter().any(|arg| Computed::chained(arg).is_some())
    }

    fn by_blocks(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let blocks = (0..rows).step_by(BLOCK).map(|from| batch.slice(from, BLOCK.min(rows - from)));
        if let Kernel::Numerics(function) = self.kernel {
            let mut out = Collected::with_capacity(rows);
            for block in blocks {
                self.put_numerics(function, &block, &mut out)?;
            }
            return Ok(out.finish());
        }
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for block in blocks {
            let part = of_numerics(self.kernel, &self.given(&block)?, block.num_rows())?;
            bytes += part.get_buffer_memory_size();
            if bytes > numerics::MAX_BYTES {
                return Err(QueryError(FailureKind::OutOfMemory).into());
            }
            parts.push(part);
        }
        Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
    }

    fn put_numerics(&self, function: numerics::Function, batch: &RecordBatch, out: &mut impl Output) -> Result<()> {
        numerics::compute(function, &self.given(batch)?, batch.num_rows(), out)
    }

    fn given(&self, batch: &RecordBatch) -> Result<Vec<Given>> {
        let given = |arg| match Computed::chained(arg) {
            Some((computed, function)) => {
                let mut values = Vec::with_capacity(batch.num_rows());
                computed.put_numerics(function, batch, &mut values)?;
                Ok(Given::Computed(values))
            }
            None => Ok(Given::Other(arg.evaluate(batch)?)),
        };
        self.args.iter().map(given).collect()
    }
}

/// Whether the expression reads no columns.
pub fn is_constant(expr: &Arc<dyn PhysicalExpr>) -> bool {
    match expr.children()[..] {
        [] => (&**expr as &dyn Any).is::<Literal>(),
        ref children => children.iter().all(|child| is_constant(child)),
    }
}

impl PhysicalExpr for Computed {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.kernel.result_type())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if batch.num_rows() > 0 && self.takes_over() {
            return Ok(ColumnarValue::Array(self.by_blocks(batch)?));
        }
        let args: Vec<ColumnarValue> = self.args.iter().map(|arg| arg.evaluate(batch)).collect::<Result<_>>()?;
        if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            let one = apply(self.kernel, &args, 1)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?));
        }
        Ok(ColumnarValue::Array(apply(self.kernel, &args, batch.num_rows())?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(computed(self.kernel, children))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}(", self.kernel)?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

fn apply(kernel: Kernel, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match kernel {
        Kernel::Integer(IntegerType::Int16, op) => integer::<Int16Type>(op, args, rows),
        Kernel::Integer(IntegerType::Int32, op) => integer::<Int32Type>(op, args, rows),
        Kernel::Integer(IntegerType::Int64, op) => integer::<Int64Type>(op, args, rows),
        Kernel::NegInteger(IntegerType::Int16) => negated::<Int16Type>(args, rows),
        Kernel::NegInteger(IntegerType::Int32) => negated::<Int32Type>(args, rows),
        Kernel::NegInteger(IntegerType::Int64) => negated::<Int64Type>(args, rows),
        Kernel::WidenInteger(_) | Kernel::IntegerToReal | Kernel::IntegerToFloat => {
            for_number!(args[0].data_type(), T => widened::<T>(kernel, args, rows))
        }
        Kernel::Real(op) => float::<floats::Single>(op, args, rows),
        Kernel::Float(op) => float::<floats::Double>(op, args, rows),
        Kernel::FloatToReal => reals(args, rows),
        Kernel::NegFloat => map::<Float64Type, Float64Type>(args, rows, |a| (-a, false), FailureKind::Internal),
        Kernel::CanonicalFloat => {
            map::<Float64Type, Float64Type>(args, rows, |a| (floats::canonical(a), false), FailureKind::Internal)
        }
        Kernel::Decimal { op, digits } => decimal(op, digits, args, rows),
        Kernel::CompareDecimals { op, digits } => compare_decimals(op, digits, args, rows),
        Kernel::NegDecimal
        | Kernel::ToDecimal64 { .. }
        | Kernel::ToDecimal128 { .. }
        | Kernel::DecimalJoinKey { .. } => {
            for_number!(args[0].data_type(), T => to_decimal::<T>(kernel, args, rows))
        }
        Kernel::Numerics(function) => {
            let mut out = Collected::with_capacity(rows);
            numerics::compute(function, &given(args), rows, &mut out)?;
            Ok(out.finish())
        }
        Kernel::NumericToDecimal { .. } | Kernel::OfNumerics { .. } => of_numerics(kernel, &given(args), rows),
        Kernel::DatePlusDays => date(args, rows, dates::plus_days),
        Kernel::DateMinusDays => date(args, rows, dates::minus_days),
        Kernel::DateMinusDate => date(args, rows, dates::difference),
        Kernel::DateToTimestamp => {
            map::<Int32Type, Int64Type>(args, rows, dates::to_timestamp, FailureKind::TimestampOutOfRange)
        }
        Kernel::Named { function, operand, ty } => dispatch::apply(function, operand, ty, args, rows),
    }
}

fn given(args: &[ColumnarValue]) -> Vec<Given> {
    args.iter().cloned().map(Given::Other).collect()
}

/// Computes a function of numerics whose result is no numeric.
fn of_numerics(kernel: Kernel, args: &[Given], rows: usize) -> Result<ArrayRef> {
    match kernel {
        Kernel::NumericToDecimal { scale } => numerics::to_decimal(scale, args, rows),
        Kernel::OfNumerics { function, .. } => numerics::apply(function, args, rows),
        other => Err(DataFusionError::Internal(format!("{other:?} takes no numerics"))),
    }
}

fn integer<T: ArrowPrimitiveType>(op: ArithOp, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef>
where
    T::Native: Integer,
{
    let (l, r) = (Operand::<T>::new(&args[0])?, Operand::<T>::new(&args[1])?);
    if let (ArithOp::Mod, Operand::Constant(Some(divisor))) = (op, &r)
        && let Some(divisor) = Divisor::new((*divisor).into())
    {
        let remainder = |value: T::Native| (T::Native::of(divisor.remainder(value.into())), false);
        return map::<T, T>(&args[..1], rows, remainder, FailureKind::Internal);
    }
    let overflow = |_, _| QueryError(T::Native::OUT_OF_RANGE);
    let zero_or_overflow = |_, divisor: T::Native| {
        let by_zero = divisor == T::Native::default();
        QueryError(if by_zero { FailureKind::DivisionByZero } else { T::Native::OUT_OF_RANGE })
    };
    Ok(Arc::new(match op {
        ArithOp::Add => binary::<T, T, T, _>(&l, &r, rows, Integer::add, overflow),
        ArithOp::Sub => binary::<T, T, T, _>(&l, &r, rows, Integer::sub, overflow),
        ArithOp::Mul => binary::<T, T, T, _>(&l, &r, rows, Integer::mul, overflow),
        ArithOp::Div => binary::<T, T, T, _>(&l, &r, rows, Integer::div, zero_or_overflow),
        ArithOp::Mod => binary::<T, T, T, _>(&l, &r, rows, Integer::rem, zero_or_overflow),
    }?))
}

fn negated<T: ArrowPrimitiveType>(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef>
where
    T::Native: Integer,
{
    map::<T, T>(args, rows, Integer::neg, T::Native::OUT_OF_RANGE)
}

/// Casts of integers that cannot fail.
fn widened<A: ArrowPrimitiveType>(kernel: Kernel, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef>
where
    A::Native: decimals::Slot,
{
    let never = FailureKind::Internal;
    match kernel {
        Kernel::WidenInteger(IntegerType::Int64) => {
            map::<A, Int64Type>(args, rows, |a| (a.wide() as i64, false), never)
        }
        Kernel::WidenInteger(IntegerType::Int32) => {
            map::<A, Int32Type>(args, rows, |a| (a.wide() as i32, false), never)
        }
        Kernel::IntegerToReal => map::<A, Float64Type>(args, rows, |a| (a.wide() as i64 as f32 as f64, false), never),
        Kernel::IntegerToFloat => map::<A, Float64Type>(args, rows, |a| (a.wide() as i64 as f64, false), never),
        other => Err(DataFusionError::Internal(format!("{other:?} widens nothing"))),
    }
}

fn float<P: floats::Precision>(op: ArithOp, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (l, r) = (Operand::<Float64Type>::new(&args[0])?, Operand::<Float64Type>::new(&args[1])?);
    let run = |f: fn(f64, f64) -> (f64, bool)| {
        binary::<Float64Type, Float64Type, Float64Type, _>(&l, &r, rows, f, |a, b| QueryError(floats::why(f(a, b).0)))
    };
    Ok(Arc::new(match op {
        ArithOp::Add => run(floats::add::<P>)?,
        ArithOp::Sub => run(floats::sub::<P>)?,
        ArithOp::Mul => run(floats::mul::<P>)?,
        ArithOp::Div => binary::<Float64Type, Float64Type, Float64Type, _>(&l, &r, rows, floats::div::<P>, |a, b| {
            QueryError(if b == 0.0 { FailureKind::DivisionByZero } else { floats::why(floats::div::<P>(a, b).0) })
        })?,
        ArithOp::Mod => return Err(DataFusionError::Internal("no remainder of floats".into())),
    }))
}

fn reals(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let arg = args[0].to_array(rows)?;
    let why = |a| QueryError(floats::why(floats::to_real(a).0));
    Ok(Arc::new(unary::<Float64Type, Float64Type, _>(arg.as_primitive(), floats::to_real, why)?))
}

fn date(args: &[ColumnarValue], rows: usize, f: fn(i32, i32) -> (i32, bool)) -> Result<ArrayRef> {
    let (l, r) = (Operand::<Int32Type>::new(&args[0])?, Operand::<Int32Type>::new(&args[1])?);
    let why = |_, _| QueryError(FailureKind::DateOutOfRange);
    Ok(Arc::new(binary::<Int32Type, Int32Type, Int32Type, _>(&l, &r, rows, f, why)?))
}

fn is_wide(arg: &ColumnarValue) -> bool {
    matches!(arg.data_type(), DataType::Decimal128(..))
}

/// Runs `$body` with both decimals as [`Operand`]s of their own widths.
macro_rules! with_decimals {
    ($args:expr, |$l:ident: $L:ident, $r:ident: $R:ident| $body:expr) => {
        match (is_wide(&$args[0]), is_wide(&$args[1])) {
            (false, false) => with_decimals!(@ $args, Int64Type, Int64Type, $l, $L, $r, $R, $body),
            (false, true) => with_decimals!(@ $args, Int64Type, Decimal128Type, $l, $L, $r, $R, $body),
            (true, false) => with_decimals!(@ $args, Decimal128Type, Int64Type, $l, $L, $r, $R, $body),
            (true, true) => with_decimals!(@ $args, Decimal128Type, Decimal128Type, $l, $L, $r, $R, $body),
        }
    };
    (@ $args:expr, $LT:ty, $RT:ty, $l:ident, $L:ident, $r:ident, $R:ident, $body:expr) => {{
        type $L = $LT;
        type $R = $RT;
        let ($l, $r) = (Operand::<$L>::new(&$args[0])?, Operand::<$R>::new(&$args[1])?);
        $body
    }};
}

fn raw(array: Decimal128Array) -> ArrayRef {
    Arc::new(array.with_data_type(RAW_DECIMAL))
}

fn decimal(op: ArithOp, digits: [u8; 2], args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let powers = digits.map(decimals::power);
    with_decimals!(args, |l: L, r: R| {
        let why = |_, _| QueryError(FailureKind::DecimalTooWide);
        let result = match op {
            ArithOp::Add => binary::<L, R, Decimal128Type, _>(&l, &r, rows, |a, b| decimals::add(a, b, powers), why),
            ArithOp::Sub => binary::<L, R, Decimal128Type, _>(&l, &r, rows, |a, b| decimals::sub(a, b, powers), why),
            ArithOp::Mul => binary::<L, R, Decimal128Type, _>(&l, &r, rows, decimals::mul, why),
            ArithOp::Div | ArithOp::Mod => {
                return Err(DataFusionError::Internal("no division of decimals".into()));
            }
        };
        Ok(raw(result?))
    })
}

fn compare_decimals(op: CmpOp, digits: [u8; 2], args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let powers = digits.map(decimals::power);
    with_decimals!(args, |l: L, r: R| {
        let result = match op {
            CmpOp::Eq => compare::<L, R>(&l, &r, rows, |a, b| decimals::order(a, b, powers).is_eq()),
            CmpOp::Ne => compare::<L, R>(&l, &r, rows, |a, b| decimals::order(a, b, powers).is_ne()),
            CmpOp::Lt => compare::<L, R>(&l, &r, rows, |a, b| decimals::order(a, b, powers).is_lt()),
            CmpOp::Le => compare::<L, R>(&l, &r, rows, |a, b| decimals::order(a, b, powers).is_le()),
            CmpOp::Gt => compare::<L, R>(&l, &r, rows, |a, b| decimals::order(a, b, powers).is_gt()),
            CmpOp::Ge => compare::<L, R>(&l, &r, rows, |a, b| decimals::order(a, b, powers).is_ge()),
        };
        Ok(Arc::new(result) as ArrayRef)
    })
}

/// Computes a kernel that converts one number to a decimal.
fn to_decimal<A: ArrowPrimitiveType>(kernel: Kernel, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef>
where
    A::Native: decimals::Slot,
{
    let too_wide = FailureKind::DecimalTooWide;
    let widened = match kernel {
        Kernel::NegDecimal => map::<A, Decimal128Type>(args, rows, decimals::neg, too_wide)?,
        Kernel::ToDecimal64 { digits } => {
            let power = decimals::power(digits);
            return map::<A, Int64Type>(args, rows, |a| decimals::to_decimal64(a, power), too_wide);
        }
        Kernel::ToDecimal128 { digits } => {
            let power = decimals::power(digits);
            map::<A, Decimal128Type>(args, rows, |a| decimals::to_decimal128(a, power), too_wide)?
        }
        Kernel::DecimalJoinKey { digits } => {
            let power = decimals::power(digits);
            let arg = args[0].to_array(rows)?;
            let fitting = arg.as_primitive::<A>().iter().map(|slot| {
                let (value, overflow) = decimals::rescale(slot?, power);
                (!overflow).then_some(value)
            });
            Arc::new(fitting.collect::<Decimal128Array>())
        }
        other => return Err(DataFusionError::Internal(format!("{other:?} does not give a decimal"))),
    };
    Ok(raw(widened.as_primitive::<Decimal128Type>().clone()))
}
