//! Functions that are called in queries.

use pgrx::prelude::*;

use crate::pg::error::Error;

/// The flag of a query. The planner removes the call. If it is still there, the query was planned without pg_anker, and
/// the function returns true.
#[pg_extern]
fn olap() -> bool {
    true
}

/// Stands for the engine's result while a query is planned. It is replaced before the plan runs.
#[pg_extern]
fn engine_result() {
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, "anker.engine_result() cannot be called").raise();
}
