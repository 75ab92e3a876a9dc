//! Virtual generated columns, which PostgreSQL has since version 18. No row holds their values, so each query computes
//! them from the other columns. A table whose virtual columns are read becomes a subquery that computes them, as if the
//! query read a view of the table. PostgreSQL's planner does the same later, in its own copy of the query.
//!
//! ```text
//!   SELECT u.id, t.total FROM u LEFT JOIN t ON t.id = u.id
//!   SELECT u.id, t.total FROM u LEFT JOIN (SELECT id, price, price * 1.19 AS total FROM t) AS t ON t.id = u.id
//! ```
//!
//! So a row of `u` without a partner gets a null, and not the value of the expression for nulls. The expression is that
//! of the table which the query names, even for rows of a child whose own expression is another.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::pg::descriptor::is_virtual;
use crate::pg::relation::OpenRelation;
use crate::pg::tree::{Node, Ref, Shape};
use crate::pg::{compat, make, walk};

/// Computes the virtual generated columns that the query and its subqueries read.
///
/// # Safety
///
/// `query` is a rewritten query that the caller owns, and its relations are locked.
pub unsafe fn compute_virtual_columns(query: *mut pg_sys::Query) {
    if compat::HAS_VIRTUAL_COLUMNS {
        // SAFETY: the caller owns the query; the walker needs no context.
        unsafe { walk::walk(query.cast(), compute_below, std::ptr::null_mut()) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn compute_below(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with null or a node of a query that the caller of `compute_virtual_columns` owns; the tags tell
    // types. The subqueries made here are not visited, because the walk has been below their place already.
    unsafe {
        if node.is_null() {
            return false;
        }
        if (*node).type_ != pg_sys::NodeTag::T_Query {
            return walk::walk_children(node, compute_below, context);
        }
        let query = node.cast::<pg_sys::Query>();
        walk::walk_query(query, compute_below, context);
        for index in 1..=pg_sys::list_length((*query).rtable) {
            let entry = pg_sys::list_nth((*query).rtable, index - 1).cast::<pg_sys::RangeTblEntry>();
            if let Some(table) = table_to_compute(Ref::new(query), Ref::new(entry)) {
                let pg_sys::RangeTblEntry { alias, eref, inFromCl, .. } = *entry;
                let subquery = computing(Ref::new(query), Ref::new(entry), index, &table);
                let rtekind = pg_sys::RTEKind::RTE_SUBQUERY;
                *entry = pg_sys::RangeTblEntry { rtekind, subquery, alias, eref, inFromCl, ..make::blank() };
            }
        }
    }
    false
}

/// The table of an entry, if the query reads virtual columns of it.
fn table_to_compute(query: Ref<'_, pg_sys::Query>, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<OpenRelation> {
    let is_table = matches!(entry.relkind as u8, pg_sys::RELKIND_RELATION | pg_sys::RELKIND_PARTITIONED_TABLE);
    if entry.rtekind != pg_sys::RTEKind::RTE_RELATION || !is_table || !entry.tablesample.is_null() {
        return None;
    }
    let table = OpenRelation::locked(entry.relid);
    // The policies of a table may read columns that the query itself does not read.
    let has_policies = !entry.securityQuals.is_null();
    let is_read = |column: &pg_sys::FormData_pg_attribute| has_policies || query.reads(entry, column.attnum);
    let is_to_compute = table.attributes().iter().any(|column| is_virtual(column) && is_read(column));
    // A subquery has neither system columns nor rows of the table's type.
    let mut others = pg_sys::FirstLowInvalidHeapAttributeNumber as i16 + 1..=0;
    (is_to_compute && !others.any(|number| query.reads(entry, number))).then_some(table)
}

/// The query of all columns of a table, which is the item `index` of `query`.
fn computing(
    query: Ref<'_, pg_sys::Query>,
    entry: Ref<'_, pg_sys::RangeTblEntry>,
    index: i32,
    table: &OpenRelation,
) -> *mut pg_sys::Query {
    let memory = query.memory();
    let targets = table.attributes().iter().map(|column| {
        let (ty, modifier, collation) = (column.atttypid, column.atttypmod, column.attcollation);
        let value = match () {
            _ if column.attisdropped => memory.null(pg_sys::INT4OID),
            _ if is_virtual(column) => table.generation_expression(memory, column.attnum),
            _ => memory.column(1, column.attnum, Shape { ty, modifier, collation }).node(),
        };
        make::target::<pg_sys::Node>(value.as_ptr(), column.attnum)
    });
    let policies = entry.securityQuals().node();
    let has_policies = policies.is_some();
    let policies = policies.map(|all| table.without_virtual_columns(all.copied_for(index, 1)));
    let mut inner =
        pg_sys::RangeTblEntry { securityQuals: policies.map_or(std::ptr::null_mut(), Node::as_ptr), ..*entry };
    let mut computing = pg_sys::Query {
        commandType: pg_sys::CmdType::CMD_SELECT,
        canSetTag: true,
        hasSubLinks: has_policies && query.hasSubLinks,
        hasRowSecurity: has_policies,
        jointree: make::from_first(std::ptr::null_mut()),
        targetList: make::list(targets),
        ..make::blank()
    };
    // The user's permissions were checked for the whole query. SAFETY: a new query, whose list of permissions is empty,
    // and a copy of an entry of the original query.
    unsafe { compat::without_checks(&mut computing, &query, &mut inner) };
    computing.rtable = make::list([make::placed(inner)]);
    make::placed(computing)
}
