//! Failures. They are errors, never an abort, and leave everything as it was before the call. There is one exception:
//! if the system, not the pool, runs out of memory while several threads copy, an abort is possible.

use std::io;
use std::process::ExitStatus;

/// A lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfMemory {
    /// The pool's limit is reached, or the system has no memory to give.
    #[error("no room for {wanted} bytes more within the limit of {limit} bytes")]
    Limit { wanted: u64, limit: u64 },
    /// The system refused a call that a mechanism needs: for memory, mapped areas, or open files.
    #[error("{call} failed: {}{}{hint}", io::Error::from_raw_os_error(*errno), if hint.is_empty() { "" } else { "; " })]
    System {
        call: &'static str,
        errno: i32,
        /// Advice for the administrator; may be empty.
        hint: &'static str,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool's limit is reached, or the system has no memory to give.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The system refused a call.
    #[error("{call} failed: {source}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    System {
        call: &'static str,
        source: io::Error,
        /// Advice for the administrator; may be empty.
        hint: &'static str,
    },
    /// The child process of a snapshot by fork has ended.
    #[error("the snapshot's process has ended: {0}")]
    ChildEnded(ExitStatus),
    /// The mechanism cannot work on this system at all.
    #[error("{0}")]
    Unavailable(&'static str),
}

/// Makes any error a lack of memory, for callers that need not distinguish the causes.
impl From<Error> for OutOfMemory {
    fn from(error: Error) -> OutOfMemory {
        let refused = |call, errno, hint| OutOfMemory::System { call, errno, hint };
        match error {
            Error::OutOfMemory(refused) => refused,
            Error::System { call, source, hint } => refused(call, source.raw_os_error().unwrap_or(libc::ENOMEM), hint),
            Error::Unavailable(why) => refused("the snapshot mechanism", libc::ENOSYS, why),
            Error::ChildEnded(_) => refused("the snapshot's process", libc::ESRCH, ""),
        }
    }
}

impl Error {
    /// An error from `errno`, as the last system call has set it.
    pub(crate) fn last(call: &'static str, hint: &'static str) -> Error {
        Error::System { call, source: io::Error::last_os_error(), hint }
    }
}
