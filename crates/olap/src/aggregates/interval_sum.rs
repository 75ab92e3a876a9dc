//! The sum of intervals: months, days and time each for itself.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use plan::Interval;

use crate::aggregates::sum::included;
use crate::base::arrow_form::RAW_DECIMAL;
use crate::functions::time::interval_values::{Outcome, number, out_of_range};

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntervalSum {
    signature: Signature,
}

impl IntervalSum {
    pub fn new() -> Self {
        IntervalSum { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for IntervalSum {
    fn name(&self) -> &str {
        "interval_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(RAW_DECIMAL)
    }

    /// The sum of some of the rows is an addend like another.
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", args.name), RAW_DECIMAL, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum(None)))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupSums(Vec::new())))
    }
}

/// Wide enough for as many intervals as there can be rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    months: i64,
    days: i64,
    microseconds: i128,
}

fn with(total: Option<Total>, addend: i128) -> Option<Total> {
    Some(total.unwrap_or_default().plus(addend, 1))
}

impl Total {
    /// With an interval added, or taken back.
    pub fn plus(self, addend: i128, times: i8) -> Total {
        let Interval { months, days, microseconds } = Interval::of_number(addend);
        Total {
            months: self.months + i64::from(months) * i64::from(times),
            days: self.days + i64::from(days) * i64::from(times),
            microseconds: self.microseconds + i128::from(microseconds) * i128::from(times),
        }
    }

    pub fn sum(self) -> Outcome<i128> {
        let months = i32::try_from(self.months).map_err(|_| out_of_range())?;
        let days = i32::try_from(self.days).map_err(|_| out_of_range())?;
        let microseconds = i64::try_from(self.microseconds).map_err(|_| out_of_range())?;
        number(Interval { months, days, microseconds })
    }
}

/// Of all rows.
#[derive(Debug)]
struct Sum(Option<Total>);

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0 = values[0].as_primitive::<Decimal128Type>().iter().flatten().fold(self.0, with);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128(self.0.map(Total::sum).transpose()?, 38, 0))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// Of groups; `None`: they have no value yet.
struct GroupSums(Vec<Option<Total>>);

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.0.resize(total_groups, None);
        let values = values[0].as_primitive::<Decimal128Type>();
        let mut add = |row: usize| self.0[groups[row]] = with(self.0[groups[row]], values.value(row));
        match included(values.nulls(), filter) {
            None => (0..values.len()).for_each(&mut add),
            Some(included) => included.valid_indices().for_each(&mut add),
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.0);
        let sums = totals.into_iter().map(|total| total.map(Total::sum).transpose());
        Ok(Arc::new(sums.collect::<Outcome<Decimal128Array>>()?.with_data_type(RAW_DECIMAL)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Decimal128Type>();
        let states = Decimal128Array::new(values.values().clone(), included(values.nulls(), filter));
        Ok(vec![Arc::new(states.with_data_type(RAW_DECIMAL))])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Option<Total>>()
    }
}
