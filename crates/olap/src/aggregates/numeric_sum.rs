//! The sum of numerics. It is exact in any order, and has as many decimal places as the addend with most of them. A
//! partial sum is added like a single value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use numeric::Total;
use protocol::request::FailureKind;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State, included};
use crate::base::error::QueryError;
use crate::functions::numerics::{Collected, decoded};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumericSum;

impl Function for NumericSum {
    fn name(&self) -> &'static str {
        "numeric_sum"
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        DataType::BinaryView
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(NumericSum, result)))
    }
}

impl State for Total {
    fn heap_bytes(&self) -> usize {
        Total::heap_bytes(self)
    }
}

impl Fold for NumericSum {
    type States = Vec<Total>;

    fn start(&self) -> Total {
        Total::default()
    }

    fn add(&self, totals: &mut Vec<Total>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let values = values[0].as_binary_view();
        rows.visit(values.len(), values.nulls(), |group, row| {
            totals[group].add(&decoded(values.value(row))?);
            Ok(())
        })
    }

    fn results(&self, totals: Vec<Total>, _: &DataType) -> Result<ArrayRef> {
        let mut out = Collected::with_capacity(totals.len());
        for total in &totals {
            let sum = total.sum().transpose().map_err(|_| QueryError(FailureKind::DecimalTooWide))?;
            out.push(sum.as_ref());
        }
        Ok(out.finish())
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        _: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_binary_view();
        let (views, buffers) = (values.views().clone(), values.data_buffers().to_vec());
        let states = BinaryViewArray::try_new(views, buffers, included(values.nulls(), filter))?;
        Ok(vec![Arc::new(states)])
    }
}
