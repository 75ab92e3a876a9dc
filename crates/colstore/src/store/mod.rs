//! All mirrored tables of a database. Changes come in from the stream; views of tables go out to queries.
//!
//! | file | job |
//! |---|---|
//! | `sink` | the interface for the change stream |
//! | `forks` | forked children, and the memory that they cost |

mod forks;
mod sink;

use std::collections::HashMap;
use std::sync::Arc;

use protocol::Snapshot;
use protocol::control::ToWorker;
use protocol::request::{LoadRequest, Refusal, TableStatus};
use snapmem::{Errand, Mechanism, Pool};

use self::forks::Forks;
pub use self::forks::{Forked, NoAnswer};
pub use self::sink::Sink;
use crate::base::clock::{ApplyDelays, Clock, Delays};
use crate::base::leases::{Hold, Lease, Leases};
use crate::read::image::TableImage;
use crate::read::survey::Survey;
use crate::read::view::TableView;
use crate::rows::Fault;
use crate::rows::load::ChunkImage;
use crate::table::Table;
use crate::table::agenda::Agenda;
use crate::table::request::TableRequest;
use crate::table::serve::{TableSnapshot, Undone};

/// All mirrored tables of a database. One thread owns it; views may go to any thread.
#[derive(Debug)]
pub struct Store {
    limits: Limits,
    mechanism: Mechanism,
    pool: Pool,
    tables: HashMap<u32, Table>,
    agenda: Agenda,
    /// How often gates, discards and idle work have visited a table. Tests check that this number stays small.
    pub(crate) visits: u64,
    /// How often an idle writer has checked a column of a chunk.
    pub(crate) looks: u64,
    events: Vec<ToWorker>,
    last_gate: Option<Arc<Snapshot>>,
    /// The tables whose mirrors were given up by the stream.
    retired: Vec<u32>,
    delays: Delays,
    pub(crate) clock: Clock,
    changes_applied: u64,
    /// A token of which every view holds a clone.
    alive: Arc<()>,
    leases: Arc<Leases>,
    forks: Forks,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub memory_bytes: u64,
    pub undo_bytes: u64,
    pub undo_seconds: u64,
}

/// The tables of a request, all as S sees them.
#[derive(Debug, Default)]
pub struct Served {
    pub tables: Vec<Arc<dyn TableView>>,
    pub undone: Undone,
}

impl Served {
    /// Undoes the changes that S does not see, in all tables of a request. The requesting thread calls this, so that
    /// the writer does not spend its time on it.
    pub fn settled(tables: Vec<TableSnapshot>) -> Result<Served, Refusal> {
        let mut served = Served::default();
        for table in tables {
            let (view, undone) = table.settle()?;
            served.tables.push(Arc::new(view));
            served.undone += undone;
        }
        Ok(served)
    }
}

#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    pub mechanism: &'static str,
    pub memory_bytes: u64,
    pub undo_bytes: u64,
    pub undo_transactions: u64,
    pub pending_transactions: u64,
    pub live_snapshots: u64,
    pub copied_bytes: u64,
    pub changes_applied: u64,
    pub tables: Vec<TableStatus>,
}

impl Store {
    /// A store that takes snapshots of columns by this mechanism. [`Mechanism::probe`] must have found that it works
    /// here. The store belongs to the thread that creates it.
    pub fn new(limits: Limits, mechanism: Mechanism) -> Store {
        let pool = Pool::new(limits.memory_bytes);
        let leases = Arc::new(Leases::new());
        pool.relieved_by(leases.clone());
        Store {
            limits,
            mechanism,
            forks: Forks::new(&pool),
            pool,
            tables: HashMap::new(),
            agenda: Agenda::default(),
            visits: 0,
            looks: 0,
            events: Vec::new(),
            last_gate: None,
            retired: Vec::new(),
            delays: Delays::default(),
            clock: Clock::new(),
            changes_applied: 0,
            alive: Arc::new(()),
            leases,
        }
    }

    /// Applies the pending transactions of one table that `snapshot` sees; if they are many, only the first of them.
    /// Returns false if there are none.
    fn apply_some(&mut self, relid: u32, snapshot: &Snapshot) -> bool {
        let now_ms = self.clock.millis();
        let Some(table) = self.tables.get_mut(&relid) else { return false };
        let applied = self.leases.for_a_live_table(|| table.apply_some(snapshot, now_ms));
        table.note_in(&mut self.agenda);
        self.forks.settle();
        match applied {
            Ok(applied) => {
                self.changes_applied += applied.changes;
                self.delays.record(applied.transactions.iter().filter_map(|transaction| transaction.counted));
                !applied.transactions.is_empty()
            }
            Err(fault) => {
                self.break_on_fault(relid, Err(fault));
                false
            }
        }
    }

    /// The table with the oldest undo, if that undo is older than the limit.
    fn too_old_undo(&self, now_ms: u64) -> Option<u32> {
        let before_ms = now_ms.saturating_sub(self.limits.undo_seconds.saturating_mul(1000));
        self.agenda.oldest_undo().filter(|(at_ms, _)| *at_ms < before_ms).map(|(_, relid)| relid)
    }

    /// Discards the oldest undo of all tables until the undo is within its limit of bytes.
    fn discard_undo_beyond_limit(&mut self) {
        while self.agenda.undo_bytes() > self.limits.undo_bytes
            && let Some((_, relid)) = self.agenda.oldest_undo()
        {
            self.discard_oldest(relid);
        }
    }

    /// Discards the oldest undo entry of a table. The agenda has named the table.
    fn discard_oldest(&mut self, relid: u32) {
        self.visits += 1;
        let Some(table) = self.tables.get_mut(&relid) else { return };
        let result = self.leases.for_a_live_table(|| table.discard_oldest());
        table.note_in(&mut self.agenda);
        self.break_on_fault(relid, result);
    }

    pub fn load_begin(&mut self, request: &LoadRequest) -> Result<(), Refusal> {
        let relid = request.relid;
        let table = self.loading_table(relid, request.generation)?;
        if table.layout.fingerprint != request.fingerprint {
            return Err(Refusal::FingerprintDiffers { relid });
        }
        table.load_begin(request.snapshot.clone())
    }

    /// Adds rows to a table that is being loaded. `rows` has the form of `frame::Kind::Rows`.
    pub fn load_rows(&mut self, relid: u32, generation: u64, rows: &[u8]) -> Result<(), Refusal> {
        let result = self.loading_table(relid, generation)?.load_rows(rows)?;
        self.load_result(relid, result)
    }

    /// Adds a chunk to a table that is being loaded, from its image. All chunks must be added in their order, before
    /// any other row. Rows whose address is `dropped` are not added.
    pub fn load_chunk(
        &mut self,
        relid: u32,
        generation: u64,
        image: &ChunkImage<'_>,
        dropped: impl Fn(i64) -> bool,
    ) -> Result<(), Refusal> {
        let result = self.loading_table(relid, generation)?.load_chunk(image, dropped)?;
        self.load_result(relid, result)
    }

    /// Prepares a load for about this many rows, so that the key index need not grow step by step.
    pub fn load_expect(&mut self, relid: u32, generation: u64, rows: u64) -> Result<(), Refusal> {
        let result = self.loading_table(relid, generation)?.load_expect(rows)?;
        self.load_result(relid, result)
    }

    /// Ends a load, for which the loader has sent this many rows. Returns the number of all rows, with those from
    /// images.
    pub fn load_end(&mut self, relid: u32, generation: u64, rows: u64) -> Result<u64, Refusal> {
        let result = self.loading_table(relid, generation)?.load_end(rows)?;
        if let Some(table) = self.tables.get_mut(&relid) {
            table.note_in(&mut self.agenda);
        }
        if let Ok(rows) = result {
            self.events.push(ToWorker::Live { relid, generation, rows });
        }
        let rows = *result.as_ref().unwrap_or(&0);
        self.load_result(relid, result.map(|_| ()))?;
        Ok(rows)
    }

    /// Ends a load that the loader has given up. The table then waits for another load of the same generation.
    pub fn load_abort(&mut self, relid: u32, generation: u64) {
        if let Ok(table) = self.loading_table(relid, generation) {
            table.load_abort();
        }
    }

    fn loading_table(&mut self, relid: u32, generation: u64) -> Result<&mut Table, Refusal> {
        let table = self.tables.get_mut(&relid).filter(|table| table.generation == generation && !table.is_broken());
        table.ok_or(Refusal::NotMirrored { relid })
    }

    fn load_result(&mut self, relid: u32, result: Result<(), Fault>) -> Result<(), Refusal> {
        let refusal = match &result {
            Ok(()) => return Ok(()),
            Err(Fault::OutOfMemory(error)) => Refusal::OutOfMemory { what: error.to_string() },
            Err(fault) => Refusal::Protocol { what: fault.to_string() },
        };
        self.break_on_fault(relid, result);
        Err(refusal)
    }

    /// Takes snapshots of the tables of a request. Changes that S does not see are not undone yet. The caller has made
    /// sure that the stream has reached the request's L. With a lease, the caller may hold the tables until the lease
    /// is revoked; without a lease, as long as it likes.
    pub fn bind(
        &mut self,
        snapshot: &Snapshot,
        tables: &[TableRequest],
        lease: Option<Arc<Lease>>,
    ) -> Result<Vec<TableSnapshot>, Refusal> {
        for request in tables {
            let relid = request.relid;
            self.tables.get(&relid).ok_or(Refusal::NotMirrored { relid })?.check(request, snapshot)?;
        }
        let s = Arc::new(snapshot.clone());
        let hold = Hold { _counted: self.alive.clone(), of_query: Arc::default() };
        let (mut snapshots, mut beside) = (Vec::with_capacity(tables.len()), Vec::new());
        for request in tables {
            while self.apply_some(request.relid, snapshot) {}
            let relid = request.relid;
            let table = self.tables.get_mut(&relid).ok_or(Refusal::NotMirrored { relid })?;
            let table_of_request = table.bind(request, &s, &hold);
            beside.push(table.written.beside());
            table.note_in(&mut self.agenda);
            snapshots.push(table_of_request?);
        }
        if let Some(lease) = lease {
            self.leases.lend(lease, &hold.of_query, beside);
        }
        Ok(snapshots)
    }

    /// [`Store::bind`] and [`Served::settled`] together.
    pub fn serve(&mut self, snapshot: &Snapshot, tables: &[TableRequest]) -> Result<Served, Refusal> {
        Served::settled(self.bind(snapshot, tables, None)?)
    }

    /// A table's columns as they are now, for a survey by another thread.
    pub fn survey(&mut self, relid: u32, fingerprint: u64) -> Result<Survey, Refusal> {
        let table = self.tables.get_mut(&relid).ok_or(Refusal::NotMirrored { relid })?;
        table.survey(fingerprint, &self.alive)
    }

    /// A table's columns as they are now, as an image for a file. Another thread may write it. It has everything that
    /// the last gate sees. Later changes get greater stamps than those in the image. With a lease, the image may be
    /// held until the lease is revoked.
    pub fn image(&mut self, relid: u32, lease: Option<Arc<Lease>>) -> Result<TableImage, Refusal> {
        // A table that has become live since the last gate has not applied what that gate sees.
        if let Some(gate) = self.last_gate.clone() {
            while self.apply_some(relid, &gate) {}
        }
        let table = self.tables.get_mut(&relid).ok_or(Refusal::NotMirrored { relid })?;
        let hold = Hold { _counted: self.alive.clone(), of_query: Arc::default() };
        let (image, beside) = (table.image(&hold)?, table.written.beside());
        if let Some(lease) = lease {
            self.leases.lend(lease, &hold.of_query, vec![beside]);
        }
        Ok(image)
    }

    /// Forks this process. The child does a task on views that [`Store::serve`] has returned to the parent. Afterwards
    /// the parent may drop the views, because the child has its own copy. See [`Errand`] for the limits of the child.
    pub fn fork(&mut self, errand: impl Errand, reply_bytes: usize) -> Result<Arc<Forked>, Refusal> {
        let out_of_memory = |error: snapmem::Error| Refusal::OutOfMemory { what: error.to_string() };
        self.forks.fork(errand, reply_bytes).map_err(out_of_memory)
    }

    /// Charges the memory that children cost. It must be called repeatedly, because every write of the parent may make
    /// the kernel copy another page.
    pub fn settle_forks(&mut self) {
        self.forks.settle();
    }

    /// Does one step of work that would otherwise delay later queries. An idle writer calls it. Returns whether there
    /// was work.
    pub fn tidy(&mut self) -> bool {
        let now_ms = self.clock.millis();
        // Gates discard old undo, but if nothing is written, gates seldom come. So old undo is also discarded here, one
        // entry at a time, because an entry may concern many rows.
        if let Some(relid) = self.too_old_undo(now_ms) {
            self.discard_oldest(relid);
            return true;
        }
        for relid in self.agenda.untidy() {
            self.visits += 1;
            if let Some(table) = self.tables.get_mut(&relid) {
                let worked = table.tidy(now_ms);
                table.note_in(&mut self.agenda);
                if worked {
                    // Only one step is done, because a message may have arrived in the meantime.
                    return true;
                }
            }
        }
        self.look(now_ms)
    }

    /// Checks one column of a chunk that has become quiet, if there is such a chunk. Returns whether there was one.
    fn look(&mut self, now_ms: u64) -> bool {
        // The loop ends, because each visit postpones the table's next check.
        while let Some((at_ms, relid)) = self.agenda.next_look()
            && at_ms <= now_ms
            && let Some(table) = self.tables.get_mut(&relid)
        {
            self.visits += 1;
            let looked = table.look(now_ms);
            table.note_in(&mut self.agenda);
            if looked {
                self.looks += 1;
                return true;
            }
        }
        false
    }

    /// Gives up a table after a fault. All other tables are kept.
    fn break_on_fault(&mut self, relid: u32, result: Result<(), Fault>) {
        let (Err(fault), Some(table)) = (result, self.tables.get_mut(&relid)) else { return };
        table.break_down();
        table.note_in(&mut self.agenda);
        let (generation, error) = (table.generation, fault.is_error());
        self.events.push(ToWorker::Broken { relid, generation, error, reason: fault.to_string() });
    }

    /// Removes and returns the messages for the worker that have come up since the last call.
    pub fn take_events(&mut self) -> Vec<ToWorker> {
        std::mem::take(&mut self.events)
    }

    /// Removes and returns the tables whose mirrors the stream has given up since the last call.
    pub fn take_retired(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.retired)
    }

    /// Removes and returns the delays of transactions applied since the last call, from commit to apply, in
    /// microseconds of wall clock time.
    pub fn take_apply_delays(&mut self) -> ApplyDelays {
        self.delays.take()
    }

    pub fn status(&self) -> StoreStatus {
        let live = || self.tables.values().filter_map(|table| table.live().ok());
        let mut tables: Vec<TableStatus> = self.tables.values().map(Table::status).collect();
        tables.sort_by_key(|table| table.relid);
        StoreStatus {
            mechanism: self.mechanism.name(),
            memory_bytes: self.pool.used(),
            undo_bytes: self.agenda.undo_bytes(),
            undo_transactions: live().map(|live| live.undo.len() as u64).sum(),
            pending_transactions: self.tables.values().map(Table::pending).sum(),
            live_snapshots: Arc::strong_count(&self.alive) as u64 - 1 + self.forks.len() as u64,
            copied_bytes: self.pool.copied(),
            changes_applied: self.changes_applied,
            tables,
        }
    }
}
