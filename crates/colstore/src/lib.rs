//! The columnar mirror: columns, key index, undo, apply, and serving a snapshot exactly. See docs/internals.md.

mod view;

use std::sync::Arc;

use plan::{RelationColumn, TableLayout};
use protocol::Snapshot;
use protocol::control::ToWorker;
use protocol::request::{LoadRequest, Refusal, TableStatus};

pub use view::{CHUNK_ROWS, Chunk, TableView};

/// All mirrored tables of a database. One thread owns it; views may go to any thread.
pub struct Store {}

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

#[allow(unused_variables, clippy::todo)]
impl Store {
    pub fn new(limits: Limits) -> Store {
        todo!()
    }
    /// `StreamMessage::Watch`: a new, empty table that is loading.
    pub fn watch(&mut self, generation: u64, layout: TableLayout) {
        todo!()
    }
    /// `StreamMessage::Retire`. Views that are alive keep their rows.
    pub fn retire(&mut self, relid: u32) {
        todo!()
    }
    /// Whether changes of this table are wanted at all (watched and not broken).
    pub fn wants(&self, relid: u32) -> bool {
        todo!()
    }
    /// A whole committed transaction, in commit order: it becomes pending. `changes` is the concatenation of its
    /// Insert, Update and Delete messages as they came (each with its u32 length).
    pub fn transaction(&mut self, xid: u64, lsn: u64, time: i64, changes: &[u8]) {
        todo!()
    }
    /// Applies what `gate` sees, remembers it as a possible floor, and drops undo beyond the limits.
    pub fn gate(&mut self, gate: Snapshot) {
        todo!()
    }
    pub fn load_begin(&mut self, request: &LoadRequest) -> Result<(), Refusal> {
        todo!()
    }
    /// Rows as in `frame::Kind::Rows`.
    pub fn load_rows(&mut self, relid: u32, generation: u64, rows: &[u8]) -> Result<(), Refusal> {
        todo!()
    }
    pub fn load_end(&mut self, relid: u32, generation: u64, rows: u64) -> Result<(), Refusal> {
        todo!()
    }
    /// The loader went away: the table waits for another load of the same generation.
    pub fn load_abort(&mut self, relid: u32, generation: u64) {
        todo!()
    }
    /// The caller has made sure that the stream's position is at or beyond the request's L.
    pub fn serve(&mut self, snapshot: &Snapshot, tables: &[TableRequest]) -> Result<Served, Refusal> {
        todo!()
    }
    /// Messages for the worker that have come up since the last call.
    pub fn take_events(&mut self) -> Vec<ToWorker> {
        todo!()
    }
    /// Microseconds (wall clock) from commit to apply, of transactions applied since the last call.
    pub fn take_apply_delays(&mut self) -> Vec<u64> {
        todo!()
    }
    pub fn status(&self) -> StoreStatus {
        todo!()
    }
}
