//! A query's conversation with the engine.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use pgrx::prelude::*;
use plan::Literal;
use protocol::frame::{self, Kind};
use protocol::request::{
    Done, ExplainRequest, Failure, Limits, QueryRequest, Ready, Refusal, Request, SentRows, encode_sent,
};
use protocol::tree::EnginePlan;

use super::trouble::Trouble;
use crate::client::{Connection, Lost, Received};
use crate::pg::catalog::relation_name;
use crate::pg::error::Error;
use crate::pg::place::Place;
use crate::pg::wait::WaitFor;
use crate::pg::{session, wal};
use crate::reason::{Reason, Why};
use crate::shared::silence::{self, Asks};
use crate::{settings, shared, verifying};

/// A query for the engine.
pub struct Question<'a> {
    pub plan: &'a plan::Plan,
    pub params: Vec<Option<Literal>>,
    /// The fingerprints from [`super::checks::check`].
    pub fingerprints: Vec<u64>,
}

impl Question<'_> {
    fn request(self, place: Place<'_>, max_wait_ms: u64) -> Result<QueryRequest, Reason> {
        let Question { plan, params, fingerprints } = self;
        Ok(QueryRequest {
            plan: plan.clone(),
            backend: session::pid(),
            query_id: place.query_id(),
            user: session::user().to_u32(),
            params,
            snapshot: place.snapshot().ok_or_else(|| Why::OldSnapshot.of("not an ordinary MVCC snapshot"))?,
            lsn: wal::flushed_position(),
            fingerprints,
            max_wait_ms,
            observed: false,
            random_joins: settings::random_joins(),
            limits: Limits { disk_bytes: session::temp_file_limit(), ..settings::query_limits() },
            verifies: verifying::now(),
        })
    }

    /// The engine's plan for the query. `expected_sent` has the expected number of rows for each relation whose rows
    /// are sent along.
    pub fn outline(self, expected_sent: Vec<u64>, limit: Duration, place: Place<'_>) -> Result<EnginePlan, String> {
        let begun = Instant::now();
        let left = || limit.saturating_sub(begun.elapsed());
        let database = session::database();
        let mut engine = Connection::connect(database, limit)?;
        engine.patience = left();
        let max_wait_ms = (settings::MAX_WAIT_MS.get() as u64).min(limit.as_millis() as u64);
        let query = self.request(place, max_wait_ms).map_err(|reason| reason.text)?;
        shared::wake_worker(database);
        let request = Request::Explain(Box::new(ExplainRequest { query, expected_sent }));
        engine.request(frame::encode(Kind::Request, &request))?;
        match engine.receive(Some(left()))? {
            Received::TimedOut => Err("engine did not tell it within anker.explain_wait".into()),
            Received::Frame(Kind::Plan, payload) => frame::parse(payload).map_err(|e| e.to_string()),
            Received::Frame(kind, payload) => Err(trouble(kind, payload).reason().text),
        }
    }
}

pub struct Conversation {
    /// The connection; `None` once the conversation is over. The figures below stay for EXPLAIN.
    engine: Option<Connection>,
    asks: Asks,
    decoder: StreamDecoder,
    /// Bytes of the Arrow stream that the decoder has not consumed yet.
    undecoded: Buffer,
    /// The number of bytes of the result that were received so far.
    pub received: usize,
    begun: Instant,
    /// The time for which the query may still wait for rows (`anker.max_query_time`); `None` without a limit.
    time_left: Option<Duration>,
    pub ready: Option<Ready>,
    pub done: Option<Done>,
    /// The time from the request to Ready, as this process measured it.
    pub wait: Duration,
}

impl Conversation {
    /// Sends the request. From then on, the engine works on it.
    pub fn begin(question: Question<'_>, sent: Vec<SentRows>, place: Place<'_>) -> Result<Conversation, Reason> {
        let database = session::database();
        let asks = may_ask(database)?;
        let begun = Instant::now();
        let mut engine = Connection::reach(database, silence::limit()).map_err(|e| {
            if begun.elapsed() >= silence::limit() {
                silence::was_silent(database, asks);
            }
            Why::Engine.of(e)
        })?;
        engine.waits_for = WaitFor::Snapshot;
        let mut query = question.request(place, settings::MAX_WAIT_MS.get() as u64)?;
        query.observed = place.is_instrumented();
        let request = Request::Query(Box::new(query));
        shared::wake_worker(database);
        let mut message = if sent.is_empty() { Vec::new() } else { encode_sent(&sent) };
        message.append(&mut frame::encode(Kind::Request, &request));
        engine.request(message).map_err(|e| Why::Engine.of(e))?;
        Ok(Conversation {
            engine: Some(engine),
            asks,
            decoder: StreamDecoder::new(),
            undecoded: Buffer::from(&[] as &[u8]),
            received: 0,
            begun,
            time_left: settings::max_query_time(),
            ready: None,
            done: None,
            wait: Duration::ZERO,
        })
    }

    /// Waits until the engine has bound the request to its snapshot.
    pub fn await_ready(&mut self) -> Result<(), Trouble> {
        let timeout = silence::limit().saturating_sub(self.begun.elapsed());
        let answer = match self.engine.as_mut().ok_or_else(closed)?.receive(Some(timeout)) {
            Ok(Received::TimedOut) => return Err(self.unheard("engine did not answer in time".to_string().into())),
            Err(lost) => return Err(self.unheard(lost)),
            Ok(Received::Frame(Kind::Ready, payload)) => frame::parse(payload).map_err(|e| e.to_string().into()),
            Ok(Received::Frame(kind, payload)) => Err(trouble(kind, payload)),
        };
        self.engine.iter_mut().for_each(|engine| engine.waits_for = WaitFor::Answer);
        if std::mem::replace(&mut self.asks, Asks::AsUsual) == Asks::Again {
            silence::has_answered(session::database());
        }
        self.ready = Some(answer?);
        self.wait = self.begun.elapsed();
        Ok(())
    }

    /// The reason why no answer was received. If the engine was silent, records that in shared memory, so that other
    /// queries do not wait for the engine in vain.
    fn unheard(&self, lost: Lost) -> Trouble {
        if self.engine.as_ref().is_some_and(Connection::is_silent) {
            silence::was_silent(session::database(), self.asks);
        }
        lost.into()
    }

    /// Closes the connection, so that the engine cancels the query.
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
            let engine = self.engine.as_mut().ok_or_else(closed)?;
            let since = Instant::now();
            let received = engine.receive(self.time_left);
            // The time that passes while nobody asks for the rows of an open cursor does not count.
            if let Some(left) = &mut self.time_left {
                *left = left.saturating_sub(since.elapsed());
            }
            match received {
                Err(lost) => return Err(self.unheard(lost)),
                Ok(Received::TimedOut) => {
                    self.hang_up();
                    took_too_long();
                }
                Ok(Received::Frame(Kind::Arrow, _)) => {
                    // The payload holds whole Arrow messages, so the decoder's arrays can point into it without a copy.
                    self.undecoded = Buffer::from_vec(engine.take_payload());
                    self.received += self.undecoded.len();
                }
                Ok(Received::Frame(Kind::Done, payload)) => {
                    self.done = Some(frame::parse(payload).map_err(|e| e.to_string())?);
                    // The connection is kept for other queries already here, because a cursor may stay open for long.
                    self.engine.take().into_iter().for_each(Connection::keep);
                    return Ok(None);
                }
                Ok(Received::Frame(kind, payload)) => return Err(trouble(kind, payload)),
            }
        }
    }
}

/// Checks that the engine may be asked now. Called before anything is computed for the engine.
pub fn check_silence() -> Result<(), Reason> {
    match silence::pause(session::database()) {
        Some(left) if !verifying::now() => Err(is_silent(left)),
        _ => Ok(()),
    }
}

/// Whether the engine may be asked now. It may not if another process has just waited for it in vain. `anker.verify`
/// asks in any case.
fn may_ask(database: pg_sys::Oid) -> Result<Asks, Reason> {
    if verifying::now() {
        return Ok(Asks::AsUsual);
    }
    silence::may_ask(database).map_err(is_silent)
}

fn is_silent(left: Duration) -> Reason {
    Why::Engine.of(silence::reason(left))
}

/// Cancels the statement. The heap would take even longer.
fn took_too_long() -> ! {
    let message = "canceling statement due to anker.max_query_time";
    Error::new(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, message).raise()
}

fn closed() -> String {
    "connection to the engine is closed".to_string()
}

fn trouble(kind: Kind, payload: &[u8]) -> Trouble {
    match kind {
        Kind::Refused => match frame::parse::<Refusal>(payload) {
            Ok(refusal) => {
                let text = refusal.reason(|relid| relation_name(pg_sys::Oid::from(relid)));
                Trouble::Reason(why_refused(&refusal).of(text))
            }
            Err(e) => e.to_string().into(),
        },
        Kind::Failed => match frame::parse::<Failure>(payload) {
            Ok(failure) => Trouble::Failure(failure),
            Err(e) => e.to_string().into(),
        },
        other => format!("engine sent an unexpected message: {other:?}").into(),
    }
}

fn why_refused(refusal: &Refusal) -> Why {
    match refusal {
        Refusal::NotMirrored { .. } => Why::NotMirrored,
        Refusal::Loading { .. } => Why::NotLive,
        Refusal::FingerprintDiffers { .. } | Refusal::ColumnMissing { .. } => Why::Definition,
        Refusal::SnapshotTooOld { .. } => Why::OldSnapshot,
        Refusal::Unholdable { .. } => Why::Value,
        Refusal::TimedOut { .. } => Why::Lag,
        Refusal::TooManyQueries { .. }
        | Refusal::TooManyOfUser { .. }
        | Refusal::Busy { .. }
        | Refusal::BusyOfUser { .. } => Why::Busy,
        Refusal::OutOfMemory { .. } => Why::Memory,
        Refusal::NotForked { .. } => Why::Mechanism,
        Refusal::Version | Refusal::Protocol { .. } => Why::Engine,
    }
}
