//! The SQL functions, and the removal of dropped tables from the list of mirrored tables.

mod activity;
mod calibrate;
mod checkpoint;
mod columns;
mod configure;
mod dropped;
mod loads;
mod mirror;
mod partitions;
mod query;
mod statements;
mod tables;
mod verify;
mod views;

use pgrx::prelude::*;

use crate::pg::error::Error;
use crate::shared;

/// Installs the hooks; called while the library is preloaded.
pub fn init() {
    dropped::install();
    partitions::install();
}

/// Raises an error if the server was started without the library.
pub fn require_library() {
    if !shared::is_there() {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "pg_anker must be loaded when the server starts",
        )
        .hint("Add pg_anker to shared_preload_libraries in postgresql.conf and restart the server.")
        .raise();
    }
}
