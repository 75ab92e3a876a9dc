//! Requests on the engine's unix socket, and their answers. Every message is one [`crate::frame::Frame`].
//!
//! ```text
//!  backend: Hello, [rows,] Request::Query         loader: Hello, Request::Load
//!  engine:  Refused                               engine: Refused or Go
//!        or Ready, Arrow*, Done                   loader: [Changed*,] Rows*, LoadEnd
//!        or Ready, Arrow*, Failed                 engine: Loaded or Refused
//!        or Ready, Refused
//!
//!  backend: Hello, Request::Explain               backend: Hello, Request::Survey
//!  engine:  Refused, Failed or Plan               engine:  Refused or Survey
//! ```
//!
//! Each Arrow frame contains whole messages of one Arrow IPC stream. While a client waits for a frame, Alive frames may
//! come instead, about one in [`crate::frame::ALIVE_INTERVAL`]. If an engine sends nothing at all for longer, it hangs.
//! After Ready, Phase frames tell a query that has to queue when that begins and ends.
//!
//! A client cancels a query by closing the connection.

pub use plan::FailureKind;
use plan::{Literal, Plan};
use serde::{Deserialize, Serialize};

use crate::Snapshot;
use crate::frame::{HEADER, Kind, encode_header};
use crate::survey::SurveyRequest;
use crate::tree::EnginePlan;

/// The first message on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Query(Box<QueryRequest>),
    Explain(Box<ExplainRequest>),
    Load(LoadRequest),
    Survey(SurveyRequest),
    Status,
    /// Asks for the queries that are open.
    Activity,
    /// Asks for a checkpoint now.
    Checkpoint,
}

/// A checkpoint that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointReport {
    pub tables: u64,
    pub rows: u64,
    pub bytes_written: u64,
    pub elapsed_us: u64,
}

/// The last checkpoint, or the last attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStatus {
    /// The start, in microseconds since 2000-01-01; 0 if there was none.
    pub started: i64,
    pub elapsed_us: u64,
    pub tables: u64,
    pub rows: u64,
    pub bytes_written: u64,
    /// The length of all files.
    pub disk_bytes: u64,
    /// The reason why the attempt has failed.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryRequest {
    pub plan: Plan,
    /// The process id of the backend.
    pub backend: i32,
    /// The id that PostgreSQL has computed for the statement; 0 if it has computed none.
    pub query_id: i64,
    /// The oid of the user who runs the query. One user may have only a part of the queries that the engine allows to
    /// be open.
    pub user: u32,
    /// The values of `plan.params`.
    pub params: Vec<Option<Literal>>,
    /// S: the query's own snapshot.
    pub snapshot: Snapshot,
    /// L: a WAL position at or behind the commit of every transaction that S sees. The backend has made sure that the
    /// WAL is flushed up to L.
    pub lsn: u64,
    /// For each of the plan's tables, the fingerprint of the table's definition, which the backend has locked.
    pub fingerprints: Vec<u64>,
    /// The longest time in milliseconds to wait until the mirror has reached `lsn`, and then until the query may run.
    pub max_wait_ms: u64,
    /// Whether [`Done`] has to report the figures of each operator.
    pub observed: bool,
    /// A seed for a random order of joins, for tests; `None` if the optimizer chooses the order.
    pub random_joins: Option<u64>,
    pub limits: Limits,
    /// Whether the query is run to compare the mirror with the heap. If so, an engine that forks must return plain
    /// rows, too.
    pub verifies: bool,
}

/// The limits of a query, and of its user. They come from settings of the session that runs the query. The engine's own
/// settings apply, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The number of threads that the query may use (`anker.query_threads`).
    pub threads: u32,
    /// The working memory that the query may have (`anker.max_query_memory`); `None` without a limit.
    pub memory_bytes: Option<u64>,
    /// The data that the query may have on disk (`temp_file_limit`); `None` without a limit.
    pub disk_bytes: Option<u64>,
    /// The nice value of the threads that run the query, beyond that of the process (`anker.query_nice`).
    pub nice: u32,
    /// The number of queries of the user that may run when this query begins to run, including it
    /// (`anker.max_user_queries`); `None` without a limit.
    pub user_queries: Option<u32>,
}

impl Default for Limits {
    /// The limits of a query that only the engine's settings limit.
    fn default() -> Limits {
        Limits { threads: u32::MAX, memory_bytes: None, disk_bytes: None, nice: 0, user_queries: None }
    }
}

/// A request for the plan of a query, without its execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainRequest {
    /// The query, without the rows that the backend would compute for it.
    pub query: QueryRequest,
    /// For each relation whose rows the backend would compute, the expected number of rows.
    pub expected_sent: Vec<u64>,
}

/// The rows of one of the plan's relations, which the backend has computed, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentRows {
    pub rows: u32,
    pub columns: Vec<Vec<Option<Literal>>>,
}

impl SentRows {
    /// The memory in bytes that the rows need after decoding. Encoded rows are smaller.
    fn memory(&self) -> u64 {
        let text = |value: &Option<Literal>| match value {
            Some(Literal::Text(text)) => text.len() + LONGEST_GAP,
            Some(Literal::Bytes(bytes)) => bytes.len() + LONGEST_GAP,
            _ => 0,
        };
        // A list that has grown may have up to twice the capacity that it needs.
        let values = |column: &[Option<Literal>]| 2 * size_of_val(column) + column.iter().map(text).sum::<usize>();
        let columns = self.columns.iter().map(|column| LONGEST_GAP + values(column)).sum::<usize>();
        (LONGEST_GAP + columns) as u64
    }
}

/// The number of bytes that an allocator may add to a short text.
const LONGEST_GAP: usize = 16;

/// The length of the number at the beginning of the frame: the memory that the rows need, as u64, little-endian.
pub const SENT_HEAD: usize = 8;

/// Encodes the rows that the backend has computed for the request that follows, as a frame of their own. The frame
/// begins with the amount of memory that the rows need, so that the engine can reserve it before decoding.
pub fn encode_sent(relations: &[SentRows]) -> Vec<u8> {
    let memory: u64 = relations.iter().map(SentRows::memory).sum();
    // Serialising plain data into memory cannot fail.
    let rows = postcard::to_stdvec(relations).expect("plain data serialises");
    let mut frame = Vec::with_capacity(HEADER + SENT_HEAD + rows.len());
    frame.extend_from_slice(&encode_header(Kind::Sent, SENT_HEAD + rows.len()));
    frame.extend_from_slice(&memory.to_le_bytes());
    frame.extend_from_slice(&rows);
    frame
}

/// A request to load a table's rows, which the loader reads under an ordinary snapshot. The stream must have begun to
/// watch this generation of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    pub relid: u32,
    pub generation: u64,
    pub fingerprint: u64,
    pub snapshot: Snapshot,
    /// The id of the checkpoint that the database names.
    pub anchor: Option<u64>,
}

/// The engine accepts a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// The engine has the table's rows from a checkpoint, and this is the position up to which they are complete. A
    /// block of the table that was not changed behind this position has exactly the rows of the checkpoint. So the
    /// loader sends [`Changed`], and then only the rows of changed blocks. Otherwise it sends all rows.
    pub kept_from: Option<u64>,
}

/// The blocks of a table that were changed since a checkpoint. The list is sent in several frames if it is long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The number of blocks of the table. Later blocks have no rows. If it is 0, the loader sends all rows.
    pub blocks: u32,
    /// The number of addresses that each block has. The address of a row, divided by it, is the row's block.
    pub rows_per_block: u32,
    /// The changed blocks in ascending order, each run as its first block and the number of blocks.
    pub runs: Vec<(u32, u32)>,
    /// Whether this is the last part of the list.
    pub last: bool,
}

/// The answer before the first row. The query now has its snapshot of the columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Name of the snapshot mechanism.
    pub mechanism: String,
    /// The time from the arrival of the request until the stream had reached `lsn` and the writer began to serve the
    /// request.
    pub waited_us: u64,
    /// The time for three steps: applying changes that S sees, taking snapshots of columns, and undoing changes that S
    /// does not see.
    pub snapshot_us: u64,
    pub undone_transactions: u64,
    pub undone_changes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub rows: u64,
    pub scanned_rows: u64,
    /// The time from Ready until the last batch of rows was sent. It includes the time in the queue, and the time in
    /// which the engine waited for the client.
    pub engine_us: u64,
    /// The time that the query spent in the queue behind other queries (`anker.max_queries`). It is counted after
    /// Ready, because a query in the queue already has its snapshot.
    pub queued_us: u64,
    /// The most working memory that the query has had at one time.
    pub peak_memory_bytes: u64,
    /// The bytes that the query has written to disk.
    pub spilled_bytes: u64,
    /// The plan with the figures of its operators, if the request asked for them.
    pub plan: Option<Box<EnginePlan>>,
}

/// The reason why the engine does not serve a request. The backend then runs the query on the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The backend is of another build than the engine.
    Version,
    /// The table has no mirror.
    NotMirrored {
        relid: u32,
    },
    /// The table is being loaded, so the mirror does not have all rows yet.
    Loading {
        relid: u32,
    },
    /// The table's definition differs between the backend and the mirror, because of DDL, TRUNCATE or a rewrite.
    FingerprintDiffers {
        relid: u32,
    },
    /// S does not see a change whose undo was discarded, or S is older than the load.
    SnapshotTooOld {
        relid: u32,
    },
    /// The column has a value that its layout cannot represent, in S or in the undo that S needs.
    Unholdable {
        relid: u32,
        attnum: i16,
    },
    /// The mirror does not have this column, or has it with another type.
    ColumnMissing {
        relid: u32,
        attnum: i16,
    },
    TimedOut {
        reached: u64,
        wanted: u64,
    },
    /// There are too many open queries and cursors.
    TooManyQueries {
        limit: u32,
    },
    /// One user has too many open queries and cursors.
    TooManyOfUser {
        limit: u32,
    },
    /// All places were taken by other queries until the wait timed out.
    Busy {
        places: u32,
    },
    /// The user had as many running queries as the session allows, until the wait timed out.
    BusyOfUser {
        places: u32,
    },
    OutOfMemory {
        what: String,
    },
    /// The engine forks for each query (`anker.mechanism`), and a forked child cannot run this query.
    NotForked {
        what: String,
    },
    Protocol {
        what: String,
    },
}

impl Refusal {
    /// The reason in a few words, for EXPLAIN. `name` returns the name of a table.
    pub fn reason(&self, name: impl Fn(u32) -> String) -> String {
        match self {
            Refusal::Version => "engine is of another build than the server's library: restart the server".into(),
            Refusal::NotMirrored { relid } => format!("table \"{}\" is not in the mirror", name(*relid)),
            Refusal::Loading { relid } => format!("table \"{}\" is being loaded", name(*relid)),
            Refusal::FingerprintDiffers { relid } => {
                format!("table \"{}\" was changed by DDL or TRUNCATE, and its mirror is not there yet", name(*relid))
            }
            Refusal::SnapshotTooOld { relid } => {
                format!("snapshot older than the mirror of table \"{}\" keeps", name(*relid))
            }
            Refusal::Unholdable { relid, attnum } => {
                format!("column {attnum} of table \"{}\" has a value that the mirror cannot hold", name(*relid))
            }
            Refusal::ColumnMissing { relid, attnum } => {
                format!("column {attnum} of table \"{}\" is not in the mirror", name(*relid))
            }
            Refusal::TimedOut { .. } => "mirror did not catch up within anker.max_wait".into(),
            Refusal::TooManyQueries { limit } => format!("engine has {limit} queries open, as many as it takes"),
            Refusal::TooManyOfUser { limit } => {
                format!("engine has {limit} queries of this user open, as many as it takes of one")
            }
            Refusal::Busy { places } => {
                format!("engine runs other queries (anker.max_queries = {places}), for longer than anker.max_wait")
            }
            Refusal::BusyOfUser { places } => format!(
                "engine runs other queries of this user (anker.max_user_queries = {places}), for longer than \
                 anker.max_wait"
            ),
            Refusal::OutOfMemory { what } => format!("engine is at its memory limit (anker.memory): {what}"),
            Refusal::NotForked { what } => {
                format!("anker.mechanism = fork answers plain groups of one table alone, and not this: {what}")
            }
            Refusal::Protocol { what } => format!("engine did not understand the request: {what}"),
        }
    }
}

/// The failure of a query that had begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

/// The engine's figures that `anker.engine` and `anker.tables` show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    pub mechanism: String,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub undo_bytes: u64,
    pub undo_transactions: u64,
    /// The number of transactions that were decoded, but not yet applied.
    pub pending_transactions: u64,
    pub live_snapshots: u64,
    /// The number of bytes that were copied so far because snapshots shared them with the writer.
    pub copied_bytes: u64,
    /// The position in the WAL up to which the stream was read.
    pub lsn: u64,
    pub transactions_applied: u64,
    pub changes_applied: u64,
    pub queries_running: u64,
    pub queries_served: u64,
    pub queries_refused: u64,
    pub queries_failed: u64,
    pub queries_cancelled: u64,
    /// The number of bytes that queries have written to disk so far.
    pub spilled_bytes: u64,
    /// The latest delays, newest last, at most 4096 of each kind. [`crate::delays`] summarises them.
    pub commit_to_applied_us: Vec<u64>,
    pub request_to_ready_us: Vec<u64>,
    pub tables: Vec<TableStatus>,
    pub checkpoint: CheckpointStatus,
}

/// An open query, which `anker.activity` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryActivity {
    /// These three are as in the query's request.
    pub backend: i32,
    pub query_id: i64,
    pub user: u32,
    /// The time since the request arrived.
    pub elapsed_us: u64,
    pub phase: Phase,
    /// The rows of the result that were computed so far.
    pub rows: u64,
    /// The working memory that the query has now.
    pub memory_bytes: u64,
    /// The bytes that the query has on disk now, and those that it has written to disk so far.
    pub disk_bytes: u64,
    pub spilled_bytes: u64,
    /// The number of threads that the query may use.
    pub threads: u32,
}

/// The work that an open query does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Phase {
    /// It waits until the mirror has caught up, and until it has its snapshot.
    Snapshot,
    /// It waits for a place among the running queries.
    Queued,
    Running,
    /// Rows are being sent, and the backend has not taken all of them.
    Sending,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Snapshot, Phase::Queued, Phase::Running, Phase::Sending];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Snapshot => "waiting for snapshot",
            Phase::Queued => "queued",
            Phase::Running => "running",
            Phase::Sending => "sending",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    pub relid: u32,
    pub generation: u64,
    pub live: bool,
    pub rows: u64,
    /// The bytes of columns, bitmaps, text and key index.
    pub bytes: u64,
    /// The part of `bytes` that belongs to the key index.
    pub index_bytes: u64,
    pub undo_bytes: u64,
    pub changes_applied: u64,
    /// The part of the load that came from a checkpoint; `None` if all rows came from the heap.
    pub kept: Option<KeptStatus>,
}

/// A load of a table from a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptStatus {
    /// The rows that came from the checkpoint.
    pub rows: u64,
    /// The blocks of the table at that time.
    pub blocks: u64,
    /// The blocks whose rows came from the heap, because they had changed.
    pub changed_blocks: u64,
}
