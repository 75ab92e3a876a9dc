//! The mirrored tables of this database: which are followed, since when, and what is to be done about the others.
//!
//! ```text
//!   registered --watch--> Watched: load due -> loading -> live
//!        |                   |  DDL, TRUNCATE: retire, watch again at once (next generation)
//!        |                   |  broken (engine's word): retire, watch again after a while, by a note
//!        `--not mirrorable--> Unsupported: looked at again when DDL touches it
//! ```
//!
//! Watching happens only inside decoding's callbacks, where the catalog is that of the stream's position.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use plan::TableLayout;
use protocol::change::StreamMessage;

use super::outbox::Outbox;
use crate::layout::{self, NotMirrorable};
use crate::load::LoadOrder;
use crate::note::{Content, Note};
use crate::pg::process::{self, Worker};
use crate::pg::relation::HistoricRelation;
use crate::pg::tuple::RowEncoder;
use crate::shared::{self, Reason, TableState};

const MAX_LOADERS: usize = 2;
/// After a load that came to nothing.
const LOAD_RETRY: Duration = Duration::from_secs(1);
/// After a fault; doubled while the table breaks again soon after it was live.
const FAULT_DELAY: Duration = Duration::from_secs(1);
const MAX_FAULT_DELAY: Duration = Duration::from_secs(64);
/// After the memory limit was hit.
const MEMORY_DELAY: Duration = Duration::from_secs(30);
/// A table that was live for so long counts as sound.
const SOUND_AFTER: Duration = Duration::from_secs(60);
/// A note is decoded within moments; if it is not, it is written again.
const NOTE_RETRY: Duration = Duration::from_secs(10);

pub struct Registry {
    database: pg_sys::Oid,
    /// `anker.mirrored`.
    list: pg_sys::Oid,
    /// Tells our notes and our loaders from others'.
    worker: u64,
    tables: HashMap<u32, Table>,
    /// Unregistered in the stream before the list was read.
    removed: HashSet<u32>,
    list_read: bool,
}

struct Table {
    generation: u64,
    phase: Phase,
    /// Faults in a row.
    faults: u32,
}

enum Phase {
    Watched(Box<Watched>),
    /// Given up for now.
    Unwatched {
        again_at: Instant,
    },
    Unsupported,
}

pub struct Watched {
    pub encoder: RowEncoder,
    fingerprint: u64,
    load: Load,
}

enum Load {
    Due(Instant),
    Running(Worker),
    Live { since: Instant },
}

impl Registry {
    pub fn new(database: pg_sys::Oid, list: pg_sys::Oid, worker: u64) -> Registry {
        Registry { database, list, worker, tables: HashMap::new(), removed: HashSet::new(), list_read: false }
    }

    pub fn list(&self) -> pg_sys::Oid {
        self.list
    }

    /// Nothing is mirrored (any more).
    pub fn is_empty(&self) -> bool {
        self.list_read && self.tables.is_empty()
    }

    /// Whether it is known what is mirrored.
    pub fn list_was_seen(&self) -> bool {
        self.list_read
    }

    pub fn relids(&self) -> Vec<u32> {
        self.tables.keys().copied().collect()
    }

    pub fn watched(&mut self, relid: u32) -> Option<&mut Watched> {
        match self.tables.get_mut(&relid) {
            Some(Table { phase: Phase::Watched(watched), .. }) => Some(watched),
            _ => None,
        }
    }

    // -- in decoding's callbacks: the historic snapshot is set, a transaction is open ---------------------------------

    pub fn register(&mut self, relid: u32, out: &mut Outbox) {
        self.removed.remove(&relid);
        if !self.tables.contains_key(&relid) {
            self.watch(relid, out);
        }
    }

    pub fn unregister(&mut self, relid: u32, out: &mut Outbox) {
        if !self.list_read {
            self.removed.insert(relid);
        }
        self.forget(relid, out);
    }

    /// The list as a snapshot had it. What the stream has said of a table meanwhile is newer.
    pub fn list_was_read(&mut self, relids: &[u32], out: &mut Outbox) {
        if self.list_read {
            return;
        }
        for &relid in relids {
            if !self.removed.contains(&relid) {
                self.register(relid, out);
            }
        }
        self.list_read = true;
        self.removed.clear();
    }

    /// DDL may have touched the table.
    pub fn recheck(&mut self, relid: u32, out: &mut Outbox) {
        let fingerprint = match self.tables.get(&relid) {
            Some(Table { phase: Phase::Watched(watched), .. }) => Some(watched.fingerprint),
            Some(Table { phase: Phase::Unwatched { .. }, .. }) | None => return,
            Some(Table { phase: Phase::Unsupported, .. }) => None,
        };
        // SAFETY: in decoding's callbacks.
        let relation = unsafe { HistoricRelation::open(relid) };
        // SAFETY: the relation is open.
        let now = relation.as_ref().map(|r| unsafe { layout::fingerprint(r.0) });
        drop(relation);
        if now.is_none() || now != fingerprint {
            self.rebuild(relid, out);
        }
    }

    /// Starts the table's mirror anew, in the next generation.
    pub fn rebuild(&mut self, relid: u32, out: &mut Outbox) {
        if self.tables.contains_key(&relid) {
            self.retire(relid, out);
            self.watch(relid, out);
        }
    }

    /// The time of a table that was given up has come.
    pub fn watch_again(&mut self, relid: u32, out: &mut Outbox) {
        if matches!(self.tables.get(&relid), Some(Table { phase: Phase::Unwatched { .. }, .. })) {
            self.watch(relid, out);
        }
    }

    fn watch(&mut self, relid: u32, out: &mut Outbox) {
        // SAFETY: as above.
        let Some(relation) = (unsafe { HistoricRelation::open(relid) }) else {
            return self.forget(relid, out);
        };
        let generation = shared::next_generation();
        // SAFETY: the relation is open, within decoding's historic snapshot.
        let phase = match unsafe { layout::describe(relation.0) } {
            Ok(described) => {
                // SAFETY: the descriptor is that of the relation that was described.
                let encoder = unsafe { RowEncoder::new(&described.layout, (*relation.0).rd_att) };
                self.announce(generation, described.layout, encoder, out)
            }
            Err(NotMirrorable { message, .. }) => {
                self.mark(relid, |t| {
                    t.state = TableState::Unsupported;
                    t.reason = Reason::new(&message);
                });
                Phase::Unsupported
            }
        };
        let faults = self.tables.get(&relid).map_or(0, |t| t.faults);
        self.tables.insert(relid, Table { generation, phase, faults });
    }

    fn announce(&self, generation: u64, layout: TableLayout, encoder: RowEncoder, out: &mut Outbox) -> Phase {
        let (relid, fingerprint) = (layout.relid, layout.fingerprint);
        out.send(&StreamMessage::Watch { generation, layout });
        let again = self.tables.contains_key(&relid);
        self.mark(relid, |t| {
            t.state = TableState::Loading;
            t.generation = generation;
            t.rebuilds += again as u64;
            t.reason = Reason::NONE;
        });
        Phase::Watched(Box::new(Watched { encoder, fingerprint, load: Load::Due(Instant::now()) }))
    }

    // -- anywhere between transactions of the stream ------------------------------------------------------------------

    fn forget(&mut self, relid: u32, out: &mut Outbox) {
        self.retire(relid, out);
        self.tables.remove(&relid);
        shared::remove_table(self.database, relid.into());
    }

    /// The engine drops what it has of the table, and a loader that is at work gives up.
    fn retire(&mut self, relid: u32, out: &mut Outbox) {
        let Some(table) = self.tables.get_mut(&relid) else {
            return;
        };
        if matches!(table.phase, Phase::Watched(_)) {
            table.loader().into_iter().for_each(Worker::terminate);
            table.phase = Phase::Unwatched { again_at: Instant::now() };
            out.send(&StreamMessage::Retire { relid });
        }
    }

    /// The engine says that the table serves queries.
    pub fn live(&mut self, relid: u32, generation: u64) {
        let Some(table) = self.tables.get_mut(&relid).filter(|t| t.generation == generation) else {
            return;
        };
        if let Phase::Watched(watched) = &mut table.phase {
            watched.load = Load::Live { since: Instant::now() };
            self.mark(relid, |t| {
                t.state = TableState::Live;
                t.reason = Reason::NONE;
            });
        }
    }

    /// The engine gave the table up.
    pub fn broken(&mut self, relid: u32, generation: u64, error: bool, reason: &str, out: &mut Outbox) {
        let Some(table) = self.tables.get_mut(&relid).filter(|t| t.generation == generation) else {
            return;
        };
        let Phase::Watched(watched) = &table.phase else {
            return;
        };
        let sound = matches!(watched.load, Load::Live { since } if since.elapsed() > SOUND_AFTER);
        let delay = if error {
            table.faults = if sound { 0 } else { table.faults + 1 };
            (FAULT_DELAY * (1 << table.faults.min(6))).min(MAX_FAULT_DELAY)
        } else {
            MEMORY_DELAY
        };
        let reason = if error { reason.to_string() } else { format!("{reason}; the limit is anker.memory") };
        log!("pg_anker: the mirror of table {relid} is built anew in {} s: {reason}", delay.as_secs());
        self.retire(relid, out);
        if let Some(table) = self.tables.get_mut(&relid) {
            table.phase = Phase::Unwatched { again_at: Instant::now() + delay };
        }
        self.mark(relid, |t| {
            t.state = TableState::Broken;
            t.errors += error as u64;
            t.reason = Reason::new(&reason);
        });
    }

    /// Starts what is due: loads, and notes for tables that are to be watched again. Returns when to look again.
    ///
    /// A loader must find its `Watch` in the engine: the outbox has been flushed.
    pub fn tend(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut loaders = self.tables.values().filter(|t| t.loader().is_some_and(|w| !w.ended())).count();
        for (&relid, table) in &mut self.tables {
            match &mut table.phase {
                Phase::Watched(watched) => {
                    if let Load::Running(loader) = &watched.load
                        && loader.ended()
                    {
                        watched.load = Load::Due(now + LOAD_RETRY);
                    }
                    let Load::Due(at) = watched.load else {
                        continue;
                    };
                    if at <= now && loaders < MAX_LOADERS {
                        let order = LoadOrder { relid, generation: table.generation, fingerprint: watched.fingerprint };
                        match Worker::start(process::LOADER, self.database, &order.to_extra()) {
                            Some(loader) => {
                                watched.load = Load::Running(loader);
                                loaders += 1;
                            }
                            None => {
                                watched.load = Load::Due(now + LOAD_RETRY);
                                let reason = "no free background worker: raise max_worker_processes";
                                mark(self.database, relid, |t| t.reason = Reason::new(reason));
                            }
                        }
                    }
                    if let Load::Due(at) = watched.load {
                        let wake = at.max(now + Duration::from_millis(10));
                        next = Some(next.map_or(wake, |n| n.min(wake)));
                    }
                }
                Phase::Unwatched { again_at } => {
                    if *again_at <= now {
                        Note { worker: self.worker, content: Content::WatchAgain { relid } }.write();
                        *again_at = now + NOTE_RETRY;
                    }
                    next = Some(next.map_or(*again_at, |n| n.min(*again_at)));
                }
                Phase::Unsupported => {}
            }
        }
        next
    }

    /// When the worker ends, its loaders have nobody to load for.
    pub fn stop_loaders(&self) {
        self.tables.values().filter_map(Table::loader).for_each(Worker::terminate);
    }

    fn mark(&self, relid: u32, change: impl FnOnce(&mut shared::Table)) {
        mark(self.database, relid, change);
    }
}

impl Table {
    fn loader(&self) -> Option<&Worker> {
        match &self.phase {
            Phase::Watched(watched) => match &watched.load {
                Load::Running(loader) => Some(loader),
                _ => None,
            },
            _ => None,
        }
    }
}

fn mark(database: pg_sys::Oid, relid: u32, change: impl FnOnce(&mut shared::Table)) {
    if !shared::update_table(database, relid.into(), change) {
        log!("pg_anker: no room in shared memory for the state of table {relid}, so no query will use its mirror");
    }
}
