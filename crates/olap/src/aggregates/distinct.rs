//! Aggregates with DISTINCT: each value of a group counts once.
//!
//! Only the first row with each value is passed to the inner aggregate. For this, all rows of a group must be in one
//! partition, so there are no partial states.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;
use arrow_select::filter::filter;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::aggregates::fold::{Accumulating, Function, included};
use crate::aggregates::seen::Seen;

/// An aggregate with DISTINCT: passes each distinct value of a group once to the inner aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Distinct<F>(pub F);

impl<F: Function> Function for Distinct<F> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn arguments(&self) -> usize {
        self.0.arguments()
    }

    fn result_type(&self, arguments: &[DataType]) -> DataType {
        self.0.result_type(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(OverFirst { of: self.0.accumulating(result)?, seen: Seen::default() }))
    }
}

fn no_partial_states<T>() -> Result<T> {
    Err(DataFusionError::Internal("an aggregate over distinct values in two phases".into()))
}

#[derive(Debug)]
struct OverFirst {
    of: Box<dyn Accumulating>,
    seen: Seen,
}

impl OverFirst {
    /// Marks the rows whose value is new to their group. Nulls are not marked.
    fn first(
        &mut self,
        array: &ArrayRef,
        groups: Option<&[usize]>,
        filter: Option<&BooleanArray>,
    ) -> Result<BooleanArray> {
        let included = included(array.nulls(), filter);
        let rows = |row: usize| included.as_ref().is_none_or(|included| included.is_valid(row));
        let mut first = BooleanBufferBuilder::new(array.len());
        self.seen.first(array, groups, rows, |is_new| first.append(is_new))?;
        Ok(BooleanArray::new(first.finish(), None))
    }
}

impl Accumulator for OverFirst {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let first = self.first(&values[0], None, None)?;
        Accumulator::update_batch(&mut *self.of, &[filter(&values[0], &first)?])
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Accumulator::evaluate(&mut *self.of)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        Accumulator::size(&*self.of) + self.seen.bytes()
    }
}

impl GroupsAccumulator for OverFirst {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let first = self.first(&values[0], Some(groups), filter)?;
        GroupsAccumulator::update_batch(&mut *self.of, values, groups, Some(&first), total_groups)
    }

    fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        if matches!(emit_to, EmitTo::First(_)) {
            return Err(DataFusionError::Internal("distinct values of some of the groups".into()));
        }
        self.seen = Seen::default();
        GroupsAccumulator::evaluate(&mut *self.of, emit_to)
    }

    fn state(&mut self, _: EmitTo) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        GroupsAccumulator::size(&*self.of) + self.seen.bytes()
    }
}
