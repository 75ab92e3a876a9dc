//! Reads and changes trees of nodes with PostgreSQL's walkers and mutators. Errors that the server raises during a walk
//! become panics.

use std::ffi::c_void;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::compat;
use super::symbols::{self, Mutator, Walker};

/// Whether a walker returns true for a node or for a node below it. Rust code begins each walk with this function. If
/// Rust called a walker directly, an error in it would jump over all frames up to PostgreSQL's own, even over a frame
/// that wants to catch the error.
///
/// # Safety
///
/// `node` is null or valid, and `walker` takes this context.
pub unsafe fn walk(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| walker(node, context)) }
}

/// Like [`walk`] for a mutator: returns the changed node.
///
/// # Safety
///
/// `node` is null or valid, and `mutator` takes this context.
pub unsafe fn mutate(node: *mut pg_sys::Node, mutator: Mutator, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| mutator(node, context)) }
}

/// Whether the walker returns true for one of the node's children.
///
/// # Safety
///
/// `node` is valid, and `walker` takes this context.
pub unsafe fn walk_children(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| compat::expression_tree_walker(node, walker, context)) }
}

/// Like [`walk_children`] for the parts of a query. The walker visits subqueries in FROM and in WITH as queries.
///
/// # Safety
///
/// `query` is valid, and `walker` takes this context.
pub unsafe fn walk_query(query: *mut pg_sys::Query, walker: Walker, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| compat::query_tree_walker(query, walker, context, 0)) }
}

/// Copies a node, with each child replaced by the mutator's result.
///
/// # Safety
///
/// `node` is valid, and `mutator` takes this context.
pub unsafe fn mutate_children(node: *mut pg_sys::Node, mutator: Mutator, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| compat::expression_tree_mutator(node, mutator, context)) }
}

/// Like [`mutate_children`], for a query.
///
/// # Safety
///
/// `query` is valid, and `mutator` takes this context.
pub unsafe fn mutate_query(
    query: *mut pg_sys::Query,
    mutator: Mutator,
    context: *mut c_void,
    flags: u32,
) -> *mut pg_sys::Query {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| compat::query_tree_mutator(query, mutator, context, flags as i32)) }
}

/// The sets of keys by which a query groups, as lists of the numbers that GROUP BY gives to the keys. Null if there are
/// more than `limit` sets.
///
/// # Safety
///
/// `query` is a valid query.
pub unsafe fn expanded_grouping_sets(query: *mut pg_sys::Query, limit: i32) -> *mut pg_sys::List {
    // SAFETY: by the caller's promise; the lists are copied.
    unsafe {
        let (sets, distinct) = ((*query).groupingSets, (*query).groupDistinct);
        pg_guard_ffi_boundary(|| symbols::expand_grouping_sets(sets, distinct, limit))
    }
}

/// The functions that a query calls, including the functions of its operators and aggregates, each once.
///
/// # Safety
///
/// `query` is a valid query.
pub unsafe fn functions_of(query: *mut pg_sys::Query) -> Vec<pg_sys::Oid> {
    let mut found: Vec<pg_sys::Oid> = Vec::new();
    // SAFETY: by the caller's promise; the walker gets the context that it expects.
    unsafe { walk(query.cast(), visit_functions, (&raw mut found).cast()) };
    found.sort_unstable_by_key(|function| function.to_u32());
    found.dedup();
    found
}

/// Whether an expression calls only functions of the server itself.
///
/// # Safety
///
/// `expression` is a valid expression.
pub unsafe fn calls_only_builtin(expression: *mut pg_sys::Node) -> bool {
    let mut found: Vec<pg_sys::Oid> = Vec::new();
    // SAFETY: by the caller's promise; the walker gets the context that it expects.
    unsafe { walk(expression, visit_functions, (&raw mut found).cast()) };
    found.iter().all(|function| function.to_u32() < pg_sys::FirstNormalObjectId)
}

#[pg_guard]
unsafe extern "C-unwind" fn visit_functions(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with null or a valid node, and the context of `functions_of`.
    unsafe {
        if node.is_null() {
            return false;
        }
        match (*node).type_ {
            pg_sys::NodeTag::T_Query => {
                let flags = 0;
                return pg_guard_ffi_boundary(|| {
                    compat::query_tree_walker(node.cast(), visit_functions, context, flags)
                });
            }
            // PostgreSQL needs no permission for a conversion by a type's input and output functions, so these do not
            // count.
            pg_sys::NodeTag::T_CoerceViaIO => {}
            _ => _ = pg_sys::check_functions_in_node(node, Some(add_function), context),
        }
        walk_children(node, visit_functions, context)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn add_function(function: pg_sys::Oid, context: *mut c_void) -> bool {
    // SAFETY: the context of `functions_of`.
    unsafe { &mut *context.cast::<Vec<pg_sys::Oid>>() }.push(function);
    false
}
