//! A query's conversation with the engine.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use pgrx::prelude::*;
use plan::Literal;
use protocol::frame::{self, Kind};
use protocol::request::{Done, Failure, QueryRequest, Ready, Refusal, Request};

use crate::client::{Engine, Received};
use crate::pg::relation::relation_name;
use crate::pg::{snapshot, wal};
use crate::shared::{self, DatabaseState, TableState};
use crate::{layout, settings};

/// Why the engine's answer did not come.
pub enum Trouble {
    /// The engine cannot serve this request, or is not there (any more).
    Reason(String),
    /// The query itself failed in the engine.
    Failure(Failure),
}

impl Trouble {
    pub fn reason(&self) -> String {
        match self {
            Trouble::Reason(reason) => reason.clone(),
            Trouble::Failure(failure) => format!("the engine reports: {}", failure.message),
        }
    }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Trouble::Reason(reason)
    }
}

/// The engine's answers beyond `anker.max_wait` may take so much longer before it counts as hung.
const GRACE: Duration = Duration::from_secs(2);

pub struct Conversation {
    /// `None`: hung up; what was learned stays for EXPLAIN.
    engine: Option<Engine>,
    decoder: StreamDecoder,
    /// Bytes of the Arrow stream that the decoder has not taken yet.
    undecoded: Buffer,
    /// Bytes of the result so far.
    pub received: usize,
    sent: Instant,
    pub ready: Option<Ready>,
    pub done: Option<Done>,
    /// From the request to Ready, as this side saw it.
    pub wait: Duration,
}

impl Conversation {
    /// Sends the request: from here on the engine works. `fingerprints` come from [`check`].
    ///
    /// # Safety
    ///
    /// `estate` is that of a running query.
    pub unsafe fn begin(
        plan: &plan::Plan,
        params: Vec<Option<Literal>>,
        fingerprints: Vec<u64>,
        estate: *mut pg_sys::EState,
    ) -> Result<Conversation, String> {
        // SAFETY: by the caller's promise the estate's snapshot is alive; a plain variable of this process.
        let (snapshot, database) = unsafe { (snapshot::from_pg((*estate).es_snapshot), pg_sys::MyDatabaseId) };
        let snapshot = snapshot.ok_or("not an ordinary MVCC snapshot")?;
        let mut engine = Engine::connect(database)?;
        let request = Request::Query(QueryRequest {
            plan: plan.clone(),
            params,
            snapshot,
            lsn: wal::flushed_position(),
            fingerprints,
            max_wait_ms: settings::MAX_WAIT_MS.get() as u64,
        });
        shared::wake_worker(database);
        engine.send(&frame::encode(Kind::Request, &request))?;
        Ok(Conversation {
            engine: Some(engine),
            decoder: StreamDecoder::new(),
            undecoded: Buffer::from(&[] as &[u8]),
            received: 0,
            sent: Instant::now(),
            ready: None,
            done: None,
            wait: Duration::ZERO,
        })
    }

    /// Waits until the engine has bound the request to its snapshot.
    pub fn await_ready(&mut self) -> Result<(), Trouble> {
        let limit = Duration::from_millis(settings::MAX_WAIT_MS.get() as u64) + GRACE;
        let timeout = limit.saturating_sub(self.sent.elapsed());
        match self.engine.as_mut().ok_or_else(closed)?.receive(Some(timeout))? {
            Received::TimedOut => Err(Trouble::Reason("engine did not answer in time".into())),
            Received::Frame(Kind::Ready, payload) => {
                self.ready = Some(frame::parse(payload).map_err(|e| e.to_string())?);
                self.wait = self.sent.elapsed();
                Ok(())
            }
            Received::Frame(kind, payload) => Err(trouble(kind, payload)),
        }
    }

    /// Closes the connection, which cancels what the engine still does for us.
    pub fn hang_up(&mut self) {
        self.engine = None;
    }

    /// The next batch; `None` at the end of the result.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Trouble> {
        loop {
            if !self.undecoded.is_empty() {
                let decoded = self.decoder.decode(&mut self.undecoded);
                if let Some(batch) = decoded.map_err(|e| format!("the engine's result cannot be read: {e}"))? {
                    return Ok(Some(batch));
                }
                continue;
            }
            match self.engine.as_mut().ok_or_else(closed)?.receive(None)? {
                Received::TimedOut => {}
                Received::Frame(Kind::Arrow, payload) => {
                    self.received += payload.len();
                    self.undecoded = Buffer::from(payload);
                }
                Received::Frame(Kind::Done, payload) => {
                    self.done = Some(frame::parse(payload).map_err(|e| e.to_string())?);
                    return Ok(None);
                }
                Received::Frame(kind, payload) => return Err(trouble(kind, payload)),
            }
        }
    }
}

fn closed() -> String {
    "connection to the engine is closed".to_string()
}

fn trouble(kind: Kind, payload: &[u8]) -> Trouble {
    match kind {
        Kind::Refused => match frame::parse::<Refusal>(payload) {
            Ok(refusal) => Trouble::Reason(describe(&refusal)),
            Err(e) => Trouble::Reason(e.to_string()),
        },
        Kind::Failed => match frame::parse::<Failure>(payload) {
            Ok(failure) => Trouble::Failure(failure),
            Err(e) => Trouble::Reason(e.to_string()),
        },
        other => Trouble::Reason(format!("engine sent an unexpected message: {other:?}")),
    }
}

fn describe(refusal: &Refusal) -> String {
    let name = |relid: &u32| relation_name(pg_sys::Oid::from(*relid));
    match refusal {
        Refusal::Version { engine } => {
            format!("engine speaks protocol version {engine}, this server {}", protocol::VERSION)
        }
        Refusal::NotMirrored { relid } => format!("table \"{}\" is not in the mirror", name(relid)),
        Refusal::Loading { relid } => format!("table \"{}\" is being loaded", name(relid)),
        Refusal::FingerprintDiffers { relid } => {
            format!("table \"{}\" was changed by DDL or TRUNCATE, and its mirror is not there yet", name(relid))
        }
        Refusal::SnapshotTooOld { relid } => {
            format!("snapshot older than the mirror of table \"{}\" keeps", name(relid))
        }
        Refusal::UnholdableValue { relid, attnum } => {
            format!("column {attnum} of table \"{}\" has a value that the mirror cannot hold", name(relid))
        }
        Refusal::ColumnMissing { relid, attnum } => {
            format!("column {attnum} of table \"{}\" is not in the mirror", name(relid))
        }
        Refusal::TimedOut { .. } => "mirror did not catch up within anker.max_wait".into(),
        Refusal::OutOfMemory { what } => format!("engine is at its memory limit (anker.memory): {what}"),
        Refusal::Protocol { what } => format!("engine did not understand the request: {what}"),
    }
}

/// What stands against asking the engine; the relations' fingerprints if nothing does.
///
/// # Safety
///
/// `estate` is that of a query whose relations, those of the plan, are locked.
pub unsafe fn check(plan: &plan::Plan, estate: *mut pg_sys::EState) -> Result<Vec<u64>, String> {
    // SAFETY: by the caller's promise; a plain variable of this process.
    unsafe {
        check_transaction(estate)?;
        let database = pg_sys::MyDatabaseId;
        plan.relations.iter().map(|relation| check_relation(database, pg_sys::Oid::from(relation.relid))).collect()
    }
}

/// What stands against it whatever the tables.
unsafe fn check_transaction(estate: *mut pg_sys::EState) -> Result<(), String> {
    const SERIALIZABLE: i32 = pg_sys::XACT_SERIALIZABLE as i32;
    // SAFETY: plain variables of this process; the estate is alive by the caller's promise.
    unsafe {
        if pg_sys::RecoveryInProgress() {
            return Err("server is in recovery".into());
        }
        if pg_sys::IsInParallelMode() {
            return Err("query runs within a parallel query".into());
        }
        if !(*estate).es_epq_active.is_null() {
            return Err("rows are being checked again after a concurrent update".into());
        }
        if pg_sys::XactIsoLevel == SERIALIZABLE && !(pg_sys::XactReadOnly && pg_sys::XactDeferrable) {
            return Err("isolation level is serializable".into());
        }
    }
    Ok(())
}

/// Why shared memory has no entry of a table.
pub fn not_mirrored(database: pg_sys::Oid, relid: pg_sys::Oid) -> String {
    let name = relation_name(relid);
    match shared::database(database) {
        Some(d) if !matches!(d.state, DatabaseState::Idle | DatabaseState::Running) => {
            let why = if d.reason.as_str().is_empty() { d.state.name() } else { d.reason.as_str() };
            format!("table \"{name}\" is not mirrored as yet; the mirror of this database: {why}")
        }
        _ => format!("table \"{name}\" is not mirrored"),
    }
}

/// What stands against asking for a table; its fingerprint if nothing does.
unsafe fn check_relation(database: pg_sys::Oid, relid: pg_sys::Oid) -> Result<u64, String> {
    let Some(entry) = shared::table(database, relid) else {
        return Err(not_mirrored(database, relid));
    };
    if entry.state != TableState::Live {
        let (name, state, why) = (relation_name(relid), entry.state.name(), entry.reason.as_str());
        return Err(match why {
            "" => format!("mirror of table \"{name}\" is {state}"),
            why => format!("mirror of table \"{name}\" is {state}: {why}"),
        });
    }
    // SAFETY: locked by the caller's promise; closed again right here.
    let (fingerprint, row_security, written) = unsafe {
        let relation = pg_sys::table_open(relid, pg_sys::NoLock as i32);
        let facts = (
            layout::fingerprint(relation),
            (*(*relation).rd_rel).relrowsecurity,
            pg_sys::CheckRelationLockedByMe(relation, pg_sys::RowExclusiveLock as i32, true),
        );
        pg_sys::table_close(relation, pg_sys::NoLock as i32);
        facts
    };
    if row_security {
        return Err(format!("table \"{}\" has row-level security", relation_name(relid)));
    }
    if written {
        return Err(format!("this transaction may have written to table \"{}\"", relation_name(relid)));
    }
    Ok(fingerprint)
}
