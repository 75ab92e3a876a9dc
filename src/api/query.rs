//! Functions that stand in queries.

use pgrx::prelude::*;

use crate::pg::error::Error;

/// Flags a query. The planner takes the call away; where it is still there (a query that was planned without us), it
/// is what it says.
#[pg_extern]
fn olap() -> bool {
    true
}

/// Stands for the engine's result while a query is planned, and is replaced before the plan is run.
#[pg_extern]
fn engine_result() {
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, "anker.engine_result() cannot be called").raise();
}
