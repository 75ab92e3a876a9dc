//! Collects the rows of all groups, and computes each group's result at the end.

use std::fmt;

use arrow_array::{ArrayRef, BooleanArray, new_null_array};
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use plan::Listing;
use plan::catalogue::Aggregate;

use super::list_of::ListOf;
use super::order::Order;
use super::rows::Rows;
use super::{arrays, joined, ranked};
use crate::aggregates::fold::{Accumulating, Function};

impl ListOf {
    /// Computes the result of each group.
    fn made(&self, rows: Rows, groups: usize) -> Result<ArrayRef> {
        if matches!(self.of, Listing::Discrete | Listing::Continuous) {
            ranked::share(self)?;
        }
        if rows.len() == 0 {
            return Ok(new_null_array(&self.result(), groups));
        }
        let mut rows = rows.by_group(groups)?;
        let order = Order::of(&self.order, &rows.columns)?;
        match self.of {
            Listing::Joined => joined::made(self, &mut rows, &order),
            Listing::Array => arrays::made(self, &mut rows, &order),
            Listing::Discrete | Listing::Continuous | Listing::Mode => ranked::made(self, &mut rows, &order),
        }
    }

    /// The memory that the rows need until their result is made: the stored rows, the concatenated columns, the keys of
    /// the order, and the result.
    fn bytes(&self, rows: &Rows) -> usize {
        let listed = match self.of {
            Listing::Joined | Listing::Array => rows.bytes(),
            Listing::Discrete | Listing::Continuous | Listing::Mode => 0,
        };
        2 * rows.bytes() + listed + rows.len() * Order::bytes_of_row(&self.order)
    }
}

impl Function for ListOf {
    fn name(&self) -> &'static str {
        Aggregate::Listed(self.of).row().name
    }

    fn arguments(&self) -> usize {
        self.arguments
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        self.result()
    }

    fn accumulating(&self, _: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Collecting { list: self.clone(), rows: Rows::default(), groups: 0 }))
    }
}

fn no_partial_states<T>() -> Result<T> {
    Err(DataFusionError::Internal("a list in two phases".into()))
}

/// The collected rows of all groups.
struct Collecting {
    list: ListOf,
    rows: Rows,
    groups: usize,
}

impl fmt::Debug for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collecting").field("list", &self.list).field("rows", &self.rows.len()).finish()
    }
}

impl GroupsAccumulator for Collecting {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.groups = total_groups;
        self.rows.add(values, self.list.included(values, filter), |row| groups[row])
    }

    fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        match emit_to {
            EmitTo::All => self.list.made(std::mem::take(&mut self.rows), self.groups),
            EmitTo::First(_) => Err(DataFusionError::Internal("lists of some of the groups".into())),
        }
    }

    fn state(&mut self, _: EmitTo) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        self.list.bytes(&self.rows)
    }
}

/// All rows form one group here.
impl Accumulator for Collecting {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let included = self.list.included(values, None);
        self.rows.add(values, included, |_| 0)
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let made = self.list.made(std::mem::take(&mut self.rows), 1)?;
        ScalarValue::try_from_array(&made, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        self.list.bytes(&self.rows)
    }
}
