//! WAL records, changed rows, and the replication slot.

use std::ffi::{CStr, c_char};

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

unsafe extern "C-unwind" {
    fn LogLogicalMessage(
        prefix: *const c_char,
        message: *const c_char,
        size: usize,
        transactional: bool,
        #[cfg(feature = "since_17")] flush: bool,
    ) -> pg_sys::XLogRecPtr;
}

/// The old and the new row of an insert, update or delete, as decoding passes them to its callback.
///
/// # Safety
///
/// `change` is a change of a row, valid while decoding's callback runs.
pub unsafe fn changed_rows(
    change: *const pg_sys::ReorderBufferChange,
) -> (Option<pg_sys::HeapTuple>, Option<pg_sys::HeapTuple>) {
    // SAFETY: the change's kind says which member of the union is meant: null, a tuple, or before PostgreSQL 17 a
    // buffer that holds its tuple.
    unsafe {
        #[cfg(not(feature = "since_17"))]
        let row = |buffer: *mut pg_sys::ReorderBufferTupleBuf| {
            (!buffer.is_null()).then(|| &raw mut (*buffer).tuple as pg_sys::HeapTuple)
        };
        #[cfg(feature = "since_17")]
        let row = |row: pg_sys::HeapTuple| (!row.is_null()).then_some(row);
        (row((*change).data.tp.oldtuple), row((*change).data.tp.newtuple))
    }
}

/// The database of the first block that a WAL record refers to.
///
/// # Safety
///
/// `reader` is live, and has read a record that refers to a block.
pub unsafe fn database_of_block(reader: *mut pg_sys::XLogReaderState) -> pg_sys::Oid {
    let (fork, block) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: by the caller's promise; output parameters that are not needed may be null.
    unsafe {
        #[cfg(not(feature = "since_16"))]
        {
            let mut file = pg_sys::RelFileNode::default();
            pg_sys::XLogRecGetBlockTag(reader, 0, &mut file, fork, block);
            file.dbNode
        }
        #[cfg(feature = "since_16")]
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
        #[cfg(not(feature = "since_17"))]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false);
        // The slot is neither two-phase nor a failover slot, and is not synchronized to a standby.
        #[cfg(feature = "since_17")]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false, false, false);
    }
}

/// Writes a logical message outside any transaction, so that it takes no transaction id. Returns the end of its record
/// in the WAL, which is not flushed yet.
pub fn log_message(prefix: &CStr, message: &[u8]) -> pg_sys::XLogRecPtr {
    let (prefix, start, size) = (prefix.as_ptr(), message.as_ptr().cast(), message.len());
    // SAFETY: prefix and message are valid for the call.
    unsafe {
        pg_guard_ffi_boundary(|| {
            #[cfg(not(feature = "since_17"))]
            return LogLogicalMessage(prefix, start, size, false);
            #[cfg(feature = "since_17")]
            return LogLogicalMessage(prefix, start, size, false, false);
        })
    }
}
