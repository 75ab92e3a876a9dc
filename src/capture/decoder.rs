//! Slot and decoding context of a capture worker, and reading WAL without blocking in it.
//!
//! The slot is temporary: when this process is gone, so is everything that it held back. It names pgoutput, which
//! `output_plugin_libraries` allows by default, but the plugin is never asked anything: its callbacks are replaced by
//! ours, and no library of ours is loaded as a plugin.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use super::callbacks::{self, Follower};
use crate::pg::compat;
use crate::pg::symbols;
use crate::pg::wal;

/// Errors in `XLogPageReadCB`'s language: no more WAL for now.
const WOULD_BLOCK: c_int = pg_sys::XLogPageReadResult::XLREAD_WOULDBLOCK;

pub struct Decoder {
    context: *mut pg_sys::LogicalDecodingContext,
    follower: *mut Follower,
    /// Memory that decoding itself leaves behind; emptied after each batch.
    memory: pg_sys::MemoryContext,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Everything flushed was decoded.
    CaughtUp,
    /// The time was over first.
    More,
}

impl Decoder {
    /// Creates slot and context. The stream begins once [`ready`](Self::ready).
    pub fn create(database: pg_sys::Oid, follower: Follower) -> Decoder {
        let name = CString::new(format!("pg_anker_{}_{}", database.to_u32(), std::process::id()))
            .expect("digits and letters hold no NUL");
        // SAFETY: outside of any transaction, in a process with a database connection; errors end the process. Taking
        // the slot with `need_full_snapshot` unset holds back old catalog rows only.
        unsafe {
            pg_sys::CheckLogicalDecodingRequirements();
            compat::create_temporary_slot(&name);
            let memory = pg_sys::AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"pg_anker decoding".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            let mut routine = pg_sys::XLogReaderRoutine {
                page_read: Some(read_page),
                segment_open: Some(symbols::wal_segment_open),
                segment_close: Some(symbols::wal_segment_close),
            };
            pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let context = pg_sys::CreateInitDecodingContext(
                c"pgoutput".as_ptr(),
                ptr::null_mut(),
                false,
                pg_sys::InvalidXLogRecPtr as u64,
                &mut routine,
                None,
                None,
                None,
            );
            let follower = Box::into_raw(Box::new(follower));
            (*context).callbacks = callbacks::table();
            (*context).streaming = false;
            (*context).twophase = false;
            (*context).output_plugin_private = follower.cast();
            // Entries made so far are of the present, not of the stream's position.
            pg_sys::InvalidateSystemCaches();
            pg_sys::XLogBeginRead((*context).reader, (*(*context).slot).data.restart_lsn);
            Decoder { context, follower, memory }
        }
    }

    pub fn follower(&mut self) -> &mut Follower {
        // SAFETY: made by `create`, and borrowed by callbacks only within `advance`, which borrows self.
        unsafe { &mut *self.follower }
    }

    /// Whether the catalog can be followed: every transaction that was running when the slot was made has ended.
    pub fn ready(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { pg_sys::DecodingContextReady(self.context) }
    }

    /// Everything that committed below has been sent.
    pub fn position(&self) -> u64 {
        // SAFETY: the context is live.
        unsafe { (*(*self.context).reader).EndRecPtr }
    }

    /// The server keeps WAL from here on for us.
    pub fn retained_from(&self) -> u64 {
        // SAFETY: the slot is ours, and only we change this field.
        unsafe { (*(*self.context).slot).data.restart_lsn }
    }

    /// Decodes what is flushed, but not much longer than `budget`, except within one transaction.
    pub fn advance(&mut self, budget: Duration) -> Advance {
        let start = Instant::now();
        let mut records = 0u32;
        let outcome = loop {
            let mut error: *mut c_char = ptr::null_mut();
            // SAFETY: the context is live; decoding may leave another memory context current. The reader's own buffers
            // must outlive the batch.
            unsafe {
                pg_sys::MemoryContextSwitchTo((*self.context).context);
                let record = pg_sys::XLogReadRecord((*self.context).reader, &mut error);
                if record.is_null() {
                    if !error.is_null() {
                        error!("could not read WAL: {}", CStr::from_ptr(error).to_string_lossy());
                    }
                    break Advance::CaughtUp;
                }
                pg_sys::MemoryContextSwitchTo(self.memory);
                wal::decode_record(self.context);
            }
            records += 1;
            if records.is_multiple_of(64) && start.elapsed() >= budget {
                break Advance::More;
            }
            pgrx::check_for_interrupts!();
        };
        // SAFETY: nothing of the batch is used any more.
        unsafe {
            pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            pg_sys::MemoryContextReset(self.memory);
        }
        outcome
    }

    /// Lets the server recycle WAL and old catalog rows that decoding has passed. The mirror lives in memory only, so
    /// nothing decoded is ever asked for again.
    pub fn confirm(&mut self) {
        let position = self.position();
        // SAFETY: the slot is acquired by this process. Recomputes the slots' minima itself where they moved.
        unsafe { pg_sys::LogicalConfirmReceivedLocation(position) };
    }
}

/// Reads a page of WAL as far as it is flushed, and never waits for more: gates, positions and the engine's messages
/// have to go on when a record is only half flushed.
#[pg_guard]
unsafe extern "C-unwind" fn read_page(
    reader: *mut pg_sys::XLogReaderState,
    page: pg_sys::XLogRecPtr,
    wanted: c_int,
    _record: pg_sys::XLogRecPtr,
    buffer: *mut c_char,
) -> c_int {
    const PAGE: u64 = pg_sys::XLOG_BLCKSZ as u64;
    let mut timeline = 0;
    // SAFETY: called by the reader with a buffer of a page. A server that accepts writes stays on its timeline.
    unsafe {
        let flushed = pg_sys::GetFlushRecPtr(&mut timeline);
        if page + wanted as u64 > flushed {
            return WOULD_BLOCK;
        }
        let mut failure = pg_sys::WALReadError::default();
        if !pg_sys::WALRead(reader, buffer, page, PAGE as usize, timeline, &mut failure) {
            pg_sys::WALReadRaiseError(&mut failure);
        }
        (flushed - page).min(PAGE) as c_int
    }
}
