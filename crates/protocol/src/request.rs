//! Requests on the engine's unix socket, and their answers. Every message is one [`crate::frame::Frame`].
//!
//! ```text
//!  backend: Hello, Request::Query                 loader: Hello, Request::Load
//!  engine:  Refused                               engine: Refused or Go
//!        or Ready, Arrow*, Done                   loader: Rows*, LoadEnd
//!        or Ready, Arrow*, Failed                 engine: Loaded or Refused
//! ```
//!
//! A query is cancelled by closing the connection.

use plan::{Literal, Plan};
use serde::{Deserialize, Serialize};

use crate::Snapshot;

/// First message on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    Query(QueryRequest),
    Load(LoadRequest),
    Status,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryRequest {
    pub plan: Plan,
    /// Values of `plan.params`.
    pub params: Vec<Option<Literal>>,
    /// S: the query's own snapshot.
    pub snapshot: Snapshot,
    /// L: a WAL position at or behind the commit of everything that S sees, flushed by the backend.
    pub lsn: u64,
    /// For each of `plan.relations`, the fingerprint that the backend's locked relation has.
    pub fingerprints: Vec<u64>,
    /// How long to wait for the mirror to reach `lsn`.
    pub max_wait_ms: u64,
}

/// Rows of a table under an ordinary snapshot, for the generation that the stream began to watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    pub relid: u32,
    pub generation: u64,
    pub fingerprint: u64,
    pub snapshot: Snapshot,
}

/// Sent before the first row: from here on the query is bound to its column snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Name of the snapshot mechanism.
    pub mechanism: String,
    /// From the request's arrival until the stream had reached `lsn` and the writer turned to it.
    pub waited_us: u64,
    /// Applying what S sees, the column snapshots, and taking back what S does not see.
    pub snapshot_us: u64,
    pub undone_transactions: u64,
    pub undone_changes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    pub rows: u64,
    pub scanned_rows: u64,
    /// From Ready until the last batch, time in the queue and time spent waiting for the client included.
    pub engine_us: u64,
    /// Time in the queue behind other queries (`anker.max_queries`): spent after Ready, so that a query waits with its
    /// snapshot bound.
    pub queued_us: u64,
}

/// Why a request is not served; the backend uses the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    Version {
        engine: u32,
    },
    /// No such table in the mirror.
    NotMirrored {
        relid: u32,
    },
    /// Watched, rows not complete yet.
    Loading {
        relid: u32,
    },
    /// DDL, TRUNCATE or a rewrite stands between the snapshot and the mirror.
    FingerprintDiffers {
        relid: u32,
    },
    /// S does not see something that can no longer be taken back, or is older than the load.
    SnapshotTooOld {
        relid: u32,
    },
    /// The column holds, in S or in the undo that S needs, a value that its layout cannot.
    UnholdableValue {
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
    OutOfMemory {
        what: String,
    },
    Protocol {
        what: String,
    },
}

impl Refusal {
    /// One short phrase for EXPLAIN, in the voice of a reason; the backend adds the table's name.
    pub fn reason(&self) -> String {
        match self {
            Refusal::Version { engine } => {
                format!("engine speaks protocol version {engine}, library {}", crate::VERSION)
            }
            Refusal::NotMirrored { .. } => "table is not in the mirror".into(),
            Refusal::Loading { .. } => "table is still loading".into(),
            Refusal::FingerprintDiffers { .. } => "table definition differs from the mirror's".into(),
            Refusal::SnapshotTooOld { .. } => "snapshot is older than the mirror keeps".into(),
            Refusal::UnholdableValue { attnum, .. } => {
                format!("column {attnum} has a value that the mirror cannot hold")
            }
            Refusal::ColumnMissing { attnum, .. } => format!("column {attnum} is not mirrored"),
            Refusal::TimedOut { .. } => "mirror did not catch up in time".into(),
            Refusal::OutOfMemory { what } => format!("engine is at its memory limit ({what})"),
            Refusal::Protocol { what } => format!("engine did not understand the request ({what})"),
        }
    }

    pub fn relid(&self) -> Option<u32> {
        match self {
            Refusal::NotMirrored { relid }
            | Refusal::Loading { relid }
            | Refusal::FingerprintDiffers { relid }
            | Refusal::SnapshotTooOld { relid }
            | Refusal::UnholdableValue { relid, .. }
            | Refusal::ColumnMissing { relid, .. } => Some(*relid),
            _ => None,
        }
    }
}

/// A query that began and cannot be finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    DivisionByZero,
    /// `smallint out of range`, `integer out of range`, `bigint out of range` …
    SmallintOutOfRange,
    IntegerOutOfRange,
    BigintOutOfRange,
    FloatOverflow,
    FloatUnderflow,
    DateOutOfRange,
    TimestampOutOfRange,
    /// A decimal beyond 38 digits: PostgreSQL would go on.
    DecimalTooWide,
    OutOfMemory,
    Internal,
}

/// What `anker.engine` and `anker.tables` show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    pub mechanism: String,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub undo_bytes: u64,
    pub undo_transactions: u64,
    /// Decoded, not yet applied.
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
    /// Histograms are left to the client: the last values, newest last, at most 4096 of each.
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
    /// Columns, bitmaps, text, key index.
    pub bytes: u64,
    pub undo_bytes: u64,
    pub changes_applied: u64,
}
