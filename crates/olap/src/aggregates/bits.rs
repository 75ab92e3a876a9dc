//! AND, OR and XOR of truth values and of the bits of integers. A partial result is a value like any other.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use plan::catalogue::BitAgg;

use crate::aggregates::sum::{Summand, included};
use crate::base::operand::for_number;

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    of: BitAgg,
    signature: Signature,
}

impl Bits {
    pub fn new(of: BitAgg) -> Self {
        Bits { of, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Bits {
    fn name(&self) -> &str {
        match self.of {
            BitAgg::BoolAnd => "bool_and",
            BitAgg::BoolOr => "bool_or",
            BitAgg::And => "bit_and",
            BitAgg::Or => "bit_or",
            BitAgg::Xor => "bit_xor",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { of: self.of, data_type: args.return_type().clone(), found: None }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PerGroup { of: self.of, data_type: args.return_type().clone(), found: vec![], seen: vec![] }))
    }
}

/// What nothing is changed by.
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

/// The values as integers of 64 bits: true has them all set.
pub fn widened(array: &ArrayRef) -> Result<Vec<i64>> {
    match array.data_type() {
        DataType::Boolean => Ok(array.as_boolean().values().iter().map(|bit| -i64::from(bit)).collect()),
        number => for_number!(number, T => {
            Ok(array.as_primitive::<T>().values().iter().map(|&value| <T as Summand>::widen(value) as i64).collect())
        }),
    }
}

/// The other way round. The bits beyond an integer's own follow its sign in whatever was made of them.
pub fn narrowed(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(values.iter().map(|bits| *bits != 0).collect(), nulls)),
        DataType::Int16 => Arc::new(Int16Array::new(values.iter().map(|bits| *bits as i16).collect(), nulls)),
        DataType::Int32 => Arc::new(Int32Array::new(values.iter().map(|bits| *bits as i32).collect(), nulls)),
        DataType::Int64 => Arc::new(Int64Array::new(values.into(), nulls)),
        other => return Err(DataFusionError::Internal(format!("{other} has no bits"))),
    })
}

/// Of all rows.
#[derive(Debug)]
struct One {
    of: BitAgg,
    data_type: DataType,
    found: Option<i64>,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (array, of) = (&values[0], self.of);
        if array.null_count() == array.len() {
            return Ok(());
        }
        let bits = widened(array)?;
        let start = self.found.unwrap_or(neutral(of));
        self.found = Some(match array.nulls() {
            None => bits.iter().fold(start, |a, &b| combined(of, a, b)),
            Some(nulls) => nulls.valid_indices().fold(start, |a, row| combined(of, a, bits[row])),
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let nulls = NullBuffer::from(vec![self.found.is_some()]);
        let one = narrowed(vec![self.found.unwrap_or_default()], Some(nulls), &self.data_type)?;
        ScalarValue::try_from_array(&one, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup {
    of: BitAgg,
    data_type: DataType,
    found: Vec<i64>,
    /// Groups that have a value.
    seen: Vec<bool>,
}

impl GroupsAccumulator for PerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.found.resize(total_groups, neutral(self.of));
        self.seen.resize(total_groups, false);
        let bits = widened(&values[0])?;
        let mut add = |row: usize| {
            let group = groups[row];
            self.found[group] = combined(self.of, self.found[group], bits[row]);
            self.seen[group] = true;
        };
        match included(values[0].nulls(), filter) {
            None => (0..bits.len()).for_each(add),
            Some(included) => included.valid_indices().for_each(&mut add),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(states, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (found, seen) = (emit_to.take_needed(&mut self.found), emit_to.take_needed(&mut self.seen));
        narrowed(found, Some(NullBuffer::from(seen)), &self.data_type)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Ok(vec![narrowed(widened(&values[0])?, included(values[0].nulls(), filter), &self.data_type)?])
    }

    fn size(&self) -> usize {
        self.found.capacity() * size_of::<i64>() + self.seen.capacity()
    }
}
