//! Errors that carry their meaning through DataFusion.
//!
//! An expression or aggregate raises a [`QueryError`]. DataFusion passes it on inside its own error, perhaps wrapped
//! several times. [`failure`] finds it again.

use std::error::Error;

use datafusion_common::error::DataFusionError;
use locale::Locale;
use protocol::request::{Failure, FailureKind};

/// An error that PostgreSQL would raise, or a value that the engine cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryError(pub FailureKind);

impl std::fmt::Display for QueryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.message())
    }
}

impl Error for QueryError {}

impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// The error for a plan that is not well-formed.
pub fn internal(message: impl Into<String>) -> Failure {
    Failure { kind: FailureKind::Internal, message: message.into() }
}

/// A locale by its name in a plan; it must exist on this machine.
pub fn known_locale(name: &str) -> Result<&'static Locale, DataFusionError> {
    let unknown = || DataFusionError::Internal(format!("there is no locale \"{name}\" for UTF-8"));
    Locale::named(name).ok_or_else(unknown)
}

/// Converts a DataFusion error to a failure, which depends on the error's cause.
pub fn failure(error: &DataFusionError) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(raised) = e.downcast_ref::<QueryError>() {
            return Failure { kind: raised.0, message: raised.to_string() };
        }
        if let Some(DataFusionError::ResourcesExhausted(message)) = e.downcast_ref() {
            // The message of DataFusion's exchange mentions DataFusion's disk manager, which the engine does not use.
            let message = match message.contains("DiskManager") {
                true => "no room in anker.query_memory or anker.max_query_memory for rows on their way between threads",
                false => message,
            };
            return Failure { kind: FailureKind::OutOfMemory, message: message.into() };
        }
        // The error's own text would ask the reader to report a bug of DataFusion.
        if let Some(DataFusionError::Internal(message)) = e.downcast_ref() {
            return internal(message.as_str());
        }
        cause = e.source();
    }
    internal(error.strip_backtrace())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::ArrowError;

    use super::*;

    fn raised() -> DataFusionError {
        QueryError(FailureKind::DivisionByZero).into()
    }

    #[test]
    fn the_cause_is_found_below_any_wrapping() {
        let wrapped = [
            raised(),
            raised().context("a").context("b"),
            DataFusionError::Shared(Arc::new(raised().context("c"))),
            DataFusionError::External(Box::new(DataFusionError::Shared(Arc::new(raised())))),
            DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(raised()))), None),
            DataFusionError::from(ArrowError::from_external_error(Box::new(raised()))),
            DataFusionError::External(Box::new(Arc::new(raised()))),
        ];
        for error in wrapped {
            assert_eq!(failure(&error).kind, FailureKind::DivisionByZero, "{error:?}");
        }
    }

    #[test]
    fn a_full_memory_pool_is_out_of_memory() {
        let error = DataFusionError::ResourcesExhausted("pool".into()).context("join");
        assert_eq!(failure(&DataFusionError::Shared(Arc::new(error))).kind, FailureKind::OutOfMemory);
    }

    #[test]
    fn everything_else_is_internal() {
        assert_eq!(failure(&DataFusionError::Execution("x".into())).kind, FailureKind::Internal);
    }

    #[test]
    fn a_panic_is_told_without_datafusions_words() {
        let error = DataFusionError::Internal("panic: index out of bounds".into()).context("a task");
        assert_eq!(failure(&DataFusionError::Shared(Arc::new(error))), internal("panic: index out of bounds"));
    }
}
