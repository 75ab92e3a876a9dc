//! Columns that stand for expressions, and the meaning of functions.

use pgrx::prelude::*;

/// Whether the quarter of a negative interval is negative. Before, `extract(quarter FROM interval '-4 months')` is 0.
pub const QUARTERS_HAVE_SIGNS: bool = cfg!(feature = "since_18");

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
