//! WAL records, changed rows, and the replication slot.

use std::ffi::{CStr, CString, c_char};

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

/// The file (`relfilenode`) of a block that a WAL record refers to.
pub fn file_of_block(block: &pg_sys::DecodedBkpBlock) -> u32 {
    #[cfg(not(feature = "since_16"))]
    return block.rnode.relNode.to_u32();
    #[cfg(feature = "since_16")]
    return block.rlocator.relNumber.to_u32();
}

/// The least `wal_level` with which there can be decoding. From PostgreSQL 19 on, the first slot adds to the WAL what
/// decoding needs.
#[cfg(not(feature = "since_19"))]
pub const LEVEL_FOR_DECODING: pg_sys::WalLevel::Type = pg_sys::WalLevel::WAL_LEVEL_LOGICAL;
#[cfg(feature = "since_19")]
pub const LEVEL_FOR_DECODING: pg_sys::WalLevel::Type = pg_sys::WalLevel::WAL_LEVEL_REPLICA;

/// Creates a temporary replication slot in this database, if the server's settings allow decoding. The server drops the
/// slot when this process ends.
pub fn create_temporary_slot(name: &CStr) {
    use pg_sys::ReplicationSlotPersistency::RS_TEMPORARY;
    // SAFETY: the name is a C string, which the server copies.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        pg_sys::CheckLogicalDecodingRequirements();
        // The slot is not one of REPACK's.
        #[cfg(feature = "since_19")]
        pg_sys::CheckLogicalDecodingRequirements(false);
        #[cfg(not(feature = "since_17"))]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false);
        // The slot is neither two-phase nor a failover slot, and is not synchronized to a standby.
        #[cfg(all(feature = "since_17", not(feature = "since_19")))]
        pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false, false, false);
        #[cfg(feature = "since_19")]
        {
            pg_sys::ReplicationSlotCreate(name.as_ptr(), true, RS_TEMPORARY, false, false, false, false);
            pg_sys::EnsureLogicalDecodingEnabled();
        }
    }
}

/// Creates the context that decodes from the slot of this process. It names a plugin, and needs a snapshot of the
/// catalog only.
///
/// # Safety
///
/// This process has created the slot; the routine lives as long as the context, which lives in the current memory.
pub unsafe fn begin_decoding(
    plugin: &str,
    routine: &mut pg_sys::XLogReaderRoutine,
) -> *mut pg_sys::LogicalDecodingContext {
    let plugin = CString::new(plugin).expect("no NUL in it");
    let (plugin, options, nowhere) = (plugin.as_ptr(), std::ptr::null_mut(), pg_sys::InvalidXLogRecPtr as u64);
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        return pg_sys::CreateInitDecodingContext(plugin, options, false, nowhere, routine, None, None, None);
        #[cfg(feature = "since_19")]
        return pg_sys::CreateInitDecodingContext(plugin, options, false, false, nowhere, routine, None, None, None);
    }
}

/// The time of a decoded transaction's commit.
///
/// # Safety
///
/// The transaction's commit is being decoded.
pub unsafe fn commit_time(transaction: &pg_sys::ReorderBufferTXN) -> i64 {
    // SAFETY: by the caller's promise, the union holds the time of the commit.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        return transaction.xact_time.commit_time;
        #[cfg(feature = "since_19")]
        return transaction.__bindgen_anon_1.commit_time;
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
