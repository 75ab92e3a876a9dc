//! `anker.tables` and `anker.engine` show the state in shared memory, and the engine's own report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use pgrx::JsonB;
use pgrx::prelude::*;
use protocol::delays::Percentiles;
use protocol::frame::{self, Kind};
use protocol::request::{Request, Status, TableStatus};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::client::{Connection, Received};
use crate::layout;
use crate::pg::{catalog, session, wal};
use crate::reason::Why;
use crate::shared::{self, DatabaseState, Table, TableState};

/// The time to wait for the engine's report. An engine that runs answers at once, and an engine that hangs must not
/// block the view.
pub const PATIENCE: Duration = Duration::from_secs(2);

const NO_ROOM: &str = "waits for room: raise anker.max_tables";

type TableRow = (
    pg_sys::Oid,
    String,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<Vec<String>>,
);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn tables_info() -> TableIterator<
    'static,
    (
        name!(relation, pg_sys::Oid),
        name!(state, String),
        name!(rows, Option<i64>),
        name!(bytes, Option<i64>),
        name!(index_bytes, Option<i64>),
        name!(undo_bytes, Option<i64>),
        name!(generation, Option<i64>),
        name!(rebuilds, Option<i64>),
        name!(errors, Option<i64>),
        name!(reason, Option<String>),
        name!(excluded_columns, Option<Vec<String>>),
    ),
> {
    let database = session::database();
    let status = status(database);
    let shared: BTreeMap<u32, Table> =
        shared::tables_of(database).into_iter().map(|table| (table.relid.to_u32(), table)).collect();
    let engine: HashMap<u32, &TableStatus> =
        status.iter().flat_map(|s| &s.tables).map(|table| (table.relid, table)).collect();
    let unfollowed = why_nothing_is_followed(database).unwrap_or_default();
    let relations: BTreeSet<u32> = shared.keys().copied().chain(registered()).collect();
    let rows: Vec<TableRow> = relations
        .into_iter()
        .filter_map(|relid| {
            // A table that was dropped gets no row.
            let excluded = layout::excluded_columns(relid.into())?;
            Some(table_row(relid, shared.get(&relid), engine.get(&relid).copied(), &unfollowed, excluded))
        })
        .collect();
    TableIterator::new(rows)
}

fn table_row(
    relid: u32,
    table: Option<&Table>,
    engine: Option<&TableStatus>,
    unfollowed: &str,
    excluded: Vec<String>,
) -> TableRow {
    let reason = match table {
        Some(table) if table.state == TableState::Live || !table.reason.as_str().is_empty() => table.reason.as_str(),
        None if shared::is_there() && shared::room_for_tables() == 0 => NO_ROOM,
        _ => unfollowed,
    };
    (
        relid.into(),
        table.map_or("registered", |t| t.state.name()).to_string(),
        engine.map(|e| e.rows as i64),
        engine.map(|e| e.bytes as i64),
        engine.map(|e| e.index_bytes as i64),
        engine.map(|e| e.undo_bytes as i64),
        table.map(|t| t.generation as i64),
        table.map(|t| t.rebuilds as i64),
        table.map(|t| t.errors as i64),
        (!reason.is_empty()).then(|| reason.to_string()),
        Some(excluded),
    )
}

/// The reason why no table of a database is followed; `None` if a worker is running.
fn why_nothing_is_followed(database: pg_sys::Oid) -> Option<String> {
    if !shared::is_there() {
        return Some(shared::NOT_LOADED.into());
    }
    if !wal::is_logical() {
        return Some(wal::NOT_LOGICAL.into());
    }
    let entry = shared::database(database).filter(|entry| entry.state != DatabaseState::Running)?;
    match entry.reason.as_str() {
        "" => Some(format!("the capture worker is {}", entry.state.name())),
        reason => Some(format!("the capture worker is {}: {reason}", entry.state.name())),
    }
}

/// The tables that are listed to be mirrored, even if no worker knows them yet.
fn registered() -> Vec<u32> {
    let relations = Spi::connect(|client| {
        let found = client.select("SELECT relation::oid FROM anker.mirrored", None, &[])?;
        found.map(|row| row.get::<pg_sys::Oid>(1)).collect::<Result<Vec<_>, _>>()
    });
    match relations {
        Ok(relations) => relations.into_iter().flatten().map(|oid| oid.to_u32()).collect(),
        Err(e) => error!("could not read anker.mirrored: {e}"),
    }
}

#[pg_extern]
#[allow(clippy::type_complexity)]
fn engine_info() -> TableIterator<
    'static,
    (
        name!(database, Option<String>),
        name!(worker_pid, Option<i32>),
        name!(engine_pid, Option<i32>),
        name!(state, String),
        name!(reason, Option<String>),
        name!(mechanism, Option<String>),
        name!(memory_bytes, Option<i64>),
        name!(memory_limit_bytes, Option<i64>),
        name!(undo_bytes, Option<i64>),
        name!(undo_transactions, Option<i64>),
        name!(pending_transactions, Option<i64>),
        name!(live_snapshots, Option<i64>),
        name!(copied_bytes, Option<i64>),
        name!(lsn, Option<i64>),
        name!(lag_bytes, Option<i64>),
        name!(transactions_applied, Option<i64>),
        name!(changes_applied, Option<i64>),
        name!(queries_running, Option<i64>),
        name!(queries_served, Option<i64>),
        name!(queries_refused, Option<i64>),
        name!(queries_failed, Option<i64>),
        name!(queries_cancelled, Option<i64>),
        name!(spilled_bytes, Option<i64>),
        name!(fallbacks, Option<i64>),
        name!(fallback_reasons, Option<JsonB>),
        name!(restarts, Option<i64>),
        name!(commit_to_applied_us, Option<JsonB>),
        name!(request_to_ready_us, Option<JsonB>),
    ),
> {
    let database = session::database();
    let entry = shared::database(database);
    let engine = status(database);
    let of = |field: fn(&Status) -> u64| engine.as_ref().map(|e| field(e) as i64);
    let pid = |pid: i32| (pid != 0).then_some(pid);
    let reason = match shared::is_there() {
        true => entry.as_ref().map(|e| e.reason.as_str()).filter(|reason| !reason.is_empty()),
        false => Some(shared::NOT_LOADED),
    };
    // An engine that has just started does not know its position yet.
    let lag = engine.as_ref().filter(|e| e.lsn > 0).map(|e| wal::insert_position().saturating_sub(e.lsn) as i64);
    TableIterator::once((
        catalog::database_name(database),
        entry.and_then(|e| pid(e.worker_pid)),
        engine.as_ref().map(|e| e.pid as i32).or_else(|| entry.and_then(|e| pid(e.engine_pid))),
        entry.map_or("idle", |e| e.state.name()).to_string(),
        reason.map(str::to_string),
        engine.as_ref().map(|e| e.mechanism.clone()),
        of(|e| e.memory_bytes),
        of(|e| e.memory_limit_bytes),
        of(|e| e.undo_bytes),
        of(|e| e.undo_transactions),
        of(|e| e.pending_transactions),
        of(|e| e.live_snapshots),
        of(|e| e.copied_bytes),
        of(|e| e.lsn),
        lag,
        of(|e| e.transactions_applied),
        of(|e| e.changes_applied),
        of(|e| e.queries_running),
        of(|e| e.queries_served),
        of(|e| e.queries_refused),
        of(|e| e.queries_failed),
        of(|e| e.queries_cancelled),
        of(|e| e.spilled_bytes),
        entry.map(|e| e.fallbacks as i64),
        entry.map(|e| fallback_reasons(&e)),
        entry.map(|e| e.restarts as i64),
        engine.as_ref().and_then(|e| percentiles(&e.commit_to_applied_us)),
        engine.as_ref().and_then(|e| percentiles(&e.request_to_ready_us)),
    ))
}

fn percentiles(delays: &[u64]) -> Option<JsonB> {
    let Percentiles { count, p50, p90, p99, max } = Percentiles::of(delays)?;
    Some(JsonB(json!({ "count": count, "p50": p50, "p90": p90, "p99": p99, "max": max })))
}

/// The measured delays of the latest transactions and of the latest requests, from which percentiles are computed.
#[pg_extern]
#[allow(clippy::type_complexity)]
fn latest_delays() -> TableIterator<
    'static,
    (
        name!(transactions_applied, Option<i64>),
        name!(commit_to_applied_us, Option<Vec<i64>>),
        name!(request_to_ready_us, Option<Vec<i64>>),
    ),
> {
    let engine = status(session::database());
    let delays = |field: fn(&Status) -> &Vec<u64>| {
        engine.as_ref().map(|e| field(e).iter().map(|&us| us as i64).collect::<Vec<i64>>())
    };
    TableIterator::once((
        engine.as_ref().map(|e| e.transactions_applied as i64),
        delays(|e| &e.commit_to_applied_us),
        delays(|e| &e.request_to_ready_us),
    ))
}

/// The number of queries that ran on the heap for each reason, by the reason's name.
fn fallback_reasons(database: &shared::Database) -> JsonB {
    let counts = Why::ALL.iter().map(|why| (why.name(), database.reasons[why.index()])).filter(|(_, count)| *count > 0);
    JsonB(counts.map(|(name, count)| (name.to_string(), serde_json::Value::from(count))).collect())
}

/// The engine's own report; `None` if the engine does not answer.
pub fn status(database: pg_sys::Oid) -> Option<Status> {
    ask(database, &Request::Status, Kind::Status)
}

/// The engine's answer to a request for figures; `None` if the engine does not answer.
pub fn ask<T: DeserializeOwned>(database: pg_sys::Oid, request: &Request, answer: Kind) -> Option<T> {
    let mut engine = Connection::reach(database, PATIENCE).ok()?;
    engine.request(frame::encode(Kind::Request, request)).ok()?;
    let Received::Frame(kind, payload) = engine.receive(Some(PATIENCE)).ok()? else { return None };
    let told = (kind == answer).then(|| frame::parse(payload).ok())?;
    engine.keep();
    told
}
