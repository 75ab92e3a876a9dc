//! WAL positions.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::compat;
use super::plain::{calls, variable};

const PAGE: u64 = pg_sys::XLOG_BLCKSZ as u64;
/// The length of a page's header, MAXALIGN(sizeof(XLogPageHeaderData)). The next constant is the length of the long
/// header at the beginning of each segment.
const SHORT_HEADER: u64 = size_of::<pg_sys::XLogPageHeaderData>().next_multiple_of(8) as u64;
const LONG_HEADER: u64 = size_of::<pg_sys::XLogLongPageHeaderData>().next_multiple_of(8) as u64;

pub const NOT_LOGICAL: &str = "wal_level is not \"logical\"";

/// Whether the WAL contains everything that decoding needs, at the latest once there is a slot.
pub fn is_logical() -> bool {
    variable!(wal_level) >= compat::LEVEL_FOR_DECODING as i32
}

/// The position L for a snapshot that was taken before the call. L is flushed when this returns. L is at or behind the
/// commit record of every transaction that the snapshot sees.
///
/// A transaction inserts its commit record before it leaves the proc array, so the present insert position is behind
/// that record. Decoding reads only flushed WAL. With synchronous_commit = off, a visible commit need not be flushed
/// yet. So this process flushes the WAL, because it needs that commit.
pub fn flushed_position() -> u64 {
    let lsn = inserted_position();
    flush(lsn);
    lsn
}

/// The end of the last record that was inserted.
pub fn inserted_position() -> u64 {
    end_of_record(insert_position(), variable!(wal_segment_size) as u64)
}

/// Flushes WAL up to `lsn`, which is at most the insert position.
fn flush(lsn: u64) {
    // SAFETY: callable in any process attached to shared memory, outside recovery.
    unsafe { pg_sys::XLogFlush(lsn) };
}

calls! {
    /// The position at which the next record begins. Not callable in recovery.
    insert_position => GetXLogInsertRecPtr() -> pg_sys::XLogRecPtr;
}

/// The end of the last record. The insert position is the start of the next record. If the last record ends exactly at
/// the end of a page, that start is behind the next page's header. Nobody has written that header yet, and XLogFlush
/// refuses to flush it.
fn end_of_record(insert: u64, segment_size: u64) -> u64 {
    if insert % segment_size == LONG_HEADER {
        insert - LONG_HEADER
    } else if insert % PAGE == SHORT_HEADER && insert % segment_size >= PAGE {
        insert - SHORT_HEADER
    } else {
        insert
    }
}

/// Writes a logical message outside any transaction, and flushes it, so that decoding reaches it.
pub fn write_message(prefix: &CStr, message: &[u8]) {
    flush(compat::log_message(prefix, message));
}
