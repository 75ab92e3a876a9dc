//! The columnar mirror: columns, key index, undo, apply, and serving a snapshot exactly. See docs/internals.md.
//!
//! ```text
//!   stream --> backlog --apply--> rows (columns, index) + undo          one of each per table
//!                                   |                      |
//!                                   +-- snapshot, taken back to S --> view
//! ```
//!
//! | file | job |
//! |---|---|
//! | `table` | one table's life from watch to retire |
//! | `backlog`, `apply` | transactions that wait; their changes onto rows and undo |
//! | `rows`, `index` | slots, key index |
//! | `column`, `fixed`, `bitmap`, `text` | cells in Arrow's layout, copied on write |
//! | `undo` | old values, gates, floor |
//! | `serve`, `view`, `zero_copy` | a table as S sees it, as Arrow arrays |

mod apply;
mod backlog;
mod bitmap;
mod clock;
mod column;
mod fixed;
mod index;
mod rows;
mod serve;
mod table;
mod text;
mod undo;
mod view;
mod zero_copy;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use plan::{RelationColumn, TableLayout};
use protocol::Snapshot;
use protocol::change::StreamMessage;
use protocol::control::ToWorker;
use protocol::request::{LoadRequest, Refusal, TableStatus};
use snapmem::{Mechanism, Pool};

use apply::Messages;
use backlog::Transaction;
use clock::{Clock, Delays};
use rows::Fault;
use table::Table;

pub use snapmem::OutOfMemory;
pub use view::{CHUNK_ROWS, Chunk, TableView};

/// All mirrored tables of a database. One thread owns it; views may go to any thread.
#[derive(Debug)]
pub struct Store {
    limits: Limits,
    pool: Pool,
    tables: HashMap<u32, Table>,
    events: Vec<ToWorker>,
    delays: Delays,
    clock: Clock,
    changes_applied: u64,
    /// Every view holds a clone.
    alive: Arc<()>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub memory_bytes: u64,
    pub undo_bytes: u64,
    pub undo_seconds: u64,
}

/// A table of a request.
#[derive(Clone, Debug)]
pub struct TableRequest {
    pub relid: u32,
    pub fingerprint: u64,
    pub columns: Vec<RelationColumn>,
}

/// The tables of a request, all as S sees them.
#[derive(Debug)]
pub struct Served {
    pub tables: Vec<Arc<dyn TableView>>,
    pub undone_transactions: u64,
    pub undone_changes: u64,
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
    pub transactions_applied: u64,
    pub changes_applied: u64,
    pub tables: Vec<TableStatus>,
}

impl Store {
    pub fn new(limits: Limits) -> Store {
        Store {
            limits,
            pool: Pool::new(limits.memory_bytes),
            tables: HashMap::new(),
            events: Vec::new(),
            delays: Delays::default(),
            clock: Clock::new(),
            changes_applied: 0,
            alive: Arc::new(()),
        }
    }

    /// `StreamMessage::Watch`: a new, empty table that is loading.
    pub fn watch(&mut self, generation: u64, layout: TableLayout) {
        self.tables.insert(layout.relid, Table::new(generation, layout, &self.pool));
    }

    /// `StreamMessage::Retire`. Views that are alive keep their rows.
    pub fn retire(&mut self, relid: u32) {
        self.tables.remove(&relid);
    }

    /// Whether changes of this table are wanted at all (watched and not broken).
    pub fn wants(&self, relid: u32) -> bool {
        self.tables.get(&relid).is_some_and(|table| !table.is_broken())
    }

    /// A whole committed transaction, in commit order: it becomes pending. `changes` is the concatenation of its
    /// Insert, Update and Delete messages as they came (each with its u32 length).
    pub fn transaction(&mut self, xid: u64, _lsn: u64, time: i64, changes: &[u8]) {
        let parts = match self.split_by_table(changes) {
            Ok(parts) => parts,
            // Whose change that was is unknown.
            Err(fault) => return self.break_all(fault),
        };
        for (i, (relid, changes)) in parts.into_iter().enumerate() {
            let counted = (i == 0).then_some(time);
            let transaction = Transaction { xid, counted, changes: changes.into() };
            let result = self.tables.get_mut(&relid).map_or(Ok(()), |table| table.enqueue(transaction));
            self.break_on_fault(relid, result.map_err(Fault::from));
        }
    }

    /// The messages of each table that wants them, still in order.
    fn split_by_table(&self, changes: &[u8]) -> Result<Vec<(u32, Vec<u8>)>, Fault> {
        let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut messages = Messages::new(changes);
        while let Some((message, bytes)) = messages.next()? {
            let (StreamMessage::Insert { relid, .. }
            | StreamMessage::Update { relid, .. }
            | StreamMessage::Delete { relid, .. }) = message
            else {
                return Err(Fault::Undecodable(format!("unexpected message {message:?}")));
            };
            match parts.iter_mut().find(|(part, _)| *part == relid) {
                Some((_, part)) => part.extend_from_slice(bytes),
                None if self.wants(relid) => parts.push((relid, bytes.to_vec())),
                None => {}
            }
        }
        Ok(parts)
    }

    /// Applies what `gate` sees, remembers it as a possible floor, and drops undo beyond the limits.
    pub fn gate(&mut self, gate: Snapshot) {
        let gate = Arc::new(gate);
        let now_ms = self.clock.millis();
        let relids: Vec<u32> = self.tables.keys().copied().collect();
        for &relid in &relids {
            loop {
                let more = self.apply_some(relid, &gate);
                if let Some(Ok(live)) = self.tables.get_mut(&relid).map(Table::live_mut) {
                    live.undo.mark(&gate, now_ms);
                }
                self.discard_undo_beyond_limit();
                if !more {
                    break;
                }
            }
        }
        self.discard_old_undo(now_ms.saturating_sub(self.limits.undo_seconds.saturating_mul(1000)));
    }

    /// Applies what `snapshot` sees of one table, or part of it; false if there was nothing.
    fn apply_some(&mut self, relid: u32, snapshot: &Snapshot) -> bool {
        let now_ms = self.clock.millis();
        let Some(table) = self.tables.get_mut(&relid) else { return false };
        match table.apply_some(snapshot, now_ms) {
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

    fn discard_old_undo(&mut self, before_ms: u64) {
        let relids: Vec<u32> = self.tables.keys().copied().collect();
        for relid in relids {
            while self.oldest_undo(relid).is_some_and(|at_ms| at_ms < before_ms) && self.discard_oldest(relid) > 0 {}
        }
    }

    /// The oldest first, whichever table it belongs to.
    fn discard_undo_beyond_limit(&mut self) {
        let mut stuck = Vec::new();
        loop {
            let mut excess = self.undo_bytes().saturating_sub(self.limits.undo_bytes);
            if excess == 0 {
                break;
            }
            let candidates = self.tables.keys().copied().filter(|relid| !stuck.contains(relid));
            let oldest = candidates.filter_map(|relid| Some((self.oldest_undo(relid)?, relid))).min();
            let Some((at_ms, relid)) = oldest else { break };
            // All that is as old, before the tables are compared again.
            while excess > 0 && self.oldest_undo(relid) == Some(at_ms) {
                let freed = self.discard_oldest(relid);
                if freed == 0 {
                    stuck.push(relid);
                    break;
                }
                excess = excess.saturating_sub(freed);
            }
        }
    }

    fn oldest_undo(&self, relid: u32) -> Option<u64> {
        self.tables.get(&relid)?.live().ok()?.undo.oldest_ms()
    }

    /// Bytes freed; 0 if there was nothing that may be discarded.
    fn discard_oldest(&mut self, relid: u32) -> u64 {
        let Some(table) = self.tables.get_mut(&relid) else { return 0 };
        table.discard_oldest().unwrap_or_else(|fault| {
            self.break_on_fault(relid, Err(fault));
            0
        })
    }

    pub fn load_begin(&mut self, request: &LoadRequest) -> Result<(), Refusal> {
        let relid = request.relid;
        let table = self.loading_table(relid, request.generation)?;
        if table.layout.fingerprint != request.fingerprint {
            return Err(Refusal::FingerprintDiffers { relid });
        }
        table.load_begin(request.snapshot.clone())
    }

    /// Rows as in `frame::Kind::Rows`.
    pub fn load_rows(&mut self, relid: u32, generation: u64, rows: &[u8]) -> Result<(), Refusal> {
        let result = self.loading_table(relid, generation)?.load_rows(rows)?;
        self.load_result(relid, result)
    }

    pub fn load_end(&mut self, relid: u32, generation: u64, rows: u64) -> Result<(), Refusal> {
        let result = self.loading_table(relid, generation)?.load_end(rows)?;
        if let Ok(rows) = result {
            self.events.push(ToWorker::Live { relid, generation, rows });
        }
        self.load_result(relid, result.map(|_| ()))
    }

    /// The loader went away: the table waits for another load of the same generation.
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

    /// The caller has made sure that the stream's position is at or beyond the request's L.
    pub fn serve(&mut self, snapshot: &Snapshot, tables: &[TableRequest]) -> Result<Served, Refusal> {
        for request in tables {
            let relid = request.relid;
            self.tables.get(&relid).ok_or(Refusal::NotMirrored { relid })?.check(request, snapshot)?;
        }
        let mut served = Served { tables: Vec::new(), undone_transactions: 0, undone_changes: 0 };
        for request in tables {
            while self.apply_some(request.relid, snapshot) {}
            let relid = request.relid;
            let table = self.tables.get_mut(&relid).ok_or(Refusal::NotMirrored { relid })?;
            let past = table.view(request, snapshot, &self.alive)?;
            served.tables.push(Arc::new(past.view));
            served.undone_transactions += past.undone_transactions;
            served.undone_changes += past.undone_changes;
        }
        Ok(served)
    }

    /// For a writer with nothing else to do: work now that spares queries some later. Returns whether there was any.
    pub fn tidy(&mut self) -> bool {
        let live = self.tables.values_mut().filter_map(|table| table.live_mut().ok());
        live.fold(false, |worked, live| live.rows.tidy() | worked)
    }

    /// A table with a fault is given up; the others go on.
    fn break_on_fault(&mut self, relid: u32, result: Result<(), Fault>) {
        let (Err(fault), Some(table)) = (result, self.tables.get_mut(&relid)) else { return };
        table.break_down();
        let (generation, error) = (table.generation, fault.is_error());
        self.events.push(ToWorker::Broken { relid, generation, error, reason: fault.to_string() });
    }

    fn break_all(&mut self, fault: Fault) {
        let relids: Vec<u32> = self.tables.keys().copied().filter(|&relid| self.wants(relid)).collect();
        for relid in relids {
            self.break_on_fault(relid, Err(Fault::Undecodable(fault.to_string())));
        }
    }

    /// Messages for the worker that have come up since the last call.
    pub fn take_events(&mut self) -> Vec<ToWorker> {
        std::mem::take(&mut self.events)
    }

    /// Microseconds (wall clock) from commit to apply, of transactions applied since the last call.
    pub fn take_apply_delays(&mut self) -> Vec<u64> {
        self.delays.take()
    }

    fn undo_bytes(&self) -> u64 {
        self.tables.values().filter_map(|table| table.live().ok()).map(|live| live.undo.bytes()).sum()
    }

    pub fn status(&self) -> StoreStatus {
        let live = || self.tables.values().filter_map(|table| table.live().ok());
        let mut tables: Vec<TableStatus> = self.tables.values().map(Table::status).collect();
        tables.sort_by_key(|table| table.relid);
        StoreStatus {
            mechanism: Mechanism::Epochs.name(),
            memory_bytes: self.pool.used(),
            undo_bytes: self.undo_bytes(),
            undo_transactions: live().map(|live| live.undo.len() as u64).sum(),
            pending_transactions: self.tables.values().map(Table::pending).sum(),
            live_snapshots: Arc::strong_count(&self.alive) as u64 - 1,
            copied_bytes: self.pool.copied(),
            transactions_applied: self.delays.total(),
            changes_applied: self.changes_applied,
            tables,
        }
    }
}
