//! Aggregates: what the engine computes, and how it becomes PostgreSQL's result.

use pgrx::prelude::*;
use plan::catalogue::Aggregate;
use plan::{Agg, Expr, Type};

use super::columns::conversion;
use super::compare::require_c_order;
use super::operators;
use super::reason::{Attempt, Reason};
use super::translate::Translator;
use crate::pg::catalog;
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
                Err(unknown(aggref))
            };
        };
        let typed = self.expression(argument)?;
        if !typed.exact_scale && aggregate != Aggregate::Count {
            return Err("aggregate of a numeric parameter".into());
        }
        if typed.ty.is_text() && matches!(aggregate, Aggregate::Min | Aggregate::Max) {
            require_c_order(aggref.inputcollid)?;
        }
        if !aggregate.row().takes(typed.ty) {
            return Err(unknown(aggref));
        }
        let conversion = result(aggregate, typed.ty, argument)?;
        let agg = match (aggregate, typed.expr) {
            (Aggregate::Count, Expr::Literal { value: Some(_), .. }) => Some(Agg::CountStar),
            (aggregate, expr) => aggregate.of(Some(expr)),
        };
        Ok((agg.ok_or_else(|| unknown(aggref))?, conversion))
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
        let name = catalog::function_name(aggref.aggfnoid);
        match operators::depends_on_row_order(aggref.aggfnoid) {
            true => format!("{name} depends on row order"),
            false => unknown(aggref),
        }
    })
}

fn unknown(aggref: &pg_sys::Aggref) -> Reason {
    format!("aggregate {}", catalog::function_name(aggref.aggfnoid))
}

/// How an aggregate's result is made of the engine's.
fn result(aggregate: Aggregate, argument: Type, node: Node<'_>) -> Attempt<Conversion> {
    match aggregate {
        Aggregate::Avg => Ok(Conversion::Average { scale: argument.scale() }),
        Aggregate::Min | Aggregate::Max => conversion(argument, node.type_modifier()),
        Aggregate::CountStar | Aggregate::Count | Aggregate::Sum => {
            let mut output = aggregate.row().output_types(argument);
            output.next().map(Conversion::Plain).ok_or_else(|| "aggregate without a result".into())
        }
    }
}
