//! Walking through trees of nodes, and changing them: PostgreSQL's walkers and mutators, whose errors become panics of ours on the way.

use std::ffi::c_void;

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

use super::symbols::{self, Mutator, Walker};

/// Whether the walker says so of one of the node's children.
///
/// # Safety
///
/// A valid node, and a walker for this context.
pub unsafe fn walk_children(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| symbols::expression_tree_walker(node, walker, context)) }
}

/// Copies a node, its children mutated.
///
/// # Safety
///
/// A valid node, and a mutator for this context.
pub unsafe fn mutate_children(node: *mut pg_sys::Node, mutator: Mutator, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| symbols::expression_tree_mutator(node, mutator, context)) }
}

/// As [`mutate_children`], for a query.
///
/// # Safety
///
/// A valid query, and a mutator for this context.
pub unsafe fn mutate_query(
    query: *mut pg_sys::Query,
    mutator: Mutator,
    context: *mut c_void,
    flags: u32,
) -> *mut pg_sys::Query {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| symbols::query_tree_mutator(query, mutator, context, flags as i32)) }
}

/// The sets of keys that a query groups by, as lists of what GROUP BY calls them; null: more than `limit`.
///
/// # Safety
///
/// A valid query.
pub unsafe fn expanded_grouping_sets(query: &pg_sys::Query, limit: i32) -> *mut pg_sys::List {
    // SAFETY: by the caller's promise; the lists are copied.
    unsafe { pg_guard_ffi_boundary(|| symbols::expand_grouping_sets(query.groupingSets, query.groupDistinct, limit)) }
}
