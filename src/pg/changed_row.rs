//! The addresses that a change in the WAL names.
//!
//! Decoding passes a change on without the addresses of its rows. So the change's record is read once more, at the
//! position that decoding names. The replication slot keeps the record until its transaction has been decoded.

use std::ptr;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::address::Addresses;
use super::memory::in_context;
use super::pages::{self, Unread};
use super::record::Record;
use super::symbols;

/// A reader of the WAL records of changes.
pub struct Records {
    reader: *mut pg_sys::XLogReaderState,
    /// The position of the record that was read last, and the number of its changes that have been asked for.
    last: Option<(u64, usize)>,
}

impl Records {
    pub fn new() -> Records {
        let mut routine = pg_sys::XLogReaderRoutine {
            page_read: Some(pages::read_any_page),
            segment_open: Some(symbols::wal_segment_open),
            segment_close: Some(symbols::wal_segment_close),
        };
        // SAFETY: the reader lives as long as the process. The server copies the routine.
        let reader = unsafe {
            in_context(pg_sys::TopMemoryContext, || {
                pg_sys::XLogReaderAllocate(pg_sys::wal_segment_size, ptr::null(), &mut routine, ptr::null_mut())
            })
        };
        assert!(!reader.is_null(), "memory for a reader");
        Records { reader, last: None }
    }

    /// The addresses of a change whose record begins at `lsn`. Several changes may have one record: then the first call
    /// returns those of the first change, and so on. `None` if the record has none.
    pub fn addresses(&mut self, lsn: u64) -> Option<Addresses> {
        let before = match self.last {
            Some((last, before)) if last == lsn => before + 1,
            _ => {
                self.read(lsn);
                0
            }
        };
        self.last = Some((lsn, before));
        // SAFETY: the reader lives, and has read a record.
        unsafe { Record::of(self.reader) }.addresses(before)
    }

    fn read(&mut self, lsn: u64) {
        // SAFETY: the reader lives; the boundary turns the server's errors into panics of ours. The reader's own memory
        // must not be in a context that is emptied between two changes.
        let record = unsafe {
            pg_guard_ffi_boundary(|| {
                in_context(pg_sys::TopMemoryContext, || {
                    if (*self.reader).EndRecPtr != lsn {
                        pg_sys::XLogBeginRead(self.reader, lsn);
                    }
                    pages::next_record(self.reader)
                })
            })
        };
        match record {
            Ok(()) => {}
            Err(Unread::Nothing) => error!("the WAL record of a change is not there"),
            Err(Unread::Failed(reason)) => error!("could not read the WAL record of a change: {reason}"),
        }
    }
}
