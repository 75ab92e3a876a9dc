//! Shared memory: what launcher, workers, loaders and backends know of each other.
//!
//! Two small arrays under one lightweight lock: databases that are (to be) mirrored, and their tables. Everything here
//! is advice for routing and for the views; whether a query may be served is decided by the engine.

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};

const MAX_DATABASES: usize = 64;
const MAX_TABLES: usize = 1024;
const REASON_BYTES: usize = 192;

static STATE: PgLwLock<State> =
    // SAFETY: the name is ours alone.
    unsafe { PgLwLock::new(c"pg_anker") };

pub fn init() {
    pg_shmem_init!(STATE = State::EMPTY);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseState {
    /// No worker, and none is wanted.
    Idle,
    /// The launcher is to start a worker.
    Wanted,
    /// The worker is up, but does not decode yet (slot creation may wait for old transactions).
    Starting,
    /// Decoding.
    Running,
    /// The worker died or was stopped; the launcher waits before it starts another.
    Backoff,
    /// No worker may be started: the database is being dropped, renamed, moved or copied.
    Suspended,
}

impl DatabaseState {
    pub fn name(self) -> &'static str {
        match self {
            DatabaseState::Idle => "idle",
            DatabaseState::Wanted => "wanted",
            DatabaseState::Starting => "starting",
            DatabaseState::Running => "running",
            DatabaseState::Backoff => "waiting to restart",
            DatabaseState::Suspended => "suspended",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Database {
    pub oid: pg_sys::Oid,
    pub state: DatabaseState,
    /// 0: no worker.
    pub worker_pid: i32,
    /// Index of the worker's PGPROC, for its latch.
    worker_proc: i32,
    /// 0: no engine.
    pub engine_pid: i32,
    /// Position up to which the worker has decoded.
    pub decoded_lsn: u64,
    /// Position from which on the worker's slot keeps WAL; 0: no slot.
    pub retained_lsn: u64,
    /// The backend for which the database is suspended.
    pub suspended_by: i32,
    pub restarts: u64,
    /// Queries that were meant for the engine and ran on the heap.
    pub fallbacks: u64,
    pub reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableState {
    /// In `anker.mirrored`, not followed yet.
    Registered,
    /// Followed; its rows are being loaded.
    Loading,
    Live,
    /// Given up for now; it will be loaded again.
    Broken,
    /// Cannot be mirrored as it is defined now.
    Unsupported,
}

impl TableState {
    pub fn name(self) -> &'static str {
        match self {
            TableState::Registered => "registered",
            TableState::Loading => "loading",
            TableState::Live => "live",
            TableState::Broken => "broken",
            TableState::Unsupported => "unsupported",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub database: pg_sys::Oid,
    pub relid: pg_sys::Oid,
    pub state: TableState,
    pub generation: u64,
    /// Times that it was loaded anew, for whatever reason.
    pub rebuilds: u64,
    /// Faults among them: a row or key that was not where it should have been.
    pub errors: u64,
    pub reason: Reason,
}

/// A short text in shared memory.
#[derive(Clone, Copy)]
pub struct Reason {
    bytes: [u8; REASON_BYTES],
    length: u8,
}

impl Reason {
    pub const NONE: Reason = Reason { bytes: [0; REASON_BYTES], length: 0 };

    /// Cuts what is too long at a character's edge.
    pub fn new(text: &str) -> Reason {
        let mut length = text.len().min(REASON_BYTES);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let mut bytes = [0; REASON_BYTES];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Reason { bytes, length: length as u8 }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length as usize]).unwrap_or_default()
    }
}

impl std::fmt::Debug for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

#[derive(Clone, Copy)]
struct State {
    launcher_proc: i32,
    last_generation: u64,
    databases: [Option<Database>; MAX_DATABASES],
    tables: [Option<Table>; MAX_TABLES],
}

// SAFETY: plain data without pointers.
unsafe impl PGRXSharedMemory for State {}

impl State {
    const EMPTY: State =
        State { launcher_proc: -1, last_generation: 0, databases: [None; MAX_DATABASES], tables: [None; MAX_TABLES] };
}

// -- databases ---------------------------------------------------------------------------------------------------

pub fn databases() -> Vec<Database> {
    STATE.share().databases.iter().flatten().copied().collect()
}

pub fn database(oid: pg_sys::Oid) -> Option<Database> {
    STATE.share().databases.iter().flatten().find(|d| d.oid == oid).copied()
}

/// Changes a database's entry, which is made if it is not there. False: there is no room for another.
pub fn update_database(oid: pg_sys::Oid, change: impl FnOnce(&mut Database)) -> bool {
    let mut state = STATE.exclusive();
    let at = state.databases.iter().position(|d| d.is_some_and(|d| d.oid == oid));
    let Some(at) = at.or_else(|| state.databases.iter().position(Option::is_none)) else {
        return false;
    };
    change(state.databases[at].get_or_insert(Database {
        oid,
        state: DatabaseState::Idle,
        worker_pid: 0,
        worker_proc: -1,
        engine_pid: 0,
        decoded_lsn: 0,
        retained_lsn: 0,
        suspended_by: 0,
        restarts: 0,
        fallbacks: 0,
        reason: Reason::NONE,
    }));
    true
}

/// Forgets a database and its tables, unless somebody wants something of it.
pub fn remove_idle_database(oid: pg_sys::Oid) {
    let mut state = STATE.exclusive();
    let idle = |d: &Database| d.oid == oid && d.state == DatabaseState::Idle && d.worker_pid == 0;
    if !state.databases.iter().flatten().any(idle) {
        return;
    }
    state.databases.iter_mut().filter(|d| d.is_some_and(|d| d.oid == oid)).for_each(|d| *d = None);
    state.tables.iter_mut().filter(|t| t.is_some_and(|t| t.database == oid)).for_each(|t| *t = None);
}

// -- tables ------------------------------------------------------------------------------------------------------

pub fn tables_of(database: pg_sys::Oid) -> Vec<Table> {
    STATE.share().tables.iter().flatten().filter(|t| t.database == database).copied().collect()
}

pub fn table(database: pg_sys::Oid, relid: pg_sys::Oid) -> Option<Table> {
    STATE.share().tables.iter().flatten().find(|t| t.database == database && t.relid == relid).copied()
}

/// Changes a table's entry, which is made if it is not there. False: there is no room for another.
pub fn update_table(database: pg_sys::Oid, relid: pg_sys::Oid, change: impl FnOnce(&mut Table)) -> bool {
    let mut state = STATE.exclusive();
    let at = state.tables.iter().position(|t| t.is_some_and(|t| t.database == database && t.relid == relid));
    let Some(at) = at.or_else(|| state.tables.iter().position(Option::is_none)) else {
        return false;
    };
    change(state.tables[at].get_or_insert(Table {
        database,
        relid,
        state: TableState::Registered,
        generation: 0,
        rebuilds: 0,
        errors: 0,
        reason: Reason::NONE,
    }));
    true
}

/// A number for a table's mirror that no other one has had since the server started: a loader that outlives its worker
/// can then not be taken for one of the next worker's.
pub fn next_generation() -> u64 {
    let mut state = STATE.exclusive();
    state.last_generation += 1;
    state.last_generation
}

pub fn remove_table(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let mut state = STATE.exclusive();
    state
        .tables
        .iter_mut()
        .filter(|t| t.is_some_and(|t| t.database == database && t.relid == relid))
        .for_each(|t| *t = None);
}

/// Without a worker nothing is mirrored; what is registered will be again.
fn mark_tables_unserved(database: pg_sys::Oid) {
    let mut state = STATE.exclusive();
    for table in state.tables.iter_mut().flatten().filter(|t| t.database == database) {
        if matches!(table.state, TableState::Loading | TableState::Live | TableState::Broken) {
            table.state = TableState::Registered;
        }
    }
}

// -- waking ------------------------------------------------------------------------------------------------------

/// Called by the launcher when it starts.
pub fn announce_launcher() {
    STATE.exclusive().launcher_proc = my_proc_number();
}

pub fn wake_launcher() {
    let number = STATE.share().launcher_proc;
    set_latch(number);
}

/// Called by a capture worker when it starts.
pub fn announce_worker(database: pg_sys::Oid) -> bool {
    let number = my_proc_number();
    // SAFETY: a plain variable of this process.
    let pid = unsafe { pg_sys::MyProcPid };
    update_database(database, |d| {
        d.worker_proc = number;
        d.worker_pid = pid;
    })
}

/// Called when a capture worker's process ends, however it ends.
pub fn worker_left(database: pg_sys::Oid) {
    // SAFETY: a plain variable of this process.
    let pid = unsafe { pg_sys::MyProcPid };
    update_database(database, |d| {
        if d.worker_pid == pid {
            d.worker_pid = 0;
            d.worker_proc = -1;
            d.engine_pid = 0;
            d.retained_lsn = 0;
            if matches!(d.state, DatabaseState::Starting | DatabaseState::Running) {
                d.state = DatabaseState::Backoff;
            }
        }
    });
    mark_tables_unserved(database);
    wake_launcher();
}

/// Makes the database's capture worker look for WAL at once.
pub fn wake_worker(database: pg_sys::Oid) {
    if let Some(entry) = self::database(database).filter(|d| d.worker_pid != 0) {
        set_latch(entry.worker_proc);
    }
}

fn my_proc_number() -> i32 {
    // SAFETY: MyProc is set in every process attached to shared memory.
    unsafe { (*pg_sys::MyProc).pgprocno }
}

/// If the process is gone and its place taken, somebody wakes up for nothing: harmless.
fn set_latch(proc_number: i32) {
    if proc_number >= 0 {
        // SAFETY: the array of PGPROCs lives as long as the server, and its latches are meant to be set from anywhere.
        unsafe { pg_sys::SetLatch(&raw mut (*(*pg_sys::ProcGlobal).allProcs.add(proc_number as usize)).procLatch) };
    }
}
