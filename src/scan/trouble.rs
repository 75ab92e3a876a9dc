//! Failures of the engine. Each becomes a reason to use the heap, or an error.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use protocol::request::{Failure, FailureKind};

use crate::client::Lost;
use crate::reason::{Reason, Why};

/// The reason why there is no result of the engine.
pub enum Trouble {
    /// The engine cannot serve this request, or cannot be reached.
    Reason(Reason),
    /// The query itself failed in the engine.
    Failure(Failure),
}

impl Trouble {
    /// The reason that EXPLAIN shows.
    pub fn reason(&self) -> Reason {
        match self {
            Trouble::Reason(reason) => reason.clone(),
            Trouble::Failure(Failure { kind: FailureKind::Internal, message }) => {
                Why::Error.of(format!("{message} in the engine; the server's log has details"))
            }
            Trouble::Failure(failure) => {
                let why = match failure.kind {
                    FailureKind::OutOfMemory | FailureKind::SnapshotGivenUp => Why::Memory,
                    FailureKind::TooLarge => Why::TooLarge,
                    FailureKind::Forked => Why::Mechanism,
                    kind if kind.is_postgresqls() => Why::Error,
                    _ => Why::Value,
                };
                why.of(format!("the engine reports: {}", failure.message))
            }
        }
    }

    /// Raises the error that PostgreSQL would have raised.
    pub fn raise(self) -> ! {
        let hint = match &self {
            Trouble::Failure(failure) => match failure.kind {
                FailureKind::SnapshotGivenUp => {
                    Some("Run the query again, read a cursor sooner, or raise anker.memory.")
                }
                FailureKind::Internal => Some("Please report it, with what the server's log says about it."),
                _ => None,
            },
            Trouble::Reason(_) => None,
        };
        let (code, message) = match self {
            Trouble::Reason(reason) => {
                let code = match reason.why {
                    Why::Memory => PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
                    _ => PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                };
                (code, format!("columnar engine: {reason}"))
            }
            Trouble::Failure(failure) if failure.kind.is_postgresqls() => (code(failure.kind), failure.message),
            Trouble::Failure(failure) => (code(failure.kind), format!("columnar engine: {}", failure.message)),
        };
        let report = ErrorReport::new(code, message, "raise");
        let report = match hint {
            Some(hint) => report.set_hint(hint),
            None => report,
        };
        report.report(PgLogLevel::ERROR);
        unreachable!("ERROR does not return")
    }
}

impl From<Lost> for Trouble {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::NoMemory(what) => Trouble::Reason(Why::Memory.of(what)),
            Lost::Other(what) => what.into(),
        }
    }
}

/// A failure of the connection between this process and the engine.
impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Trouble::Reason(Why::Engine.of(what))
    }
}

fn code(kind: FailureKind) -> PgSqlErrorCode {
    use PgSqlErrorCode::*;
    match kind {
        FailureKind::DivisionByZero => ERRCODE_DIVISION_BY_ZERO,
        FailureKind::SmallintOutOfRange
        | FailureKind::IntegerOutOfRange
        | FailureKind::BigintOutOfRange
        | FailureKind::FloatOverflow
        | FailureKind::FloatUnderflow => ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        FailureKind::DateOutOfRange
        | FailureKind::TimestampOutOfRange
        | FailureKind::NoTimestamp
        | FailureKind::IntervalOutOfRange => ERRCODE_DATETIME_FIELD_OVERFLOW,
        FailureKind::PercentileOutOfRange => ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        FailureKind::NegativeSquareRoot => ERRCODE_INVALID_ARGUMENT_FOR_POWER_FUNCTION,
        FailureKind::PatternEndsInEscape => ERRCODE_INVALID_ESCAPE_SEQUENCE,
        FailureKind::NegativeSubstring => ERRCODE_SUBSTRING_ERROR,
        FailureKind::FieldZero => ERRCODE_INVALID_PARAMETER_VALUE,
        FailureKind::SeveralRows => ERRCODE_CARDINALITY_VIOLATION,
        FailureKind::NegativeLimit => ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
        FailureKind::NegativeOffset => ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
        FailureKind::DecimalTooWide
        | FailureKind::FloatTooLarge
        | FailureKind::InfiniteDecimal
        | FailureKind::IntervalTooLong
        | FailureKind::UnknownStyle => ERRCODE_FEATURE_NOT_SUPPORTED,
        FailureKind::TextUnread => ERRCODE_INVALID_TEXT_REPRESENTATION,
        FailureKind::NoArray => ERRCODE_INVALID_PARAMETER_VALUE,
        FailureKind::NoCharacter => ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        FailureKind::Undefined => ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        FailureKind::TooLarge | FailureKind::Forked => ERRCODE_STATEMENT_TOO_COMPLEX,
        FailureKind::SnapshotGivenUp => ERRCODE_SNAPSHOT_TOO_OLD,
        FailureKind::OutOfMemory => ERRCODE_OUT_OF_MEMORY,
        FailureKind::BucketsNotPositive => ERRCODE_INVALID_ARGUMENT_FOR_NTILE,
        FailureKind::NthNotPositive => ERRCODE_INVALID_ARGUMENT_FOR_NTH_VALUE,
        FailureKind::Internal => ERRCODE_INTERNAL_ERROR,
    }
}
