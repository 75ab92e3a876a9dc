//! Functions of the server that pgrx's bindings lack, declare with other types, or wrap in a guard that is not wanted.
//! Callbacks, for example, must be the server's own functions. Code that runs for every query or row avoids the guards.
//! That code owns nothing that must be dropped, so an error may jump over it.

use std::ffi::{c_char, c_int, c_long, c_void};

use pgrx::pg_sys;

use super::plain::unguarded;

/// The beginning of `PQcommMethods`.
#[repr(C)]
pub(super) struct ClientMethods {
    _comm_reset: unsafe extern "C-unwind" fn(),
    pub(super) flush: unsafe extern "C-unwind" fn() -> c_int,
    _flush_if_writable: unsafe extern "C-unwind" fn() -> c_int,
    _is_send_pending: unsafe extern "C-unwind" fn() -> bool,
    pub(super) put_message: unsafe extern "C-unwind" fn(kind: c_char, content: *const c_char, length: usize) -> c_int,
    /// Puts a message into the output buffer. If the buffer is full, enlarges it instead of sending the older messages
    /// first.
    pub(super) keep_message: unsafe extern "C-unwind" fn(kind: c_char, content: *const c_char, length: usize),
}

pub type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;
pub type Mutator = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> *mut pg_sys::Node;

unguarded! {
    // Planning.
    pub fn check_functions_in_node(
        node: *mut pg_sys::Node,
        checker: pg_sys::check_function_callback,
        context: *mut c_void,
    ) -> bool;
    pub fn makeBoolConst(value: bool, is_null: bool) -> *mut pg_sys::Node;

    // Executing.
    pub fn ExecScan(
        node: *mut pg_sys::ScanState,
        access: pg_sys::ExecScanAccessMtd,
        recheck: pg_sys::ExecScanRecheckMtd,
    ) -> *mut pg_sys::TupleTableSlot;
    pub(super) fn copyObjectImpl(node: *const c_void) -> *mut c_void;
    pub(super) fn CreateQueryDesc(
        statement: *mut pg_sys::PlannedStmt,
        source: *const c_char,
        snapshot: pg_sys::Snapshot,
        crosscheck: pg_sys::Snapshot,
        receiver: *mut pg_sys::DestReceiver,
        params: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        instrument: c_int,
    ) -> *mut pg_sys::QueryDesc;
    pub(super) fn ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
    pub(super) fn PushActiveSnapshot(snapshot: pg_sys::Snapshot);
    pub fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );

    // Rows for the client.
    pub(super) fn AllocSetContextCreateInternal(
        parent: pg_sys::MemoryContext,
        name: *const c_char,
        least: usize,
        first: usize,
        most: usize,
    ) -> pg_sys::MemoryContext;
    pub(super) fn MemoryContextAllocZero(context: pg_sys::MemoryContext, size: usize) -> *mut c_void;
    pub(super) fn MemoryContextReset(context: pg_sys::MemoryContext);
    pub(super) fn MemoryContextDelete(context: pg_sys::MemoryContext);
    pub(super) fn initStringInfo(string: pg_sys::StringInfo);
    pub(super) fn enlargeStringInfo(string: pg_sys::StringInfo, more: c_int);
    pub(super) fn slot_getsomeattrs_int(slot: *mut pg_sys::TupleTableSlot, columns: c_int);
    pub(super) fn getTypeOutputInfo(ty: pg_sys::Oid, function: *mut pg_sys::Oid, is_varlena: *mut bool);
    pub(super) fn getTypeBinaryOutputInfo(ty: pg_sys::Oid, function: *mut pg_sys::Oid, is_varlena: *mut bool);
    pub(super) fn fmgr_info_cxt(function: pg_sys::Oid, info: *mut pg_sys::FmgrInfo, context: pg_sys::MemoryContext);
    pub(super) fn OutputFunctionCall(function: *mut pg_sys::FmgrInfo, value: pg_sys::Datum) -> *mut c_char;
    pub(super) fn SendFunctionCall(function: *mut pg_sys::FmgrInfo, value: pg_sys::Datum) -> *mut pg_sys::varlena;
    pub(super) fn pg_detoast_datum_packed(value: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
    pub(super) fn pg_localtime(seconds: *const i64, zone: *const pg_sys::pg_tz) -> *mut pg_sys::pg_tm;
    pub(super) fn pg_next_dst_boundary(
        seconds: *const i64,
        before: *mut c_long,
        before_is_dst: *mut c_int,
        boundary: *mut i64,
        after: *mut c_long,
        after_is_dst: *mut c_int,
        zone: *const pg_sys::pg_tz,
    ) -> c_int;

    // WAL.
    pub(super) fn XLogReadRecord(
        reader: *mut pg_sys::XLogReaderState,
        error: *mut *mut c_char,
    ) -> *mut pg_sys::XLogRecord;
    pub fn wal_segment_open(reader: *mut pg_sys::XLogReaderState, segment: u64, timeline: *mut pg_sys::TimeLineID);
    pub fn wal_segment_close(reader: *mut pg_sys::XLogReaderState);
}

// Functions that pgrx does not declare, or not as safe ones. A newer version's headers must be compared with these.
unsafe extern "C-unwind" {
    // Planning.
    pub(super) fn expand_grouping_sets(sets: *mut pg_sys::List, distinct: bool, limit: c_int) -> *mut pg_sys::List;

    // Executing.
    /// The state of a serializable transaction; null if the transaction need not be watched for conflicts.
    pub(super) safe fn ShareSerializableXact() -> *mut c_void;
    pub(super) safe fn PopActiveSnapshot();
    pub(super) safe fn EnterParallelMode();

    // Catalog.
    pub(super) fn check_functional_grouping(
        relation: pg_sys::Oid,
        entry: pg_sys::Index,
        levels_up: pg_sys::Index,
        keys: *mut pg_sys::List,
        constraints: *mut *mut pg_sys::List,
    ) -> bool;
    pub(super) fn has_subclass(relation: pg_sys::Oid) -> bool;
    pub(super) fn find_inheritance_children(parent: pg_sys::Oid, lockmode: pg_sys::LOCKMODE) -> *mut pg_sys::List;
    pub(super) fn find_all_inheritors(
        parent: pg_sys::Oid,
        lockmode: pg_sys::LOCKMODE,
        parents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;

    // Rows for the client.
    pub(super) static PqCommMethods: *const ClientMethods;
    pub(super) safe fn pg_get_client_encoding() -> c_int;
    pub(super) safe fn GetDatabaseEncoding() -> c_int;

    // WAL.
    pub(super) fn LogicalDecodingProcessRecord(
        context: *mut pg_sys::LogicalDecodingContext,
        reader: *mut pg_sys::XLogReaderState,
    );
}
