//! How many rows of a group have a value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

use crate::aggregates::sum::{FEW_GROUPS, LANES, included};

/// Counts the rows in which its argument is not null: all of them, for a constant.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Count {
    signature: Signature,
}

impl Count {
    pub fn new() -> Self {
        Count { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[count]", args.name), DataType::Int64, false))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Total(0)))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PerGroup(vec![])))
    }
}

#[derive(Debug)]
struct Total(i64);

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0 += (values[0].len() - values[0].logical_null_count()) as i64;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0 += states[0].as_primitive::<Int64Type>().values().iter().sum::<i64>();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup(Vec<i64>);

impl PerGroup {
    /// Of few groups the same one comes again and again, and each addition would wait for the one before.
    fn count_in_lanes(&mut self, groups: &[usize]) {
        let mut lanes = [[0i64; LANES]; FEW_GROUPS];
        for (row, group) in groups.iter().enumerate() {
            lanes[group % FEW_GROUPS][row % LANES] += 1;
        }
        for (count, lanes) in self.0.iter_mut().zip(lanes) {
            *count += lanes.iter().sum::<i64>();
        }
    }
}

impl GroupsAccumulator for PerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.0.resize(total_groups, 0);
        match included(values[0].logical_nulls().as_ref(), filter) {
            None if total_groups <= FEW_GROUPS => self.count_in_lanes(groups),
            None => groups.iter().for_each(|&group| self.0[group] += 1),
            Some(included) => included.valid_indices().for_each(|row| self.0[groups[row]] += 1),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.0.resize(total_groups, 0);
        let counts = states[0].as_primitive::<Int64Type>().values();
        groups.iter().zip(counts).for_each(|(&group, count)| self.0[group] += count);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(emit_to.take_needed(&mut self.0))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let counts = match included(values[0].logical_nulls().as_ref(), filter) {
            None => vec![1; values[0].len()],
            Some(included) => included.iter().map(i64::from).collect(),
        };
        Ok(vec![Arc::new(Int64Array::from(counts))])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<i64>()
    }
}
