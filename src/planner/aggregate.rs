//! Aggregates: what the engine computes, and how it becomes PostgreSQL's result.

use pgrx::prelude::*;
use plan::catalogue::Aggregate;
use plan::{Agg, Expr, Type};

use super::columns::conversion;
use super::compare::require_c_order;
use super::operators;
use super::reason::{Attempt, Reason, function_name};
use super::translate::{Scale, Translator, Typed};
use crate::pg::tree::Node;
use crate::spec::Conversion;

/// AGGKIND_NORMAL: not an ordered-set aggregate.
const NORMAL_AGGREGATE: u8 = b'n';

/// What the engine computes for an aggregate.
pub enum Translated {
    Column(Agg, Conversion),
    /// The sum of numerics, or with a count their average, that shows as many digits as that one of them which shows
    /// most.
    Scaled {
        sum: Agg,
        ty: Type,
        scale: Agg,
        count: Option<Agg>,
    },
}

impl<'a> Translator<'a> {
    pub fn aggregate(&mut self, aggref: &'a pg_sys::Aggref) -> Attempt<Translated> {
        let aggregate = whitelisted(aggref)?;
        let argument = self.tree.list_of::<pg_sys::TargetEntry>(aggref.args).next();
        let Some(argument) = argument.map(|entry| self.tree.required(entry.expr)) else {
            return if aggregate == Aggregate::CountStar {
                Ok(Translated::Column(Agg::CountStar, Conversion::Plain(Type::Int64)))
            } else {
                Err(unknown(aggref))
            };
        };
        let typed = self.expression(argument)?;
        match (&typed.scale, aggregate) {
            (_, Aggregate::Count) | (Scale::OfType, _) => {}
            (Scale::Varies(scale), Aggregate::Sum | Aggregate::Avg) => return Ok(scaled(aggregate, &typed, scale)),
            (Scale::Varies(_), _) => return Err("minimum or maximum of numeric values of different scales".into()),
            (Scale::Unknown, _) => return Err("aggregate of a numeric parameter".into()),
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
        Ok(Translated::Column(agg.ok_or_else(|| unknown(aggref))?, conversion))
    }
}

/// Of numerics of different scales.
fn scaled(aggregate: Aggregate, typed: &Typed, scale: &Expr) -> Translated {
    let ty = Type::Decimal128 { scale: typed.ty.scale() };
    let count = (aggregate == Aggregate::Avg).then(|| Agg::Count(typed.expr.clone()));
    Translated::Scaled { sum: Agg::Sum(typed.expr.clone()), ty, scale: Agg::Max(scale.clone()), count }
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
            false => unknown(aggref),
        }
    })
}

fn unknown(aggref: &pg_sys::Aggref) -> Reason {
    format!("aggregate {}", function_name(aggref.aggfnoid))
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
