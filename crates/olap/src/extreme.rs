//! Minimum and maximum of floats as PostgreSQL orders them: -0 = 0, and NaN is the greatest.
//!
//! The bits of the value found are kept, so that the minimum of -0 alone is -0.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

use crate::numbers::floats::canonical;
use crate::sum::included;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extreme {
    Min,
    Max,
}

impl Extreme {
    fn replaces(self, new: f64, old: f64) -> bool {
        let order = canonical(new).total_cmp(&canonical(old));
        match self {
            Extreme::Min => order.is_lt(),
            Extreme::Max => order.is_gt(),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatExtreme {
    which: Extreme,
    signature: Signature,
}

impl FloatExtreme {
    pub fn new(which: Extreme) -> Self {
        FloatExtreme { which, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for FloatExtreme {
    fn name(&self) -> &str {
        match self.which {
            Extreme::Min => "float_min",
            Extreme::Max => "float_max",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[extreme]", args.name), DataType::Float64, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { which: self.which, found: None }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PerGroup { which: self.which, values: vec![], seen: vec![] }))
    }
}

#[derive(Debug)]
struct One {
    which: Extreme,
    found: Option<f64>,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            if self.found.is_none_or(|found| self.which.replaces(value, found)) {
                self.found = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.found))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup {
    which: Extreme,
    values: Vec<f64>,
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
        self.values.resize(total_groups, 0.0);
        self.seen.resize(total_groups, false);
        let array = values[0].as_primitive::<Float64Type>();
        let mut update = |row: usize| {
            let (group, value) = (groups[row], array.value(row));
            if !self.seen[group] || self.which.replaces(value, self.values[group]) {
                self.values[group] = value;
                self.seen[group] = true;
            }
        };
        match included(values[0].nulls(), filter) {
            None => (0..groups.len()).for_each(update),
            Some(included) => included.valid_indices().for_each(&mut update),
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (values, seen) = (emit_to.take_needed(&mut self.values), emit_to.take_needed(&mut self.seen));
        Ok(Arc::new(Float64Array::new(values.into(), Some(NullBuffer::from(seen)))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_primitive::<Float64Type>();
        Ok(vec![Arc::new(Float64Array::new(array.values().clone(), included(array.nulls(), filter)))])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<f64>() + self.seen.capacity()
    }
}
