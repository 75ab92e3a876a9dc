//! Messages between capture worker, loaders, backends and engine.
//!
//! ```text
//!  capture worker ==ring (memfd)==> engine        StreamMessage: decoded transactions, gates, positions, watches
//!  capture worker <--socketpair---- engine        control::ToWorker: a table went live, a table must be rebuilt
//!  loader         ---unix socket--> engine        Request::Load, rows, LoadEnd
//!  backend        ---unix socket--> engine        Request::{Query, Explain, Survey, Status}
//! ```
//!
//! The crate knows neither PostgreSQL nor the engine's columns. [`VERSION`] changes whenever a message changes its form
//! or meaning; both sides of every channel check it first.

pub mod change;
pub mod control;
pub mod delays;
pub mod frame;
pub mod mechanism;
pub mod request;
pub mod ring;
pub mod snapshot;
pub mod survey;
pub mod tree;

pub use snapshot::Snapshot;

pub const VERSION: u32 = 12;

/// The environment of the engine process: descriptor numbers, and its settings.
pub mod env {
    /// The ring's memfd.
    pub const RING_FD: &str = "PG_ANKER_RING_FD";
    /// The engine's end of the control socketpair.
    pub const CONTROL_FD: &str = "PG_ANKER_CONTROL_FD";
    /// The socket's path, relative to the data directory, which is the engine's working directory.
    pub const SOCKET: &str = "PG_ANKER_SOCKET";
    /// The path of the file for data that does not fit into memory, relative in the same way.
    pub const DISK: &str = "PG_ANKER_DISK";
    /// JSON-free `key=value` pairs, one a line: see [`crate::control::Settings`].
    pub const SETTINGS: &str = "PG_ANKER_SETTINGS";
}

#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("message ends too early")]
    Truncated,
    #[error("unknown message tag {0}")]
    UnknownTag(u8),
    #[error("message cannot be decoded: {0}")]
    Decode(#[from] postcard::Error),
    #[error("message of {0} bytes is longer than allowed")]
    TooLong(usize),
    #[error("no memory for a message of {0} bytes")]
    NoMemory(usize),
    #[error("the other side speaks protocol version {theirs}, this one {ours}")]
    Version { theirs: u32, ours: u32 },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

pub type Result<T> = std::result::Result<T, ProtocolError>;
