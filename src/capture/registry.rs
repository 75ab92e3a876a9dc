//! The mirrored tables of this database. `follow::Tables` decides which actions are due. The registry carries out these
//! actions, and reports their results to `follow::Tables`.
//!
//! Tables begin to be watched only inside decoding's callbacks, because only there do catalog look-ups see the catalog
//! as of the stream's position.

use std::time::{Duration, Instant};

use follow::{Backoff, Cause, LoadOrder, Recheck, Tables};
use pgrx::prelude::*;
use protocol::change::StreamMessage;

use super::outbox::Outbox;
use crate::layout::{self, NotMirrorable};
use crate::load::{self, MAX_LOADERS, MAX_ORDERS};
use crate::note::{Content, Note};
use crate::pg::process::{self, Worker};
use crate::pg::relation::{Historic, OpenRelation};
use crate::pg::tuple::RowEncoder;
use crate::settings;
use crate::shared::{self, FixedText, TableState};

/// The delays before the next loader, after a loader could not start or ended before its first table.
const LOADER_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(64));

/// A table is not loaded any more once the server has crashed this many times during its loads.
const MOST_CRASHES: u32 = 3;
/// The pause before a table is loaded again after the server crashed once during its load. It grows with each further
/// crash.
const REST_AFTER_CRASH: Duration = Duration::from_secs(5);

fn rest_after(crashes: u32) -> Duration {
    match crashes {
        0 => Duration::ZERO,
        // `n` is small, because a table with [`MOST_CRASHES`] crashes is not loaded any more.
        n => REST_AFTER_CRASH * 4u32.pow(n - 1),
    }
}

/// The reason why a load does not begin at once.
fn resting(crashes: u32) -> Option<String> {
    let pause = rest_after(crashes).as_secs();
    (crashes > 0).then(|| {
        format!(
            "the server went down while the table was loaded (crashes so far: {crashes}); the load waits for {pause} s"
        )
    })
}

fn crashing(crashes: u32) -> NotMirrorable {
    let message = format!("the server went down {crashes} times while the table was loaded");
    // The hint is part of the message, because the views show only the message.
    NotMirrorable { message: format!("{message}; unmirror and mirror it to have it tried again"), hint: None }
}

pub struct Registry {
    database: pg_sys::Oid,
    /// The oid of `anker.mirrored`.
    list: pg_sys::Oid,
    /// A random number that distinguishes notes to this worker from notes to an earlier one.
    token: u64,
    tables: Tables<RowEncoder>,
    loaders: Vec<Loader>,
    no_loader_before: Option<Instant>,
    loader_delays: Backoff,
}

struct Loader {
    process: Worker,
    orders: Vec<LoadOrder>,
}

impl Registry {
    pub fn new(database: pg_sys::Oid, list: pg_sys::Oid, token: u64) -> Registry {
        Registry {
            database,
            list,
            token,
            tables: Tables::default(),
            loaders: Vec::new(),
            no_loader_before: None,
            loader_delays: LOADER_DELAYS,
        }
    }

    pub fn list(&self) -> pg_sys::Oid {
        self.list
    }

    /// Whether no table is mirrored now.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether any table was ever mirrored by this worker.
    pub fn has_held_any(&self) -> bool {
        self.tables.has_held_any()
    }

    /// Whether the list of mirrored tables is known.
    pub fn list_was_seen(&self) -> bool {
        self.tables.list_is_known()
    }

    pub fn relids(&self) -> Vec<u32> {
        self.tables.relids().collect()
    }

    /// The encoder of a table's rows, if it is watched.
    pub fn encoder(&mut self, relid: u32) -> Option<&mut RowEncoder> {
        self.tables.encoder(relid)
    }

    // -- under the catalog of the stream's position ------------------------------------------------------------------

    pub fn register(&mut self, relid: u32, catalog: Historic<'_>, out: &mut Outbox) {
        if self.tables.register(relid) {
            self.watch(relid, catalog, out);
        }
    }

    pub fn unregister(&mut self, relid: u32, out: &mut Outbox) {
        self.stop_load(relid);
        load::forget_crashes(self.database, relid.into());
        if self.tables.unregister(relid) {
            out.send(&StreamMessage::Retire { relid });
        }
        shared::remove_table(self.database, relid.into());
    }

    /// Takes over the list of mirrored tables that a snapshot has seen.
    pub fn list_was_read(&mut self, relids: &[u32], catalog: Historic<'_>, out: &mut Outbox) {
        for relid in self.tables.list_was_read(relids) {
            self.register(relid, catalog, out);
        }
        // An earlier worker may have left traces of tables that were unmirrored or dropped since.
        shared::retain_tables(self.database, |relid| self.tables.contains(relid));
        load::retain_crashes(self.database, |relid| self.tables.contains(relid));
    }

    /// Checks a table's definition again. Called if DDL may have changed it.
    pub fn recheck(&mut self, relid: u32, catalog: Historic<'_>, out: &mut Outbox) {
        let fingerprint = match self.tables.recheck(relid) {
            Recheck::Nothing => return,
            Recheck::UnlessStill(fingerprint) => Some(fingerprint),
            Recheck::Always => None,
        };
        let now = OpenRelation::historic(relid.into(), catalog).map(|relation| layout::fingerprint(&relation));
        if now.is_none() || now != fingerprint {
            self.rebuild(relid, catalog, out);
        }
    }

    /// Builds the table's mirror anew, as the next generation.
    pub fn rebuild(&mut self, relid: u32, catalog: Historic<'_>, out: &mut Outbox) {
        if self.tables.contains(relid) {
            self.retire(relid, out);
            self.watch(relid, catalog, out);
        }
    }

    /// Called when it is time to watch a table again that was given up.
    pub fn watch_again(&mut self, relid: u32, catalog: Historic<'_>, out: &mut Outbox) {
        if self.tables.is_given_up(relid) {
            self.watch(relid, catalog, out);
        }
    }

    fn watch(&mut self, relid: u32, catalog: Historic<'_>, out: &mut Outbox) {
        let Some(relation) = OpenRelation::historic(relid.into(), catalog) else {
            return self.unregister(relid, out);
        };
        let (generation, now) = (shared::next_generation(), Instant::now());
        let again = self.tables.was_watched(relid);
        let crashes = load::crashes(self.database, relid.into());
        match layout::describe_new(&relation).and_then(|described| match crashes < MOST_CRASHES {
            true => Ok(described),
            false => Err(crashing(crashes)),
        }) {
            Ok(described) => {
                let placed = shared::update_table(self.database, relid.into(), |t| {
                    t.state = TableState::Loading;
                    t.generation = generation;
                    t.fingerprint = described.layout.fingerprint;
                    t.rebuilds += again as u64;
                    t.reason = resting(crashes).map_or(FixedText::NONE, |reason| FixedText::new(&reason));
                });
                if !placed {
                    return self.tables.without_room(relid, now);
                }
                let layout = described.layout;
                let encoder = RowEncoder::new(&layout, relation.descriptor(), relation.file());
                let load_from = now + rest_after(crashes);
                self.tables.watched(relid, generation, layout.fingerprint, encoder, load_from);
                out.send(&StreamMessage::Watch { generation, layout });
            }
            Err(NotMirrorable { message, .. }) => {
                let placed = shared::update_table(self.database, relid.into(), |t| {
                    t.state = TableState::Unsupported;
                    t.reason = FixedText::new(&message);
                });
                match placed {
                    true => self.tables.unsupported(relid),
                    false => self.tables.without_room(relid, now),
                }
            }
        }
    }

    // -- anywhere between transactions of the stream ------------------------------------------------------------------

    /// Makes the engine drop its copy of the table, and stops a loader that is loading it.
    fn retire(&mut self, relid: u32, out: &mut Outbox) {
        self.stop_load(relid);
        if self.tables.retire(relid) {
            out.send(&StreamMessage::Retire { relid });
        }
    }

    /// Stops the loader that is loading this table. If the loader has not reached the table yet, it goes on, and the
    /// engine will refuse this load. If the loader has finished the table, it is loading another table, and also goes
    /// on.
    fn stop_load(&self, relid: u32) {
        if let Some(order) = self.tables.loading(relid) {
            let at_work = |loader: &&Loader| loader.orders.iter().rev().find(|o| self.was_tried(**o)) == Some(&order);
            self.loaders.iter().filter(at_work).for_each(|loader| loader.process.terminate());
        }
    }

    fn was_tried(&self, order: LoadOrder) -> bool {
        shared::table(self.database, order.relid.into()).is_some_and(|t| t.tried == order.generation)
    }

    /// Called when the engine reports that the table's mirror serves queries.
    pub fn live(&mut self, relid: u32, generation: u64) {
        if self.tables.live(relid, generation, Instant::now()) {
            shared::update_generation(self.database, relid.into(), generation, |t| {
                t.state = TableState::Live;
                t.reason = FixedText::NONE;
            });
        }
    }

    /// Called when a row of a followed table is too long for the mirror.
    pub fn too_wide(&mut self, relid: u32, out: &mut Outbox) {
        if let Some(generation) = self.tables.generation(relid) {
            self.broken(relid, generation, Cause::Wide, &settings::too_wide(), out);
        }
    }

    /// Gives up the table for a while.
    pub fn broken(&mut self, relid: u32, generation: u64, cause: Cause, reason: &str, out: &mut Outbox) {
        if self.tables.loading(relid).is_some_and(|order| order.generation == generation) {
            self.stop_load(relid);
        }
        let Some(delay) = self.tables.broken(relid, generation, cause, Instant::now()) else {
            return;
        };
        out.send(&StreamMessage::Retire { relid });
        let reason = match cause {
            Cause::Memory => format!("{reason}; the limit is anker.memory"),
            Cause::Fault | Cause::Wide => reason.to_string(),
        };
        log!("pg_anker: the mirror of table {relid} is built anew in {} s: {reason}", delay.as_secs());
        shared::update_generation(self.database, relid.into(), generation, |t| {
            t.state = TableState::Broken;
            t.errors += (cause == Cause::Fault) as u64;
            t.reason = FixedText::new(&reason);
        });
    }

    /// Starts whatever is due: loads, and notes for tables that are to be watched again. Returns the time at which more
    /// will be due.
    ///
    /// The outbox must be flushed before, because the engine must have the table's `Watch` when a loader comes.
    pub fn tend(&mut self, out: &mut Outbox) -> Option<Instant> {
        let now = Instant::now();
        self.see_off_loaders(now, out);
        self.start_loaders(now);
        let relids = self.tables.take_due_looks(now, shared::room_for_tables);
        if !relids.is_empty() {
            Note { token: self.token, content: Content::WatchAgain { relids } }.write();
        }
        let next = self.tables.next(self.may_load(now));
        [next, self.no_loader_before.filter(|at| *at > now)].into_iter().flatten().min()
    }

    fn see_off_loaders(&mut self, now: Instant, out: &mut Outbox) {
        for loader in self.loaders.extract_if(.., |loader| loader.process.ended()).collect::<Vec<_>>() {
            // By now, the table may have a mirror of another generation.
            let of_now = |order: &&LoadOrder| self.tables.loading(order.relid) == Some(**order);
            let unlived = loader.orders.first().filter(of_now).is_some_and(|first| !self.was_tried(*first));
            match unlived {
                true => self.no_loader_before = Some(now + self.loader_delays.failed()),
                false => self.loader_delays.reset(),
            }
            for order in loader.orders {
                let table = shared::table(self.database, order.relid.into());
                if table.is_some_and(|t| t.too_wide == order.generation) {
                    self.broken(order.relid, order.generation, Cause::Wide, &settings::too_wide(), out);
                }
                let tried = self.was_tried(order);
                self.tables.load_ended(order, tried, now);
            }
        }
    }

    fn may_load(&self, now: Instant) -> bool {
        self.loaders.len() < MAX_LOADERS && self.no_loader_before.is_none_or(|at| at <= now)
    }

    fn start_loaders(&mut self, now: Instant) {
        while self.may_load(now) {
            self.no_loader_before = None;
            // The loads are divided between the loaders, so that no loader is idle while another one has all the loads.
            let due = self.tables.due_loads(now, MAX_LOADERS * MAX_ORDERS);
            let orders =
                self.tables.take_due_loads(now, due.div_ceil(MAX_LOADERS - self.loaders.len()).min(MAX_ORDERS));
            if orders.is_empty() {
                return;
            }
            match Worker::start(process::LOADER, self.database, &load::orders_to_extra(&orders)) {
                Some(process) => self.loaders.push(Loader { process, orders }),
                None => {
                    self.no_loader_before = Some(now + self.loader_delays.failed());
                    for order in orders {
                        self.tables.load_ended(order, false, now);
                        shared::update_generation(self.database, order.relid.into(), order.generation, |t| {
                            t.reason = FixedText::new("no free background worker: raise max_worker_processes");
                        });
                    }
                }
            }
        }
    }
}
