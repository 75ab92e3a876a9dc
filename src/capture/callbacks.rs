//! Decoding's callbacks: committed transactions to messages, and the decisions that hang on their commits.
//!
//! PostgreSQL calls them in commit order, one transaction at a time, with the catalog of that moment to read. A
//! transaction that touched no watched table leaves no trace in the stream.

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int};

use pgrx::prelude::*;
use protocol::change::StreamMessage;

use super::gate::Gates;
use super::outbox::Outbox;
use super::registry::Registry;
use crate::note::{Content, Note, PREFIX};
use crate::pg::compat;
use crate::pg::memory::Scratch;
use crate::pg::relation::OpenRelation;
use crate::pg::snapshot;
use crate::pg::tuple::OnDisk;

/// Id of relation cache messages, and the relation id in them that means "all".
const RELCACHE_MESSAGE: i8 = pg_sys::SHAREDINVALRELCACHE_ID as i8;
const ALL_RELATIONS: u32 = 0;

/// What the callbacks work on.
pub struct Follower {
    pub registry: Registry,
    pub out: Outbox,
    pub gates: Gates,
    /// `anker.mirrored` is no more.
    pub list_dropped: bool,
    worker: u64,
    transaction: Transaction,
    row: Vec<u8>,
    key: Vec<u8>,
    /// For values that have to be decompressed; emptied after each change.
    scratch: Scratch,
}

/// The transaction that is being sent.
#[derive(Default)]
struct Transaction {
    xid: u64,
    begun: bool,
    /// Changes of `anker.mirrored`, in order: relation, and whether it was added.
    listed: Vec<(u32, bool)>,
    list_truncated: bool,
    /// Tables that must start anew: truncated, or with a change that does not fit what is known of them.
    void: HashSet<u32>,
}

impl Follower {
    pub fn new(registry: Registry, out: Outbox, worker: u64) -> Follower {
        // SAFETY: as long as the process.
        let scratch = unsafe { Scratch::below(pg_sys::TopMemoryContext, c"pg_anker change") };
        Follower {
            registry,
            out,
            gates: Gates::new(),
            list_dropped: false,
            worker,
            transaction: Transaction::default(),
            row: Vec::new(),
            key: Vec::new(),
            scratch,
        }
    }

    fn begin(&mut self, xid: pg_sys::TransactionId) {
        self.transaction = Transaction { xid: snapshot::widen(xid, snapshot::next_full_xid()), ..Default::default() };
    }

    unsafe fn change(&mut self, relation: pg_sys::Relation, change: *const pg_sys::ReorderBufferChange) {
        // SAFETY: both are valid while the callback runs; the tuples are those of the change's kind.
        unsafe {
            let relid = (*relation).rd_id.to_u32();
            let action = (*change).action;
            let (old, new) = compat::changed_rows(change);
            if (*relation).rd_id == self.registry.list() {
                return self.list_change((*relation).rd_att, old, new, action);
            }
            let scratch = self.scratch;
            if !scratch.with(|| self.row_change(relid, (*relation).rd_att, old, new, action)) {
                self.transaction.void.insert(relid);
            }
        }
    }

    /// False: the change does not fit what is known of the table. That happens behind DDL in the same transaction;
    /// at its commit the table starts anew.
    unsafe fn row_change(
        &mut self,
        relid: u32,
        descriptor: pg_sys::TupleDesc,
        old: Option<pg_sys::HeapTuple>,
        new: Option<pg_sys::HeapTuple>,
        action: pg_sys::ReorderBufferChangeType::Type,
    ) -> bool {
        use pg_sys::ReorderBufferChangeType::*;
        let Some(encoder) = self.registry.encoder(relid) else {
            return true;
        };
        if self.transaction.void.contains(&relid) {
            return true;
        }
        let (row, key) = (&mut self.row, &mut self.key);
        row.clear();
        key.clear();
        // SAFETY: tuples and descriptor belong together; the encoder has checked that it can read them.
        let message = unsafe {
            if !encoder.fits(descriptor) {
                return false;
            }
            match (action, old, new) {
                (REORDER_BUFFER_CHANGE_INSERT, _, Some(new)) => {
                    encoder.row(new, descriptor, OnDisk::Unchanged, row);
                    StreamMessage::Insert { relid, row }
                }
                (REORDER_BUFFER_CHANGE_UPDATE, None, Some(_)) if encoder.full_identity() => return false,
                (REORDER_BUFFER_CHANGE_UPDATE, old, Some(new)) => {
                    encoder.updated_row(old, new, descriptor, row);
                    let old_key = match old {
                        Some(old) => {
                            encoder.key(old, descriptor, key);
                            Some(&key[..])
                        }
                        None => None,
                    };
                    StreamMessage::Update { relid, old_key, row }
                }
                (REORDER_BUFFER_CHANGE_DELETE, Some(old), _) => {
                    encoder.key(old, descriptor, key);
                    StreamMessage::Delete { relid, key }
                }
                _ => return false,
            }
        };
        if !self.transaction.begun {
            self.transaction.begun = true;
            self.out.send(&StreamMessage::Begin { xid: self.transaction.xid });
        }
        self.out.send(&message);
        true
    }

    unsafe fn list_change(
        &mut self,
        descriptor: pg_sys::TupleDesc,
        old: Option<pg_sys::HeapTuple>,
        new: Option<pg_sys::HeapTuple>,
        action: pg_sys::ReorderBufferChangeType::Type,
    ) {
        for (tuple, added) in [(old, false), (new, true)] {
            // SAFETY: a tuple of `anker.mirrored`, whose first column is a regclass and part of its key.
            let relid = tuple.and_then(|t| unsafe { first_oid(t, descriptor) });
            self.transaction.listed.extend(relid.map(|r| (r, added)));
        }
        if old.is_none() && action == pg_sys::ReorderBufferChangeType::REORDER_BUFFER_CHANGE_DELETE {
            warning!("pg_anker: a row of anker.mirrored was deleted without its key being logged");
        }
    }

    /// Gives back what the longest row of late has taken.
    pub fn shrink(&mut self) {
        self.row = Vec::new();
        self.key = Vec::new();
        self.out.shrink();
    }

    unsafe fn commit(&mut self, txn: *const pg_sys::ReorderBufferTXN) {
        let transaction = std::mem::take(&mut self.transaction);
        // SAFETY: valid while the callback runs; the commit time is set when commits are replayed.
        let (lsn, time, invalidated) =
            unsafe { ((*txn).end_lsn, (*txn).xact_time.commit_time, invalidated_relations(txn)) };
        if transaction.begun {
            self.out.send(&StreamMessage::Commit { xid: transaction.xid, lsn, time });
            self.gates.sent(transaction.xid);
        }
        for &relid in &transaction.void {
            self.registry.rebuild(relid, &mut self.out);
        }
        let all = invalidated.contains(&ALL_RELATIONS);
        let rechecked = if all { self.registry.relids() } else { invalidated.iter().copied().collect() };
        for relid in rechecked.into_iter().filter(|relid| !transaction.void.contains(relid)) {
            self.registry.recheck(relid, &mut self.out);
        }
        if transaction.list_truncated {
            for relid in self.registry.relids() {
                self.registry.unregister(relid, &mut self.out);
            }
        }
        for (relid, added) in transaction.listed {
            match added {
                true => self.registry.register(relid, &mut self.out),
                false => self.registry.unregister(relid, &mut self.out),
            }
        }
        let list = self.registry.list().to_u32();
        // SAFETY: in a callback of decoding, within its transaction.
        if (all || invalidated.contains(&list)) && unsafe { OpenRelation::historic(list.into()) }.is_none() {
            self.list_dropped = true;
        }
    }

    fn note(&mut self, note: Note) {
        if note.worker != self.worker {
            return;
        }
        match note.content {
            Content::Registry { relids } => self.registry.list_was_read(&relids, &mut self.out),
            Content::WatchAgain { relids } => {
                relids.into_iter().for_each(|relid| self.registry.watch_again(relid, &mut self.out));
            }
        }
    }
}

unsafe fn first_oid(tuple: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc) -> Option<u32> {
    let mut null = false;
    // SAFETY: the caller's promise: tuple and descriptor belong together and have a first column.
    let datum = unsafe { pg_sys::heap_getattr(tuple, 1, descriptor, &mut null) };
    (!null).then(|| datum.value() as u32)
}

/// Relations of this database that the transaction's catalog changes touched.
unsafe fn invalidated_relations(txn: *const pg_sys::ReorderBufferTXN) -> HashSet<u32> {
    // SAFETY: the array has so many elements (or is null); the id tells which member of the union is meant.
    unsafe {
        let messages = match (*txn).ninvalidations {
            0 => &[][..],
            n => std::slice::from_raw_parts((*txn).invalidations, n as usize),
        };
        messages
            .iter()
            .filter(|m| m.id == RELCACHE_MESSAGE && m.rc.dbId == pg_sys::MyDatabaseId)
            .map(|m| m.rc.relId.to_u32())
            .collect()
    }
}

// -- entry points ----------------------------------------------------------------------------------------------------

pub fn table() -> pg_sys::OutputPluginCallbacks {
    pg_sys::OutputPluginCallbacks {
        begin_cb: Some(begin),
        change_cb: Some(change),
        truncate_cb: Some(truncate),
        commit_cb: Some(commit),
        message_cb: Some(message),
        ..Default::default()
    }
}

/// # Safety
///
/// `context` is a decoding context whose private pointer is a [`Follower`] that nobody else borrows now.
unsafe fn follower<'a>(context: *mut pg_sys::LogicalDecodingContext) -> &'a mut Follower {
    // SAFETY: the caller's promise; `Decoder` sets the pointer and lends nothing while it decodes.
    unsafe { &mut *(*context).output_plugin_private.cast::<Follower>() }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(context: *mut pg_sys::LogicalDecodingContext, txn: *mut pg_sys::ReorderBufferTXN) {
    // SAFETY: called by the decoder with its context and a valid transaction.
    unsafe { follower(context).begin((*txn).xid) }
}

#[pg_guard]
unsafe extern "C-unwind" fn change(
    context: *mut pg_sys::LogicalDecodingContext,
    _txn: *mut pg_sys::ReorderBufferTXN,
    relation: pg_sys::Relation,
    change: *mut pg_sys::ReorderBufferChange,
) {
    // SAFETY: called by the decoder with its context, an open relation and one of its changes.
    unsafe { follower(context).change(relation, change) }
}

/// TRUNCATE is not seen by older snapshots as deletes would be; the table is empty or small now, and starts anew.
#[pg_guard]
unsafe extern "C-unwind" fn truncate(
    context: *mut pg_sys::LogicalDecodingContext,
    _txn: *mut pg_sys::ReorderBufferTXN,
    count: c_int,
    relations: *mut pg_sys::Relation,
    _change: *mut pg_sys::ReorderBufferChange,
) {
    // SAFETY: called by the decoder with its context and so many open relations.
    unsafe {
        let follower = follower(context);
        for &relation in std::slice::from_raw_parts(relations, count as usize) {
            if (*relation).rd_id == follower.registry.list() {
                follower.transaction.list_truncated = true;
                follower.transaction.listed.clear();
            } else {
                follower.transaction.void.insert((*relation).rd_id.to_u32());
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn commit(
    context: *mut pg_sys::LogicalDecodingContext,
    txn: *mut pg_sys::ReorderBufferTXN,
    _commit_lsn: pg_sys::XLogRecPtr,
) {
    // SAFETY: called by the decoder with its context and a valid transaction.
    unsafe { follower(context).commit(txn) }
}

/// Messages outside of transactions come with the historic snapshot, but without a transaction of ours to read the
/// catalog in.
#[pg_guard]
unsafe extern "C-unwind" fn message(
    context: *mut pg_sys::LogicalDecodingContext,
    _txn: *mut pg_sys::ReorderBufferTXN,
    _lsn: pg_sys::XLogRecPtr,
    transactional: bool,
    prefix: *const c_char,
    size: usize,
    bytes: *const c_char,
) {
    // SAFETY: called by the decoder with its context, a C string and so many bytes.
    unsafe {
        if transactional || CStr::from_ptr(prefix) != PREFIX {
            return;
        }
        let Some(note) = Note::read(std::slice::from_raw_parts(bytes.cast(), size)) else {
            return;
        };
        let outer = pg_sys::CurrentMemoryContext;
        pg_sys::StartTransactionCommand();
        follower(context).note(note);
        // As decoding itself ends its transactions: nothing was changed.
        pg_sys::AbortCurrentTransaction();
        pg_sys::MemoryContextSwitchTo(outer);
    }
}
