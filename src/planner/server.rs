//! Functions of the server that pgrx does not declare, or not with the types that they really take.

use std::ffi::{c_char, c_void};

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

pub type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;
pub type Mutator = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> *mut pg_sys::Node;

/// Not guarded: for code that owns nothing, so that errors may jump over it. They run for every query, or every row.
pub mod bare {
    use super::*;

    unsafe extern "C-unwind" {
        pub fn expression_tree_walker(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool;
        pub fn query_tree_walker(query: *mut pg_sys::Query, walker: Walker, context: *mut c_void, flags: i32) -> bool;
        pub fn ExecScan(
            node: *mut pg_sys::ScanState,
            access: pg_sys::ExecScanAccessMtd,
            recheck: pg_sys::ExecScanRecheckMtd,
        ) -> *mut pg_sys::TupleTableSlot;
        pub fn standard_planner(
            query: *mut pg_sys::Query,
            source: *const c_char,
            options: i32,
            params: pg_sys::ParamListInfo,
        ) -> *mut pg_sys::PlannedStmt;

        pub(super) fn expression_tree_mutator(
            node: *mut pg_sys::Node,
            mutator: Mutator,
            context: *mut c_void,
        ) -> *mut pg_sys::Node;
        pub(super) fn query_tree_mutator(
            query: *mut pg_sys::Query,
            mutator: Mutator,
            context: *mut c_void,
            flags: i32,
        ) -> *mut pg_sys::Query;
        pub(super) fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
        pub(super) fn check_functional_grouping(
            relation: pg_sys::Oid,
            entry: pg_sys::Index,
            levels_up: pg_sys::Index,
            keys: *mut pg_sys::List,
            constraints: *mut *mut pg_sys::List,
        ) -> bool;
        pub(super) fn has_subclass(relation: pg_sys::Oid) -> bool;
        pub(super) fn find_inheritance_children(parent: pg_sys::Oid, lockmode: pg_sys::LOCKMODE) -> *mut pg_sys::List;
    }
}

/// Whether the walker says so of one of the node's children.
///
/// # Safety
///
/// A valid node, and a walker for this context.
pub unsafe fn walk_children(node: *mut pg_sys::Node, walker: Walker, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| bare::expression_tree_walker(node, walker, context)) }
}

/// Copies a node, its children mutated.
///
/// # Safety
///
/// A valid node, and a mutator for this context.
pub unsafe fn mutate_children(node: *mut pg_sys::Node, mutator: Mutator, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { pg_guard_ffi_boundary(|| bare::expression_tree_mutator(node, mutator, context)) }
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
    unsafe { pg_guard_ffi_boundary(|| bare::query_tree_mutator(query, mutator, context, flags as i32)) }
}

/// Whether text in this collation is ordered by its bytes.
pub fn ordered_by_bytes(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_guard_ffi_boundary(|| bare::lc_collate_is_c(collation)) }
}

/// Whether columns among `keys` are the primary key of the relation that `column` belongs to.
pub fn keys_determine(relation: pg_sys::Oid, column: &pg_sys::Var, keys: *mut pg_sys::List) -> bool {
    let mut constraints = std::ptr::null_mut();
    let (entry, levels_up) = (column.varno as pg_sys::Index, column.varlevelsup);
    // SAFETY: catalog lookups; the keys are a list of expressions.
    unsafe {
        pg_guard_ffi_boundary(|| {
            bare::check_functional_grouping(relation, entry, levels_up, keys, &raw mut constraints)
        })
    }
}

/// Whether tables inherit from this one, which is locked.
pub fn has_children(relation: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups. The flag that the first reads may be left over from children that are gone.
    unsafe {
        pg_guard_ffi_boundary(|| {
            bare::has_subclass(relation) && !bare::find_inheritance_children(relation, pg_sys::NoLock as i32).is_null()
        })
    }
}
