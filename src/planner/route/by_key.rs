//! Queries for one row by its primary key. They are the most frequent queries of applications, and never run in the
//! engine. They are recognized before any planning, so that the engine's side costs them nothing.

use pgrx::prelude::*;

use crate::pg::primary_key::{PrimaryKey, is_equality};
use crate::pg::relation::KeyColumn;
use crate::pg::tree::{Node, Ref};

/// Whether the query reads at most one row, and from one table.
///
/// The query's relations are locked.
pub fn reads_one_row(query: Ref<'_, pg_sys::Query>) -> bool {
    if query.hasSubLinks || !query.cteList.is_null() {
        return false;
    }
    let Some(from) = query.jointree() else { return false };
    let mut tables = query.rtable().iter();
    let (Some(table), None) = (tables.next(), tables.next()) else { return false };
    let Some(condition) = from.quals() else { return false };
    if table.rtekind != pg_sys::RTEKind::RTE_RELATION {
        return false;
    }
    let key = PrimaryKey::of(table.relid);
    let is_given = |column: &KeyColumn| match condition.cast::<pg_sys::BoolExpr>() {
        Some(all) if all.boolop == pg_sys::BoolExprType::AND_EXPR => all.args().iter().any(|part| gives(part, column)),
        _ => gives(condition, column),
    };
    !key.columns().is_empty() && key.columns().iter().all(is_given)
}

/// Whether a condition limits the column to one value.
fn gives(condition: Node<'_>, column: &KeyColumn) -> bool {
    let Some(comparison) = condition.cast::<pg_sys::OpExpr>() else { return false };
    let mut sides = comparison.args().iter();
    let (Some(left), Some(right)) = (sides.next(), sides.next()) else { return false };
    let is_column = |side: Node<'_>| {
        let relabeled = side.cast::<pg_sys::RelabelType>().map(|relabel| relabel.arg());
        relabeled.unwrap_or(side).cast::<pg_sys::Var>().is_some_and(|var| var.varattno == column.number)
    };
    let is_known = |side: Node<'_>| {
        side.cast::<pg_sys::Const>().is_some() || side.cast::<pg_sys::Param>().is_some() || !side.has_columns()
    };
    (is_column(left) && is_known(right) || is_column(right) && is_known(left))
        && is_equality(comparison.opno, column.family)
}
