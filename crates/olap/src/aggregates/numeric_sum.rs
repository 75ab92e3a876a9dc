//! The sum of numerics: exact, in any order, with as many digits as the addend that shows most.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use numeric::{Numeric, Total};
use protocol::request::FailureKind;

use crate::aggregates::sum::included;
use crate::base::error::QueryError;
use crate::functions::numerics::{Collected, decoded};

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NumericSum {
    signature: Signature,
}

impl NumericSum {
    pub fn new() -> Self {
        NumericSum { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for NumericSum {
    fn name(&self) -> &str {
        "numeric_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }

    /// The sum of some of the rows is an addend like another.
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", args.name), DataType::BinaryView, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum(Total::default())))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupSums(Vec::new())))
    }
}

fn sum(total: &Total) -> Result<Option<Numeric>> {
    Ok(total.sum().transpose().map_err(|_| QueryError(FailureKind::DecimalTooWide))?)
}

/// Of all rows.
struct Sum(Total);

impl std::fmt::Debug for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sum of {}", self.0.count())
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_binary_view().iter().flatten() {
            self.0.add(&decoded(value)?);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let key = sum(&self.0)?.map(|sum| {
            let mut key = Vec::new();
            sum.write_key(&mut key);
            key
        });
        Ok(ScalarValue::BinaryView(key))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.heap_bytes()
    }
}

/// Of groups.
struct GroupSums(Vec<Total>);

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.0.resize_with(total_groups, Total::default);
        let values = values[0].as_binary_view();
        let mut add = |row: usize| {
            self.0[groups[row]].add(&decoded(values.value(row))?);
            Ok(())
        };
        match included(values.nulls(), filter) {
            None => (0..values.len()).try_for_each(&mut add),
            Some(included) => included.valid_indices().try_for_each(&mut add),
        }
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.0);
        let mut out = Collected::with_capacity(totals.len());
        for total in &totals {
            out.push(sum(total)?.as_ref());
        }
        Ok(out.finish())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_binary_view();
        let (views, buffers) = (values.views().clone(), values.data_buffers().to_vec());
        let states = BinaryViewArray::try_new(views, buffers, included(values.nulls(), filter))?;
        Ok(vec![Arc::new(states)])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Total>() + self.0.iter().map(Total::heap_bytes).sum::<usize>()
    }
}
