//! `anker.loads` shows the progress of the loads of this database's tables.

use pgrx::prelude::*;

use crate::pg::session;
use crate::shared::loads::{self, Load};

#[pg_extern]
#[allow(clippy::type_complexity)]
fn loads_info() -> TableIterator<
    'static,
    (
        name!(pid, i32),
        name!(relation, pg_sys::Oid),
        name!(phase, String),
        name!(started, Option<TimestampWithTimeZone>),
        name!(heap_blks_total, i64),
        name!(heap_blks_scanned, i64),
        name!(tuples_processed, i64),
        name!(bytes_processed, i64),
    ),
> {
    let row = |load: Load| {
        (
            load.pid,
            load.relid,
            load.phase.name().to_owned(),
            TimestampWithTimeZone::try_from(load.started).ok(),
            load.blocks as i64,
            load.blocks_read as i64,
            load.rows as i64,
            load.bytes as i64,
        )
    };
    TableIterator::new(loads::of_database(session::database()).into_iter().map(row).collect::<Vec<_>>())
}
