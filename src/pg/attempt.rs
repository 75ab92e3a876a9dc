//! Evaluating what PostgreSQL might not have come to evaluate.

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

/// Does it in a subtransaction, so that an error in it is a reason for the heap, which raises it if need be, and so
/// is a panic. Errors that are not about the work itself go on as they are.
pub fn attempt<T, E: From<Raised>>(work: impl FnOnce() -> Result<T, E> + UnwindSafe) -> Result<T, E> {
    transaction::attempt(work, |error| match error {
        CaughtError::PostgresError(raised) | CaughtError::ErrorReport(raised)
            if !ends_the_statement(raised.sql_error_code()) =>
        {
            Err(E::from(Raised(format!("a value in it raises: {}", raised.message()))))
        }
        // What is our own fault must not cost anybody an answer.
        CaughtError::RustPanic { ereport, .. } => {
            log!("pg_anker: a query is left to the heap by a defect: {}", ereport.message());
            Err(E::from(Raised(format!("a defect of pg_anker: {}", ereport.message()))))
        }
        other => other.rethrow(),
    })
}

/// Whether an error is about the session or the server, not about the value. To try again on the heap would disobey a
/// cancel, or wait for the same thing a second time.
fn ends_the_statement(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode::*;
    matches!(code, ERRCODE_LOCK_NOT_AVAILABLE | ERRCODE_ASSERT_FAILURE)
        || matches!(
            &class(code),
            // Transaction rollback (serialization, deadlock), insufficient resources, operator intervention (cancel,
            // shutdown). A file that is not there (58) is one of a foreign table perhaps, which the heap need not read.
            b"40" | b"53" | b"57"
        )
}

/// The first two characters of a SQLSTATE: PostgreSQL packs six bits of each, the first character lowest.
fn class(code: PgSqlErrorCode) -> [u8; 2] {
    let packed = code as i32;
    [0, 6].map(|shift| (packed >> shift & 0x3f) as u8 + b'0')
}
