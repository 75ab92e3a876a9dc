//! INSERT … SELECT: makes a query of the rows to be inserted. PostgreSQL still runs the INSERT itself.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::pg::tree::Ref;
use crate::pg::{compat, make};
use crate::planner::words::reason::{Attempt, Why};

/// Whether a query inserts rows that it reads from something other than VALUES.
pub fn reads_rows(query: Ref<'_, pg_sys::Query>) -> bool {
    let mut entries = query.rtable().iter();
    query.commandType == pg_sys::CmdType::CMD_INSERT
        && entries.any(|entry| entry.rtekind == pg_sys::RTEKind::RTE_SUBQUERY)
}

/// Whether a query or one of its subqueries has an ORDER BY.
unsafe fn orders_rows(query: *mut pg_sys::Query) -> bool {
    // SAFETY: the caller's query; the walker needs no context.
    unsafe { !(*query).sortClause.is_null() || compat::query_tree_walker(query, is_in_order, std::ptr::null_mut(), 0) }
}

/// Finds queries with ORDER BY. The function owns nothing, so errors may jump over it.
unsafe extern "C-unwind" fn is_in_order(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called by PostgreSQL's walkers with null or a valid node; the tag tells its type.
    unsafe {
        match node.as_ref() {
            None => false,
            Some(tag) if tag.type_ == pg_sys::NodeTag::T_Query => orders_rows(node.cast()),
            Some(_) => compat::expression_tree_walker(node, is_in_order, context),
        }
    }
}

/// The pointer within a finished statement to the plan that returns the statement's rows. For an INSERT, these are the
/// rows to insert.
///
/// # Safety
///
/// `statement` is a finished plan. The caller may change the node to which the returned pointer leads.
pub unsafe fn source(statement: *mut pg_sys::PlannedStmt) -> *mut *mut pg_sys::Plan {
    // SAFETY: a finished statement has a plan, whose tag tells its type.
    unsafe {
        let top = (*statement).planTree;
        let inserts = (*statement).commandType == pg_sys::CmdType::CMD_INSERT;
        match inserts && (*top).type_ == pg_sys::NodeTag::T_ModifyTable && !(*top).lefttree.is_null() {
            true => &raw mut (*top).lefttree,
            false => &raw mut (*statement).planTree,
        }
    }
}

/// Turns an INSERT into a SELECT of the rows to insert, with one column for each column of the table. If the INSERT
/// does not name a column, the column's value (a default or null) is taken from PostgreSQL's plan.
///
/// # Safety
///
/// `query` is a rewritten INSERT that the caller owns, `planned` its finished plan.
pub unsafe fn rows_of(query: *mut pg_sys::Query, planned: *mut pg_sys::PlannedStmt) -> Attempt<()> {
    // SAFETY: the caller owns the INSERT, and the plan of its rows stays as it is.
    unsafe {
        let rows = source(planned);
        if rows == &raw mut (*planned).planTree {
            return Err(Why::PlanShape.of("rows that another extension inserts"));
        }
        let planned = Ref::new(*rows);
        // A volatile default such as `nextval` may number the rows in their order, but the engine returns them in any
        // order.
        if pg_sys::contain_volatile_functions((*query).targetList.cast()) && orders_rows(query) {
            return Err(Why::RowOrder.of("volatile function of rows in an order"));
        }
        let target = pg_sys::list_nth((*query).rtable, (*query).resultRelation - 1).cast::<pg_sys::RangeTblEntry>();
        // The target table's entry becomes an empty one, because nothing in the SELECT refers to it.
        (*target).rtekind = pg_sys::RTEKind::RTE_RESULT;
        let mut targets = Vec::new();
        for column in planned.targetlist().iter().filter(|column| !column.resjunk) {
            let mut named = Ref::new(query).targetList().iter();
            targets.push(make::placed(match named.find(|entry| entry.resno == column.resno && !entry.resjunk) {
                Some(named) => *named,
                None if column.expr().has_columns() => {
                    return Err(Why::PlanShape.of("column that the INSERT does not name is computed"));
                }
                None => {
                    let expr = column.expr().copied().as_ptr();
                    pg_sys::TargetEntry { expr, ..*column }
                }
            }));
        }
        let query = &mut *query;
        query.commandType = pg_sys::CmdType::CMD_SELECT;
        query.targetList = make::list(targets);
        query.resultRelation = 0;
        query.onConflict = std::ptr::null_mut();
        query.returningList = std::ptr::null_mut();
        query.withCheckOptions = std::ptr::null_mut();
    }
    Ok(())
}
