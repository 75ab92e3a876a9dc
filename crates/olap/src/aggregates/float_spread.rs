//! Variance and standard deviation of floats: number of values, sum, and sum of the squared differences from the mean,
//! brought along by the method of Youngs and Cramer. Each step is PostgreSQL's, one for one more value and one for two
//! partial results: the result is one that a parallel plan could give.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use plan::catalogue::Spread;

use crate::aggregates::float_sum::checked;
use crate::aggregates::sum::included;

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatSpread {
    result: Spread,
    signature: Signature,
}

impl FloatSpread {
    pub fn new(result: Spread) -> Self {
        FloatSpread { result, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for FloatSpread {
    fn name(&self) -> &str {
        match self.result {
            Spread::VarPop => "float_var_pop",
            Spread::VarSamp => "float_var_samp",
            Spread::StddevPop => "float_stddev_pop",
            Spread::StddevSamp => "float_stddev_samp",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name| Arc::new(Field::new(format!("{}[{name}]", args.name), DataType::Float64, false));
        Ok(["count", "sum", "squares"].into_iter().map(field).collect())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { result: self.result, moments: Moments::default() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PerGroup { result: self.result, moments: vec![] }))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    sum: f64,
    /// Of the differences from the mean; NaN with infinities.
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) -> Result<()> {
        let value = checked(value)?;
        let before = self.count;
        self.count += 1.0;
        self.sum += value;
        if before > 0.0 {
            let difference = value * self.count - self.sum;
            self.squares += difference * difference / (self.count * before);
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn merge(&mut self, other: Moments) {
        if self.count == 0.0 {
            *self = other;
        } else if other.count > 0.0 {
            let count = self.count + other.count;
            let difference = self.sum / self.count - other.sum / other.count;
            self.squares += other.squares + self.count * other.count * difference * difference / count;
            self.sum += other.sum;
            self.count = count;
        }
    }

    fn result(&self, wanted: Spread) -> Option<f64> {
        let (divisor, root) = match wanted {
            Spread::VarPop => (self.count, false),
            Spread::VarSamp => (self.count - 1.0, false),
            Spread::StddevPop => (self.count, true),
            Spread::StddevSamp => (self.count - 1.0, true),
        };
        let variance = (divisor > 0.0).then_some(self.squares / divisor);
        if root { variance.map(f64::sqrt) } else { variance }
    }
}

fn states(columns: &[ArrayRef]) -> impl Iterator<Item = Moments> {
    let [counts, sums, squares] = [0, 1, 2].map(|i| columns[i].as_primitive::<Float64Type>().values());
    let values = counts.iter().zip(sums).zip(squares);
    values.map(|((&count, &sum), &squares)| Moments { count, sum, squares })
}

fn as_states(moments: &[Moments]) -> Vec<ArrayRef> {
    let column =
        |part: fn(&Moments) -> f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values(moments.iter().map(part))) };
    vec![column(|moments| moments.count), column(|moments| moments.sum), column(|moments| moments.squares)]
}

/// Of all rows.
#[derive(Debug)]
struct One {
    result: Spread,
    moments: Moments,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = values[0].as_primitive::<Float64Type>();
        array.iter().flatten().try_for_each(|value| self.moments.add(value))
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        states(columns).for_each(|moments| self.moments.merge(moments));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.moments.result(self.result)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments { count, sum, squares } = self.moments;
        Ok([count, sum, squares].map(|part| ScalarValue::Float64(Some(part))).into())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup {
    result: Spread,
    moments: Vec<Moments>,
}

impl GroupsAccumulator for PerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.moments.resize(total_groups, Moments::default());
        let array = values[0].as_primitive::<Float64Type>();
        let mut add = |row: usize| self.moments[groups[row]].add(array.value(row));
        match included(array.nulls(), filter) {
            None => (0..array.len()).try_for_each(add),
            Some(included) => included.valid_indices().try_for_each(&mut add),
        }
    }

    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.moments.resize(total_groups, Moments::default());
        groups.iter().zip(states(columns)).for_each(|(&group, moments)| self.moments[group].merge(moments));
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let moments = emit_to.take_needed(&mut self.moments);
        Ok(Arc::new(moments.iter().map(|moments| moments.result(self.result)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(as_states(&emit_to.take_needed(&mut self.moments)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = PerGroup { result: self.result, moments: vec![] };
        let rows = values[0].len();
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.moments.capacity() * size_of::<Moments>()
    }
}
