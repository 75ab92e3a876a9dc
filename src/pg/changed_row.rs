//! The addresses that a change in the WAL names.
//!
//! Decoding passes a change on without the addresses of its rows, but names the position of the change's record. So the
//! addresses of recent records are noted before decoding gets the records. If a record is no longer noted, it is read
//! once more. The replication slot keeps the record until its transaction has been decoded.

use std::ptr;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::address::Addresses;
use super::memory::in_context;
use super::pages::{self, Unread};
use super::record::Record;
use super::symbols;

/// The length in bytes of a record whose memory is not kept.
const LONG: u32 = 1 << 20;
/// The number of changes whose addresses are noted.
const NOTED: usize = 1 << 14;
/// The number of notes that are looked at one after the other, before the search turns to halving.
const NEAR: usize = 16;

/// The WAL records of changes.
pub struct Records {
    recent: Recent,
    reader: Reader,
}

impl Records {
    pub fn new() -> Records {
        Records { recent: Recent::new(), reader: Reader::new() }
    }

    /// Notes the addresses of a record. Records come in the order of the WAL.
    pub(super) fn note(&mut self, record: &Record<'_>) {
        if let Some(addresses) = record.sole_addresses() {
            self.recent.push(record.lsn(), addresses);
        }
    }

    /// The addresses of a change whose record begins at `lsn`. Several changes may have one record: then the first call
    /// returns those of the first change, and so on. `None` if the record has none.
    pub fn addresses(&mut self, lsn: u64) -> Option<Addresses> {
        self.recent.find(lsn).or_else(|| self.reader.addresses(lsn))
    }
}

/// The addresses of the last [`NOTED`] changes that have a record of their own.
struct Recent {
    /// The notes in the order of their positions; note number `n` is at place `n % NOTED`.
    notes: Vec<(u64, Addresses)>,
    /// The number of changes that were ever noted.
    count: usize,
    /// The number of the note behind the one that was found last. Changes of one transaction often lie close together.
    likely: usize,
}

impl Recent {
    fn new() -> Recent {
        Recent { notes: Vec::with_capacity(NOTED), count: 0, likely: 0 }
    }

    fn push(&mut self, lsn: u64, addresses: Addresses) {
        match self.notes.get_mut(self.count % NOTED) {
            Some(oldest) => *oldest = (lsn, addresses),
            None => self.notes.push((lsn, addresses)),
        }
        self.count += 1;
    }

    fn find(&mut self, lsn: u64) -> Option<Addresses> {
        let at = |number: usize| self.notes[number % NOTED];
        let oldest = self.count.saturating_sub(NOTED);
        let likely = self.likely.max(oldest);
        let near = (likely..self.count.min(likely + NEAR)).find(|number| at(*number).0 >= lsn);
        let number = match near {
            // The note may lie before those that were looked at.
            Some(number) if number > likely || at(number).0 == lsn => number,
            _ => {
                let (mut from, mut to) = (oldest, self.count);
                while from < to {
                    let middle = from.midpoint(to);
                    if at(middle).0 < lsn { from = middle + 1 } else { to = middle }
                }
                from
            }
        };
        let (found, addresses) = (number < self.count).then(|| at(number))?;
        self.likely = number + 1;
        (found == lsn).then_some(addresses)
    }
}

/// A reader that reads records once more.
struct Reader {
    reader: *mut pg_sys::XLogReaderState,
    /// The position of the record that was asked for last, and the number of its changes that have been asked for.
    last: Option<(u64, usize)>,
}

impl Reader {
    fn new() -> Reader {
        Reader { reader: new_reader(), last: None }
    }

    /// See [`Records::addresses`].
    fn addresses(&mut self, lsn: u64) -> Option<Addresses> {
        let before = match self.last {
            Some((last, before)) if last == lsn => before + 1,
            _ => 0,
        };
        self.last = Some((lsn, before));
        // SAFETY: the reader lives.
        if unsafe { (*self.reader).ReadRecPtr } != lsn {
            self.read(lsn);
        }
        // SAFETY: the reader lives, and has read a record.
        let record = unsafe { Record::of(self.reader) };
        let found = record.addresses(before);
        if record.bytes() > LONG {
            self.renew();
        }
        found
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

    /// Replaces the reader by a new one, because a reader keeps the memory for the longest record that it has read.
    fn renew(&mut self) {
        // SAFETY: nothing refers to the old reader any more.
        unsafe { pg_sys::XLogReaderFree(std::mem::replace(&mut self.reader, new_reader())) };
    }
}

fn new_reader() -> *mut pg_sys::XLogReaderState {
    let mut routine = pg_sys::XLogReaderRoutine {
        page_read: Some(pages::read_any_page),
        segment_open: Some(symbols::wal_segment_open),
        segment_close: Some(symbols::wal_segment_close),
    };
    // SAFETY: the context lives as long as the process. The server copies the routine.
    let reader = unsafe {
        in_context(pg_sys::TopMemoryContext, || {
            pg_sys::XLogReaderAllocate(pg_sys::wal_segment_size, ptr::null(), &mut routine, ptr::null_mut())
        })
    };
    assert!(!reader.is_null(), "memory for a reader");
    reader
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(lsn: u64) -> Addresses {
        Addresses { file: lsn as u32, ..Addresses::default() }
    }

    #[test]
    fn recent_changes_are_found_in_any_order() {
        let mut recent = Recent::new();
        assert_eq!(recent.find(5), None);
        for number in 0..(3 * NOTED as u64 + 100) {
            recent.push(10 * number, addresses(10 * number));
            for back in [0, 1, 7, number / 2, NOTED as u64 - 1].into_iter().filter(|back| back <= &number) {
                let lsn = 10 * (number - back);
                let wanted = (back < NOTED as u64).then(|| addresses(lsn));
                assert_eq!(recent.find(lsn), wanted, "{back} before {number}");
                assert_eq!(recent.find(lsn + 5), None);
            }
        }
    }
}
