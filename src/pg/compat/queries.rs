//! Trees of queries, and PostgreSQL's walkers through them.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::pg::symbols::{Mutator, Walker};

// From PostgreSQL 16 on, the plain names are macros.
unsafe extern "C-unwind" {
    #[cfg_attr(feature = "since_16", link_name = "expression_tree_walker_impl")]
    pub fn expression_tree_walker(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool;
    #[cfg_attr(feature = "since_16", link_name = "query_tree_walker_impl")]
    pub fn query_tree_walker(query: *mut pg_sys::Query, walker: Walker, context: *mut c_void, flags: i32) -> bool;
    #[cfg_attr(feature = "since_16", link_name = "expression_tree_mutator_impl")]
    pub fn expression_tree_mutator(
        node: *mut pg_sys::Node,
        mutator: Mutator,
        context: *mut c_void,
    ) -> *mut pg_sys::Node;
    #[cfg_attr(feature = "since_16", link_name = "query_tree_mutator_impl")]
    pub fn query_tree_mutator(
        query: *mut pg_sys::Query,
        mutator: Mutator,
        context: *mut c_void,
        flags: i32,
    ) -> *mut pg_sys::Query;
}

/// The body of an entry of FROM that is one call of a function in SQL; null if it cannot stand in place of the call.
///
/// # Safety
///
/// The entry belongs to a query that the planner's state is about, and its arguments are simplified.
pub unsafe fn inlined_body(root: *mut pg_sys::PlannerInfo, entry: *mut pg_sys::RangeTblEntry) -> *mut pg_sys::Query {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        return pg_sys::inline_set_returning_function(root, entry);
        #[cfg(feature = "since_19")]
        return pg_sys::inline_function_in_from(root, entry);
    }
}

/// Whether a window function leaves out rows for which its argument is null (IGNORE NULLS).
pub fn ignores_nulls(function: &pg_sys::WindowFunc) -> bool {
    #[cfg(not(feature = "since_19"))]
    {
        let _ = function;
        false
    }
    // RESPECT NULLS means the same as no clause.
    #[cfg(feature = "since_19")]
    !matches!(function.ignore_nulls as u32, pg_sys::NO_NULLTREATMENT | pg_sys::PARSER_RESPECT_NULLS)
}

/// Copies the tree, with each column of a join replaced by the column of its input. From PostgreSQL 18 on, columns of
/// the grouping are replaced, too.
///
/// # Safety
///
/// `node` is null or an expression, or list of expressions, of `query`.
pub unsafe fn flatten_join_columns(query: *mut pg_sys::Query, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the caller's promise. The planner's state is needed only for columns that outer joins made nullable.
    unsafe {
        #[cfg(feature = "since_18")]
        let node = match (*query).hasGroupRTE {
            true => pg_sys::flatten_group_exprs(std::ptr::null_mut(), query, node),
            false => node,
        };
        #[cfg(not(feature = "since_16"))]
        return pg_sys::flatten_join_alias_vars(query, node);
        #[cfg(feature = "since_16")]
        return pg_sys::flatten_join_alias_vars(std::ptr::null_mut(), query, node);
    }
}

/// Marks that a query's range table has no entry for the keys of its groups.
pub fn without_group_entry(query: &mut pg_sys::Query) {
    #[cfg(not(feature = "since_18"))]
    let _ = query;
    #[cfg(feature = "since_18")]
    {
        query.hasGroupRTE = false;
    }
}

/// Replaces each column of the subquery `entry` (number `index` in the range table) by the expression that computes it,
/// in the whole tree of `query`. Returns that tree.
///
/// # Safety
///
/// The conditions of PostgreSQL's function: `query` is valid, `entry` is one of its entries, and `targets` is the
/// select list of that entry.
pub unsafe fn replace_columns(
    query: *mut pg_sys::Query,
    index: i32,
    entry: *mut pg_sys::RangeTblEntry,
    targets: *mut pg_sys::List,
) -> *mut pg_sys::Query {
    use pg_sys::ReplaceVarsNoMatchOption::REPLACEVARS_REPORT_ERROR as REPORT;
    let none = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_18"))]
        return pg_sys::ReplaceVarsFromTargetList(query.cast(), index, 0, entry, targets, REPORT, 0, none).cast();
        // 0: no entry is the target of a change.
        #[cfg(feature = "since_18")]
        return pg_sys::ReplaceVarsFromTargetList(query.cast(), index, 0, entry, targets, 0, REPORT, 0, none).cast();
    }
}
