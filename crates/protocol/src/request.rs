//! Requests on the engine's unix socket, and their answers. Every message is one [`crate::frame::Frame`].
//!
//! ```text
//!  backend: Hello, [rows,] Request::Query         loader: Hello, Request::Load
//!  engine:  Refused                               engine: Refused or Go
//!        or Ready, Arrow*, Done                   loader: Rows*, LoadEnd
//!        or Ready, Arrow*, Failed                 engine: Loaded or Refused
//!        or Ready, Refused
//!
//!  backend: Hello, Request::Explain               backend: Hello, Request::Survey
//!  engine:  Refused, Failed or Plan               engine:  Refused or Survey
//! ```
//!
//! Each Arrow frame contains whole messages of one Arrow IPC stream. Wherever a client waits, Alive frames may come in
//! between, about one in [`crate::frame::ALIVE_INTERVAL`]. An engine that sends nothing at all hangs.
//!
//! A query is cancelled by closing the connection.

pub use plan::FailureKind;
use plan::{Literal, Plan};
use serde::{Deserialize, Serialize};

use crate::Snapshot;
use crate::frame::{HEADER, Kind, encode_header};
use crate::survey::SurveyRequest;
use crate::tree::EnginePlan;

/// First message on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Query(Box<QueryRequest>),
    Explain(Box<ExplainRequest>),
    Load(LoadRequest),
    Survey(SurveyRequest),
    Status,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryRequest {
    pub plan: Plan,
    /// The oid of the user who asks. Each user has a share of the engine's places.
    pub user: u32,
    /// The values of `plan.params`.
    pub params: Vec<Option<Literal>>,
    /// S: the query's own snapshot.
    pub snapshot: Snapshot,
    /// L: a WAL position at or behind the commit of everything that S sees, flushed by the backend.
    pub lsn: u64,
    /// For each of the plan's tables, the fingerprint of the relation that the backend has locked.
    pub fingerprints: Vec<u64>,
    /// The longest wait for the mirror to reach `lsn`, and then for a place among the running queries.
    pub max_wait_ms: u64,
    /// Whether [`Done`] has to report the figures of each operator.
    pub observed: bool,
    /// Given if a number decides the order of joins, and not the optimizer.
    pub random_joins: Option<u64>,
    /// The bytes that the query may put on disk; `None` if only the limit for all queries applies.
    pub disk_bytes: Option<u64>,
    /// Whether the mirror is compared with the heap. Then an engine that forks must also return plain rows.
    pub verifies: bool,
}

/// A request for the plan of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainRequest {
    /// The query, without rows that are sent along.
    pub query: QueryRequest,
    /// The expected number of rows for each relation that the backend would compute.
    pub expected_sent: Vec<u64>,
}

/// The rows of one of the plan's relations, column by column, which the backend has computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentRows {
    pub rows: u32,
    pub columns: Vec<Vec<Option<Literal>>>,
}

impl SentRows {
    /// The bytes that they need in memory; in transit, they need fewer.
    fn memory(&self) -> u64 {
        let text = |value: &Option<Literal>| match value {
            Some(Literal::Text(text)) => text.len() + LONGEST_GAP,
            Some(Literal::Bytes(bytes)) => bytes.len() + LONGEST_GAP,
            _ => 0,
        };
        // A list that grew may have twice the capacity that it needs.
        let values = |column: &[Option<Literal>]| 2 * size_of_val(column) + column.iter().map(text).sum::<usize>();
        let columns = self.columns.iter().map(|column| LONGEST_GAP + values(column)).sum::<usize>();
        (LONGEST_GAP + columns) as u64
    }
}

/// The number of bytes that an allocator adds to a short text.
const LONGEST_GAP: usize = 16;

/// The bytes before encoded rows that say how much memory the rows need: a little-endian number.
pub const SENT_HEAD: usize = 8;

/// Encodes the rows for the request that follows, as a frame. It contains the rows of each relation of the plan that
/// the backend has computed. They are a separate message, so that the engine can reserve memory before it reads them.
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

/// A request to load a table's rows under an ordinary snapshot, for the generation that the stream began to watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    pub relid: u32,
    pub generation: u64,
    pub fingerprint: u64,
    pub snapshot: Snapshot,
}

/// Sent before the first row: from here on, the query is bound to its column snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Name of the snapshot mechanism.
    pub mechanism: String,
    /// The time from the request's arrival until the stream had reached `lsn` and the writer handled it.
    pub waited_us: u64,
    /// The time for applying changes that S sees, for column snapshots, and for taking back changes that S does not
    /// see.
    pub snapshot_us: u64,
    pub undone_transactions: u64,
    pub undone_changes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub rows: u64,
    pub scanned_rows: u64,
    /// The time from Ready until the last batch, including the time in the queue and the time spent waiting for the
    /// client.
    pub engine_us: u64,
    /// The time in the queue behind other queries (`anker.max_queries`). It comes after Ready, so that a query waits
    /// with its snapshot bound.
    pub queued_us: u64,
    /// The plan, if the query was to be observed.
    pub plan: Option<Box<EnginePlan>>,
}

/// The reason why a request is not served; the backend then uses the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    Version {
        engine: u32,
    },
    /// No such table in the mirror.
    NotMirrored {
        relid: u32,
    },
    /// The table is watched, but its rows are not complete yet.
    Loading {
        relid: u32,
    },
    /// DDL, TRUNCATE or a rewrite happened between the snapshot and the state of the mirror.
    FingerprintDiffers {
        relid: u32,
    },
    /// S does not see a change that can no longer be taken back, or S is older than the load.
    SnapshotTooOld {
        relid: u32,
    },
    /// The column holds a value that its layout cannot hold, in S or in the undo that S needs.
    Unholdable {
        relid: u32,
        attnum: i16,
    },
    /// The mirror does not have this column, or not with this type.
    ColumnMissing {
        relid: u32,
        attnum: i16,
    },
    TimedOut {
        reached: u64,
        wanted: u64,
    },
    /// Too many queries and cursors are open.
    TooManyQueries {
        limit: u32,
    },
    /// One user has too many of them open.
    TooManyOfUser {
        limit: u32,
    },
    /// No place became free in time.
    Busy {
        places: u32,
    },
    OutOfMemory {
        what: String,
    },
    /// The engine forks (`anker.mechanism`), and a child cannot answer the query.
    NotForked {
        what: String,
    },
    Protocol {
        what: String,
    },
}

impl Refusal {
    /// A short phrase for EXPLAIN; `name` returns the name of a table.
    pub fn reason(&self, name: impl Fn(u32) -> String) -> String {
        match self {
            Refusal::Version { engine } => {
                format!("engine speaks protocol version {engine}, this server {}", crate::VERSION)
            }
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
            Refusal::OutOfMemory { what } => format!("engine is at its memory limit (anker.memory): {what}"),
            Refusal::NotForked { what } => {
                format!("anker.mechanism = fork answers plain groups of one table alone, and not this: {what}")
            }
            Refusal::Protocol { what } => format!("engine did not understand the request: {what}"),
        }
    }
}

/// A query that began and cannot be finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

/// The figures that `anker.engine` and `anker.tables` show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    pub mechanism: String,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub undo_bytes: u64,
    pub undo_transactions: u64,
    /// Transactions that were decoded, but not applied yet.
    pub pending_transactions: u64,
    pub live_snapshots: u64,
    /// Bytes copied so far because a snapshot shared them with the writer.
    pub copied_bytes: u64,
    /// Position up to which the stream was read.
    pub lsn: u64,
    pub transactions_applied: u64,
    pub changes_applied: u64,
    pub queries_running: u64,
    pub queries_served: u64,
    pub queries_refused: u64,
    pub queries_failed: u64,
    pub queries_cancelled: u64,
    /// The bytes that queries have put on disk so far.
    pub spilled_bytes: u64,
    /// The latest values, newest last, at most 4096 of each: see [`crate::delays`].
    pub commit_to_applied_us: Vec<u64>,
    pub request_to_ready_us: Vec<u64>,
    pub tables: Vec<TableStatus>,
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
}
