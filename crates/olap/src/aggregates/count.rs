//! The number of a group's rows that have a value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow_schema::DataType;
use datafusion_common::error::Result;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State, included};
use crate::aggregates::sum::{FEW_GROUPS, LANES};

/// Counts the rows in which the argument is not null; with a constant argument, all rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Count;

impl Function for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        DataType::Int64
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(Count, result)))
    }
}

impl State for i64 {}

impl Fold for Count {
    type States = Vec<i64>;

    fn start(&self) -> i64 {
        0
    }

    fn add(&self, counts: &mut Vec<i64>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        match rows {
            Rows::OfOne => counts[0] += (values[0].len() - values[0].logical_null_count()) as i64,
            Rows::OfGroups(groups, filter) => match included(values[0].logical_nulls().as_ref(), filter) {
                None if counts.len() <= FEW_GROUPS => count_in_lanes(counts, groups),
                None => groups.iter().for_each(|&group| counts[group] += 1),
                Some(included) => included.valid_indices().for_each(|row| counts[groups[row]] += 1),
            },
        }
        Ok(())
    }

    fn merge(&self, counts: &mut Vec<i64>, columns: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let more = columns[0].as_primitive::<Int64Type>().values();
        rows.visit(more.len(), None, |group, row| {
            counts[group] += more[row];
            Ok(())
        })
    }

    fn results(&self, counts: Vec<i64>, _: &DataType) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(counts)))
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        _: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let counts = match included(values[0].logical_nulls().as_ref(), filter) {
            None => vec![1; values[0].len()],
            Some(included) => included.iter().map(i64::from).collect(),
        };
        Ok(vec![Arc::new(Int64Array::from(counts))])
    }
}

/// Counts rows when there are few groups. Each group has several counters, called lanes, which take turns. With a
/// single counter, an addition would wait for the previous one, because consecutive rows often belong to the same
/// group.
fn count_in_lanes(counts: &mut [i64], groups: &[usize]) {
    let mut lanes = [[0i64; LANES]; FEW_GROUPS];
    for (row, group) in groups.iter().enumerate() {
        lanes[group % FEW_GROUPS][row % LANES] += 1;
    }
    for (count, lanes) in counts.iter_mut().zip(lanes) {
        *count += lanes.iter().sum::<i64>();
    }
}
