//! Sum and average of floats.
//!
//! PostgreSQL adds in the order in which rows come, and in parallel plans in any order. Here the rounding errors of all
//! additions are kept separately from the sum (Knuth's TwoSum, as Neumaier uses it). So the result hardly depends on
//! the order, and is at least as near to the true sum as PostgreSQL's. Infinities and NaN are kept in the sum itself.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use plan::catalogue::MAX_SUMMED;
use protocol::request::FailureKind;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State};
use crate::base::error::QueryError;

/// A value that is computed from the total: sum or average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatTotal {
    Sum,
    Avg,
}

impl Function for FloatTotal {
    fn name(&self) -> &'static str {
        match self {
            FloatTotal::Sum => "float_sum",
            FloatTotal::Avg => "float_avg",
        }
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state_types(&self, _: &DataType) -> Vec<(&'static str, DataType)> {
        vec![("sum", DataType::Float64), ("lost", DataType::Float64), ("count", DataType::Int64)]
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(*self, result)))
    }
}

impl Fold for FloatTotal {
    type States = Vec<Total>;

    fn start(&self) -> Total {
        Total::default()
    }

    fn add(&self, totals: &mut Vec<Total>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let array = values[0].as_primitive::<Float64Type>();
        match (rows, array.nulls()) {
            (Rows::OfOne, None) => totals[0].add_all(array.values()),
            (Rows::OfOne, Some(nulls)) => {
                nulls.valid_slices().try_for_each(|(start, end)| totals[0].add_all(&array.values()[start..end]))
            }
            (rows, nulls) => rows.visit(array.len(), nulls, |group, row| totals[group].add(array.value(row))),
        }
    }

    fn merge(&self, totals: &mut Vec<Total>, columns: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let [sums, losses] = [0, 1].map(|column: usize| columns[column].as_primitive::<Float64Type>().values());
        let counts = columns[2].as_primitive::<Int64Type>().values();
        rows.visit(counts.len(), None, |group, row| {
            totals[group].merge(Total { sum: sums[row], lost: losses[row], count: counts[row] });
            Ok(())
        })
    }

    fn results(&self, totals: Vec<Total>, _: &DataType) -> Result<ArrayRef> {
        Ok(Arc::new(totals.iter().map(|total| total.result(*self)).collect::<Float64Array>()))
    }

    fn partial(&self, totals: Vec<Total>, _: &DataType) -> Result<Vec<ArrayRef>> {
        Ok(vec![
            Arc::new(Float64Array::from_iter_values(totals.iter().map(|total| total.sum))),
            Arc::new(Float64Array::from_iter_values(totals.iter().map(|total| total.lost))),
            Arc::new(Int64Array::from_iter_values(totals.iter().map(|total| total.count))),
        ])
    }
}

/// Returns the value, or an error if the value is so large that a sum could overflow in some order of the rows.
pub fn checked(value: f64) -> Result<f64> {
    match value.is_finite() && value.abs() > MAX_SUMMED {
        true => Err(QueryError(FailureKind::FloatTooLarge).into()),
        false => Ok(value),
    }
}

/// The total of the values so far.
#[derive(Clone, Copy, Debug)]
pub struct Total {
    sum: f64,
    /// The rounding error of the sum so far.
    lost: f64,
    count: i64,
}

impl State for Total {}

impl Default for Total {
    /// The sum of no values is -0, so that a sum of negative zeros alone is -0, too.
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

    fn result(&self, wanted: FloatTotal) -> Option<f64> {
        // An infinite sum has no known rounding error, so nothing is added to it. A `lost` of 0 is not added either,
        // because -0 + 0 would lose the sign of a sum of negative zeros.
        let whole = self.lost == 0.0 || !self.sum.is_finite();
        let sum = if whole { self.sum } else { self.sum + self.lost };
        (self.count > 0).then(|| match wanted {
            FloatTotal::Sum => sum,
            // PostgreSQL's average begins its sum with 0, so the average of negative zeros is 0, not -0.
            FloatTotal::Avg => (0.0 + sum) / self.count as f64,
        })
    }
}

/// The rounded sum, and its rounding error.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_as_added = sum - a;
    (sum, (a - (sum - b_as_added)) + (b - b_as_added))
}
