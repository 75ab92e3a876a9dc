//! Failures of a child, and of its reply.

use protocol::request::{Failure, FailureKind};

/// Why a child gives up. The heap knows better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Some value is an error, perhaps.
    Raised,
    TooManyGroups,
    /// A key is a long text.
    LongText,
}

pub fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure { kind, message: message.into() }
}
