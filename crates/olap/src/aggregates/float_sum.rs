//! Sum and average of floats.
//!
//! PostgreSQL adds in the order in which rows come, and in parallel plans in any. Here the rounding error of each addition
//! is kept beside the sum (Knuth's TwoSum, as Neumaier uses it), so that the result hardly depends on the order: it is at
//! least as near to the true sum as any of PostgreSQL's. Infinities and NaN travel in the sum itself.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use plan::catalogue::MAX_SUMMED;
use protocol::request::FailureKind;

use crate::aggregates::sum::included;
use crate::base::error::QueryError;

/// What becomes of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    Sum,
    Avg,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatTotal {
    result: Wanted,
    signature: Signature,
}

impl FloatTotal {
    pub fn new(result: Wanted) -> Self {
        FloatTotal { result, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for FloatTotal {
    fn name(&self) -> &str {
        match self.result {
            Wanted::Sum => "float_sum",
            Wanted::Avg => "float_avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name, ty| Arc::new(Field::new(format!("{}[{name}]", args.name), ty, false));
        Ok(vec![field("sum", DataType::Float64), field("lost", DataType::Float64), field("count", DataType::Int64)])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { result: self.result, total: Total::default() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PerGroup { result: self.result, totals: vec![] }))
    }
}

/// The value, unless some order of rows could overflow with it.
pub fn checked(value: f64) -> Result<f64> {
    match value.is_finite() && value.abs() > MAX_SUMMED {
        true => Err(QueryError(FailureKind::FloatTooLarge).into()),
        false => Ok(value),
    }
}

/// Values so far.
#[derive(Clone, Copy, Debug)]
struct Total {
    sum: f64,
    /// What rounding took from the sum.
    lost: f64,
    count: i64,
}

impl Default for Total {
    /// The sum of nothing but negative zeros is one.
    fn default() -> Self {
        Total { sum: -0.0, lost: 0.0, count: 0 }
    }
}

impl Total {
    fn add(&mut self, value: f64) -> Result<()> {
        self.merge(Total { sum: checked(value)?, lost: 0.0, count: 1 });
        Ok(())
    }

    #[inline]
    fn merge(&mut self, other: Total) {
        self.count += other.count;
        if self.sum.is_finite() && other.sum.is_finite() {
            let (sum, lost) = two_sum(self.sum, other.sum);
            self.sum = sum;
            self.lost += lost + other.lost;
        } else {
            self.sum += other.sum;
        }
    }

    fn add_all(&mut self, values: &[f64]) -> Result<()> {
        if !values.iter().fold(true, |tame, value| tame & (value.abs() <= MAX_SUMMED)) {
            return values.iter().try_for_each(|&value| self.add(value));
        }
        const LANES: usize = 8;
        let (mut sums, mut losses) = ([-0.0; LANES], [0.0; LANES]);
        let chunks = values.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for ((sum, loss), &value) in sums.iter_mut().zip(&mut losses).zip(chunk) {
                let (total, lost) = two_sum(*sum, value);
                *sum = total;
                *loss += lost;
            }
        }
        for (sum, lost) in sums.into_iter().zip(losses) {
            self.merge(Total { sum, lost, count: 0 });
        }
        self.count += (values.len() - rest.len()) as i64;
        rest.iter().try_for_each(|&value| self.add(value))
    }

    fn result(&self, wanted: Wanted) -> Option<f64> {
        // An infinite sum has lost nothing that could be told, and the sum of negative zeros keeps its sign.
        let whole = self.lost == 0.0 || !self.sum.is_finite();
        let sum = if whole { self.sum } else { self.sum + self.lost };
        (self.count > 0).then(|| match wanted {
            Wanted::Sum => sum,
            // PostgreSQL's average starts with 0.
            Wanted::Avg => (0.0 + sum) / self.count as f64,
        })
    }
}

/// The sum, and what rounding took from it.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_as_added = sum - a;
    (sum, (a - (sum - b_as_added)) + (b - b_as_added))
}

fn states(columns: &[ArrayRef]) -> impl Iterator<Item = Total> {
    let (sums, losses) = (columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>());
    let counts = columns[2].as_primitive::<Int64Type>();
    let values = sums.values().iter().zip(losses.values()).zip(counts.values());
    values.map(|((&sum, &lost), &count)| Total { sum, lost, count })
}

fn as_states(totals: &[Total]) -> Vec<ArrayRef> {
    vec![
        Arc::new(Float64Array::from_iter_values(totals.iter().map(|total| total.sum))),
        Arc::new(Float64Array::from_iter_values(totals.iter().map(|total| total.lost))),
        Arc::new(Int64Array::from_iter_values(totals.iter().map(|total| total.count))),
    ]
}

/// Of all rows.
#[derive(Debug)]
struct One {
    result: Wanted,
    total: Total,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = values[0].as_primitive::<Float64Type>();
        match array.nulls() {
            None => self.total.add_all(array.values()),
            Some(nulls) => {
                nulls.valid_slices().try_for_each(|(start, end)| self.total.add_all(&array.values()[start..end]))
            }
        }
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        states(columns).for_each(|total| self.total.merge(total));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.total.result(self.result)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Total { sum, lost, count } = self.total;
        Ok(vec![ScalarValue::Float64(Some(sum)), ScalarValue::Float64(Some(lost)), ScalarValue::Int64(Some(count))])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup {
    result: Wanted,
    totals: Vec<Total>,
}

impl GroupsAccumulator for PerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.totals.resize(total_groups, Total::default());
        let array = values[0].as_primitive::<Float64Type>();
        let mut add = |row: usize| self.totals[groups[row]].add(array.value(row));
        match included(array.nulls(), filter) {
            None => (0..array.len()).try_for_each(add),
            Some(included) => included.valid_indices().try_for_each(&mut add),
        }
    }

    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.totals.resize(total_groups, Total::default());
        groups.iter().zip(states(columns)).for_each(|(&group, total)| self.totals[group].merge(total));
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        Ok(Arc::new(totals.iter().map(|total| total.result(self.result)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(as_states(&emit_to.take_needed(&mut self.totals)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = PerGroup { result: self.result, totals: vec![] };
        let rows = values[0].len();
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<Total>()
    }
}
