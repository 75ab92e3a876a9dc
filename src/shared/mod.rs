//! Shared memory: what the launcher, workers, loaders and backends tell each other.
//!
//! Shared memory consists of hash tables, each under a lightweight lock: one of the databases that have or will have
//! mirrored tables, one of the mirrored tables, one of the loads that are running ([`loads`]), and one of the
//! statements that were meant for the engine ([`statements`]). All of this is only a hint for routing, and information
//! for the views. The engine itself decides whether it may answer a query.
//!
//! If the server was started without the library, there is no shared memory, and no table is mirrored.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use pgrx::prelude::*;

use crate::pg::catalog::relation_name;
use crate::pg::{compat, hooks, process, session, wal};
use crate::reason::{self, Why};
use crate::settings;

pub mod loads;
mod map;
mod saved;
pub mod silence;
pub mod statements;

use map::{Entry, Map};
use silence::Silence;

/// The greatest number of databases. Each needs a replication slot, so the server's own limits are reached long before.
const MAX_DATABASES: usize = 1024;
const REASON_BYTES: usize = 192;

static DATABASES: Map<Database> = Map::new(c"pg_anker databases");
static TABLES: Map<Table> = Map::new(c"pg_anker tables");
static GLOBALS: AtomicPtr<Globals> = AtomicPtr::new(ptr::null_mut());

/// The reason why nothing is mirrored on a server that was started without the library.
pub const NOT_LOADED: &str = "pg_anker is not in shared_preload_libraries";

/// State that exists once per server.
struct Globals {
    launcher_proc: AtomicI32,
    last_generation: AtomicU64,
    started: i64,
    statements: statements::History,
}

static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

pub fn init() {
    hooks::install!(shmem_request_hook, PREVIOUS_REQUEST, request);
    hooks::install!(shmem_startup_hook, PREVIOUS_STARTUP, startup);
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: the server calls this when extensions must request shared memory, and the previous hook expects the same.
    unsafe {
        if let Some(previous) = PREVIOUS_REQUEST {
            previous();
        }
        pg_sys::RequestAddinShmemSpace(size_of::<Globals>());
    }
    DATABASES.request(MAX_DATABASES);
    TABLES.request(settings::MAX_TABLES.get() as usize);
    loads::request();
    statements::request();
}

/// Initializes the memory when the server starts. Called again after a crash, when the memory is new.
#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: the postmaster calls this once shared memory exists. The structure has the requested size, and is filled
    // before any other process runs.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP {
            previous();
        }
        let mut found = false;
        let globals = pg_sys::ShmemInitStruct(c"pg_anker".as_ptr(), size_of::<Globals>(), &mut found).cast::<Globals>();
        globals.write(Globals {
            launcher_proc: AtomicI32::new(-1),
            last_generation: AtomicU64::new(0),
            started: session::now(),
            statements: statements::History::begin(),
        });
        GLOBALS.store(globals, Ordering::Relaxed);
    }
    DATABASES.create();
    TABLES.create();
    loads::create();
    statements::create();
    statements::keep_until_next_start();
}

/// Whether the server was started with the library.
pub fn is_there() -> bool {
    !GLOBALS.load(Ordering::Relaxed).is_null()
}

/// The server's state. To be called only if [`is_there`] is true.
fn globals() -> &'static Globals {
    assert!(is_there(), "{NOT_LOADED}");
    // SAFETY: the pointer is not null, because it is set at the start of the server, before any process exists that
    // could call this.
    unsafe { &*GLOBALS.load(Ordering::Relaxed) }
}

/// The time at which the server was started, or started again after a crash.
pub fn started() -> i64 {
    globals().started
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseState {
    /// There is no worker, and none is wanted.
    Idle,
    /// The launcher has to start a worker.
    Wanted,
    /// The worker runs, but does not decode yet, because the creation of its slot may wait for old transactions.
    Starting,
    /// The worker decodes.
    Running,
    /// The worker died or was stopped. The launcher waits before it starts another one.
    Backoff,
    /// No worker may be started, because the database is being dropped, renamed, moved or copied.
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
#[repr(C)]
pub struct Database {
    pub oid: pg_sys::Oid,
    pub state: DatabaseState,
    /// The worker's pid; 0 if there is no worker.
    pub worker_pid: i32,
    /// The index of the worker's PGPROC. It is needed to set the worker's latch.
    worker_proc: i32,
    /// The engine's pid; 0 if there is no engine.
    pub engine_pid: i32,
    /// The position up to which the worker has decoded.
    pub decoded_lsn: u64,
    /// The first position that the worker's slot keeps in the WAL; 0 if there is no slot.
    pub retained_lsn: u64,
    /// How often and until when queries have given up waiting for the engine.
    silence: Silence,
    /// The pid of the backend for which the database is suspended.
    pub suspended_by: i32,
    pub restarts: u64,
    /// The number of queries that were meant for the engine and ran on the heap.
    pub fallbacks: u64,
    /// The number of these queries for each reason, in the order of [`Why::ALL`].
    pub reasons: [u64; Why::ALL.len()],
    pub reason: FixedText,
}

// SAFETY: plain data that begins with its key.
unsafe impl Entry for Database {
    type Key = pg_sys::Oid;

    fn key(&self) -> pg_sys::Oid {
        self.oid
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableState {
    /// The table is in `anker.mirrored`, but is not followed yet.
    Registered,
    /// The table is followed, and its rows are being loaded.
    Loading,
    Live,
    /// The table was given up for now, and will be loaded again.
    Broken,
    /// The table cannot be mirrored as it is defined now.
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
#[repr(C)]
pub struct Table {
    pub database: pg_sys::Oid,
    pub relid: pg_sys::Oid,
    pub state: TableState,
    pub generation: u64,
    /// The fingerprint of the table's definition with which the table is followed.
    pub fingerprint: u64,
    /// The last generation that a loader has tried to load.
    pub tried: u64,
    /// The last generation in whose load a row was too long for the mirror.
    pub too_wide: u64,
    /// The number of times that the table was loaded again, for any reason.
    pub rebuilds: u64,
    /// The number of those loads that were caused by a fault: a row or key was not found where it should have been.
    pub errors: u64,
    pub reason: FixedText,
}

// SAFETY: plain data that begins with its key, two oids.
unsafe impl Entry for Table {
    type Key = [pg_sys::Oid; 2];

    fn key(&self) -> [pg_sys::Oid; 2] {
        [self.database, self.relid]
    }
}

/// A short text in shared memory.
#[derive(Clone, Copy)]
pub struct FixedText {
    bytes: [u8; REASON_BYTES],
    length: u8,
}

impl FixedText {
    pub const NONE: FixedText = FixedText { bytes: [0; REASON_BYTES], length: 0 };

    /// A text. If it is too long, it is cut between two characters.
    pub fn new(text: &str) -> FixedText {
        let mut length = text.len().min(REASON_BYTES);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let mut bytes = [0; REASON_BYTES];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        FixedText { bytes, length: length as u8 }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length as usize]).unwrap_or_default()
    }
}

impl std::fmt::Debug for FixedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

// -- databases ---------------------------------------------------------------------------------------------------

pub fn databases() -> Vec<Database> {
    let mut all = Vec::new();
    DATABASES.for_each(|database| all.push(*database));
    all
}

pub fn database(oid: pg_sys::Oid) -> Option<Database> {
    DATABASES.get(oid)
}

/// Changes a database's entry. If it does not exist, it is created first; false if there is no room for it.
pub fn update_database(oid: pg_sys::Oid, change: impl FnOnce(&mut Database)) -> bool {
    let new = Database {
        oid,
        state: DatabaseState::Idle,
        worker_pid: 0,
        worker_proc: -1,
        engine_pid: 0,
        decoded_lsn: 0,
        retained_lsn: 0,
        silence: Silence::NONE,
        suspended_by: 0,
        restarts: 0,
        fallbacks: 0,
        reasons: [0; Why::ALL.len()],
        reason: FixedText::NONE,
    };
    DATABASES.change_or_insert(new, change).is_some()
}

/// Sets the state of a database, and applies `change` to its entry. Returns false if there is no room for the entry.
/// Also returns false if the database is suspended, because only the process that suspended a database may end the
/// suspension.
pub fn set_state(oid: pg_sys::Oid, state: DatabaseState, change: impl FnOnce(&mut Database)) -> bool {
    let mut taken = false;
    update_database(oid, |d| {
        if d.state != DatabaseState::Suspended {
            taken = true;
            d.state = state;
            change(d);
        }
    }) && taken
}

/// Removes the entries of a database and its tables, unless the database has a worker or needs one.
pub fn remove_idle_database(oid: pg_sys::Oid) {
    let mut removed = false;
    DATABASES.retain(|d| {
        let idle = d.oid == oid && d.state == DatabaseState::Idle && d.worker_pid == 0;
        removed |= idle;
        !idle
    });
    if removed {
        TABLES.retain(|t| t.database != oid);
    }
}

// -- tables ------------------------------------------------------------------------------------------------------

pub fn tables_of(database: pg_sys::Oid) -> Vec<Table> {
    let mut tables = Vec::new();
    TABLES.for_each(|table| tables.extend((table.database == database).then_some(*table)));
    tables
}

pub fn table(database: pg_sys::Oid, relid: pg_sys::Oid) -> Option<Table> {
    TABLES.get([database, relid])
}

/// Changes a table's entry. If it does not exist, it is created first; false if there is no room for it.
pub fn update_table(database: pg_sys::Oid, relid: pg_sys::Oid, change: impl FnOnce(&mut Table)) -> bool {
    let new = Table {
        database,
        relid,
        state: TableState::Registered,
        generation: 0,
        fingerprint: 0,
        tried: 0,
        too_wide: 0,
        rebuilds: 0,
        errors: 0,
        reason: FixedText::NONE,
    };
    TABLES.change_or_insert(new, change).is_some()
}

/// Changes a table's entry, if the entry exists and has this generation.
pub fn update_generation(database: pg_sys::Oid, relid: pg_sys::Oid, generation: u64, change: impl FnOnce(&mut Table)) {
    TABLES.change([database, relid], |table| {
        if table.generation == generation {
            change(table);
        }
    });
}

/// The number of further tables for which there is room, in all databases together.
pub fn room_for_tables() -> usize {
    TABLES.room()
}

/// A generation for a table's mirror, which no other mirror has had since the server started. So a loader that outlives
/// its worker cannot be taken for a loader of the next worker.
pub fn next_generation() -> u64 {
    globals().last_generation.fetch_add(1, Ordering::Relaxed) + 1
}

pub fn remove_table(database: pg_sys::Oid, relid: pg_sys::Oid) {
    TABLES.remove([database, relid]);
}

/// Removes the entries of those tables of a database that its worker does not know.
pub fn retain_tables(database: pg_sys::Oid, known: impl Fn(u32) -> bool) {
    TABLES.retain(|t| t.database != database || known(t.relid.to_u32()));
}

/// Marks the tables of a database that has lost its worker. They serve no queries until another worker registers them.
fn mark_tables_unserved(database: pg_sys::Oid) {
    TABLES.for_each_mut(|table| {
        let served = matches!(table.state, TableState::Loading | TableState::Live | TableState::Broken);
        if table.database == database && served {
            table.state = TableState::Registered;
        }
    });
}

// -- waking ------------------------------------------------------------------------------------------------------

/// Records the launcher's latch. Called by the launcher when it starts.
pub fn announce_launcher() {
    globals().launcher_proc.store(compat::own_process_number(), Ordering::Relaxed);
}

pub fn wake_launcher() {
    process::wake(globals().launcher_proc.load(Ordering::Relaxed));
}

/// Asks the launcher to start a worker for the database, unless it has one.
pub fn want(database: pg_sys::Oid) {
    update_database(database, |d| {
        if d.state == DatabaseState::Idle {
            d.state = DatabaseState::Wanted;
        }
    });
    wake_launcher();
}

/// Records a capture worker that has started, and returns the state of its database. `None` if there is no room for the
/// database's entry.
pub fn announce_worker(database: pg_sys::Oid) -> Option<DatabaseState> {
    let number = compat::own_process_number();
    let pid = session::pid();
    let mut state = None;
    update_database(database, |d| {
        d.worker_proc = number;
        d.worker_pid = pid;
        state = Some(d.state);
    });
    state
}

/// Removes the capture worker from its database's entry. Called when its process ends, for any reason.
pub fn worker_left(database: pg_sys::Oid) {
    let pid = session::pid();
    update_database(database, |d| {
        if d.worker_pid == pid {
            d.worker_pid = 0;
            d.worker_proc = -1;
            d.engine_pid = 0;
            d.retained_lsn = 0;
            if matches!(d.state, DatabaseState::Starting | DatabaseState::Running) {
                d.state = DatabaseState::Backoff;
                d.reason = FixedText::new("the capture worker was ended");
            }
        }
    });
    mark_tables_unserved(database);
    wake_launcher();
}

/// Makes the database's capture worker look for new WAL at once.
pub fn wake_worker(database: pg_sys::Oid) {
    if let Some(entry) = self::database(database).filter(|d| d.worker_pid != 0) {
        process::wake(entry.worker_proc);
    }
}

/// The reason why a table has no entry in shared memory.
pub fn why_not_mirrored(database: pg_sys::Oid, relid: pg_sys::Oid) -> reason::Reason {
    let name = relation_name(relid);
    Why::NotMirrored.of(match self::database(database) {
        _ if !is_there() => format!("table \"{name}\" is not mirrored: {NOT_LOADED}"),
        _ if !wal::is_logical() => format!("table \"{name}\" is not mirrored: {}", wal::NOT_LOGICAL),
        Some(d) => match why_not_followed(&d) {
            Some(why) => format!("table \"{name}\" is not mirrored as yet; the mirror of this database: {why}"),
            None => format!("table \"{name}\" is not mirrored"),
        },
        None => format!("table \"{name}\" is not mirrored"),
    })
}

/// The reason why the mirror of a table does not serve queries.
pub fn why_not_live(database: pg_sys::Oid, relid: pg_sys::Oid, table: &Table) -> reason::Reason {
    let (name, state) = (relation_name(relid), table.state.name());
    let database = self::database(database);
    Why::NotLive.of(match (table.reason.as_str(), database.as_ref().and_then(why_not_followed)) {
        ("", None) => format!("mirror of table \"{name}\" is {state}"),
        ("", Some(why)) => format!("mirror of table \"{name}\" is {state}; the mirror of this database: {why}"),
        (why, _) => format!("mirror of table \"{name}\" is {state}: {why}"),
    })
}

/// The reason why no worker follows the tables of a database; `None` if one does, or if there are no tables.
fn why_not_followed(database: &Database) -> Option<&str> {
    match (database.state, database.reason.as_str()) {
        (DatabaseState::Idle | DatabaseState::Running, _) => None,
        (state, "") => Some(state.name()),
        (_, reason) => Some(reason),
    }
}
