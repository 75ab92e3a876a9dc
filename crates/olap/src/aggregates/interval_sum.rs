//! The sum of intervals: months, days and time are added separately. A partial sum is added like a single interval.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use plan::Interval;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State, included};
use crate::base::arrow_form::RAW_DECIMAL;
use crate::functions::time::interval_values::{Outcome, number, out_of_range};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IntervalSum;

impl Function for IntervalSum {
    fn name(&self) -> &'static str {
        "interval_sum"
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        RAW_DECIMAL
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(IntervalSum, result)))
    }
}

/// The state of a group; `None` if there was no value yet.
impl State for Option<Total> {}

impl Fold for IntervalSum {
    type States = Vec<Option<Total>>;

    fn start(&self) -> Option<Total> {
        None
    }

    fn add(&self, totals: &mut Vec<Option<Total>>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let values = values[0].as_primitive::<Decimal128Type>();
        rows.visit(values.len(), values.nulls(), |group, row| {
            totals[group] = Some(totals[group].unwrap_or_default().plus(values.value(row), 1));
            Ok(())
        })
    }

    fn results(&self, totals: Vec<Option<Total>>, _: &DataType) -> Result<ArrayRef> {
        let sums = totals.into_iter().map(|total| total.map(Total::sum).transpose());
        Ok(Arc::new(sums.collect::<Outcome<Decimal128Array>>()?.with_data_type(RAW_DECIMAL)))
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        _: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Decimal128Type>();
        let states = Decimal128Array::new(values.values().clone(), included(values.nulls(), filter));
        Ok(vec![Arc::new(states.with_data_type(RAW_DECIMAL))])
    }
}

/// A sum whose fields are wide enough for as many intervals as there can be rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    months: i64,
    days: i64,
    microseconds: i128,
}

impl Total {
    /// Adds an interval if `times` is 1; subtracts it if `times` is -1.
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
