//! WAL positions.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::compat;
use super::session::{calls, variable};

const PAGE: u64 = pg_sys::XLOG_BLCKSZ as u64;
/// MAXALIGN(sizeof(XLogPageHeaderData)) and of the long header that begins each segment.
const SHORT_HEADER: u64 = size_of::<pg_sys::XLogPageHeaderData>().next_multiple_of(8) as u64;
const LONG_HEADER: u64 = size_of::<pg_sys::XLogLongPageHeaderData>().next_multiple_of(8) as u64;

pub const NOT_LOGICAL: &str = "wal_level is not \"logical\"";

/// Whether the WAL holds what decoding needs.
pub fn is_logical() -> bool {
    variable!(wal_level) >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32
}

/// L for a snapshot that was taken before the call: a position, already flushed, at or behind the commit record of
/// everything that the snapshot sees.
///
/// A commit record is inserted before its transaction leaves the proc array, so the insert position of now covers it.
/// Decoding reads only flushed WAL, and with synchronous_commit = off a visible commit need not be flushed: hence the
/// flush, by the process that needs it.
pub fn flushed_position() -> u64 {
    let lsn = end_of_record(insert_position(), variable!(wal_segment_size) as u64);
    flush(lsn);
    lsn
}

/// `lsn` is at most the insert position.
fn flush(lsn: u64) {
    // SAFETY: callable in any process attached to shared memory, outside recovery.
    unsafe { pg_sys::XLogFlush(lsn) };
}

calls! {
    /// The position of the next record. Outside recovery.
    insert_position => GetXLogInsertRecPtr() -> pg_sys::XLogRecPtr;
}

/// The insert position names where the next record will start. If the last record ended exactly at the end of a page
/// that is behind the next page's header, which nobody has written yet: XLogFlush refuses to go there.
fn end_of_record(insert: u64, segment_size: u64) -> u64 {
    if insert % segment_size == LONG_HEADER {
        insert - LONG_HEADER
    } else if insert % PAGE == SHORT_HEADER && insert % segment_size >= PAGE {
        insert - SHORT_HEADER
    } else {
        insert
    }
}

/// Writes a logical message that belongs to no transaction, and makes it durable, so that decoding reaches it.
pub fn write_message(prefix: &CStr, message: &[u8]) {
    flush(compat::log_message(prefix, message));
}
