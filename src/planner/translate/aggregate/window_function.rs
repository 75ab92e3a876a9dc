//! Translates window functions, and computes their values from the engine's columns.

use pgrx::prelude::*;
use plan::catalogue::Kind;
use plan::{Agg, Expr, Type, WindowFunction};

use super::call::{Translated, check_row_order, where_true};
use super::value::Value;
use crate::pg::catalog::function_name;
use crate::pg::compat;
use crate::pg::make;
use crate::pg::tree::{Node, Ref};
use crate::planner::translate::{Scale, Translator, Typed};
use crate::planner::words::reason::{Attempt, Reason, Why};

impl<'a> Translator<'a> {
    pub fn window_function(&mut self, func: Ref<'a, pg_sys::WindowFunc>) -> Attempt<(WindowFunction, Value)> {
        use WindowFunction::*;
        if compat::ignores_nulls(&func) {
            return Err(Why::WindowFunction.of("window function with IGNORE NULLS"));
        }
        if func.winagg {
            return self.window_aggregate(func);
        }
        let arguments: Vec<Node<'a>> = func.args().iter().collect();
        let first = || arguments.first().copied().ok_or_else(|| unknown(func));
        let (rank, share) = (Value::Column(Type::Int64, Scale::OfType), Value::Column(Type::Float64, Scale::OfType));
        Ok(match func.winfnoid.to_u32() {
            pg_sys::F_ROW_NUMBER => (RowNumber, rank),
            pg_sys::F_RANK_ => (Rank, rank),
            pg_sys::F_DENSE_RANK_ => (DenseRank, rank),
            pg_sys::F_PERCENT_RANK_ => (PercentRank, share),
            pg_sys::F_CUME_DIST_ => (CumeDist, share),
            pg_sys::F_NTILE => (Ntile(self.count(first()?)?), Value::Column(Type::Int32, Scale::OfType)),
            pg_sys::F_LAG_ANYELEMENT
            | pg_sys::F_LAG_ANYELEMENT_INT4
            | pg_sys::F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE => self.shifted(func, &arguments, true)?,
            pg_sys::F_LEAD_ANYELEMENT
            | pg_sys::F_LEAD_ANYELEMENT_INT4
            | pg_sys::F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE => self.shifted(func, &arguments, false)?,
            pg_sys::F_FIRST_VALUE | pg_sys::F_LAST_VALUE | pg_sys::F_NTH_VALUE => {
                let value = self.expression(first()?)?;
                let Typed { expr, ty, scale } = self.shown(value)?;
                let function = match func.winfnoid.to_u32() {
                    pg_sys::F_FIRST_VALUE => First(expr),
                    pg_sys::F_LAST_VALUE => Last(expr),
                    _ => Nth(expr, self.count(*arguments.get(1).ok_or_else(|| unknown(func))?)?),
                };
                (function, Value::Column(ty, scale))
            }
            _ => return Err(unknown(func)),
        })
    }

    /// Translates `lag` or `lead`.
    fn shifted(
        &mut self,
        func: Ref<'_, pg_sys::WindowFunc>,
        arguments: &[Node<'a>],
        back: bool,
    ) -> Attempt<(WindowFunction, Value)> {
        let (&value, rest) = arguments.split_first().ok_or_else(|| unknown(func))?;
        let value = self.expression(value)?;
        let mut value = self.shown(value)?;
        let one = Expr::Literal { ty: Type::Int32, value: Some(plan::Literal::Int(1)) };
        let by = rest.first().map_or(Ok(one), |by| self.count(*by))?;
        let otherwise = match rest.get(1) {
            None => None,
            Some(node) => {
                let other = self.expression(*node)?;
                let is_null = matches!(other.expr, Expr::Literal { value: None, .. });
                let are_numeric = |both: [&Typed; 2]| {
                    both.iter().all(|typed| matches!(typed.ty.kind(), Kind::Decimal | Kind::Numeric))
                };
                Some(match other {
                    _ if is_null => Expr::Literal { ty: value.ty, value: None },
                    other if other.ty == value.ty && other.has_exact_scale() => other.expr,
                    // One of the two values shows its own number of digits, so both become numerics.
                    other if are_numeric([&value, &other]) => {
                        value = self.numeric(value)?;
                        self.numeric(other)?.expr
                    }
                    _ => return Err(Why::WindowFunction.of("lag or lead with another value of another form")),
                })
            }
        };
        let Typed { expr, ty, scale } = value;
        Ok((WindowFunction::Shifted { value: expr, by, back, otherwise }, Value::Column(ty, scale)))
    }

    /// Translates an argument that is a number of rows or of buckets.
    fn count(&mut self, node: Node<'a>) -> Attempt<Expr> {
        let count = self.expression(node)?;
        match count.ty.kind() {
            Kind::Integer => Ok(count.expr),
            _ => Err(Why::WindowFunction.of("window function with a number of another type than integer")),
        }
    }

    /// Translates an aggregate over a window's frame.
    fn window_aggregate(&mut self, func: Ref<'a, pg_sys::WindowFunc>) -> Attempt<(WindowFunction, Value)> {
        let arguments = (1..).zip(func.args());
        let aggref = pg_sys::Aggref {
            aggfnoid: func.winfnoid,
            aggtype: func.wintype,
            inputcollid: func.inputcollid,
            aggfilter: func.aggfilter,
            aggstar: func.winstar,
            aggkind: b'n' as _,
            args: make::list(
                arguments.map(|(number, argument)| make::target::<pg_sys::Node>(argument.as_ptr(), number)),
            ),
            ..make::blank()
        };
        // SAFETY: the arguments and the filter are parts of the window function's node.
        let aggref = unsafe { self.memory.placed(aggref) };
        if func.winfnoid.to_u32() == pg_sys::F_SUM_FLOAT4 {
            check_row_order(aggref)?;
            return self.sum_of_reals(func);
        }
        let (agg, value) = match self.aggregate(aggref, Vec::new())? {
            Translated::Column(agg, distinct, _) if !distinct.0 => {
                let ty = self.result_types(&agg).first().copied().ok_or_else(|| unknown(func))?;
                (agg, Value::Column(ty, Scale::OfType))
            }
            Translated::Finished(agg, distinct, value) if !distinct.0 => (agg, value),
            Translated::Scaled { value, digits, averaged } => {
                let ty = self.type_of(&value);
                let numeric = self.numeric(Typed { expr: value, ty, scale: Scale::Varies(digits) })?.expr;
                match averaged {
                    false => (Agg::Sum(numeric), Value::Column(Type::Numeric, Scale::OfType)),
                    true => (Agg::Avg(numeric), Value::Average(Type::Numeric)),
                }
            }
            _ => return Err(unknown(func)),
        };
        Ok((WindowFunction::Aggregate(agg), value))
    }

    fn sum_of_reals(&mut self, func: Ref<'a, pg_sys::WindowFunc>) -> Attempt<(WindowFunction, Value)> {
        let filter = func.aggfilter().map(|filter| self.condition(filter)).transpose()?;
        let argument = func.args().iter().next().ok_or_else(|| unknown(func))?;
        let argument = self.expression(argument)?;
        let sum = WindowFunction::SumOfReals(where_true(filter.as_ref(), argument.expr, argument.ty));
        Ok((sum, Value::Column(Type::Float32, Scale::OfType)))
    }
}

pub fn unknown(func: Ref<'_, pg_sys::WindowFunc>) -> Reason {
    Why::WindowFunction.of(format!("window function {}", function_name(func.winfnoid)))
}
