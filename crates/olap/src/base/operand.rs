//! Loops over the slots of one or two operands. A slot is the value of one row, which may be null; an operand is an
//! array or a constant.
//!
//! The function for one slot returns a result, and whether it failed. It is also called for null slots, whose content
//! is arbitrary, so it must accept any input. The loop therefore has no branch and can be vectorised. Only if some slot
//! has failed, the valid slots are checked for failures.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use arrow_select::zip::zip;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use protocol::request::FailureKind;

use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;

/// Runs `$body` with `$T` as the Arrow type of an array of one of the given forms.
macro_rules! for_types {
    ($data_type:expr, $T:ident => $body:expr, [$($form:pat => $Type:ident),*], $other:pat => $otherwise:expr) => {
        match $data_type {
            $($form => {
                type $T = arrow_array::types::$Type;
                $body
            })*
            $other => $otherwise,
        }
    };
}
pub(crate) use for_types;

/// Runs `$body`, which returns a `Result`, with `$T` as the Arrow type of an array of integers or decimals.
macro_rules! for_number {
    ($data_type:expr, $T:ident => $body:expr) => {
        $crate::base::operand::for_types!(
            $data_type,
            $T => $body,
            [
                arrow_schema::DataType::Int16 => Int16Type,
                arrow_schema::DataType::Int32 => Int32Type,
                arrow_schema::DataType::Int64 => Int64Type,
                arrow_schema::DataType::Decimal128(..) => Decimal128Type
            ],
            other => Err(datafusion_common::error::DataFusionError::Internal(format!("{other} is no number")))
        )
    };
}
pub(crate) use for_number;

/// Runs `$body` with `$T` as the Arrow type of an array of integers, floats or decimals. Does nothing for any other
/// array.
macro_rules! for_slots {
    ($data_type:expr, $T:ident => $body:expr) => {
        $crate::base::operand::for_types!(
            $data_type,
            $T => $body,
            [
                arrow_schema::DataType::Int16 => Int16Type,
                arrow_schema::DataType::Int32 => Int32Type,
                arrow_schema::DataType::Int64 => Int64Type,
                arrow_schema::DataType::Float64 => Float64Type,
                arrow_schema::DataType::Decimal128(..) => Decimal128Type
            ],
            _ => {}
        )
    };
}
pub(crate) use for_slots;

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

    /// Whether the operand is null in every row.
    pub fn is_null(&self) -> bool {
        matches!(self, Operand::Constant(None))
    }

    pub fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Operand::Array(array) => array.nulls(),
            Operand::Constant(_) => None,
        }
    }

    pub fn get(&self, row: usize) -> T::Native {
        match self {
            Operand::Array(array) => array.value(row),
            Operand::Constant(value) => value.unwrap_or_default(),
        }
    }

    /// The slots of `self` where the mask is set, and the slots of `other` elsewhere.
    pub fn or(&self, other: &Self, mask: &BooleanBuffer, rows: usize) -> PrimitiveArray<T> {
        let values: Vec<T::Native> = match (self, other) {
            (Operand::Array(a), Operand::Array(b)) => {
                pick(mask, a.values().iter().copied(), b.values().iter().copied())
            }
            (Operand::Array(a), Operand::Constant(b)) => {
                pick(mask, a.values().iter().copied(), std::iter::repeat(b.unwrap_or_default()))
            }
            (Operand::Constant(a), Operand::Array(b)) => {
                pick(mask, std::iter::repeat(a.unwrap_or_default()), b.values().iter().copied())
            }
            (Operand::Constant(a), Operand::Constant(b)) => {
                let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
                pick(mask, std::iter::repeat(a), std::iter::repeat(b))
            }
        };
        let all_null = |side: &Self| matches!(side, Operand::Constant(None)).then(|| NullBuffer::new_null(rows));
        let (own, others) = (all_null(self), all_null(other));
        let nulls = selected_nulls(mask, own.as_ref().or(self.nulls()), others.as_ref().or(other.nulls()));
        PrimitiveArray::new(values.into(), nulls).with_data_type(raw_type::<T>())
    }
}

/// `yes` where the mask is set, and `no` elsewhere; both have the same type.
pub fn select(mask: &BooleanBuffer, yes: &ColumnarValue, no: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    for_slots!(yes.data_type(), T => {
        let (yes, no) = (Operand::<T>::new(yes)?, Operand::<T>::new(no)?);
        return Ok(Arc::new(yes.or(&no, mask, rows)));
    });
    let mask = BooleanArray::new(mask.clone(), None);
    Ok(zip(&mask, &yes.to_array(rows)?, &no.to_array(rows)?)?)
}

fn raw_type<T: ArrowPrimitiveType>() -> DataType {
    match T::DATA_TYPE {
        DataType::Decimal128(..) => RAW_DECIMAL,
        other => other,
    }
}

fn pick<V>(mask: &BooleanBuffer, yes: impl Iterator<Item = V>, no: impl Iterator<Item = V>) -> Vec<V> {
    mask.iter().zip(yes.zip(no)).map(|(set, (yes, no))| if set { yes } else { no }).collect()
}

/// The null bitmap of a selection: the bits of `yes` where the mask is set, and the bits of `no` elsewhere.
fn selected_nulls(mask: &BooleanBuffer, yes: Option<&NullBuffer>, no: Option<&NullBuffer>) -> Option<NullBuffer> {
    let valid = match (yes, no) {
        (None, None) => return None,
        (Some(yes), None) => &(mask & yes.inner()) | &!mask,
        (None, Some(no)) => &(&!mask & no.inner()) | mask,
        (Some(yes), Some(no)) => &(mask & yes.inner()) | &(&!mask & no.inner()),
    };
    Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
}

/// Applies `f` to every slot. If `f` fails for a valid slot, `why` makes the error.
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

/// Applies `f` to every slot. If it fails for a valid slot, the error is `kind`.
pub fn map<A: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    args: &[ColumnarValue],
    rows: usize,
    f: impl Fn(A::Native) -> (O::Native, bool),
    kind: FailureKind,
) -> Result<ArrayRef> {
    let arg = args[0].to_array(rows)?;
    let Operand::Array(arg) = Operand::<A>::new(&ColumnarValue::Array(arg))? else {
        return Err(DataFusionError::Internal("an array became a constant".into()));
    };
    Ok(Arc::new(unary::<A, O, _>(&arg, f, |_| QueryError(kind))?))
}

/// Applies `f` to every pair of slots of `rows` rows. If it fails for a valid pair, `why` makes the error.
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
