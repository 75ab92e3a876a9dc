//! Evaluating an expression early that PostgreSQL itself might never have evaluated.

use std::panic::UnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::transaction;

/// The message of an error that was taken back.
pub struct Raised(pub String);

impl From<Raised> for String {
    fn from(raised: Raised) -> String {
        raised.0
    }
}

/// Runs `work` in a subtransaction. An error or a panic in it becomes a reason to run on the heap, which raises the
/// error again if the query really meets it. Errors about the session or the server go on as they are.
pub fn attempt<T, E: From<Raised>>(work: impl FnOnce() -> Result<T, E> + UnwindSafe) -> Result<T, E> {
    transaction::attempt(work, |error| match error {
        CaughtError::PostgresError(raised) | CaughtError::ErrorReport(raised)
            if !ends_the_statement(raised.sql_error_code()) =>
        {
            Err(E::from(Raised(format!("a value in it raises: {}", raised.message()))))
        }
        // A defect of pg_anker must not cost a user the answer.
        CaughtError::RustPanic { ereport, .. } => {
            log!("pg_anker: a query is left to the heap by a defect: {}", ereport.message());
            Err(E::from(Raised(format!("a defect of pg_anker: {}", ereport.message()))))
        }
        other => other.rethrow(),
    })
}

/// Whether an error is about the session or the server, not about the value. A second try on the heap would ignore a
/// cancel, or wait for the same thing again.
fn ends_the_statement(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode::*;
    matches!(code, ERRCODE_LOCK_NOT_AVAILABLE | ERRCODE_ASSERT_FAILURE)
        || matches!(
            &class(code),
            // Transaction rollback (serialization, deadlock), insufficient resources, and operator intervention
            // (cancel, shutdown). A missing file (58) is none of these: it may belong to a foreign table that the heap
            // need not read.
            b"40" | b"53" | b"57"
        )
}

/// The first two characters of a SQLSTATE: PostgreSQL packs six bits of each, the first character lowest.
fn class(code: PgSqlErrorCode) -> [u8; 2] {
    let packed = code as i32;
    [0, 6].map(|shift| (packed >> shift & 0x3f) as u8 + b'0')
}
