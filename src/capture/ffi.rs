//! Symbols of the server that pgrx's bindings lack, or that are needed as plain function pointers.

use std::ffi::{c_char, c_int};

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

/// The server's own functions, to be handed back to it as callbacks. pgrx's functions of these names are wrappers with
/// another calling convention.
pub mod raw {
    use super::*;

    unsafe extern "C-unwind" {
        pub fn wal_segment_open(reader: *mut pg_sys::XLogReaderState, segment: u64, timeline: *mut pg_sys::TimeLineID);
        pub fn wal_segment_close(reader: *mut pg_sys::XLogReaderState);
        pub fn die(signal: c_int);
        pub fn SignalHandlerForConfigReload(signal: c_int);
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
        pub(super) fn LogicalDecodingProcessRecord(
            context: *mut pg_sys::LogicalDecodingContext,
            reader: *mut pg_sys::XLogReaderState,
        );
        pub(super) fn LogLogicalMessage(
            prefix: *const c_char,
            message: *const c_char,
            size: usize,
            transactional: bool,
        ) -> pg_sys::XLogRecPtr;
    }
}

/// Feeds the record that the context's reader has just read to the decoder.
///
/// # Safety
///
/// `context` is a live decoding context whose reader holds a record.
pub unsafe fn process_record(context: *mut pg_sys::LogicalDecodingContext) {
    // SAFETY: the caller's promise; the boundary turns the server's errors into panics of ours.
    unsafe { pg_guard_ffi_boundary(|| raw::LogicalDecodingProcessRecord(context, (*context).reader)) }
}

/// Writes a logical message that belongs to no transaction, and makes it durable, so that decoding reaches it.
pub fn log_message(prefix: &'static std::ffi::CStr, message: &[u8]) {
    // SAFETY: prefix and message are valid for the call; a non-transactional message takes no transaction id.
    unsafe {
        let lsn = pg_guard_ffi_boundary(|| {
            raw::LogLogicalMessage(prefix.as_ptr(), message.as_ptr().cast(), message.len(), false)
        });
        pg_sys::XLogFlush(lsn);
    }
}
