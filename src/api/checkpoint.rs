//! `anker.checkpoint()` makes the engine write its columns to disk. `anker.checkpoints` shows the last time it did, and
//! `anker.tables` the rows that came from there.

use pgrx::prelude::*;
use protocol::frame::{self, Kind};
use protocol::request::{CheckpointReport, KeptStatus, Request, TableStatus};

use super::{require_library, views};
use crate::client::{Connection, Received};
use crate::pg::error::Error;
use crate::pg::session;

type Written = Result<CheckpointReport, String>;

#[pg_extern]
#[allow(clippy::type_complexity)]
fn checkpoint()
-> TableIterator<'static, (name!(tables, i64), name!(rows, i64), name!(bytes_written, i64), name!(seconds, f64))> {
    require_library();
    match ask().and_then(|written| written) {
        Ok(CheckpointReport { tables, rows, bytes_written, elapsed_us }) => {
            TableIterator::once((tables as i64, rows as i64, bytes_written as i64, seconds(elapsed_us)))
        }
        Err(reason) => Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "could not write a checkpoint of the columnar mirror",
        )
        .detail(reason)
        .hint("The views anker.engine and anker.checkpoints and the server log say more.")
        .raise(),
    }
}

/// Asks the engine, and waits for as long as it works.
fn ask() -> Result<Written, String> {
    let mut engine = Connection::reach(session::database(), views::PATIENCE)?;
    engine.request(frame::encode(Kind::Request, &Request::Checkpoint))?;
    let Received::Frame(Kind::Checkpoint, payload) = engine.receive(None)? else {
        return Err("the engine has another answer".into());
    };
    let written = frame::parse(payload).map_err(|e| e.to_string())?;
    engine.keep();
    Ok(written)
}

#[pg_extern]
#[allow(clippy::type_complexity)]
fn checkpoint_info() -> TableIterator<
    'static,
    (
        name!(started, Option<TimestampWithTimeZone>),
        name!(seconds, f64),
        name!(tables, i64),
        name!(rows, i64),
        name!(bytes_written, i64),
        name!(disk_bytes, i64),
        name!(error, Option<String>),
    ),
> {
    let last = views::status(session::database()).map(|status| status.checkpoint).filter(|last| last.started != 0);
    TableIterator::new(last.map(|last| {
        (
            TimestampWithTimeZone::try_from(last.started).ok(),
            seconds(last.elapsed_us),
            last.tables as i64,
            last.rows as i64,
            last.bytes_written as i64,
            last.disk_bytes as i64,
            last.error,
        )
    }))
}

#[pg_extern]
#[allow(clippy::type_complexity)]
fn origins_info() -> TableIterator<
    'static,
    (
        name!(relation, pg_sys::Oid),
        name!(checkpoint_rows, i64),
        name!(heap_blks_total, i64),
        name!(heap_blks_changed, i64),
    ),
> {
    let tables = views::status(session::database()).map(|status| status.tables).unwrap_or_default();
    let row = |table: &TableStatus| {
        let KeptStatus { rows, blocks, changed_blocks } = table.kept?;
        Some((table.relid.into(), rows as i64, blocks as i64, changed_blocks as i64))
    };
    TableIterator::new(tables.iter().filter_map(row).collect::<Vec<_>>())
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
