//! Failures of a child, as its reply reports them.

use protocol::request::{Failure, FailureKind};

/// The reason why a child gives up. The query then runs on the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The computation of a value may raise an error.
    Raised,
    TooManyGroups,
    /// A key is a long text.
    LongText,
}

pub fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure { kind, message: message.into() }
}
