//! The loads that are running, which the view `anker.loads` shows.
//!
//! A loader has one entry while it loads a table. It changes the entry once for each piece that it sends to the engine,
//! not for each row.

use pgrx::prelude::*;

use super::map::{Entry, Map};
use crate::pg::session;

static LOADS: Map<Load> = Map::new(c"pg_anker loads");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The loader waits for a lock on the table, for a snapshot, or for the engine.
    Initializing,
    /// The loader looks for blocks that were changed since a checkpoint.
    Comparing,
    Scanning,
    /// All rows were sent, and the engine has not taken all of them yet.
    Finishing,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Initializing => "initializing",
            Phase::Comparing => "comparing with checkpoint",
            Phase::Scanning => "scanning heap",
            Phase::Finishing => "finishing",
        }
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Load {
    /// The loader's pid.
    pub pid: i32,
    pub database: pg_sys::Oid,
    pub relid: pg_sys::Oid,
    pub phase: Phase,
    /// The start of the load, in microseconds since the server's epoch.
    pub started: i64,
    pub blocks: u64,
    pub blocks_read: u64,
    pub rows: u64,
    pub bytes: u64,
}

// SAFETY: plain data that begins with its key.
unsafe impl Entry for Load {
    type Key = i32;

    fn key(&self) -> i32 {
        self.pid
    }
}

/// Each loader is a background worker, so there are never more of them than the server has background workers.
pub(super) fn request() {
    LOADS.request(session::max_worker_processes());
}

pub(super) fn create() {
    LOADS.create();
}

/// The loads in a database.
pub fn of_database(database: pg_sys::Oid) -> Vec<Load> {
    let mut loads = Vec::new();
    LOADS.for_each(|load| loads.extend((load.database == database).then_some(*load)));
    loads
}

/// Shows that this process begins to load a table.
pub fn begin(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let (phase, started) = (Phase::Initializing, session::now());
    let new =
        Load { pid: session::pid(), database, relid, phase, started, blocks: 0, blocks_read: 0, rows: 0, bytes: 0 };
    LOADS.change_or_insert(new, |load| *load = new);
}

/// Changes the entry of this process.
pub fn update(change: impl FnOnce(&mut Load)) {
    LOADS.change(session::pid(), change);
}

/// Removes the entry of this process.
pub fn end() {
    LOADS.remove(session::pid());
}
