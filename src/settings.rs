//! The `anker.*` settings: one place for names, defaults, units and descriptions, which docs/settings.md repeats.

use std::time::Duration;

use pgrx::prelude::*;
use pgrx::{GucContext, GucEnum, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use protocol::mechanism::NAMES;
use protocol::request::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Route {
    /// The engine gets queries that call `anker.olap()`.
    #[name = c"hint"]
    Hint,
    /// The engine gets queries that call `anker.olap()`, and every other query that would take longer on the heap.
    #[name = c"auto"]
    Auto,
    /// The engine gets every query that it can answer exactly.
    #[name = c"prefer"]
    Prefer,
    /// The engine gets every query, and a query that it cannot answer is an error. If all tables of the query are
    /// mirrored, the error is raised when the query is planned, otherwise when the query runs.
    #[name = c"force"]
    Force,
    /// The engine gets no query.
    #[name = c"off"]
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum FloatAggregates {
    /// Sums of floats run in the engine, which adds the rows in any order.
    #[name = c"on"]
    On,
    /// Sums of floats run on the heap.
    #[name = c"heap"]
    Heap,
}

/// The way in which the engine snapshots its columns, as an index into [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism(usize);

impl Mechanism {
    const AUTO: Mechanism = Mechanism(0);

    fn name(self) -> &'static str {
        NAMES[self.0].text()
    }
}

/// The entries of [`NAMES`] in PostgreSQL's form, with the entry that ends the list.
struct Entries([pg_sys::config_enum_entry; NAMES.len() + 1]);

// SAFETY: the entries are constant, and so are the names that they point to.
unsafe impl Sync for Entries {}

static ENTRIES: Entries = {
    let end = pg_sys::config_enum_entry { name: std::ptr::null(), val: 0, hidden: false };
    let mut entries = [end; NAMES.len() + 1];
    let mut place = 0;
    while place < NAMES.len() {
        entries[place].name = NAMES[place].c_str().as_ptr();
        entries[place].val = place as i32;
        place += 1;
    }
    Entries(entries)
};

// SAFETY: the entries are static, the last one has no name, and `from_ordinal` takes the ordinal of each.
unsafe impl GucEnum for Mechanism {
    fn from_ordinal(ordinal: i32) -> Mechanism {
        Mechanism(ordinal as usize)
    }

    fn to_ordinal(&self) -> i32 {
        self.0 as i32
    }

    const CONFIG_ENUM_ENTRY: *const pg_sys::config_enum_entry = ENTRIES.0.as_ptr();
}

pub static ROUTE: GucSetting<Route> = GucSetting::<Route>::new(Route::Hint);
pub static FALLBACK: GucSetting<bool> = GucSetting::<bool>::new(true);
pub static FLOAT_AGGREGATES: GucSetting<FloatAggregates> = GucSetting::<FloatAggregates>::new(FloatAggregates::On);
pub static MAX_SENT_KB: GucSetting<i32> = GucSetting::<i32>::new(8192);
pub static MAX_WAIT_MS: GucSetting<i32> = GucSetting::<i32>::new(1000);
pub static EXPLAIN_WAIT_MS: GucSetting<i32> = GucSetting::<i32>::new(2000);
pub static MEMORY_MB: GucSetting<i32> = GucSetting::<i32>::new(1024);
pub static QUERY_MEMORY_MB: GucSetting<i32> = GucSetting::<i32>::new(512);
pub static QUERY_DISK_MB: GucSetting<i32> = GucSetting::<i32>::new(10_240);
pub static CHECKPOINT_INTERVAL_S: GucSetting<i32> = GucSetting::<i32>::new(300);
pub static CHECKPOINT_DISK_MB: GucSetting<i32> = GucSetting::<i32>::new(65_536);
pub static UNDO_MEMORY_MB: GucSetting<i32> = GucSetting::<i32>::new(128);
pub static UNDO_TIME_S: GucSetting<i32> = GucSetting::<i32>::new(60);
pub static QUERY_NICE: GucSetting<i32> = GucSetting::<i32>::new(0);
pub static QUERY_THREADS: GucSetting<i32> = GucSetting::<i32>::new(2);
pub static MAX_QUERIES: GucSetting<i32> = GucSetting::<i32>::new(8);
pub static MAX_USER_QUERIES: GucSetting<i32> = GucSetting::<i32>::new(-1);
pub static MAX_QUERY_MEMORY_MB: GucSetting<i32> = GucSetting::<i32>::new(-1);
pub static MAX_QUERY_TIME_MS: GucSetting<i32> = GucSetting::<i32>::new(0);
pub static MECHANISM: GucSetting<Mechanism> = GucSetting::<Mechanism>::new(Mechanism::AUTO);
pub static STARTUP_COST: GucSetting<f64> = GucSetting::<f64>::new(100.0);
pub static VALUE_COST: GucSetting<f64> = GucSetting::<f64>::new(0.0001);
pub static ROW_COST: GucSetting<f64> = GucSetting::<f64>::new(0.001);
pub static RESULT_COST: GucSetting<f64> = GucSetting::<f64>::new(0.003);
pub static JOIN_ORDER_SEED: GucSetting<i32> = GucSetting::<i32>::new(0);
pub static MAX_ROW_MB: GucSetting<i32> = GucSetting::<i32>::new(16);
pub static MAX_TABLES: GucSetting<i32> = GucSetting::<i32>::new(32_768);
pub static MAX_STATEMENTS: GucSetting<i32> = GucSetting::<i32>::new(1000);
pub static STATEMENTS_SAVE: GucSetting<bool> = GucSetting::<bool>::new(true);
pub static MAX_WAL_RETAINED_MB: GucSetting<i32> = GucSetting::<i32>::new(4096);

pub fn init() {
    GucRegistry::define_enum_guc(
        c"anker.route",
        c"Which queries run in the columnar engine.",
        c"hint: those that call anker.olap(); auto: those, and all that would take longer on the heap by the costs of both; prefer: all that it can answer exactly; force: as prefer, but a query on mirrored tables that does not run there is an error; off: none.",
        &ROUTE,
        GucContext::Userset,
        // Clients are told of changes, so that a pooler can set what its client has set.
        GucFlags::EXPLAIN | GucFlags::REPORT,
    );
    GucRegistry::define_bool_guc(
        c"anker.fallback",
        c"Runs a query on the heap when the engine cannot answer it.",
        c"When off, such a query is an error that names the reason.",
        &FALLBACK,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_enum_guc(
        c"anker.float_aggregates",
        c"Where aggregates of floats are computed whose last digits depend on the order of rows.",
        c"on: in the engine, as exact as any order that PostgreSQL could choose; heap: on the heap.",
        &FLOAT_AGGREGATES,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_enum_guc(
        c"anker.mechanism",
        c"How the engine snapshots its columns.",
        c"auto: in the best way that there is. Without one that the kernel lacks nothing is mirrored, and queries run on the heap. Takes effect when the engine starts.",
        &MECHANISM,
        GucContext::Sighup,
        GucFlags::default(),
    );
    let int = |name, short, long, setting, min, max, context, unit| {
        GucRegistry::define_int_guc(name, short, long, setting, min, max, context, unit)
    };
    int(
        c"anker.max_wait",
        c"How long a query waits for the mirror to have caught up with its snapshot, and then for a place in the engine.",
        c"After that it runs on the heap.",
        &MAX_WAIT_MS,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    int(
        c"anker.explain_wait",
        c"How long EXPLAIN waits for the engine to tell its plan.",
        c"After that it goes without; 0: the engine is not asked.",
        &EXPLAIN_WAIT_MS,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    int(
        c"anker.max_sent",
        c"How much a query may send to the engine of rows that it does not have.",
        c"PostgreSQL computes those of tables that are not mirrored, of functions, and of subqueries that the engine cannot compute. A query that needs more runs on the heap; 0: none are sent.",
        &MAX_SENT_KB,
        0,
        1 << 20,
        GucContext::Userset,
        GucFlags::UNIT_KB | GucFlags::EXPLAIN,
    );
    int(
        c"anker.memory",
        c"Memory for the mirror of each database: columns, indexes, undo.",
        c"A table that does not fit is given up; its queries run on the heap. Takes effect when the engine starts.",
        &MEMORY_MB,
        16,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.query_memory",
        c"Working memory of all engine queries of a database together.",
        c"Joins, groups and sorts that need more go to disk; other queries that do run on the heap. Takes effect when the engine starts.",
        &QUERY_MEMORY_MB,
        1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.query_disk",
        c"What all engine queries of a database together may put on disk when anker.query_memory does not suffice.",
        c"A query that needs more runs on the heap; 0: nothing is put there. Takes effect when the engine starts.",
        &QUERY_DISK_MB,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.checkpoint_interval",
        c"How often the engine writes what has changed in its columns to disk, so that a restart need not read the tables again.",
        c"0: never. Takes effect when the engine starts.",
        &CHECKPOINT_INTERVAL_S,
        0,
        86_400,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    int(
        c"anker.checkpoint_disk",
        c"What the checkpoints of a database's columns may take on disk.",
        c"Tables that need more are loaded from the heap after a restart. Takes effect when the engine starts.",
        &CHECKPOINT_DISK_MB,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.undo_memory",
        c"Memory for old versions, part of anker.memory.",
        c"Older snapshots than it reaches back to read the heap. Takes effect when the engine starts.",
        &UNDO_MEMORY_MB,
        1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.undo_time",
        c"How long old versions are kept for older snapshots.",
        c"Takes effect when the engine starts.",
        &UNDO_TIME_S,
        1,
        86_400,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    int(
        c"anker.query_threads",
        c"Threads that one engine query may use.",
        c"The engine keeps the value of its start; a session can only have less.",
        &QUERY_THREADS,
        1,
        256,
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"anker.max_queries",
        c"Engine queries of a database that run at once; others queue, for anker.max_wait.",
        c"One more may run of a user who has none running. Takes effect when the engine starts.",
        &MAX_QUERIES,
        1,
        1024,
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"anker.query_nice",
        c"How far engine queries stand back when processors are short.",
        c"Added to the nice value of the threads that run them; 0: as urgent as a server process. The engine keeps the value of its start; a session can only have more.",
        &QUERY_NICE,
        0,
        19,
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"anker.max_user_queries",
        c"Engine queries of one user that run at once in a database; others queue, for anker.max_wait.",
        c"The user is the role that has connected. 0: none may run in the engine; -1: as many as anker.max_queries allows.",
        &MAX_USER_QUERIES,
        -1,
        1024,
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"anker.max_query_memory",
        c"Working memory that one engine query may have, within anker.query_memory.",
        c"Joins, groups and sorts that need more go to disk; other queries that do run on the heap; -1: no limit of its own.",
        &MAX_QUERY_MEMORY_MB,
        -1,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.max_query_time",
        c"How long the engine may work on one query.",
        c"A query that takes longer is cancelled with an error; 0: no limit.",
        &MAX_QUERY_TIME_MS,
        0,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    int(
        c"anker.join_order_seed",
        c"Joins in a random order, another one for each number.",
        c"To compare the engine's own order with; 0: that one.",
        &JOIN_ORDER_SEED,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::default(),
    );
    int(
        c"anker.max_wal_retained",
        c"WAL that a database's mirror may hold back.",
        c"Beyond it the mirror is dropped and built anew, so that no disk fills up because of it.",
        &MAX_WAL_RETAINED_MB,
        16,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.max_row",
        c"The most bytes of a mirrored row.",
        c"A table with a longer row is given up; its queries run on the heap. The capture worker and a loader need a few times as much memory for a row.",
        &MAX_ROW_MB,
        1,
        1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    int(
        c"anker.max_tables",
        c"Mirrored tables of all databases together.",
        c"Each takes some 300 bytes of shared memory, mirrored or not.",
        &MAX_TABLES,
        1,
        10_000_000,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    int(
        c"anker.max_statements",
        c"Statements that anker.statements counts.",
        c"Those that are used least make room for others. Each takes some 700 bytes of shared memory; 0: none are counted.",
        &MAX_STATEMENTS,
        0,
        1_000_000,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"anker.statements_save",
        c"Keeps anker.statements while the server is stopped.",
        c"",
        &STATEMENTS_SAVE,
        GucContext::Sighup,
        GucFlags::default(),
    );
    let cost = |name, short, long, setting| {
        let (context, flags) = (GucContext::Userset, GucFlags::EXPLAIN);
        GucRegistry::define_float_guc(name, short, long, setting, 0.0, f64::MAX, context, flags)
    };
    cost(
        c"anker.engine_startup_cost",
        c"What any query costs in the columnar engine, in the units of the planner's costs.",
        c"With anker.route = auto a query stays on the heap that costs no more there.",
        &STARTUP_COST,
    );
    cost(
        c"anker.engine_value_cost",
        c"What it costs the columnar engine to read a value, or to compute one, in the units of the planner's costs.",
        c"A text counts as four values, a long number as two.",
        &VALUE_COST,
    );
    cost(
        c"anker.engine_row_cost",
        c"What it costs the columnar engine to join or group a row, in the units of the planner's costs.",
        c"",
        &ROW_COST,
    );
    cost(
        c"anker.engine_result_cost",
        c"What it costs to return a value of the columnar engine's result, in the units of the planner's costs.",
        c"The row counts as one value more. Not reckoned for rows that go on to the client as they are.",
        &RESULT_COST,
    );
    // SAFETY: the argument is a constant string. This runs on the main thread, after the settings above were defined.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"anker".as_ptr()) };
}

/// The seed of a random order of joins, which replaces the order that the optimizer would choose; `None` if not set.
pub fn random_joins() -> Option<u64> {
    Some(JOIN_ORDER_SEED.get() as u64).filter(|seed| *seed > 0)
}

/// The costs with which `anker.route = auto` compares the engine to the heap.
pub fn engine_costs() -> route::Costs {
    route::Costs {
        startup: STARTUP_COST.get(),
        value: VALUE_COST.get(),
        row: ROW_COST.get(),
        result: RESULT_COST.get(),
    }
}

/// The greatest length of a mirrored row in bytes.
pub fn max_row_bytes() -> usize {
    (MAX_ROW_MB.get() as usize) << 20
}

/// The reason why a table with a longer row is not mirrored.
pub fn too_wide() -> String {
    format!("a row is longer than anker.max_row = {} MB", MAX_ROW_MB.get())
}

/// The limits of a query of this session, without that of the disk.
pub fn query_limits() -> Limits {
    let megabytes = |mb: i32| u64::try_from(mb).ok().map(|mb| mb << 20);
    Limits {
        threads: QUERY_THREADS.get() as u32,
        memory_bytes: megabytes(MAX_QUERY_MEMORY_MB.get()),
        disk_bytes: None,
        nice: QUERY_NICE.get() as u32,
        user_queries: u32::try_from(MAX_USER_QUERIES.get()).ok(),
    }
}

/// The time for which a query may wait for the engine's work; `None` without a limit.
pub fn max_query_time() -> Option<Duration> {
    u64::try_from(MAX_QUERY_TIME_MS.get()).ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// The settings with which the engine is started.
pub fn engine_settings() -> protocol::control::Settings {
    let bytes = |mb: i32| (mb as u64) << 20;
    protocol::control::Settings {
        memory_bytes: bytes(MEMORY_MB.get()),
        query_memory_bytes: bytes(QUERY_MEMORY_MB.get()),
        query_disk_bytes: bytes(QUERY_DISK_MB.get()),
        checkpoint_seconds: CHECKPOINT_INTERVAL_S.get() as u64,
        checkpoint_bytes: bytes(CHECKPOINT_DISK_MB.get()),
        undo_bytes: bytes(UNDO_MEMORY_MB.get()),
        undo_seconds: UNDO_TIME_S.get() as u64,
        query_threads: QUERY_THREADS.get() as u32,
        max_queries: MAX_QUERIES.get() as u32,
        query_nice: QUERY_NICE.get() as u32,
        mechanism: MECHANISM.get().name().into(),
        ..Default::default()
    }
}
