//! Functions that are called in queries.

use pgrx::prelude::*;

use crate::pg::error::Error;

/// Flags a query for the engine. The planner removes calls of this function. A call that remains runs in a query that
/// was planned without pg_anker, and returns true.
#[pg_extern]
fn olap() -> bool {
    true
}

/// Stands for the engine's result while a query is planned. The planner replaces it before the plan runs.
#[pg_extern]
fn engine_result() {
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, "anker.engine_result() cannot be called").raise();
}
