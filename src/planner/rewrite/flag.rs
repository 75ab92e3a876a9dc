//! Finds and removes calls of `anker.olap()` in a query.

use std::ffi::c_void;

use pgrx::prelude::*;

use super::own::OwnFunction;
use crate::pg::{compat, symbols, walk};

static FUNCTION: OwnFunction = OwnFunction::named(c"olap");

/// Replaces each call of `anker.olap()` in the query by `true`. Returns whether there was one.
///
/// # Safety
///
/// `query` is a query that the caller may change.
pub unsafe fn take(query: *mut pg_sys::Query) -> bool {
    let Some(mut function) = FUNCTION.oid() else {
        return false;
    };
    let context = (&raw mut function).cast();
    // SAFETY: a valid query; walker and mutator get the oid that they expect.
    unsafe {
        if !compat::query_tree_walker(query, is_flag, context, 0) {
            return false;
        }
        walk::mutate_query(query, without_flag, context, pg_sys::QTW_DONT_COPY_QUERY);
    }
    true
}

/// Whether a node is or contains a call of `anker.olap()`. It is called for every node of every query. The function
/// owns nothing, so an error may jump over it.
unsafe extern "C-unwind" fn is_flag(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called by PostgreSQL's walkers with null or a valid node, and the context of `take`.
    unsafe {
        if node.is_null() {
            return false;
        }
        match (*node).type_ {
            pg_sys::NodeTag::T_FuncExpr
                if (*node.cast::<pg_sys::FuncExpr>()).funcid == *context.cast::<pg_sys::Oid>() =>
            {
                true
            }
            pg_sys::NodeTag::T_Query => compat::query_tree_walker(node.cast(), is_flag, context, 0),
            _ => compat::expression_tree_walker(node, is_flag, context),
        }
    }
}

/// Returns the node with `true` in place of each call of `anker.olap()`. The function owns nothing. It needs no more
/// stack than PostgreSQL's own walkers, because a query that the heap can run must not fail here.
unsafe extern "C-unwind" fn without_flag(node: *mut pg_sys::Node, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: called by PostgreSQL's mutators with null or a valid node, and the context of `take`.
    unsafe {
        if node.is_null() {
            return node;
        }
        match (*node).type_ {
            pg_sys::NodeTag::T_FuncExpr
                if (*node.cast::<pg_sys::FuncExpr>()).funcid == *context.cast::<pg_sys::Oid>() =>
            {
                symbols::makeBoolConst(true, false)
            }
            pg_sys::NodeTag::T_Query => compat::query_tree_mutator(node.cast(), without_flag, context, 0).cast(),
            _ => compat::expression_tree_mutator(node, without_flag, context),
        }
    }
}
