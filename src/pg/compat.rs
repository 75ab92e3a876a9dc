//! Differences between PostgreSQL's versions.

use std::ffi::CStr;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

#[cfg(feature = "pg15")]
use super::plain::variable;
use super::symbols;

/// The old and the new row of an insert, update or delete, as decoding passes them to its callback.
///
/// # Safety
///
/// `change` is a change of a row, valid while decoding's callback runs.
pub unsafe fn changed_rows(
    change: *const pg_sys::ReorderBufferChange,
) -> (Option<pg_sys::HeapTuple>, Option<pg_sys::HeapTuple>) {
    // SAFETY: the change's kind says which member of the union is meant: null, or on 15 a buffer that holds its tuple.
    unsafe {
        #[cfg(feature = "pg15")]
        let row = |buffer: *mut pg_sys::ReorderBufferTupleBuf| {
            (!buffer.is_null()).then(|| &raw mut (*buffer).tuple as pg_sys::HeapTuple)
        };
        #[cfg(not(feature = "pg15"))]
        let row = |row: pg_sys::HeapTuple| (!row.is_null()).then_some(row);
        (row((*change).data.tp.oldtuple), row((*change).data.tp.newtuple))
    }
}

/// The database of the first block that a WAL record refers to.
///
/// # Safety
///
/// `reader` is live, and has read a record that refers to a block.
pub(super) unsafe fn database_of_block(reader: *mut pg_sys::XLogReaderState) -> pg_sys::Oid {
    let (fork, block) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: by the caller's promise; output parameters that are not needed may be null.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            let mut file = pg_sys::RelFileNode::default();
            pg_sys::XLogRecGetBlockTag(reader, 0, &mut file, fork, block);
            file.dbNode
        }
        #[cfg(not(feature = "pg15"))]
        {
            let mut file = pg_sys::RelFileLocator::default();
            pg_sys::XLogRecGetBlockTag(reader, 0, &mut file, fork, block);
            file.dbOid
        }
    }
}

/// Creates a temporary replication slot in this database. The server drops it when this process ends.
pub fn create_temporary_slot(name: &CStr) {
    use pg_sys::ReplicationSlotPersistency::RS_TEMPORARY;
    // SAFETY: the name is a C string, which the server copies.
    unsafe {
        #[cfg(feature = "pg15")]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false);
        // The slot is neither two-phase nor a failover slot, and is not synchronized to a standby.
        #[cfg(not(feature = "pg15"))]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false, false, false);
    }
}

/// Whether the current user may call the function. Needs a transaction.
pub fn may_execute(function: pg_sys::Oid) -> bool {
    let right = pg_sys::ACL_EXECUTE as pg_sys::AclMode;
    // SAFETY: a catalog look-up.
    let answer = unsafe {
        #[cfg(feature = "pg15")]
        let answer = pg_sys::pg_proc_aclcheck(function, pg_sys::GetUserId(), right);
        #[cfg(not(feature = "pg15"))]
        let answer = pg_sys::object_aclcheck(pg_sys::ProcedureRelationId, function, pg_sys::GetUserId(), right);
        answer
    };
    answer == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether the current user owns the relation. Needs a transaction.
pub fn owns_relation(relid: pg_sys::Oid) -> bool {
    owns(pg_sys::RelationRelationId, relid)
}

/// Whether the current user owns the database. Needs a transaction.
pub fn owns_database(database: pg_sys::Oid) -> bool {
    owns(pg_sys::DatabaseRelationId, database)
}

fn owns(class: pg_sys::Oid, object: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe {
        #[cfg(feature = "pg15")]
        return match class {
            pg_sys::DatabaseRelationId => pg_sys::pg_database_ownercheck(object, pg_sys::GetUserId()),
            _ => pg_sys::pg_class_ownercheck(object, pg_sys::GetUserId()),
        };
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(class, object, pg_sys::GetUserId());
    }
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

/// Whether texts with this collation are ordered by their bytes.
pub fn ordered_by_bytes(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe {
        pg_guard_ffi_boundary(|| {
            #[cfg(not(feature = "pg18"))]
            return symbols::lc_collate_is_c(collation);
            #[cfg(feature = "pg18")]
            return (*symbols::pg_newlocale_from_collation(collation)).collate_is_c;
        })
    }
}

/// Removes the grouping from a query.
pub fn without_grouping(query: &mut pg_sys::Query) {
    query.hasAggs = false;
    query.groupClause = std::ptr::null_mut();
    query.groupingSets = std::ptr::null_mut();
    query.groupDistinct = false;
}

/// Marks that a query's range table has no entry for the keys of its groups.
pub fn without_group_entry(query: &mut pg_sys::Query) {
    #[cfg(feature = "pg18")]
    {
        query.hasGroupRTE = false;
    }
    #[cfg(not(feature = "pg18"))]
    let _ = query;
}

/// Writes a logical message outside any transaction, so that it takes no transaction id. Returns the end of its record
/// in the WAL, which is not flushed yet.
pub fn log_message(prefix: &CStr, message: &[u8]) -> pg_sys::XLogRecPtr {
    let (prefix, start, size) = (prefix.as_ptr(), message.as_ptr().cast(), message.len());
    // SAFETY: prefix and message are valid for the call.
    unsafe {
        pg_guard_ffi_boundary(|| {
            #[cfg(feature = "pg15")]
            return symbols::LogLogicalMessage(prefix, start, size, false);
            #[cfg(not(feature = "pg15"))]
            return symbols::LogLogicalMessage(prefix, start, size, false, false);
        })
    }
}

/// The server's status entry of a backend, or null. The number counts from 1, in the list that this process has read
/// last.
#[cfg(feature = "pg15")]
pub(super) use pg_sys::pgstat_fetch_stat_local_beentry as backend_status;
#[cfg(not(feature = "pg15"))]
pub(super) use pg_sys::pgstat_get_local_beentry_by_index as backend_status;

/// The resource owner for a set of events that lives as long as the process. It is null, because an owner would release
/// the set earlier.
#[cfg(feature = "pg15")]
pub(super) fn no_owner() -> pg_sys::MemoryContext {
    variable!(TopMemoryContext)
}
#[cfg(not(feature = "pg15"))]
pub(super) fn no_owner() -> pg_sys::ResourceOwner {
    std::ptr::null_mut()
}

/// The index of this process in the server's list of processes.
pub fn own_process_number() -> i32 {
    // SAFETY: these are plain variables of this process, which is in the server's list.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*pg_sys::MyProc).pgprocno;
        #[cfg(not(feature = "pg15"))]
        return pg_sys::MyProcNumber;
    }
}

/// The strategy number of "not equal" in [`MeaningOfOperator`]. All other numbers are those of B-tree.
pub const NOT_EQUAL: u32 = 6;

/// The operator families that contain an operator: a list of [`MeaningOfOperator`].
#[cfg(not(feature = "pg18"))]
pub use pg_sys::get_op_btree_interpretation as meanings_of_operator;
#[cfg(feature = "pg18")]
pub use pg_sys::get_op_index_interpretation as meanings_of_operator;

#[cfg(not(feature = "pg18"))]
pub type MeaningOfOperator = pg_sys::OpBtreeInterpretation;
#[cfg(feature = "pg18")]
pub type MeaningOfOperator = pg_sys::OpIndexInterpretation;

/// The strategy number of a meaning: a strategy of B-tree, or [`NOT_EQUAL`].
pub fn strategy(meaning: &MeaningOfOperator) -> u32 {
    #[cfg(not(feature = "pg18"))]
    return meaning.strategy as u32;
    #[cfg(feature = "pg18")]
    return meaning.cmptype;
}

/// The first attribute of a tuple descriptor. It stands in the attributes' array or, from PostgreSQL 18 on, behind the
/// array of compact attributes.
pub(super) fn first_attribute(descriptor: &pg_sys::TupleDescData) -> *const pg_sys::FormData_pg_attribute {
    #[cfg(not(feature = "pg18"))]
    return descriptor.attrs.as_ptr();
    #[cfg(feature = "pg18")]
    return descriptor.compact_attrs.as_ptr().wrapping_add(descriptor.natts as usize).cast();
}

/// The index of a relation's primary key; an invalid oid if it has none.
///
/// # Safety
///
/// The relation is open.
pub(super) unsafe fn primary_key_index(relation: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return pg_sys::RelationGetPrimaryKeyIndex(relation);
        // The key does not count if it is deferrable, because then it may be violated until the transaction ends.
        #[cfg(feature = "pg18")]
        return pg_sys::RelationGetPrimaryKeyIndex(relation, false);
    }
}

/// Sets a signal's handler.
#[cfg(not(feature = "pg18"))]
pub(super) use pg_sys::pqsignal as handle_signal;
#[cfg(feature = "pg18")]
pub(super) use pg_sys::pqsignal_be as handle_signal;

/// Ends the process and runs its exit callbacks.
pub fn end_process(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { pg_sys::proc_exit(code) };
    #[cfg(feature = "pg18")]
    unreachable!("proc_exit does not return")
}

/// Opens the relation with this number (from 1) in the range table of a running statement. The executor holds it open
/// until the statement ends.
///
/// # Safety
///
/// `estate` belongs to a running statement, and the entry with this number is a relation.
pub unsafe fn range_table_relation(estate: *mut pg_sys::EState, number: pg_sys::Index) -> pg_sys::Relation {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return pg_sys::ExecGetRangeTableRelation(estate, number);
        // `false`: the relation is not the target of a change.
        #[cfg(feature = "pg18")]
        return pg_sys::ExecGetRangeTableRelation(estate, number, false);
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
        #[cfg(not(feature = "pg18"))]
        return pg_sys::ReplaceVarsFromTargetList(query.cast(), index, 0, entry, targets, REPORT, 0, none).cast();
        // 0: no entry is the target of a change.
        #[cfg(feature = "pg18")]
        return pg_sys::ReplaceVarsFromTargetList(query.cast(), index, 0, entry, targets, 0, REPORT, 0, none).cast();
    }
}

/// Appends the range table of another query, together with the permissions that must be checked for its entries.
///
/// # Safety
///
/// Both are valid queries that the caller owns.
pub unsafe fn append_range_table(query: &mut pg_sys::Query, other: &pg_sys::Query) {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(feature = "pg15")]
        (query.rtable = pg_sys::list_concat(query.rtable, other.rtable));
        #[cfg(not(feature = "pg15"))]
        pg_sys::CombineRangeTables(&mut query.rtable, &mut query.rteperminfos, other.rtable, other.rteperminfos);
    }
}

/// Removes the permission checks of an entry that was copied from `original` into `query`. The entry keeps the user
/// with whose rights a view reads it.
///
/// # Safety
///
/// Both queries are valid, and the list of permissions of `query` is empty.
pub unsafe fn without_checks(query: &mut pg_sys::Query, original: &pg_sys::Query, entry: &mut pg_sys::RangeTblEntry) {
    #[cfg(feature = "pg15")]
    {
        let _ = (query, original);
        entry.requiredPerms = 0;
    }
    // SAFETY: by the caller's promise; the number of the entry says which element of the original's list belongs to it.
    #[cfg(not(feature = "pg15"))]
    unsafe {
        if entry.perminfoindex != 0 {
            let own = pg_sys::getRTEPermissionInfo(original.rteperminfos, entry);
            let copy: *mut pg_sys::RTEPermissionInfo = pg_sys::copyObjectImpl(own.cast()).cast();
            (*copy).requiredPerms = 0;
            query.rteperminfos = pg_sys::lappend(query.rteperminfos, copy.cast());
            entry.perminfoindex = 1;
        }
    }
}

/// Makes an entry for a relation that a new query reads without any permission. From PostgreSQL 16 on, the planner
/// requires that the query has an element for the entry in its list of permissions.
pub fn ask_no_permissions(query: &mut pg_sys::Query, entry: &mut pg_sys::RangeTblEntry) {
    #[cfg(feature = "pg15")]
    let _ = (query, entry);
    // SAFETY: the list is the query's own. A new element asks for no permission.
    #[cfg(not(feature = "pg15"))]
    unsafe {
        pg_sys::addRTEPermissionInfo(&mut query.rteperminfos, entry);
    }
}

/// Copies to the entry `own` the permissions that another entry of `query` needs. From PostgreSQL 16 on, they stand in
/// a separate list.
///
/// # Safety
///
/// `query` is valid, and `entry` is one of its entries.
pub unsafe fn with_permissions_of(
    query: &pg_sys::Query,
    entry: *mut pg_sys::RangeTblEntry,
    own: &mut pg_sys::RangeTblEntry,
    permissions: &mut *mut pg_sys::List,
) {
    #[cfg(feature = "pg15")]
    {
        let _ = (query, permissions);
        // SAFETY: by the caller's promise.
        let entry = unsafe { &*entry };
        (own.requiredPerms, own.checkAsUser) = (entry.requiredPerms, entry.checkAsUser);
        (own.selectedCols, own.insertedCols) = (entry.selectedCols, entry.insertedCols);
        (own.updatedCols, own.extraUpdatedCols) = (entry.updatedCols, entry.extraUpdatedCols);
    }
    // SAFETY: by the caller's promise; the number of the entry says which element of the query's list belongs to it.
    #[cfg(not(feature = "pg15"))]
    unsafe {
        if (*entry).perminfoindex != 0 {
            let asked = pg_sys::getRTEPermissionInfo(query.rteperminfos, entry);
            *permissions = pg_sys::lappend(*permissions, asked.cast());
            own.perminfoindex = pg_sys::list_length(*permissions) as pg_sys::Index;
        }
    }
}

/// Whether the current user has the permissions that these entries need.
///
/// # Safety
///
/// The entries are relations whose permissions were set by [`with_permissions_of`].
pub unsafe fn are_permitted(entries: *mut pg_sys::List, permissions: *mut pg_sys::List) -> bool {
    /// Removes other extensions' hooks for a moment, because they take a permission check for the start of a statement.
    struct Unwatched(pg_sys::ExecutorCheckPerms_hook_type);
    impl Drop for Unwatched {
        fn drop(&mut self) {
            // SAFETY: hooks are read and written on the main thread alone.
            unsafe { pg_sys::ExecutorCheckPerms_hook = self.0 };
        }
    }
    // SAFETY: by the caller's promise; a missing permission raises no error.
    unsafe {
        let _unwatched = Unwatched(pg_sys::ExecutorCheckPerms_hook);
        pg_sys::ExecutorCheckPerms_hook = None;
        #[cfg(feature = "pg15")]
        let are_permitted = |_: *mut pg_sys::List| pg_sys::ExecCheckRTPerms(entries, false);
        #[cfg(not(feature = "pg15"))]
        let are_permitted = |permissions| pg_sys::ExecCheckPermissions(entries, permissions, false);
        are_permitted(permissions)
    }
}

/// Removes all permission checks of a finished statement. Errors may jump over this function, because it owns nothing.
///
/// # Safety
///
/// The statement is finished, and the caller owns it.
pub(super) unsafe fn without_rights(statement: *mut pg_sys::PlannedStmt) {
    // SAFETY: by the caller's promise; the range table is a part of the statement, and so are its entries.
    unsafe {
        let entries = (*statement).rtable;
        for at in 0..pg_sys::list_length(entries) {
            let entry = pg_sys::list_nth(entries, at).cast::<pg_sys::RangeTblEntry>();
            #[cfg(feature = "pg15")]
            {
                (*entry).requiredPerms = 0;
            }
            #[cfg(not(feature = "pg15"))]
            {
                (*entry).perminfoindex = 0;
            }
        }
        set_permissions(&mut *statement, std::ptr::null_mut());
    }
}

/// Sets the list of permissions that the entries of a statement need.
pub fn set_permissions(statement: &mut pg_sys::PlannedStmt, permissions: *mut pg_sys::List) {
    #[cfg(feature = "pg15")]
    let _ = (statement, permissions);
    #[cfg(not(feature = "pg15"))]
    {
        statement.permInfos = permissions;
    }
}

/// Marks the entry `number` (from 1) as always read, even if pruning at the start of the statement would remove it.
///
/// # Safety
///
/// The statement is finished, and the caller owns it.
pub unsafe fn is_always_read(statement: &mut pg_sys::PlannedStmt, number: usize) {
    #[cfg(not(feature = "pg18"))]
    let _ = (statement, number);
    // SAFETY: the caller owns the statement, and the set is a part of it.
    #[cfg(feature = "pg18")]
    unsafe {
        statement.unprunableRelids = pg_sys::bms_add_member(statement.unprunableRelids, number as i32);
    }
}

/// Runs a started statement from its beginning, until its receiver wants no more rows.
///
/// # Safety
///
/// The executor has started the statement, and has not run it yet.
pub unsafe fn run_statement(statement: *mut pg_sys::QueryDesc) {
    let forward = pg_sys::ScanDirection::ForwardScanDirection;
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::ExecutorRun(statement, forward, 0, true);
        #[cfg(feature = "pg18")]
        pg_sys::ExecutorRun(statement, forward, 0);
    }
}

/// Calls the `ExecutorRun` hooks for a statement whose nodes are asked for rows directly. Some libraries prepare their
/// nodes in these hooks. The executor itself runs nothing here.
///
/// # Safety
///
/// The statement was started and may be run. No caller up to the executor owns anything that must be dropped, because
/// an error of a hook jumps over them.
pub(super) unsafe fn run_hooks_alone(statement: &mut pg_sys::QueryDesc) {
    // SAFETY: the statement was started, by the caller's promise. The new receiver is a constant of the server that
    // discards rows.
    unsafe {
        statement.dest = pg_sys::CreateDestReceiver(pg_sys::CommandDest::DestNone);
        symbols::ExecutorRun(
            statement,
            pg_sys::ScanDirection::NoMovementScanDirection,
            0,
            #[cfg(not(feature = "pg18"))]
            false,
        );
    }
}

/// The kind of time zone that a name stands for.
pub(super) enum ZoneName {
    /// An abbreviation for a fixed offset from UTC, in seconds; east is positive.
    Offset(i32),
    /// An abbreviation whose offset depends on the time.
    Dynamic,
    Zone(*mut pg_sys::pg_tz),
    None,
}

/// Looks up a name. Abbreviations have precedence, as in `AT TIME ZONE`.
pub(super) fn zone_named(name: &CStr) -> ZoneName {
    let (mut east, mut zone) = (0, std::ptr::null_mut());
    // SAFETY: the name is a C string, and the functions fill local variables.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            let lower = pg_sys::pstrdup(name.as_ptr());
            for i in 0..name.to_bytes().len() {
                (*lower.cast::<u8>().add(i)).make_ascii_lowercase();
            }
            match pg_sys::DecodeTimezoneAbbrev(0, lower, &mut east, &mut zone) as u32 {
                pg_sys::TZ | pg_sys::DTZ => return ZoneName::Offset(east),
                pg_sys::DYNTZ => return ZoneName::Dynamic,
                _ => zone = pg_sys::pg_tzset(name.as_ptr()),
            }
        }
        #[cfg(not(feature = "pg15"))]
        match pg_sys::DecodeTimezoneName(name.as_ptr(), &mut east, &mut zone) as u32 {
            pg_sys::TZNAME_FIXED_OFFSET => return ZoneName::Offset(east),
            pg_sys::TZNAME_DYNTZ => return ZoneName::Dynamic,
            _ => {}
        }
    }
    if zone.is_null() { ZoneName::None } else { ZoneName::Zone(zone) }
}
