//! Evaluates expressions early, although PostgreSQL itself might never evaluate them.

use std::panic::UnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::transaction;

/// The message of an error that was caught and rolled back.
pub struct Raised(pub String);

impl From<Raised> for String {
    fn from(raised: Raised) -> String {
        raised.0
    }
}

/// Runs `work` in a subtransaction. An error or a panic in it becomes a reason to run on the heap. The heap raises the
/// error again if the query really evaluates the expression. Errors about the session or the server are raised
/// unchanged.
pub fn attempt<T, E: From<Raised>>(work: impl FnOnce() -> Result<T, E> + UnwindSafe) -> Result<T, E> {
    transaction::attempt(work, |error| match error {
        CaughtError::PostgresError(raised) | CaughtError::ErrorReport(raised)
            if !ends_the_statement(raised.sql_error_code()) =>
        {
            Err(E::from(Raised(format!("a value in it raises: {}", raised.message()))))
        }
        // A defect of pg_anker must not deprive a user of the answer.
        CaughtError::RustPanic { ereport, .. } => {
            log!("pg_anker: a query is left to the heap by a defect: {}", ereport.message());
            Err(E::from(Raised(format!("a defect of pg_anker: {}", ereport.message()))))
        }
        other => other.rethrow(),
    })
}

/// Whether an error is about the session or the server, not about the value. If the query went on to the heap after
/// this kind of error, it would ignore a cancel, or wait for the same lock again.
fn ends_the_statement(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode::*;
    matches!(code, ERRCODE_LOCK_NOT_AVAILABLE | ERRCODE_ASSERT_FAILURE)
        || matches!(
            &class(code),
            // Transaction rollback (serialization, deadlock), insufficient resources, and operator intervention
            // (cancel, shutdown). A missing file (58) is left out, because it may belong to a foreign table that the
            // heap need not read.
            b"40" | b"53" | b"57"
        )
}

/// The first two characters of a SQLSTATE. PostgreSQL packs each character into six bits, the first one lowest.
fn class(code: PgSqlErrorCode) -> [u8; 2] {
    let packed = code as i32;
    [0, 6].map(|shift| (packed >> shift & 0x3f) as u8 + b'0')
}
