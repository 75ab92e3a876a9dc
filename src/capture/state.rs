//! The state of the worker that the views show, and the ways in which a worker ends itself.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::pg::{compat, session};
use crate::shared::{self, DatabaseState, FixedText};

/// Ends the worker because of a failure. The launcher then starts another one, which begins from nothing.
pub fn give_up(reason: &str) -> ! {
    let database = session::database();
    set_state(database, DatabaseState::Backoff, reason);
    log!("pg_anker: capture worker of database {} ends: {reason}", database.to_u32());
    compat::end_process(1)
}

/// Like [`give_up`], but the reason is a setting that the administrator must change.
pub fn give_up_on_setting(reason: &str, hint: &str) -> ! {
    set_state(session::database(), DatabaseState::Backoff, reason);
    let code = PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED;
    ErrorReport::new(code, format!("pg_anker mirrors nothing: {reason}"), "pg_anker")
        .set_hint(hint)
        .report(PgLogLevel::LOG);
    compat::end_process(1)
}

pub fn set_state(database: pg_sys::Oid, state: DatabaseState, reason: &str) {
    shared::set_state(database, state, |d| d.reason = FixedText::new(reason));
}
