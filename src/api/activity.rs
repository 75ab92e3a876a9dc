//! `anker.activity` shows the queries that are open in the engine of this database.

use pgrx::prelude::*;
use protocol::frame::Kind;
use protocol::request::{QueryActivity, Request};

use super::views;
use crate::pg::{rights, session};

/// The process, its user, and what only users see who may see the activity of that user.
type Row = (
    i32,
    pg_sys::Oid,
    Option<TimestampWithTimeZone>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i32>,
    Option<i64>,
);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn activity_info() -> TableIterator<
    'static,
    (
        name!(pid, i32),
        name!(usesysid, pg_sys::Oid),
        name!(started, Option<TimestampWithTimeZone>),
        name!(phase, Option<String>),
        name!(rows, Option<i64>),
        name!(memory_bytes, Option<i64>),
        name!(disk_bytes, Option<i64>),
        name!(spilled_bytes, Option<i64>),
        name!(threads, Option<i32>),
        name!(query_id, Option<i64>),
    ),
> {
    let open: Option<Vec<QueryActivity>> = views::ask(session::database(), &Request::Activity, Kind::Activity);
    TableIterator::new(open.into_iter().flatten().map(row).collect::<Vec<_>>())
}

fn row(query: QueryActivity) -> Row {
    let user = pg_sys::Oid::from(query.user);
    if !rights::may_see_activity_of(user) {
        return (query.backend, user, None, None, None, None, None, None, None, None);
    }
    let started = session::now() - query.elapsed_us as i64;
    (
        query.backend,
        user,
        TimestampWithTimeZone::try_from(started).ok(),
        Some(query.phase.name().to_owned()),
        Some(query.rows as i64),
        Some(query.memory_bytes as i64),
        Some(query.disk_bytes as i64),
        Some(query.spilled_bytes as i64),
        Some(query.threads as i32),
        (query.query_id != 0).then_some(query.query_id),
    )
}
