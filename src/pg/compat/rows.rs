//! Rows of tables, and tables in shared memory.

use std::ffi::CStr;
use std::ptr;

use pgrx::prelude::*;

/// Begins to read a table from its beginning.
///
/// # Safety
///
/// The relation is an open table, and relation and snapshot live longer than the scan.
pub unsafe fn begin_scan(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> pg_sys::TableScanDesc {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        return pg_sys::table_beginscan(relation, snapshot, 0, ptr::null_mut());
        // 0: no flags.
        #[cfg(feature = "since_19")]
        return pg_sys::table_beginscan(relation, snapshot, 0, ptr::null_mut(), 0);
    }
}

/// Begins a scan that does not join other scans of the relation, so that it may be limited to some blocks.
///
/// # Safety
///
/// As for [`begin_scan`]; the relation is a heap table.
pub unsafe fn begin_scan_alone(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> pg_sys::TableScanDesc {
    use pg_sys::ScanOptions::{SO_ALLOW_PAGEMODE, SO_ALLOW_STRAT, SO_TYPE_SEQSCAN};
    let (no_key, flags) = (ptr::null_mut(), SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_PAGEMODE);
    // SAFETY: by the caller's promise.
    unsafe { pg_sys::heap_beginscan(relation, snapshot, 0, no_key, ptr::null_mut(), flags) }
}

/// Deletes a row, without waiting for a transaction that has changed it.
///
/// # Safety
///
/// The relation is locked for writing, and has a row at this place.
pub unsafe fn delete_row(
    relation: pg_sys::Relation,
    place: &mut pg_sys::ItemPointerData,
    command: pg_sys::CommandId,
    failure: &mut pg_sys::TM_FailureData,
) {
    let any = ptr::null_mut();
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        pg_sys::heap_delete(relation, place, command, any, false, failure, false);
        // 0: no options.
        #[cfg(feature = "since_19")]
        pg_sys::heap_delete(relation, place, command, 0, any, false, failure);
    }
}

/// Creates a hash table in shared memory that was requested for `places` entries.
///
/// # Safety
///
/// The server's hook for creating shared memory calls this, and `control` and `flags` describe the entries.
pub unsafe fn shared_table(name: &CStr, places: usize, control: &mut pg_sys::HASHCTL, flags: i32) -> *mut pg_sys::HTAB {
    // SAFETY: by the caller's promise; the name is a C string.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        return pg_sys::ShmemInitHash(name.as_ptr(), places as _, places as _, control, flags);
        #[cfg(feature = "since_19")]
        return pg_sys::ShmemInitHash(name.as_ptr(), places as i64, control, flags);
    }
}
