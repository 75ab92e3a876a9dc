//! Whether a plan is well-formed: everything that the documentation of [`plan::Expr`] promises about indexes and types.
//!
//! What passes here can be lowered without a further look.

use plan::catalogue::{self, Call, Kind};
use plan::{Agg, Expr, Plan, Type};
use protocol::request::Failure;

use crate::arrow_form::scalar;
use crate::error::internal;
use crate::join_order::MAX_RELATIONS;

/// Expressions nested deeper could exhaust the stack of a thread when they are evaluated.
const MAX_DEPTH: u32 = 100;

pub fn validate(plan: &Plan) -> Result<(), Failure> {
    if plan.relations.is_empty() {
        return Err(internal("plan without relations"));
    }
    if plan.relations.len() > MAX_RELATIONS {
        return Err(internal(format!("{} relations are more than can be joined", plan.relations.len())));
    }
    for filter in &plan.filters {
        if type_of(plan, filter)? != Type::Bool {
            return Err(internal(format!("a filter that is not Bool: {filter:?}")));
        }
    }
    match &plan.grouping {
        None => plan.output.iter().try_for_each(|e| type_of(plan, e).map(drop)),
        Some(_) if !plan.output.is_empty() => Err(internal("both grouping and output")),
        Some(grouping) => {
            grouping.keys.iter().try_for_each(|e| type_of(plan, e).map(drop))?;
            grouping.aggregates.iter().try_for_each(|a| check_aggregate(plan, a))
        }
    }
}

fn check_aggregate(plan: &Plan, agg: &Agg) -> Result<(), Failure> {
    let Some(arg) = agg.argument() else { return Ok(()) };
    let ty = type_of(plan, arg)?;
    if agg.aggregate().row().takes(ty) {
        Ok(())
    } else {
        Err(internal(format!("no such aggregate over {ty:?}: {agg:?}")))
    }
}

/// The checked counterpart of [`Plan::type_of`].
fn type_of(plan: &Plan, expr: &Expr) -> Result<Type, Failure> {
    type_within(plan, expr, MAX_DEPTH)
}

fn type_within(plan: &Plan, expr: &Expr, depth: u32) -> Result<Type, Failure> {
    let depth = depth.checked_sub(1).ok_or_else(|| internal("expression is nested too deeply"))?;
    let type_of = |expr: &Expr| type_within(plan, expr, depth);
    let expect_bool = |expr: &Expr| match type_of(expr)? {
        Type::Bool => Ok(()),
        other => Err(internal(format!("{other:?} where Bool is expected: {expr:?}"))),
    };
    let wrong = |what: &str| internal(format!("{what}: {expr:?}"));
    Ok(match expr {
        Expr::Column { rel, col } => {
            let relation = plan.relations.get(*rel as usize);
            relation.and_then(|r| r.columns.get(*col as usize)).ok_or_else(|| wrong("no such column"))?.ty
        }
        Expr::Param { index } => *plan.params.get(*index as usize).ok_or_else(|| wrong("no such parameter"))?,
        Expr::Literal { ty, value } => {
            scalar(*ty, value.as_ref())?;
            *ty
        }
        Expr::Cmp { left, right, .. } => {
            let (l, r) = (type_of(left)?, type_of(right)?);
            if l != r && !(l.kind() == Kind::Decimal && r.kind() == Kind::Decimal) {
                return Err(wrong("comparison across types"));
            }
            Type::Bool
        }
        Expr::Arith { op, ty, left, right } => {
            let (l, r) = (type_of(left)?, type_of(right)?);
            if catalogue::result_type(Call::Arith(*op), &[l, r]) != Some(*ty) {
                return Err(wrong("operands and result do not fit"));
            }
            *ty
        }
        Expr::Neg(arg) => catalogue::result_type(Call::Neg, &[type_of(arg)?]).ok_or_else(|| wrong("no unary minus"))?,
        Expr::Cast { to, arg } => {
            let from = type_of(arg)?;
            if from != *to && catalogue::cast(from, *to).is_none() {
                return Err(wrong("no such cast"));
            }
            *to
        }
        Expr::Bool { args, .. } => {
            args.iter().try_for_each(expect_bool)?;
            Type::Bool
        }
        Expr::Not(arg) => {
            expect_bool(arg)?;
            Type::Bool
        }
        Expr::IsNull { arg, .. } => {
            type_of(arg)?;
            Type::Bool
        }
        Expr::Call { function, ty, args } => {
            let types = args.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
            if catalogue::result_type(Call::Named(*function), &types) != Some(*ty) {
                return Err(wrong("operands and result do not fit"));
            }
            *ty
        }
        Expr::Case { branches, otherwise } => {
            let ty = type_of(otherwise)?;
            if branches.is_empty() {
                return Err(wrong("CASE without branches"));
            }
            for (when, then) in branches {
                expect_bool(when)?;
                if type_of(then)? != ty {
                    return Err(wrong("branches of different types"));
                }
            }
            ty
        }
        Expr::Coalesce(args) => {
            let types = args.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
            match types.first() {
                Some(ty) if types.iter().all(|other| other == ty) => *ty,
                _ => return Err(wrong("values of different types")),
            }
        }
    })
}
