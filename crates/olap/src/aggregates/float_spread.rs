//! Variance and standard deviation of floats, by the method of Youngs and Cramer. The state is the number of values,
//! their sum, and the sum of their squared differences from the mean. Adding a value and merging two states follow
//! PostgreSQL step by step, so the result is one that a parallel plan of PostgreSQL could return.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use plan::catalogue::{Aggregate, FloatAgg, Spread};

use crate::aggregates::float_parts::{self, Parts};
use crate::aggregates::float_sum::checked;
use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FloatSpread(pub Spread);

impl Function for FloatSpread {
    fn name(&self) -> &'static str {
        Aggregate::Float(FloatAgg::Spread(self.0)).row().name
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

impl Fold for FloatSpread {
    type States = Vec<Moments>;

    fn start(&self) -> Moments {
        Moments::default()
    }

    fn add(&self, moments: &mut Vec<Moments>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let array = values[0].as_primitive::<Float64Type>();
        match (rows, &mut moments[..]) {
            (Rows::OfOne, [all]) => rows.visit(array.len(), array.nulls(), |_, row| all.add(array.value(row))),
            (rows, moments) => {
                rows.visit(array.len(), array.nulls(), |group, row| moments[group].add(array.value(row)))
            }
        }
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

#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: f64,
    sum: f64,
    /// The sum of the squared differences from the mean; NaN if there are infinities.
    squares: f64,
}

impl State for Moments {}

impl Parts<3> for Moments {
    const NAMES: [&'static str; 3] = ["count", "sum", "squares"];

    fn parts(&self) -> [f64; 3] {
        [self.count, self.sum, self.squares]
    }

    fn of([count, sum, squares]: [f64; 3]) -> Moments {
        Moments { count, sum, squares }
    }
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
