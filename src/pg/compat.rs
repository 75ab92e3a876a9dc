//! What differs between PostgreSQL's versions.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::symbols;

/// The rows of an insert, update or delete as decoding hands them on: old, new.
///
/// # Safety
///
/// A change of a row, valid while decoding's callback runs.
pub unsafe fn changed_rows(
    change: *const pg_sys::ReorderBufferChange,
) -> (Option<pg_sys::HeapTuple>, Option<pg_sys::HeapTuple>) {
    #[cfg(feature = "pg15")]
    let row = |buffer: *mut pg_sys::ReorderBufferTupleBuf| {
        // SAFETY: null, or a buffer that holds its tuple.
        (!buffer.is_null()).then(|| unsafe { &raw mut (*buffer).tuple } as pg_sys::HeapTuple)
    };
    #[cfg(not(feature = "pg15"))]
    let row = |row: pg_sys::HeapTuple| (!row.is_null()).then_some(row);
    // SAFETY: the change's kind says which member of the union is meant.
    unsafe { (row((*change).data.tp.oldtuple), row((*change).data.tp.newtuple)) }
}

/// A replication slot of this database that goes with its process.
pub fn create_temporary_slot(name: &CStr) {
    use pg_sys::ReplicationSlotPersistency::RS_TEMPORARY;
    // SAFETY: a C string, which is copied; an error has its message.
    unsafe {
        #[cfg(feature = "pg15")]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false);
        // Neither two-phase, nor kept on or copied to a standby.
        #[cfg(not(feature = "pg15"))]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false, false, false);
    }
}

/// Whether the current user owns the relation. In a transaction.
pub fn owns_relation(relid: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(relid, pg_sys::GetUserId());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::RelationRelationId, relid, pg_sys::GetUserId());
    }
}

/// Whether the current user owns the database. In a transaction.
pub fn owns_database(database: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_database_ownercheck(database, pg_sys::GetUserId());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, pg_sys::GetUserId());
    }
}

/// An expression with the columns of joins resolved, and those of the grouping, which 18 has: a new tree.
///
/// # Safety
///
/// `node` is null or an expression, or list of expressions, of `query`.
pub unsafe fn flatten_join_columns(query: *mut pg_sys::Query, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the caller's promise; the planner's state is wanted only for what outer joins made nullable.
    unsafe {
        #[cfg(feature = "pg18")]
        let node = match (*query).hasGroupRTE {
            true => pg_sys::flatten_group_exprs(std::ptr::null_mut(), query, node),
            false => node,
        };
        #[cfg(feature = "pg15")]
        return pg_sys::flatten_join_alias_vars(query, node);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::flatten_join_alias_vars(std::ptr::null_mut(), query, node);
    }
}

/// Whether a collation orders by bytes.
///
/// # Safety
///
/// Within pgrx's guard for calls of the server: an error jumps over this frame.
pub unsafe fn collation_is_c(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return symbols::lc_collate_is_c(collation);
        #[cfg(feature = "pg18")]
        return (*symbols::pg_newlocale_from_collation(collation)).collate_is_c;
    }
}

/// Takes the grouping away from a query, whose range table has no entry for it.
pub fn without_grouping(query: &mut pg_sys::Query) {
    query.hasAggs = false;
    query.groupClause = std::ptr::null_mut();
    query.groupDistinct = false;
    #[cfg(feature = "pg18")]
    {
        query.hasGroupRTE = false;
    }
}

/// Writes a logical message that belongs to no transaction; its end in the WAL, not flushed.
///
/// # Safety
///
/// Within pgrx's guard for calls of the server: an error jumps over this frame.
pub unsafe fn log_message(prefix: &CStr, message: &[u8]) -> pg_sys::XLogRecPtr {
    let (prefix, start, size) = (prefix.as_ptr(), message.as_ptr().cast(), message.len());
    // SAFETY: prefix and message are valid for the call.
    unsafe {
        #[cfg(feature = "pg15")]
        return symbols::LogLogicalMessage(prefix, start, size, false);
        #[cfg(not(feature = "pg15"))]
        return symbols::LogLogicalMessage(prefix, start, size, false, false);
    }
}

/// What the server knows of a backend, by its place in the list that this process took last, from 1.
///
/// # Safety
///
/// The entry is read before the list is taken anew.
pub unsafe fn backend_status<'a>(place: i32) -> Option<&'a pg_sys::LocalPgBackendStatus> {
    // SAFETY: null, or an entry of this process's own list.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pgstat_fetch_stat_local_beentry(place).as_ref();
        #[cfg(not(feature = "pg15"))]
        return pg_sys::pgstat_get_local_beentry_by_index(place).as_ref();
    }
}

/// An empty set of so many events, which lives as long as the process.
pub fn lasting_wait_set(events: i32) -> *mut pg_sys::WaitEventSet {
    // SAFETY: without an owner nobody releases the set.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::CreateWaitEventSet(pg_sys::TopMemoryContext, events);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::CreateWaitEventSet(std::ptr::null_mut(), events);
    }
}

/// This process's place in the server's list of processes.
pub fn own_process_number() -> i32 {
    // SAFETY: plain variables of a process that is in that list.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*pg_sys::MyProc).pgprocno;
        #[cfg(not(feature = "pg15"))]
        return pg_sys::MyProcNumber;
    }
}

/// Number of "not equal" among what an operator may mean to an ordered index; the others are B-tree's strategies.
pub const NOT_EQUAL: u32 = 6;

/// What an operator means to an ordered index: lists of [`MeaningOfOperator`].
#[cfg(not(feature = "pg18"))]
pub use pg_sys::get_op_btree_interpretation as meanings_of_operator;
#[cfg(feature = "pg18")]
pub use pg_sys::get_op_index_interpretation as meanings_of_operator;

#[cfg(not(feature = "pg18"))]
pub type MeaningOfOperator = pg_sys::OpBtreeInterpretation;
#[cfg(feature = "pg18")]
pub type MeaningOfOperator = pg_sys::OpIndexInterpretation;

/// A strategy of B-tree, or [`NOT_EQUAL`].
pub fn strategy(meaning: &MeaningOfOperator) -> u32 {
    #[cfg(not(feature = "pg18"))]
    return meaning.strategy as u32;
    #[cfg(feature = "pg18")]
    return meaning.cmptype;
}

/// The attributes of a tuple descriptor.
///
/// # Safety
///
/// The descriptor is valid, and stays so while the result is used.
pub unsafe fn attributes<'a>(descriptor: pg_sys::TupleDesc) -> &'a [pg_sys::FormData_pg_attribute] {
    // SAFETY: `natts` attributes lie in or, since 18, behind the descriptor's array.
    unsafe {
        let natts = (*descriptor).natts as usize;
        #[cfg(not(feature = "pg18"))]
        return (*descriptor).attrs.as_slice(natts);
        #[cfg(feature = "pg18")]
        return std::slice::from_raw_parts((*descriptor).compact_attrs.as_ptr().add(natts).cast(), natts);
    }
}

/// Sets a signal's handler.
///
/// # Safety
///
/// The handler may run at any time.
pub unsafe fn handle_signal(signal: u32, handler: unsafe extern "C-unwind" fn(std::ffi::c_int)) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(signal as i32, Some(handler));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(signal as i32, Some(handler));
    }
}

/// Ends the process with all its cleanup.
pub fn end_process(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { pg_sys::proc_exit(code) };
    #[cfg(feature = "pg18")]
    unreachable!("proc_exit does not return")
}

/// A relation of a running statement's range table, by its number from 1, held open until the statement ends.
///
/// # Safety
///
/// `estate` is that of a running statement, and the entry is a relation's.
pub unsafe fn range_table_relation(estate: *mut pg_sys::EState, number: pg_sys::Index) -> pg_sys::Relation {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return pg_sys::ExecGetRangeTableRelation(estate, number);
        // Not as the target of a change.
        #[cfg(feature = "pg18")]
        return pg_sys::ExecGetRangeTableRelation(estate, number, false);
    }
}

/// The tree of `query` with the columns of its subquery `entry`, number `index`, replaced by their expressions.
///
/// # Safety
///
/// As for PostgreSQL's function: a query, one of its entries, and that entry's target list.
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
        #[cfg(not(feature = "pg18"))]
        return pg_sys::ReplaceVarsFromTargetList(query.cast(), index, 0, entry, targets, REPORT, 0, none).cast();
        // The entry is not the result relation of a change.
        #[cfg(feature = "pg18")]
        return pg_sys::ReplaceVarsFromTargetList(query.cast(), index, 0, entry, targets, 0, REPORT, 0, none).cast();
    }
}
