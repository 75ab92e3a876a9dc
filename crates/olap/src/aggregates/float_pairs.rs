//! Aggregates of pairs of floats: covariance, correlation, regression. As in `float_spread`, each step is PostgreSQL's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use plan::catalogue::PairAgg;

use crate::aggregates::float_sum::checked;
use crate::aggregates::sum::included;

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatPairs {
    result: PairAgg,
    signature: Signature,
}

impl FloatPairs {
    pub fn new(result: PairAgg) -> Self {
        FloatPairs { result, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for FloatPairs {
    fn name(&self) -> &str {
        match self.result {
            PairAgg::Corr => "corr",
            PairAgg::CovarPop => "covar_pop",
            PairAgg::CovarSamp => "covar_samp",
            PairAgg::AvgX => "regr_avgx",
            PairAgg::AvgY => "regr_avgy",
            PairAgg::Intercept => "regr_intercept",
            PairAgg::R2 => "regr_r2",
            PairAgg::Slope => "regr_slope",
            PairAgg::Sxx => "regr_sxx",
            PairAgg::Sxy => "regr_sxy",
            PairAgg::Syy => "regr_syy",
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
        Ok(["count", "x", "y", "xx", "yy", "xy"].into_iter().map(field).collect())
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

/// Sums of x and y, and of the products of their differences from the means.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let (y, x) = (checked(y)?, checked(x)?);
        let before = self.count;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before > 0.0 {
            let (of_x, of_y) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * before);
            self.xx += of_x * of_x * scale;
            self.yy += of_y * of_y * scale;
            self.xy += of_x * of_y * scale;
        } else {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Moments) {
        if self.count == 0.0 {
            *self = other;
        } else if other.count > 0.0 {
            let count = self.count + other.count;
            let of_x = self.x / self.count - other.x / other.count;
            let of_y = self.y / self.count - other.y / other.count;
            let weight = self.count * other.count;
            self.xx += other.xx + weight * of_x * of_x / count;
            self.yy += other.yy + weight * of_y * of_y / count;
            self.xy += other.xy + weight * of_x * of_y / count;
            self.x += other.x;
            self.y += other.y;
            self.count = count;
        }
    }

    fn result(&self, wanted: PairAgg) -> Option<f64> {
        let Moments { count, x, y, xx, yy, xy } = *self;
        if count < 1.0 {
            return None;
        }
        // Nothing is said of points on a vertical line.
        let unless_vertical = |value: f64| (xx != 0.0).then_some(value);
        match wanted {
            PairAgg::Corr => unless_vertical(xy / (xx * yy).sqrt()).filter(|_| yy != 0.0),
            PairAgg::CovarPop => Some(xy / count),
            PairAgg::CovarSamp => (count >= 2.0).then_some(xy / (count - 1.0)),
            PairAgg::AvgX => Some(x / count),
            PairAgg::AvgY => Some(y / count),
            PairAgg::Intercept => unless_vertical((y - x * xy / xx) / count),
            PairAgg::R2 => unless_vertical(if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) }),
            PairAgg::Slope => unless_vertical(xy / xx),
            PairAgg::Sxx => Some(xx),
            PairAgg::Sxy => Some(xy),
            PairAgg::Syy => Some(yy),
        }
    }
}

/// Calls `visit` with the number, y and x of each row in which both are.
fn for_pairs(
    values: &[ArrayRef],
    filter: Option<&BooleanArray>,
    mut visit: impl FnMut(usize, f64, f64) -> Result<()>,
) -> Result<()> {
    let (y, x) = (values[0].as_primitive::<Float64Type>(), values[1].as_primitive::<Float64Type>());
    let mut visit = |row: usize| visit(row, y.value(row), x.value(row));
    match included(NullBuffer::union(y.nulls(), x.nulls()).as_ref(), filter) {
        None => (0..y.len()).try_for_each(visit),
        Some(included) => included.valid_indices().try_for_each(&mut visit),
    }
}

fn states(columns: &[ArrayRef]) -> impl Iterator<Item = Moments> {
    let parts: Vec<&[f64]> = columns.iter().map(|column| &column.as_primitive::<Float64Type>().values()[..]).collect();
    let rows = parts[0].len();
    (0..rows).map(move |row| Moments {
        count: parts[0][row],
        x: parts[1][row],
        y: parts[2][row],
        xx: parts[3][row],
        yy: parts[4][row],
        xy: parts[5][row],
    })
}

const PARTS: [fn(&Moments) -> f64; 6] = [|m| m.count, |m| m.x, |m| m.y, |m| m.xx, |m| m.yy, |m| m.xy];

/// Of all rows.
#[derive(Debug)]
struct One {
    result: PairAgg,
    moments: Moments,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_pairs(values, None, |_, y, x| self.moments.add(y, x))
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        states(columns).for_each(|moments| self.moments.merge(moments));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.moments.result(self.result)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(PARTS.map(|part| ScalarValue::Float64(Some(part(&self.moments)))).into())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup {
    result: PairAgg,
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
        for_pairs(values, filter, |row, y, x| self.moments[groups[row]].add(y, x))
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
        let moments = emit_to.take_needed(&mut self.moments);
        let column = |part: fn(&Moments) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(moments.iter().map(part)))
        };
        Ok(PARTS.map(column).into())
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
