//! Aggregates: what the engine computes, and how it becomes PostgreSQL's result.

use pgrx::prelude::*;
use plan::{Agg, Expr, Type};

use super::columns::conversion;
use super::compare::require_c_order;
use super::operators::{self, Aggregate};
use super::reason::{Attempt, function_name};
use super::translate::Translator;
use crate::pg::tree::Node;
use crate::spec::Conversion;

/// AGGKIND_NORMAL: not an ordered-set aggregate.
const NORMAL_AGGREGATE: u8 = b'n';

impl<'a> Translator<'a> {
    pub fn aggregate(&mut self, aggref: &'a pg_sys::Aggref) -> Attempt<(Agg, Conversion)> {
        let aggregate = whitelisted(aggref)?;
        let argument = self.tree.list_of::<pg_sys::TargetEntry>(aggref.args).next();
        let Some(argument) = argument.map(|entry| self.tree.required(entry.expr)) else {
            return if aggregate == Aggregate::CountStar {
                Ok((Agg::CountStar, Conversion::Plain(Type::Int64)))
            } else {
                Err(format!("aggregate {}", function_name(aggref.aggfnoid)))
            };
        };
        let typed = self.expression(argument)?;
        if !typed.exact_scale && aggregate != Aggregate::Count {
            return Err("aggregate of a numeric parameter".into());
        }
        if typed.ty.is_text() && matches!(aggregate, Aggregate::Min | Aggregate::Max) {
            require_c_order(aggref.inputcollid)?;
        }
        let conversion = result(aggregate, typed.ty, argument)?;
        let expr = typed.expr;
        let agg = match aggregate {
            Aggregate::CountStar => Agg::CountStar,
            Aggregate::Count => match &expr {
                Expr::Literal { value: Some(_), .. } => Agg::CountStar,
                _ => Agg::Count(expr),
            },
            Aggregate::Sum => Agg::Sum(expr),
            Aggregate::Avg => Agg::Avg(expr),
            Aggregate::Min => Agg::Min(expr),
            Aggregate::Max => Agg::Max(expr),
        };
        Ok((agg, conversion))
    }
}

fn whitelisted(aggref: &pg_sys::Aggref) -> Attempt<Aggregate> {
    if !aggref.aggfilter.is_null() {
        return Err("aggregate with FILTER".into());
    }
    if !aggref.aggdistinct.is_null() {
        return Err("aggregate with DISTINCT".into());
    }
    if !aggref.aggorder.is_null() || aggref.aggkind as u8 != NORMAL_AGGREGATE {
        return Err("ordered aggregate".into());
    }
    operators::aggregate(aggref.aggfnoid).ok_or_else(|| {
        let name = function_name(aggref.aggfnoid);
        match operators::depends_on_row_order(aggref.aggfnoid) {
            true => format!("{name} depends on row order"),
            false => format!("aggregate {name}"),
        }
    })
}

/// How an aggregate's result is made of the engine's.
fn result(aggregate: Aggregate, argument: Type, node: Node<'_>) -> Attempt<Conversion> {
    Ok(match aggregate {
        Aggregate::CountStar | Aggregate::Count => Conversion::Plain(Type::Int64),
        Aggregate::Sum if matches!(argument, Type::Int16 | Type::Int32) => Conversion::Plain(Type::Int64),
        Aggregate::Sum => Conversion::Plain(Type::Decimal128 { scale: argument.scale() }),
        Aggregate::Avg => Conversion::Average { scale: argument.scale() },
        Aggregate::Min | Aggregate::Max => conversion(argument, node.type_modifier())?,
    })
}

/// What EXPLAIN calls the column.
pub fn name(agg: &Agg) -> &'static str {
    match agg {
        Agg::CountStar | Agg::Count(_) => "count",
        Agg::Sum(_) => "sum",
        Agg::Avg(_) => "avg",
        Agg::Min(_) => "min",
        Agg::Max(_) => "max",
    }
}
