//! The type modifiers of a result's columns, as in char(4) or numeric(7,2), as they are after PostgreSQL has planned
//! the query.
//!
//! A choice such as CASE has a modifier if all its branches have the same one. If planning removes branches, the choice
//! may get a modifier that it does not have in the written query. If planning pulls up a subquery, its expressions
//! replace its columns, and bring their own modifiers.

use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;

use crate::pg::attempt::{Raised, attempt};
use crate::pg::make;
use crate::pg::tree::{Node, Ref};
use crate::planner::translate::expr::origins::{self, Judge, Verdict};

/// Whether the type modifiers of the result's columns are known before the query is planned. If so, [`planned_columns`]
/// returns columns with these modifiers.
pub fn are_known(query: Ref<'_, pg_sys::Query>) -> bool {
    let mut targets = query.targetList().iter().filter(|entry| !entry.resjunk);
    targets.all(|entry| {
        let expr = entry.expr();
        let planned = if may_get_one(expr) { simplified(expr) } else { Some(expr) };
        planned.is_some_and(|planned| origins::follow(&mut Settled, planned, &[Some(query)]))
    })
}

/// The columns of a query's result. Their expressions are simplified where that can change the modifier.
pub fn planned_columns(query: Ref<'_, pg_sys::Query>) -> *mut pg_sys::List {
    let targets = query.targetList().iter().filter(|entry| !entry.resjunk);
    make::list(targets.map(|entry| {
        let expr = planned(entry.expr()).as_ptr();
        make::placed(pg_sys::TargetEntry { expr, ..*entry })
    }))
}

fn planned(expr: Node<'_>) -> Node<'_> {
    if may_get_one(expr) { expr.simplified() } else { expr }
}

/// The simplified expression; `None` if simplifying raises an error. PostgreSQL may drop the failing branch before it
/// meets the error, so the modifier after planning is then unknown.
fn simplified(expr: Node<'_>) -> Option<Node<'_>> {
    attempt(AssertUnwindSafe(|| Ok::<_, Raised>(expr.simplified()))).ok()
}

/// Whether the expression has no modifier, but planning may give it one.
fn may_get_one(expr: Node<'_>) -> bool {
    expr.type_modifier() == -1 && is_choice(expr)
}

/// Whether the expression takes its modifier from its parts, if they all have the same one.
fn is_choice(expr: Node<'_>) -> bool {
    use pg_sys::NodeTag::*;
    matches!(expr.tag(), T_ArrayExpr | T_CaseExpr | T_CoalesceExpr | T_CollateExpr | T_MinMaxExpr | T_NullIfExpr)
}

/// Tests whether an expression already has the modifier that it will have after planning.
struct Settled;

impl<'a> Judge<'a> for Settled {
    /// Computed values never have a modifier, and stored values keep theirs.
    const OTHERS: bool = true;

    fn judge(&mut self, node: Node<'a>) -> Verdict {
        if node.type_modifier() != -1 || has_no_modifiers(node.sql_type()) {
            return Verdict::Fine;
        }
        let gets_one = is_choice(node) && simplified(node).is_none_or(|node| node.type_modifier() != -1);
        if gets_one { Verdict::Wrong } else { Verdict::Follow }
    }
}

/// Whether the type is a common one that has no modifiers.
fn has_no_modifiers(sql_type: pg_sys::Oid) -> bool {
    matches!(
        sql_type,
        pg_sys::BOOLOID
            | pg_sys::BYTEAOID
            | pg_sys::DATEOID
            | pg_sys::FLOAT4OID
            | pg_sys::FLOAT8OID
            | pg_sys::INT2OID
            | pg_sys::INT4OID
            | pg_sys::INT8OID
            | pg_sys::JSONBOID
            | pg_sys::JSONOID
            | pg_sys::NAMEOID
            | pg_sys::OIDOID
            | pg_sys::TEXTOID
            | pg_sys::UUIDOID
    )
}
