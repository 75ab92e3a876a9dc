//! Aggregates of pairs of floats: covariance, correlation, regression. As in `float_spread`, each step is the same as
//! PostgreSQL's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion_common::error::Result;
use plan::catalogue::{Aggregate, PairAgg};

use crate::aggregates::float_parts::{self, Parts};
use crate::aggregates::float_sum::checked;
use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FloatPairs(pub PairAgg);

impl Function for FloatPairs {
    fn name(&self) -> &'static str {
        Aggregate::Pair(self.0).row().name
    }

    fn arguments(&self) -> usize {
        2
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state_types(&self, _: &DataType) -> Vec<(&'static str, DataType)> {
        float_parts::types::<Moments, _>()
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(self.clone(), result)))
    }
}

impl Fold for FloatPairs {
    type States = Vec<Moments>;

    fn start(&self) -> Moments {
        Moments::default()
    }

    /// Adds the rows in which neither value is null.
    fn add(&self, moments: &mut Vec<Moments>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let (y, x) = (values[0].as_primitive::<Float64Type>(), values[1].as_primitive::<Float64Type>());
        let nulls = NullBuffer::union(y.nulls(), x.nulls());
        rows.visit(y.len(), nulls.as_ref(), |group, row| moments[group].add(y.value(row), x.value(row)))
    }

    fn merge(&self, moments: &mut Vec<Moments>, columns: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        float_parts::merge(columns, rows, |group, other| moments[group].merge(other))
    }

    fn results(&self, moments: Vec<Moments>, _: &DataType) -> Result<ArrayRef> {
        Ok(Arc::new(moments.iter().map(|moments| moments.result(self.0)).collect::<Float64Array>()))
    }

    fn partial(&self, moments: Vec<Moments>, _: &DataType) -> Result<Vec<ArrayRef>> {
        Ok(float_parts::columns(&moments))
    }
}

/// Sums of x and y, of their squared differences from the means, and of the products of these differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl State for Moments {}

impl Parts<6> for Moments {
    const NAMES: [&'static str; 6] = ["count", "x", "y", "xx", "yy", "xy"];

    fn parts(&self) -> [f64; 6] {
        [self.count, self.x, self.y, self.xx, self.yy, self.xy]
    }

    fn of([count, x, y, xx, yy, xy]: [f64; 6]) -> Moments {
        Moments { count, x, y, xx, yy, xy }
    }
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
        // If all x are equal, the points lie on a vertical line, and the result is null.
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
