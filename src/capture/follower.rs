//! Follows the stream: turns committed transactions into messages to the engine, and makes the decisions that depend on
//! commits.
//!
//! A transaction that touches no watched table sends no message.

use std::collections::{HashMap, HashSet};

use follow::WideRows;
use pgrx::prelude::*;
use protocol::change::{self, StreamMessage};

use super::gate::Gates;
use super::outbox::Outbox;
use super::registry::Registry;
use crate::note::{Content, Note, PREFIX};
use crate::pg::address::Addresses;
use crate::pg::changed_row::Records;
use crate::pg::decoding::{Action, Change, Commit, Follow, Message};
use crate::pg::memory::Scratch;
use crate::pg::relation::{Historic, OpenRelation};
use crate::pg::tuple::{Fitting, RowEncoder, append_address};
use crate::pg::types::{OnDisk, TooWide};
use crate::settings;

/// The relation id in invalidations that means "all".
const ALL_RELATIONS: u32 = 0;

/// The follower of the stream, with all the state that its decisions change.
pub struct Follower {
    pub registry: Registry,
    pub out: Outbox,
    pub gates: Gates,
    /// Whether `anker.mirrored` was dropped.
    pub list_dropped: bool,
    token: u64,
    wide: WideRows,
    records: Records,
    transaction: Transaction,
    /// The memory for values that have to be decompressed. It is emptied after each change.
    scratch: Scratch,
}

/// The transaction whose changes are being sent.
#[derive(Default)]
struct Transaction {
    xid: u64,
    begun: bool,
    /// Changes of `anker.mirrored`, in order: the relation, and whether it was added.
    listed: Vec<(u32, bool)>,
    list_truncated: bool,
    /// The tables whose changes are not sent to the engine in this transaction, each with the reason.
    void: HashMap<u32, Void>,
    /// The last identity of a relation that was found in this transaction to consist of the columns of the mirror's
    /// key.
    identity: Option<RowIdentity>,
}

/// The reason why the changes of a table are not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Void {
    /// The table was truncated, or a change does not fit the known layout because of DDL in the same transaction. At
    /// the commit, the mirror is built anew.
    Unfit,
    /// A row is too long for the mirror.
    TooWide,
}

impl From<TooWide> for Void {
    fn from(_: TooWide) -> Void {
        Void::TooWide
    }
}

/// The index by whose columns the WAL identifies a relation's rows at some moment. The columns of an index never
/// change, so the index's oid is enough.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RowIdentity {
    relid: u32,
    index: pg_sys::Oid,
}

impl Transaction {
    /// Whether the WAL now identifies the rows of a relation by the same columns as the mirror. DDL may change the
    /// identity within the transaction, and change it back. An update in between may change the columns of the mirror's
    /// key, but the WAL does not contain the key's old values.
    fn has_identity(&mut self, encoder: &RowEncoder, relation: &OpenRelation) -> bool {
        let now = RowIdentity { relid: relation.oid().to_u32(), index: relation.identity_index() };
        if self.identity != Some(now) {
            let same = encoder.has_key(&relation.identity_attributes());
            self.identity = same.then_some(now);
        }
        self.identity.is_some()
    }
}

impl Follower {
    pub fn new(registry: Registry, out: Outbox, token: u64) -> Follower {
        let scratch = Scratch::lasting(c"pg_anker change");
        Follower {
            registry,
            out,
            gates: Gates::new(),
            list_dropped: false,
            token,
            wide: WideRows::new(settings::max_row_bytes() as u64),
            records: Records::new(),
            transaction: Transaction::default(),
            scratch,
        }
    }

    fn row_change(&mut self, change: Change<'_>) -> Result<(), Void> {
        let relid = change.relation.oid().to_u32();
        let Some(encoder) = self.registry.encoder(relid) else {
            return Ok(());
        };
        if self.transaction.void.contains_key(&relid) {
            return Ok(());
        }
        if self.wide.are_at(change.lsn) {
            return Err(Void::TooWide);
        }
        let is_keyed = !encoder.is_by_address();
        if is_keyed && change.among_ddl && !self.transaction.has_identity(encoder, change.relation) {
            return Err(Void::Unfit);
        }
        let addresses = self.records.addresses(change.lsn);
        // DDL in the same transaction may have moved the rows into another file.
        let addresses = addresses.filter(|found| found.file == encoder.file()).ok_or(Void::Unfit)?;
        let Some(mut encoder) = encoder.fitting(change.relation.descriptor(), settings::max_row_bytes()) else {
            return Err(Void::Unfit);
        };
        if !self.transaction.begun {
            self.transaction.begun = true;
            self.out.send(&StreamMessage::Begin { xid: self.transaction.xid });
        }
        self.out.send_change(|out| match encoder.by_address() {
            true => append_by_address(out, relid, &mut encoder, change, addresses),
            false => append_by_key(out, relid, &mut encoder, change, addresses),
        })
    }

    /// Records a change of `anker.mirrored`. The table's first column is a regclass and part of the key, so the WAL
    /// contains it even for a deleted row.
    fn list_change(&mut self, change: Change<'_>) {
        for (tuple, added) in [(change.old, false), (change.new, true)] {
            let relid = tuple.and_then(|tuple| tuple.first_oid());
            self.transaction.listed.extend(relid.map(|relid| (relid.to_u32(), added)));
        }
        if change.old.is_none() && change.action == Action::Delete {
            warning!("pg_anker: a row of anker.mirrored was deleted without its key being logged");
        }
    }

    /// Reads settings that may have changed.
    pub fn heed_settings(&mut self) {
        self.wide.limit = settings::max_row_bytes() as u64;
    }

    /// Frees the memory that the longest recent row has needed.
    pub fn shrink(&mut self) {
        self.out.shrink();
    }

    fn note(&mut self, note: Note, catalog: Historic<'_>) {
        match note.content {
            Content::List { relids } => self.registry.list_was_read(&relids, catalog, &mut self.out),
            Content::WatchAgain { relids } => {
                relids.into_iter().for_each(|relid| self.registry.watch_again(relid, catalog, &mut self.out));
            }
            Content::Anchored { id } => self.out.send(&StreamMessage::Anchored { id }),
        }
    }
}

/// Appends a change of a row that is identified by a key.
fn append_by_key(
    out: &mut Vec<u8>,
    relid: u32,
    encoder: &mut Fitting<'_>,
    change: Change<'_>,
    addresses: Addresses,
) -> Result<(), Void> {
    match (change.action, change.old, change.new, addresses.new) {
        (Action::Insert, _, Some(row), Some(new)) => {
            change::insert(out, relid, |out| encoder.row(row, new, OnDisk::Unchanged, out))
        }
        (Action::Update, None, Some(row), Some(new)) => {
            change::update(out, relid, |out| encoder.row(row, new, OnDisk::Unchanged, out))
        }
        (Action::Update, Some(old), Some(row), Some(new)) => {
            let key = |encoder: &mut &mut Fitting<'_>, out: &mut Vec<u8>| encoder.key(old, out);
            let row = |encoder: &mut &mut Fitting<'_>, out: &mut Vec<u8>| encoder.updated_row(old, row, new, out);
            change::update_with_key(out, relid, encoder, key, row)
        }
        (Action::Delete, Some(old), _, None) => change::delete(out, relid, |out| encoder.key(old, out)),
        _ => return Err(Void::Unfit),
    }
    .map_err(Void::from)
}

/// Appends a change of a row that is identified by its address.
fn append_by_address(
    out: &mut Vec<u8>,
    relid: u32,
    encoder: &mut Fitting<'_>,
    change: Change<'_>,
    addresses: Addresses,
) -> Result<(), Void> {
    let key = |address, out: &mut Vec<u8>| {
        append_address(address, out);
        Ok(())
    };
    match (change.action, change.new, addresses.old, addresses.new) {
        (Action::Insert, Some(row), None, Some(new)) => {
            change::insert(out, relid, |out| encoder.row(row, new, OnDisk::Unchanged, out))
        }
        (Action::Update, Some(row), Some(old), Some(new)) => {
            let old_key = |_: &mut &mut Fitting<'_>, out: &mut Vec<u8>| key(old, out);
            let row = |encoder: &mut &mut Fitting<'_>, out: &mut Vec<u8>| encoder.row(row, new, OnDisk::Unchanged, out);
            change::update_with_key(out, relid, encoder, old_key, row)
        }
        (Action::Delete, _, Some(old), None) => change::delete(out, relid, |out| key(old, out)),
        _ => return Err(Void::Unfit),
    }
    .map_err(Void::from)
}

impl Follow for Follower {
    fn longest_record(&self) -> u64 {
        self.wide.limit
    }

    fn chunk(&mut self, xid: u32, value: u32, bytes: usize) -> bool {
        self.wide.chunk(xid, value, bytes)
    }

    fn awaits_row(&self, xid: u32) -> bool {
        self.wide.awaits_row(xid)
    }

    fn rows(&mut self, xid: u32, lsn: u64, rows: &mut [u8], last: bool) {
        self.wide.rows(xid, lsn, rows, last);
    }

    fn oldest_running(&mut self, xid: u32) {
        self.wide.oldest_running(xid);
    }

    fn records(&mut self) -> &mut Records {
        &mut self.records
    }

    fn begin(&mut self, xid: u64) {
        self.transaction = Transaction { xid, ..Default::default() };
    }

    fn change(&mut self, change: Change<'_>) {
        if change.relation.oid() == self.registry.list() {
            return self.list_change(change);
        }
        let scratch = self.scratch;
        // SAFETY: the row's values are encoded into memory that Rust owns, so nothing in the scratch memory is used
        // afterwards.
        if let Err(void) = unsafe { scratch.with(|| self.row_change(change)) } {
            self.transaction.void.insert(change.relation.oid().to_u32(), void);
        }
    }

    /// After TRUNCATE has committed, even older snapshots see an empty table. They would still see deleted rows, so the
    /// engine cannot apply TRUNCATE as a series of deletes. The mirror is built anew instead, from a table that is
    /// empty or small now.
    fn truncate(&mut self, relid: pg_sys::Oid) {
        if relid == self.registry.list() {
            self.transaction.list_truncated = true;
            self.transaction.listed.clear();
        } else {
            self.transaction.void.insert(relid.to_u32(), Void::Unfit);
        }
    }

    fn commit(&mut self, commit: Commit, catalog: Historic<'_>) {
        let transaction = std::mem::take(&mut self.transaction);
        if transaction.begun {
            // A query that waits for this position must not be answered before a table is retired below.
            let is_all = transaction.void.is_empty() && transaction.listed.is_empty() && commit.invalidated.is_empty();
            let lsn = if is_all && !transaction.list_truncated { commit.lsn } else { 0 };
            self.out.send(&StreamMessage::Commit { xid: transaction.xid, lsn, time: commit.time });
            self.gates.sent(transaction.xid);
        }
        for (&relid, void) in &transaction.void {
            match void {
                Void::Unfit => self.registry.rebuild(relid, catalog, &mut self.out),
                Void::TooWide => self.registry.too_wide(relid, &mut self.out),
            }
        }
        let invalidated: HashSet<u32> = commit.invalidated.into_iter().collect();
        let all = invalidated.contains(&ALL_RELATIONS);
        let rechecked = if all { self.registry.relids() } else { invalidated.iter().copied().collect() };
        for relid in rechecked.into_iter().filter(|relid| !transaction.void.contains_key(relid)) {
            self.registry.recheck(relid, catalog, &mut self.out);
        }
        if transaction.list_truncated {
            for relid in self.registry.relids() {
                self.registry.unregister(relid, &mut self.out);
            }
        }
        for (relid, added) in transaction.listed {
            match added {
                true => self.registry.register(relid, catalog, &mut self.out),
                false => self.registry.unregister(relid, &mut self.out),
            }
        }
        let list = self.registry.list();
        if (all || invalidated.contains(&list.to_u32())) && OpenRelation::historic(list, catalog).is_none() {
            self.list_dropped = true;
        }
    }

    fn message(&mut self, message: Message<'_>) {
        let note = message.under(PREFIX).and_then(Note::read);
        if let Some(note) = note.filter(|note| note.token == self.token) {
            message.with_catalog(|catalog| self.note(note, catalog));
        }
    }
}
