//! Reads WAL: its pages, and the next record of a reader.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use pgrx::prelude::*;

use super::symbols;

/// The return value of `XLogPageReadCB` for "no more WAL for now".
pub(super) const WOULD_BLOCK: c_int = pg_sys::XLogPageReadResult::XLREAD_WOULDBLOCK;

/// The position up to which WAL is flushed, and its timeline. A server that accepts writes stays on one timeline.
pub(super) fn flushed() -> (u64, pg_sys::TimeLineID) {
    let mut timeline = 0;
    // SAFETY: callable in any process attached to shared memory.
    let flushed = unsafe { pg_sys::GetFlushRecPtr(&mut timeline) };
    (flushed, timeline)
}

/// Reads a page of WAL for a reader that has no limit for records.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn read_any_page(
    reader: *mut pg_sys::XLogReaderState,
    page: pg_sys::XLogRecPtr,
    wanted: c_int,
    _record: pg_sys::XLogRecPtr,
    buffer: *mut c_char,
) -> c_int {
    // SAFETY: called by a reader, with a buffer for one page.
    unsafe { read_flushed(reader, page, wanted, buffer) }
}

/// # Safety
///
/// `reader` is live, and `buffer` has room for a page.
pub(super) unsafe fn read_flushed(
    reader: *mut pg_sys::XLogReaderState,
    page: pg_sys::XLogRecPtr,
    wanted: c_int,
    buffer: *mut c_char,
) -> c_int {
    const PAGE: u64 = pg_sys::XLOG_BLCKSZ as u64;
    let (flushed, timeline) = flushed();
    if page + wanted as u64 > flushed {
        return WOULD_BLOCK;
    }
    // SAFETY: by the caller's promise.
    unsafe {
        let mut failure = pg_sys::WALReadError::default();
        if !pg_sys::WALRead(reader, buffer, page, PAGE as usize, timeline, &mut failure) {
            pg_sys::WALReadRaiseError(&mut failure);
        }
        (flushed - page).min(PAGE) as c_int
    }
}

/// The reason why a reader has no next record.
pub(super) enum Unread {
    /// There is no more WAL for now.
    Nothing,
    Failed(String),
}

/// Reads the next record of a reader.
///
/// # Safety
///
/// The reader is live. A boundary is around the call, because an error of the server jumps past it, and nothing between
/// them must be dropped.
pub(super) unsafe fn next_record(reader: *mut pg_sys::XLogReaderState) -> Result<(), Unread> {
    let mut error: *mut c_char = ptr::null_mut();
    // SAFETY: by the caller's promise; the reader's message is a C string or null.
    unsafe {
        if !symbols::XLogReadRecord(reader, &mut error).is_null() {
            return Ok(());
        }
        if error.is_null() {
            return Err(Unread::Nothing);
        }
        Err(Unread::Failed(CStr::from_ptr(error).to_string_lossy().into_owned()))
    }
}
