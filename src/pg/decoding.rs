//! Logical decoding: the slot and the context of a process. PostgreSQL's callbacks become methods of a Rust value, and
//! WAL is read without blocking.
//!
//! The slot is temporary, so that it holds nothing back once the process has ended. It names pgoutput as its plugin,
//! because `output_plugin_libraries` allows pgoutput by default. pgoutput itself is never called, because our callbacks
//! replace its own. No library of ours is loaded as a plugin.

use std::ffi::{CStr, c_char, c_int};
use std::time::{Duration, Instant};

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::catalog::text;
use super::changed_row::Records;
use super::descriptor::Tuple;
use super::memory::{Scratch, in_context};
use super::pages::{self, Unread, WOULD_BLOCK, flushed, read_flushed};
use super::record::{About, LongRecord, Record, is_readable};
use super::relation::{Historic, OpenRelation};
use super::{compat, session, snapshot, symbols, transaction};

/// The plugin whose name the slot has.
pub const PLUGIN: &str = "pgoutput";

/// Whether `output_plugin_libraries` allows [`PLUGIN`]. Older minor releases have no such setting, and allow any.
pub fn is_plugin_allowed() -> bool {
    let (missing_ok, restricted) = (true, false);
    // SAFETY: a C string is returned, or null if there is no such setting.
    let allowed = unsafe {
        let allowed = pg_sys::GetConfigOption(c"output_plugin_libraries".as_ptr(), missing_ok, restricted);
        text(allowed)
    };
    allowed.is_none_or(|list| list.split(',').any(|item| item.trim().trim_matches('"') == PLUGIN))
}

/// The id of messages that invalidate the relation cache.
const RELCACHE_MESSAGE: i8 = pg_sys::SHAREDINVALRELCACHE_ID as i8;

/// A follower of the stream of committed transactions. Decoding calls it for one transaction after the other, in the
/// order of their commits.
pub trait Follow: 'static {
    // -- called in the order of the WAL, before a record is decoded; `xid` may be that of a subtransaction ------------

    /// The length of the longest record that decoding may read into memory.
    fn longest_record(&self) -> u64;
    /// Called for a part of a long value, which the WAL holds before the row of that value. Returns whether decoding
    /// may receive the part and keep it until the row comes.
    fn chunk(&mut self, xid: u32, value: u32, bytes: usize) -> bool;
    /// Whether [`rows`](Self::rows) must be called for this transaction.
    fn awaits_row(&self, xid: u32) -> bool;
    /// Called for rows as they were logged at `lsn`. The method may change them before decoding receives them.
    fn rows(&mut self, xid: u32, lsn: u64, rows: &mut [u8], last: bool);
    /// Called when all transactions older than `xid` have ended.
    fn oldest_running(&mut self, xid: u32);
    /// The place where the addresses of changes are noted.
    fn records(&mut self) -> &mut Records;

    // -- called in the order of commits -------------------------------------------------------------------------------

    /// Called when a transaction begins; its id is 64 bits wide.
    fn begin(&mut self, xid: u64);
    fn change(&mut self, change: Change<'_>);
    fn truncate(&mut self, relid: pg_sys::Oid);
    fn commit(&mut self, commit: Commit, catalog: Historic<'_>);
    /// Called for a message outside any transaction. `Message::with_catalog` gives access to the catalog.
    fn message(&mut self, message: Message<'_>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Insert,
    Update,
    Delete,
    Other,
}

/// A change of a row.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The relation, as it was defined when the row was changed.
    pub relation: &'a OpenRelation,
    /// Whether the transaction also changes the catalog. If it does not, `relation` has its definition from before the
    /// transaction.
    pub among_ddl: bool,
    /// The WAL position of the change.
    pub lsn: u64,
    pub action: Action,
    /// The part of the row's old version that was logged.
    pub old: Option<Tuple<'a>>,
    pub new: Option<Tuple<'a>>,
}

/// The end of a transaction whose changes were passed on.
pub struct Commit {
    /// The WAL position behind the commit record.
    pub lsn: u64,
    pub time: i64,
    /// The relations of this database that the transaction's catalog changes affect. An oid of 0 stands for all
    /// relations.
    pub invalidated: Vec<u32>,
}

pub struct Message<'a> {
    prefix: &'a CStr,
    bytes: &'a [u8],
}

impl Message<'_> {
    /// The message's bytes, if it has this prefix.
    pub fn under(&self, prefix: &CStr) -> Option<&[u8]> {
        (self.prefix == prefix).then_some(self.bytes)
    }

    /// Runs `work` with the catalog as of the message. Messages outside transactions come with a historic snapshot.
    /// Reading the catalog also needs a transaction, which is opened here.
    pub fn with_catalog(&self, work: impl FnOnce(Historic<'_>)) {
        // SAFETY: decoding's callback is running, so the historic snapshot is set. The current memory context is
        // restored after the end of the transaction.
        unsafe {
            in_context(pg_sys::CurrentMemoryContext, || {
                transaction::begin();
                work(Historic::new());
                // The transaction changed nothing. Decoding also aborts its own transactions.
                transaction::abort();
            });
        }
    }
}

pub struct Decoder<F> {
    context: *mut pg_sys::LogicalDecodingContext,
    follower: *mut F,
    /// The memory for allocations that decoding itself does not free. It is emptied after each batch.
    memory: Scratch,
    /// The flushed position up to which everything was read. There is nothing to read until more WAL is flushed.
    exhausted: u64,
}

enum Next {
    Record,
    /// There is no more WAL for now.
    Nothing,
    Stuck(LongRecord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Everything that was flushed has been decoded.
    CaughtUp,
    /// The time ran out first.
    More,
    /// The next record has this many bytes. It is too long to decode, but decoding needs it, so it cannot be skipped.
    Stuck { record_bytes: u64 },
}

impl<F: Follow> Decoder<F> {
    /// Creates slot and context. Called outside any transaction; an error ends the process. The stream begins once
    /// [`ready`](Self::ready) is true.
    pub fn create(slot: &CStr, follower: F) -> Decoder<F> {
        let mut routine = pg_sys::XLogReaderRoutine {
            page_read: Some(read_page::<F>),
            segment_open: Some(symbols::wal_segment_open),
            segment_close: Some(symbols::wal_segment_close),
        };
        // SAFETY: in a process with a database connection. Taking the slot with `need_full_snapshot` unset holds back
        // old catalog rows only.
        let context = unsafe {
            compat::create_temporary_slot(slot);
            pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            compat::begin_decoding(PLUGIN, &mut routine)
        };
        let follower = Box::into_raw(Box::new(follower));
        // SAFETY: the context is new, and nobody else uses it.
        unsafe {
            (*context).callbacks = callbacks::<F>();
            (*context).streaming = false;
            (*context).twophase = false;
            (*context).output_plugin_private = follower.cast();
            // Cache entries from before describe the present catalog, not the catalog at the stream's position.
            pg_sys::InvalidateSystemCaches();
            pg_sys::XLogBeginRead((*context).reader, (*(*context).slot).data.restart_lsn);
        }
        Decoder { context, follower, memory: Scratch::lasting(c"pg_anker decoding"), exhausted: 0 }
    }

    pub fn follower(&mut self) -> &mut F {
        // SAFETY: made by `create`, and borrowed by callbacks only within `advance`, which borrows self.
        unsafe { &mut *self.follower }
    }

    /// Whether the stream has begun: every transaction that was running when the slot was created has ended.
    pub fn ready(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { pg_sys::DecodingContextReady(self.context) }
    }

    /// The WAL position below which every committed transaction has been sent.
    pub fn position(&self) -> u64 {
        // SAFETY: the context is live.
        unsafe { (*(*self.context).reader).EndRecPtr }
    }

    /// The first WAL position that the server keeps for this slot.
    pub fn retained_from(&self) -> u64 {
        // SAFETY: this process owns the slot, and no other process changes this field.
        unsafe { (*(*self.context).slot).data.restart_lsn }
    }

    /// Decodes flushed WAL for about the time `budget`. A single transaction may take longer.
    pub fn advance(&mut self, budget: Duration) -> Advance {
        let (flushed, _) = flushed();
        if flushed == self.exhausted {
            return Advance::CaughtUp;
        }
        let start = Instant::now();
        let mut records = 0u32;
        let memory = self.memory;
        let batch = || {
            let mut next = self.read_record();
            loop {
                match next {
                    Next::Record => {}
                    Next::Nothing => return Advance::CaughtUp,
                    Next::Stuck(record) => return Advance::Stuck { record_bytes: record.bytes },
                }
                let wanted = self.is_wanted();
                records += 1;
                pgrx::check_for_interrupts!();
                if records.is_multiple_of(64) && start.elapsed() >= budget {
                    if wanted {
                        self.decode_record();
                    }
                    return Advance::More;
                }
                next = if wanted { self.decode_and_read_record() } else { self.read_record() };
            }
        };
        // SAFETY: nothing of the batch is used afterwards.
        let outcome = unsafe { memory.with(batch) };
        if outcome == Advance::CaughtUp {
            self.exhausted = flushed;
        }
        outcome
    }

    fn read_record(&mut self) -> Next {
        // SAFETY: the context is live; the boundary turns the server's errors into panics of ours.
        let record = unsafe { pg_guard_ffi_boundary(|| self.unguarded().read()) };
        self.found(record)
    }

    /// Decodes the record that was read last.
    fn decode_record(&mut self) {
        // SAFETY: as above; a record was read.
        unsafe { pg_guard_ffi_boundary(|| self.unguarded().decode()) }
    }

    /// Decodes the record that was read last, and reads the next one. A single boundary for both saves time, because
    /// most records are short.
    fn decode_and_read_record(&mut self) -> Next {
        // SAFETY: as above; a record was read.
        let record = unsafe {
            pg_guard_ffi_boundary(|| {
                self.unguarded().decode();
                self.unguarded().read()
            })
        };
        self.found(record)
    }

    /// Tells apart the reasons why no record was read.
    fn found(&mut self, mut record: Result<(), Unread>) -> Next {
        while let Err(unread) = record {
            if let Unread::Failed(reason) = unread {
                error!("could not read WAL: {reason}");
            }
            let longest = self.follower().longest_record();
            // SAFETY: the context is live, and its reader has not read its next record completely.
            let long = unsafe { LongRecord::next((*self.context).reader, longest) };
            match long {
                Some(long) if !long.is_dispensable() => return Next::Stuck(long),
                // The record can be skipped once its end is flushed.
                Some(long) if long.end <= flushed().0 => {
                    // SAFETY: the context is live; the boundary turns the server's errors into panics of ours.
                    record = unsafe {
                        pg_sys::XLogBeginRead((*self.context).reader, long.end);
                        pg_guard_ffi_boundary(|| self.unguarded().read())
                    };
                }
                _ => return Next::Nothing,
            }
        }
        Next::Record
    }

    /// Shows the follower the record that was read. Returns whether the record must be decoded.
    fn is_wanted(&mut self) -> bool {
        // SAFETY: the context is live, and its reader has just read a record.
        let mut record = unsafe { Record::of((*self.context).reader) };
        let (follower, xid) = (self.follower(), record.xid());
        follower.records().note(&record);
        match record.about() {
            About::Chunk => {
                let value = record.chunk_of(session::database());
                return value.is_none_or(|value| follower.chunk(xid, value, record.rows().len()));
            }
            About::Rows { last } if follower.awaits_row(xid) => {
                let lsn = record.lsn();
                follower.rows(xid, lsn, record.rows(), last);
            }
            About::Running => record.oldest_running().into_iter().for_each(|oldest| follower.oldest_running(oldest)),
            About::Rows { .. } | About::Other => {}
        }
        true
    }

    fn unguarded(&self) -> Unguarded {
        Unguarded { context: self.context, memory: self.memory }
    }

    /// Lets the server remove WAL and old catalog rows that decoding has passed. They are never needed again, because
    /// the mirror lives only in memory.
    pub fn confirm(&mut self) {
        let position = self.position();
        // SAFETY: this process owns the slot. The function also updates the minima over all slots.
        unsafe { pg_sys::LogicalConfirmReceivedLocation(position) };
    }
}

/// The server's functions that read and decode a record. On an error they jump to the nearest boundary, past the Rust
/// code in between.
#[derive(Clone, Copy)]
struct Unguarded {
    context: *mut pg_sys::LogicalDecodingContext,
    memory: Scratch,
}

impl Unguarded {
    /// Reads the next record.
    ///
    /// # Safety
    ///
    /// The context is live, a boundary is around the call, and nothing between them must be dropped.
    unsafe fn read(self) -> Result<(), Unread> {
        // SAFETY: by the caller's promise. Reading runs in the context's own memory, because the reader's buffers must
        // outlive the batch.
        unsafe { in_context((*self.context).context, || pages::next_record((*self.context).reader)) }
    }

    /// Decodes the record that was read last.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read); a record was read.
    unsafe fn decode(self) {
        // Decoding may leave another memory context current, so each record gets the context anew.
        // SAFETY: by the caller's promise.
        self.memory.run(|| unsafe { symbols::LogicalDecodingProcessRecord(self.context, (*self.context).reader) });
    }
}

// -- callbacks -------------------------------------------------------------------------------------------------------

fn callbacks<F: Follow>() -> pg_sys::OutputPluginCallbacks {
    pg_sys::OutputPluginCallbacks {
        begin_cb: Some(begin::<F>),
        change_cb: Some(change::<F>),
        truncate_cb: Some(truncate::<F>),
        commit_cb: Some(commit::<F>),
        message_cb: Some(message::<F>),
        ..Default::default()
    }
}

/// # Safety
///
/// `context` belongs to a [`Decoder`] that is decoding, and nobody else borrows its follower.
unsafe fn follower<'a, F>(context: *mut pg_sys::LogicalDecodingContext) -> &'a mut F {
    // SAFETY: by the caller's promise. `create` has set the pointer, and no other reference to the follower exists
    // while the decoder decodes.
    unsafe { &mut *(*context).output_plugin_private.cast::<F>() }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin<F: Follow>(
    context: *mut pg_sys::LogicalDecodingContext,
    txn: *mut pg_sys::ReorderBufferTXN,
) {
    // SAFETY: called by the decoder with its context and a valid transaction.
    unsafe { follower::<F>(context).begin(snapshot::widen((*txn).xid, snapshot::next_full_xid())) }
}

#[pg_guard]
unsafe extern "C-unwind" fn change<F: Follow>(
    context: *mut pg_sys::LogicalDecodingContext,
    txn: *mut pg_sys::ReorderBufferTXN,
    relation: pg_sys::Relation,
    change: *mut pg_sys::ReorderBufferChange,
) {
    use pg_sys::ReorderBufferChangeType::*;
    // SAFETY: called by the decoder with its context, the top-level transaction, an open relation and one of its
    // changes, whose tuples are of the relation.
    unsafe {
        let relation = OpenRelation::borrowed(relation);
        let descriptor = relation.descriptor();
        let among_ddl = (*txn).txn_flags & pg_sys::RBTXN_HAS_CATALOG_CHANGES != 0;
        let action = match (*change).action {
            REORDER_BUFFER_CHANGE_INSERT => Action::Insert,
            REORDER_BUFFER_CHANGE_UPDATE => Action::Update,
            REORDER_BUFFER_CHANGE_DELETE => Action::Delete,
            _ => Action::Other,
        };
        let (old, new) = compat::changed_rows(change);
        let tuple = |tuple| Tuple::new(tuple, descriptor);
        let (lsn, old, new) = ((*change).lsn, old.map(tuple), new.map(tuple));
        follower::<F>(context).change(Change { relation: &relation, among_ddl, lsn, action, old, new });
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn truncate<F: Follow>(
    context: *mut pg_sys::LogicalDecodingContext,
    _txn: *mut pg_sys::ReorderBufferTXN,
    count: c_int,
    relations: *mut pg_sys::Relation,
    _change: *mut pg_sys::ReorderBufferChange,
) {
    // SAFETY: called by the decoder with its context and `count` open relations.
    unsafe {
        for &relation in std::slice::from_raw_parts(relations, count as usize) {
            follower::<F>(context).truncate((*relation).rd_id);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn commit<F: Follow>(
    context: *mut pg_sys::LogicalDecodingContext,
    txn: *mut pg_sys::ReorderBufferTXN,
    _commit_lsn: pg_sys::XLogRecPtr,
) {
    // SAFETY: called by the decoder with its context and a valid transaction, whose commit time is set; decoding's
    // snapshot is set too.
    unsafe {
        let (lsn, time, invalidated) = ((*txn).end_lsn, compat::commit_time(&*txn), invalidated_relations(&*txn));
        follower::<F>(context).commit(Commit { lsn, time, invalidated }, Historic::new());
    }
}

/// # Safety
///
/// The list of the transaction's invalidation messages is valid.
unsafe fn invalidated_relations(txn: &pg_sys::ReorderBufferTXN) -> Vec<u32> {
    let database = session::database();
    // SAFETY: the array has that many elements (or is null); the id tells which member of the union is meant.
    unsafe {
        let messages = match txn.ninvalidations {
            0 => &[][..],
            n => std::slice::from_raw_parts(txn.invalidations, n as usize),
        };
        let ours = messages.iter().filter(|m| m.id == RELCACHE_MESSAGE && m.rc.dbId == database);
        ours.map(|m| m.rc.relId.to_u32()).collect()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn message<F: Follow>(
    context: *mut pg_sys::LogicalDecodingContext,
    _txn: *mut pg_sys::ReorderBufferTXN,
    _lsn: pg_sys::XLogRecPtr,
    transactional: bool,
    prefix: *const c_char,
    size: usize,
    bytes: *const c_char,
) {
    if transactional {
        return;
    }
    // SAFETY: called by the decoder with its context, a C string and `size` bytes.
    unsafe {
        let (prefix, bytes) = (CStr::from_ptr(prefix), std::slice::from_raw_parts(bytes.cast(), size));
        follower::<F>(context).message(Message { prefix, bytes });
    }
}

/// Reads a page of WAL if the page is flushed, and never waits for more WAL. So while a record is only half flushed,
/// gates, positions and messages can still go to the engine. Pages behind the longest allowed record are not read.
#[pg_guard]
unsafe extern "C-unwind" fn read_page<F: Follow>(
    reader: *mut pg_sys::XLogReaderState,
    page: pg_sys::XLogRecPtr,
    wanted: c_int,
    record: pg_sys::XLogRecPtr,
    buffer: *mut c_char,
) -> c_int {
    // SAFETY: the decoder's own reader calls this, with a buffer for one page.
    unsafe {
        let longest = follower::<F>((*reader).private_data.cast()).longest_record();
        if is_readable(page, record, longest) { read_flushed(reader, page, wanted, buffer) } else { WOULD_BLOCK }
    }
}
