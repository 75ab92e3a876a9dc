//! Computes the values of aggregates and window functions from their columns in the plan.

use plan::catalogue::Spread;
use plan::{AVERAGE_SCALE, ArithOp, ColumnId, Expr, Named, Type};

use crate::planner::translate::{Scale, Typed, exact};
use crate::planner::words::reason::{Attempt, Why};

/// The way in which a function's value is computed from its columns in the plan.
pub enum Value {
    /// The only column is the value itself.
    Column(Type, Scale),
    /// The value is an average of values of this type. The columns are their sum and their count.
    Average(Type),
    /// See [`plan::Agg::Spread`].
    Spread(Spread),
}

impl Value {
    pub fn of(self, columns: &[ColumnId]) -> Attempt<Typed> {
        match (self, columns) {
            (Value::Column(ty, scale), &[id]) => Ok(Typed { expr: Expr::column(id), ty, scale }),
            (Value::Average(ty), &[sum, count]) => Ok(average(ty, Expr::column(sum), Expr::column(count))),
            (Value::Spread(of), &[raw, count]) => {
                let args = vec![Expr::column(raw), Expr::column(count)];
                let ty = Type::Numeric;
                Ok(exact(Expr::Call { function: Named::Spread(of), ty, args }, ty))
            }
            _ => Err(Why::Aggregate.of("aggregate of an unknown form")),
        }
    }
}

/// The average of values of a type, from their sum and count. The sum is null if there are no values.
pub fn average(of: Type, sum: Expr, count: Expr) -> Typed {
    match of {
        Type::Interval => {
            let right = Box::new(Expr::Cast { to: Type::Float64, arg: Box::new(count) });
            exact(Expr::Arith { op: ArithOp::Div, ty: of, left: Box::new(sum), right }, of)
        }
        Type::Numeric => exact(shown_average(sum, count), of),
        // The value is a decimal, because decimals are cheaper to compare. `scale` holds the numeric that PostgreSQL
        // shows.
        _ => {
            let ty = Type::Decimal128 { scale: AVERAGE_SCALE };
            let expr = Expr::Call { function: Named::Average, ty, args: vec![sum.clone(), count.clone()] };
            Typed { expr, ty, scale: Scale::Shown(shown_average(sum, count)) }
        }
    }
}

fn shown_average(sum: Expr, count: Expr) -> Expr {
    Expr::Call { function: Named::ShownAverage, ty: Type::Numeric, args: vec![sum, count] }
}
