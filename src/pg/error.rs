//! Errors and notices with the parts that PostgreSQL's users know: SQLSTATE, message, detail, hint.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// An error or a notice that is about to be raised.
pub struct Error(ErrorReport);

impl Error {
    pub fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Error {
        Error(ErrorReport::new(code, message.into(), "pg_anker"))
    }

    pub fn detail(self, detail: impl Into<String>) -> Error {
        Error(self.0.set_detail(detail.into()))
    }

    pub fn hint(self, hint: impl Into<String>) -> Error {
        Error(self.0.set_hint(hint.into()))
    }

    pub fn notice(self) {
        self.0.report(PgLogLevel::NOTICE);
    }

    pub fn raise(self) -> ! {
        self.0.report(PgLogLevel::ERROR);
        unreachable!("an error does not return")
    }
}
