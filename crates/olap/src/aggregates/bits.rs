//! AND, OR and XOR of truth values and of the bits of integers. Partial results are combined like values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use plan::catalogue::{Aggregate, BitAgg};

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, Values, included};
use crate::aggregates::sum::Summand;
use crate::base::operand::for_number;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bits(pub BitAgg);

impl Function for Bits {
    fn name(&self) -> &'static str {
        Aggregate::Bits(self.0).row().name
    }

    fn result_type(&self, arguments: &[DataType]) -> DataType {
        arguments[0].clone()
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(self.clone(), result)))
    }
}

impl Fold for Bits {
    type States = Values<i64>;

    fn start(&self) -> i64 {
        neutral(self.0)
    }

    fn add(&self, found: &mut Values<i64>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let (array, of) = (&values[0], self.0);
        if array.null_count() == array.len() {
            return Ok(());
        }
        let bits = widened(array)?;
        match (rows, array.nulls()) {
            (Rows::OfOne, None) => {
                found.values[0] = bits.iter().fold(found.values[0], |a, &b| combined(of, a, b));
                found.seen[0] = true;
                Ok(())
            }
            (rows, nulls) => rows.visit(bits.len(), nulls, |group, row| {
                found.values[group] = combined(of, found.values[group], bits[row]);
                found.seen[group] = true;
                Ok(())
            }),
        }
    }

    fn results(&self, found: Values<i64>, result: &DataType) -> Result<ArrayRef> {
        narrowed(found.values, Some(NullBuffer::from(found.seen)), result)
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        result: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        Ok(vec![narrowed(widened(&values[0])?, included(values[0].nulls(), filter), result)?])
    }
}

/// The neutral element of the operation.
fn neutral(of: BitAgg) -> i64 {
    match of {
        BitAgg::BoolAnd | BitAgg::And => -1,
        BitAgg::BoolOr | BitAgg::Or | BitAgg::Xor => 0,
    }
}

pub fn combined(of: BitAgg, a: i64, b: i64) -> i64 {
    match of {
        BitAgg::BoolAnd | BitAgg::And => a & b,
        BitAgg::BoolOr | BitAgg::Or => a | b,
        BitAgg::Xor => a ^ b,
    }
}

/// The values as integers of 64 bits; true has all bits set.
pub fn widened(array: &ArrayRef) -> Result<Vec<i64>> {
    match array.data_type() {
        DataType::Boolean => Ok(array.as_boolean().values().iter().map(|bit| -i64::from(bit)).collect()),
        number => for_number!(number, T => {
            Ok(array.as_primitive::<T>().values().iter().map(|&value| <T as Summand>::widen(value) as i64).collect())
        }),
    }
}

/// Converts 64-bit results back to the column's type. This loses nothing, because the upper bits of each operand are
/// copies of its sign bit, and AND, OR and XOR keep them so.
pub fn narrowed(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(values.iter().map(|bits| *bits != 0).collect(), nulls)),
        DataType::Int16 => Arc::new(Int16Array::new(values.iter().map(|bits| *bits as i16).collect(), nulls)),
        DataType::Int32 => Arc::new(Int32Array::new(values.iter().map(|bits| *bits as i32).collect(), nulls)),
        DataType::Int64 => Arc::new(Int64Array::new(values.into(), nulls)),
        other => return Err(DataFusionError::Internal(format!("{other} has no bits"))),
    })
}
