//! Messages between capture worker, loaders, backends and engine.
//!
//! ```text
//!  capture worker ==ring (memfd)==> engine        StreamMessage: decoded transactions, gates, positions, watches
//!  capture worker <--socketpair---- engine        control::ToWorker: a table serves queries, a table must be rebuilt
//!  loader         ---unix socket--> engine        Request::Load, rows, LoadEnd
//!  backend        ---unix socket--> engine        Request::{Query, Explain, Survey, Status, Activity}
//! ```
//!
//! The crate uses neither PostgreSQL nor the engine's columns. The two sides of every channel first compare their
//! [`VERSION`]s.

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

/// A number that differs between releases, and between builds whose messages may differ. `build.rs` computes it.
pub const VERSION: u64 = match u64::from_str_radix(env!("ANKER_PROTOCOL_VERSION"), 10) {
    Ok(version) => version,
    Err(_) => panic!("build.rs sets a number"),
};

/// Names of the environment variables with which the engine process is started.
pub mod env {
    /// The number of the descriptor of the ring's memfd.
    pub const RING_FD: &str = "PG_ANKER_RING_FD";
    /// The number of the descriptor of the engine's end of the control socketpair.
    pub const CONTROL_FD: &str = "PG_ANKER_CONTROL_FD";
    /// The socket's path, relative to the data directory, which is the engine's working directory.
    pub const SOCKET: &str = "PG_ANKER_SOCKET";
    /// The path of the file for data that does not fit into memory, relative to the data directory.
    pub const DISK: &str = "PG_ANKER_DISK";
    /// The path of the directory for checkpoints, relative to the data directory.
    pub const CHECKPOINTS: &str = "PG_ANKER_CHECKPOINTS";
    /// The engine's settings as `key=value` pairs, one a line: see [`crate::control::Settings`].
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
    #[error("the other side is of another build")]
    Version,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

pub type Result<T, E = ProtocolError> = std::result::Result<T, E>;
