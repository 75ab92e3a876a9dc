//! Columns that stand for expressions, and the meaning of functions.

use pgrx::prelude::*;

/// Whether tables can have virtual generated columns.
pub const HAS_VIRTUAL_COLUMNS: bool = cfg!(feature = "since_18");

/// Whether the range table has an entry for the keys of the groups. PostgreSQL's planner then finds out from that entry
/// which expressions a grouping set turns into nulls.
pub const HAS_GROUP_ENTRY: bool = cfg!(feature = "since_18");

/// Whether the quarter of a negative interval is negative. Before, `extract(quarter FROM interval '-4 months')` is 0.
pub const QUARTERS_HAVE_SIGNS: bool = cfg!(feature = "since_18");

/// The expression that computes a virtual generated column from columns of item 1 of FROM.
///
/// # Safety
///
/// The relation is open, and its column `number` is generated.
pub unsafe fn generation_expression(relation: pg_sys::Relation, number: i16) -> *mut pg_sys::Node {
    #[cfg(not(feature = "since_18"))]
    unreachable!("column {number} of {relation:?} is virtual");
    // SAFETY: by the caller's promise.
    #[cfg(feature = "since_18")]
    unsafe {
        pg_sys::build_generation_expression(relation, number.into())
    }
}

/// The expression or list of expressions, with each virtual generated column of item 1 of FROM replaced by the
/// expression that computes it.
///
/// # Safety
///
/// `node` is valid; the relation is open, and is item 1 of FROM.
pub unsafe fn without_virtual_columns(relation: pg_sys::Relation, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    #[cfg(not(feature = "since_18"))]
    {
        let _ = relation;
        node
    }
    // SAFETY: by the caller's promise.
    #[cfg(feature = "since_18")]
    unsafe {
        pg_sys::expand_generated_columns_in_expr(node, relation, 1)
    }
}

/// The expressions by which a query groups, if the entry represents them in the query's range table; otherwise null. Up
/// to PostgreSQL 17, no entry does.
pub fn group_keys(entry: &pg_sys::RangeTblEntry) -> *mut pg_sys::List {
    #[cfg(not(feature = "since_18"))]
    {
        let _ = entry;
        std::ptr::null_mut()
    }
    #[cfg(feature = "since_18")]
    entry.groupexprs
}
