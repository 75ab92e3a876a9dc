//! WAL records, as far as they are examined before they are decoded.

use pgrx::pg_sys::RmgrIds::{RM_HEAP_ID, RM_HEAP2_ID, RM_STANDBY_ID, RM_XACT_ID, RM_XLOG_ID};
use pgrx::prelude::*;

use super::address::{Address, Addresses};
use super::compat;

// heapam_xlog.h
const OPERATIONS: u8 = 0x70;
const FIRST_ON_PAGE: u8 = 0x80;
const INSERT: u8 = 0x00;
const DELETE: u8 = 0x10;
const UPDATE: u8 = 0x20;
const HOT_UPDATE: u8 = 0x40;
const MULTI_INSERT: u8 = 0x50;
const LAST_IN_MULTI: u8 = 1 << 1;
const CONTAINS_NEW_TUPLE: u8 = 1 << 3;
const ON_TOAST_RELATION: u8 = 1 << 4;

const PAGE: u64 = pg_sys::XLOG_BLCKSZ as u64;

/// The record that a reader has read.
pub(super) struct Record<'a> {
    reader: *mut pg_sys::XLogReaderState,
    record: &'a pg_sys::DecodedXLogRecord,
}

/// The kind of a record, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A part of a long value that lies in a TOAST table.
    Chunk,
    /// Rows of a table that an insert or an update has written. If `last` is set, chunks that follow in the WAL belong
    /// to later rows.
    Rows {
        last: bool,
    },
    /// A list of the running transactions.
    Running,
    Other,
}

impl Record<'_> {
    /// # Safety
    ///
    /// `reader` is live, and has just read a record. It reads no other record while the value is used.
    pub(super) unsafe fn of(reader: *mut pg_sys::XLogReaderState) -> Self {
        // SAFETY: by the caller's promise.
        Record { reader, record: unsafe { &*(*reader).record } }
    }

    pub(super) fn xid(&self) -> u32 {
        self.record.header.xl_xid.into_inner()
    }

    /// The position at which the record begins.
    pub(super) fn lsn(&self) -> u64 {
        self.record.lsn
    }

    pub(super) fn bytes(&self) -> u32 {
        self.record.header.xl_tot_len
    }

    pub(super) fn about(&self) -> About {
        let info = self.record.header.xl_info & !(pg_sys::XLR_INFO_MASK as u8);
        match (self.record.header.xl_rmid.into(), info & OPERATIONS) {
            (RM_HEAP_ID, INSERT) => {
                // The flags follow an offset of two bytes.
                let flags = self.data().get(2).copied().unwrap_or(0);
                match flags & (ON_TOAST_RELATION | CONTAINS_NEW_TUPLE) {
                    CONTAINS_NEW_TUPLE => About::Rows { last: true },
                    0 | ON_TOAST_RELATION => About::Other,
                    _ => About::Chunk,
                }
            }
            (RM_HEAP_ID, UPDATE | HOT_UPDATE) => About::Rows { last: true },
            (RM_HEAP2_ID, MULTI_INSERT) => {
                let flags = self.data().first().copied().unwrap_or(0);
                About::Rows { last: flags & LAST_IN_MULTI != 0 }
            }
            (RM_STANDBY_ID, _) if info == pg_sys::XLOG_RUNNING_XACTS as u8 => About::Running,
            _ => About::Other,
        }
    }

    /// The id of the long value to which a chunk belongs; `None` if the chunk is in another database.
    pub(super) fn chunk_of(&mut self, database: pg_sys::Oid) -> Option<u32> {
        /// The length of the fixed part of a row's header in a table. The WAL holds a row only from behind this part,
        /// beginning with the null bits.
        const FIXED_HEAD: usize = 23;
        /// The length of the header that the WAL holds instead of the fixed part: two words of flags, and the offset of
        /// the values.
        const LOGGED_HEAD: usize = 5;
        // SAFETY: the record is about an insert, so it names the block into which the row was inserted.
        if unsafe { compat::database_of_block(self.reader) } != database {
            return None;
        }
        let row = self.rows();
        let values = usize::from(*row.get(LOGGED_HEAD - 1)?) + LOGGED_HEAD - FIXED_HEAD;
        let id = row.get(values..values + 4)?;
        Some(u32::from_ne_bytes(id.try_into().ok()?))
    }

    /// The logged rows, each with its logged header.
    pub(super) fn rows(&mut self) -> &mut [u8] {
        let mut length = 0;
        // SAFETY: the reader has a record. Its data lie in the reader's own memory, which nobody else reads meanwhile.
        unsafe {
            let data = pg_sys::XLogRecGetBlockData(self.reader, 0, &mut length);
            if data.is_null() { &mut [] } else { std::slice::from_raw_parts_mut(data.cast(), length) }
        }
    }

    /// The oldest running transaction, if this is a record about running transactions.
    pub(super) fn oldest_running(&self) -> Option<u32> {
        let offset = std::mem::offset_of!(pg_sys::xl_running_xacts, oldestRunningXid);
        let xid = self.data().get(offset..offset + 4)?;
        Some(u32::from_ne_bytes(xid.try_into().ok()?))
    }

    /// The addresses that this record names, if it is about a single row of a table that is not a TOAST table.
    pub(super) fn sole_addresses(&self) -> Option<Addresses> {
        if self.record.header.xl_rmid != RM_HEAP_ID as u8 || self.about() == About::Chunk {
            return None;
        }
        self.addresses(0)
    }

    /// The addresses that change number `n` of this record names; the first one is number 0. `None` if there is no such
    /// change.
    pub(super) fn addresses(&self, n: usize) -> Option<Addresses> {
        let info = self.record.header.xl_info & !(pg_sys::XLR_INFO_MASK as u8);
        let number = |at: usize| Some(u16::from_ne_bytes(self.data().get(at..at + 2)?.try_into().ok()?));
        let (block, file) = self.block(0)?;
        let (old, new) = match (self.record.header.xl_rmid.into(), info & OPERATIONS) {
            (RM_HEAP_ID, INSERT) if n == 0 => (None, Some(Address::new(block, number(0)?))),
            (RM_HEAP_ID, DELETE) if n == 0 => (Some(Address::new(block, number(4)?)), None),
            (RM_HEAP_ID, UPDATE | HOT_UPDATE) if n == 0 => {
                // The old row may be in another block than the new one.
                let old_block = self.block(1).map_or(block, |(block, _)| block);
                (Some(Address::new(old_block, number(4)?)), Some(Address::new(block, number(12)?)))
            }
            (RM_HEAP2_ID, MULTI_INSERT) if n < number(2)?.into() => {
                // The record of the first rows on a page does not list their places.
                let line = if info & FIRST_ON_PAGE == 0 { number(4 + 2 * n)? } else { n as u16 + 1 };
                (None, Some(Address::new(block, line)))
            }
            _ => return None,
        };
        Some(Addresses { file, old, new })
    }

    /// A block that the record refers to: its number in the table, and the table's file.
    fn block(&self, id: usize) -> Option<(u32, u32)> {
        let blocks = usize::try_from(self.record.max_block_id + 1).ok()?;
        // SAFETY: the record has that many blocks.
        let block = unsafe { self.record.blocks.as_slice(blocks) }.get(id).filter(|block| block.in_use)?;
        Some((block.blkno, compat::file_of_block(block)))
    }

    fn data(&self) -> &[u8] {
        match self.record.main_data_len as usize {
            0 => &[],
            // SAFETY: the record has `length` bytes of main data.
            length => unsafe { std::slice::from_raw_parts(self.record.main_data.cast(), length) },
        }
    }
}

/// A record that is too long to be decoded.
pub(super) struct LongRecord {
    pub(super) bytes: u64,
    /// The position at which the next record begins.
    pub(super) end: u64,
    manager: u8,
}

impl LongRecord {
    /// The record that the reader has begun to read, if [`is_readable`] refuses the next page that the record needs;
    /// otherwise `None`. `longest` must be several pages.
    ///
    /// # Safety
    ///
    /// `reader` is live, and has not read its next record completely.
    pub(super) unsafe fn next(reader: *const pg_sys::XLogReaderState, longest: u64) -> Option<LongRecord> {
        // SAFETY: by the caller's promise the reader lives. It assembles the pages that it has read, and the head of a
        // record lies within the first two of them.
        unsafe {
            let record = (*reader).currRecPtr;
            if is_readable((*reader).latestPagePtr + PAGE, record, longest) {
                return None;
            }
            let segment = (*reader).segcxt.ws_segsize as u64;
            let start = if record.is_multiple_of(PAGE) { record + page_head(record, segment) } else { record };
            let head = (*reader).readRecordBuf.cast::<pg_sys::XLogRecord>().read_unaligned();
            let bytes = u64::from(head.xl_tot_len);
            let end = end_of_record(start, bytes, segment);
            let last_page = (end - 1) / PAGE * PAGE;
            let long = LongRecord { bytes, end: end.next_multiple_of(8), manager: head.xl_rmid };
            (!is_readable(last_page, record, longest)).then_some(long)
        }
    }

    /// Whether decoding ignores records of this kind, for example of an index, or messages of other extensions.
    pub(super) fn is_dispensable(&self) -> bool {
        !matches!(self.manager.into(), RM_XLOG_ID | RM_XACT_ID | RM_STANDBY_ID | RM_HEAP_ID | RM_HEAP2_ID)
    }
}

/// Whether a page may be read for a record of at most `longest` bytes. The headers of pages lie between the bytes, so a
/// record may be a little shorter than `longest` and still need a page that is refused here.
pub(super) fn is_readable(page: u64, record: u64, longest: u64) -> bool {
    page <= record + longest
}

/// The position at which a record of this length ends. The headers of pages and segments lie between its bytes.
fn end_of_record(start: u64, bytes: u64, segment: u64) -> u64 {
    let (mut at, mut rest) = (start, bytes);
    loop {
        let room = PAGE - at % PAGE;
        if rest <= room {
            return at + rest;
        }
        rest -= room;
        at += room;
        at += page_head(at, segment);
    }
}

/// The length of the header of the page that begins at `page`.
fn page_head(page: u64, segment: u64) -> u64 {
    if page.is_multiple_of(segment) { 40 } else { 24 }
}
