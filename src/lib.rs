//! pg_anker: fast analytic queries on a live PostgreSQL. See docs/internals.md.

use pg::error::Error;
use pgrx::prelude::*;

mod api;
mod capture;
mod client;
mod layout;
mod load;
mod note;
mod pg;
mod planner;
mod scan;
mod settings;
mod shared;
mod spec;

::pgrx::pg_module_magic!(name, version);

#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    // SAFETY: a plain flag of the server, read on its main thread.
    if !unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "pg_anker must be loaded when the server starts",
        )
        .hint("Add pg_anker to shared_preload_libraries in postgresql.conf and restart the server.")
        .raise();
    }
    settings::init();
    shared::init();
    capture::init();
    planner::init();
    scan::init();
}
