//! INSERT … SELECT: the rows that it inserts, as a query of their own. The INSERT itself stays PostgreSQL's.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::pg::tree::Tree;
use crate::pg::{make, symbols};
use crate::planner::words::reason::{Attempt, Why};

/// Whether a query inserts rows that it reads, which VALUES are not.
pub fn reads_rows(tree: Tree<'_>, query: &pg_sys::Query) -> bool {
    let mut entries = tree.list_of::<pg_sys::RangeTblEntry>(query.rtable);
    query.commandType == pg_sys::CmdType::CMD_INSERT
        && entries.any(|entry| entry.rtekind == pg_sys::RTEKind::RTE_SUBQUERY)
}

/// Whether a query, or one within it, says in which order its rows come.
unsafe fn orders_rows(query: *mut pg_sys::Query) -> bool {
    // SAFETY: the caller's query; the walker needs no context.
    unsafe { !(*query).sortClause.is_null() || symbols::query_tree_walker(query, is_in_order, std::ptr::null_mut(), 0) }
}

/// Owns nothing: errors jump over it.
unsafe extern "C-unwind" fn is_in_order(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called by PostgreSQL's walkers with null or a valid node; the tag tells its type.
    unsafe {
        match node.as_ref() {
            None => false,
            Some(tag) if tag.type_ == pg_sys::NodeTag::T_Query => orders_rows(node.cast()),
            Some(_) => symbols::expression_tree_walker(node, is_in_order, context),
        }
    }
}

/// The source of a finished plan's rows: its own plan, or the one whose rows it inserts.
///
/// # Safety
///
/// `statement` is a finished plan. The caller may change the node behind the result.
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

/// The SELECT that returns the rows of an INSERT, with a column for each of the table's. Columns that the INSERT does
/// not name are as in `planned`, PostgreSQL's plan for the rows.
///
/// # Safety
///
/// `query` is a rewritten INSERT that the caller owns, `planned` a finished plan.
pub unsafe fn rows_of(query: *mut pg_sys::Query, planned: &pg_sys::Plan) -> Attempt<()> {
    // SAFETY: the caller owns the INSERT, and the plan of its rows stays as it is.
    unsafe {
        let tree = Tree::new();
        // Ours would be in any order, and a default may count them.
        if pg_sys::contain_volatile_functions((*query).targetList.cast()) && orders_rows(query) {
            return Err(Why::RowOrder.of("volatile function of rows in an order"));
        }
        let target = pg_sys::list_nth((*query).rtable, (*query).resultRelation - 1).cast::<pg_sys::RangeTblEntry>();
        // Stands for nothing any more, and nobody refers to it.
        (*target).rtekind = pg_sys::RTEKind::RTE_RESULT;
        let mut targets = Vec::new();
        for column in tree.list_of::<pg_sys::TargetEntry>(planned.targetlist).filter(|column| !column.resjunk) {
            let mut named = tree.list_of::<pg_sys::TargetEntry>((*query).targetList);
            targets.push(make::placed(match named.find(|entry| entry.resno == column.resno && !entry.resjunk) {
                Some(named) => *named,
                None if tree.required(column.expr).has_columns() => {
                    return Err(Why::PlanShape.of("column that the INSERT does not name is computed"));
                }
                None => {
                    let expr = tree.required(column.expr).copied().as_ptr();
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
