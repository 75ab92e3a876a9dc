//! Loops over the slots of one or two operands, each an array or a constant.
//!
//! A slot function returns its result and whether it failed, and must accept any input: it is also applied to the
//! arbitrary content of null slots, so that the loop has no branch and can be vectorised. Only when some slot failed is
//! it found out whether a valid one did.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;

/// Runs `$body`, which gives a result, with `$T` as the Arrow type of a kind of numbers.
macro_rules! for_number {
    ($data_type:expr, $T:ident => $body:expr) => {
        match $data_type {
            arrow_schema::DataType::Int16 => {
                type $T = arrow_array::types::Int16Type;
                $body
            }
            arrow_schema::DataType::Int32 => {
                type $T = arrow_array::types::Int32Type;
                $body
            }
            arrow_schema::DataType::Int64 => {
                type $T = arrow_array::types::Int64Type;
                $body
            }
            arrow_schema::DataType::Decimal128(..) => {
                type $T = arrow_array::types::Decimal128Type;
                $body
            }
            other => Err(datafusion_common::error::DataFusionError::Internal(format!("{other} is no number"))),
        }
    };
}
pub(crate) use for_number;

pub enum Operand<T: ArrowPrimitiveType> {
    Array(PrimitiveArray<T>),
    Constant(Option<T::Native>),
}

impl<T: ArrowPrimitiveType> Operand<T> {
    pub fn new(value: &ColumnarValue) -> Result<Self> {
        let typed = |array: &ArrayRef| {
            array.as_primitive_opt::<T>().cloned().ok_or_else(|| {
                DataFusionError::Internal(format!("{} where {} was expected", array.data_type(), T::DATA_TYPE))
            })
        };
        Ok(match value {
            ColumnarValue::Array(array) => Operand::Array(typed(array)?),
            ColumnarValue::Scalar(scalar) => {
                let one = typed(&scalar.to_array()?)?;
                Operand::Constant(one.is_valid(0).then(|| one.value(0)))
            }
        })
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Operand::Array(array) => array.nulls(),
            Operand::Constant(_) => None,
        }
    }

    fn get(&self, row: usize) -> T::Native {
        match self {
            Operand::Array(array) => array.value(row),
            Operand::Constant(value) => value.unwrap_or_default(),
        }
    }
}

/// Applies `f` to every slot; `why` names the failure of a valid one.
pub fn unary<A: ArrowPrimitiveType, O: ArrowPrimitiveType, E>(
    arg: &PrimitiveArray<A>,
    f: impl Fn(A::Native) -> (O::Native, bool),
    why: impl Fn(A::Native) -> E,
) -> Result<PrimitiveArray<O>, E> {
    let mut failed = false;
    let values: Vec<O::Native> = (arg.values().iter())
        .map(|&a| {
            let (value, bad) = f(a);
            failed |= bad;
            value
        })
        .collect();
    if failed && let Some(row) = (0..arg.len()).find(|&i| arg.is_valid(i) && f(arg.value(i)).1) {
        return Err(why(arg.value(row)));
    }
    Ok(PrimitiveArray::new(values.into(), arg.nulls().cloned()))
}

/// Applies `f` to every pair of slots of `rows` rows; `why` names the failure of a valid pair.
pub fn binary<A: ArrowPrimitiveType, B: ArrowPrimitiveType, O: ArrowPrimitiveType, E>(
    left: &Operand<A>,
    right: &Operand<B>,
    rows: usize,
    f: impl Fn(A::Native, B::Native) -> (O::Native, bool),
    why: impl Fn(A::Native, B::Native) -> E,
) -> Result<PrimitiveArray<O>, E> {
    let mut failed = false;
    let mut checked = |a, b| {
        let (value, bad) = f(a, b);
        failed |= bad;
        value
    };
    let values: Vec<O::Native> = match (left, right) {
        (Operand::Constant(None), _) | (_, Operand::Constant(None)) => return Ok(PrimitiveArray::new_null(rows)),
        (Operand::Array(l), Operand::Array(r)) => {
            l.values().iter().zip(r.values()).map(|(&a, &b)| checked(a, b)).collect()
        }
        (Operand::Array(l), Operand::Constant(Some(b))) => l.values().iter().map(|&a| checked(a, *b)).collect(),
        (Operand::Constant(Some(a)), Operand::Array(r)) => r.values().iter().map(|&b| checked(*a, b)).collect(),
        (Operand::Constant(Some(a)), Operand::Constant(Some(b))) => {
            let value = checked(*a, *b);
            vec![value; rows]
        }
    };
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    if failed {
        let valid = |i| nulls.as_ref().is_none_or(|n| n.is_valid(i));
        if let Some(row) = (0..rows).find(|&i| valid(i) && f(left.get(i), right.get(i)).1) {
            return Err(why(left.get(row), right.get(row)));
        }
    }
    Ok(PrimitiveArray::new(values.into(), nulls))
}

/// A comparison that cannot fail.
pub fn compare<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    left: &Operand<A>,
    right: &Operand<B>,
    rows: usize,
    f: impl Fn(A::Native, B::Native) -> bool,
) -> BooleanArray {
    if matches!(left, Operand::Constant(None)) || matches!(right, Operand::Constant(None)) {
        return BooleanArray::new_null(rows);
    }
    let values = BooleanBuffer::collect_bool(rows, |i| f(left.get(i), right.get(i)));
    BooleanArray::new(values, NullBuffer::union(left.nulls(), right.nulls()))
}
