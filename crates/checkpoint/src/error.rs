//! The reasons why a checkpoint cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{call} \"{}\": {source}", path.display())]
    System { call: &'static str, path: PathBuf, source: io::Error },
    #[error("another engine uses the checkpoints in \"{}\"", .0.display())]
    Busy(PathBuf),
    #[error("checkpoints would take more than their limit of {limit} bytes")]
    Limit { limit: u64 },
    #[error("checkpoints would leave less than {reserve} bytes free in their file system")]
    NoSpace { reserve: u64 },
    #[error("checkpoint is damaged: {0}")]
    Damaged(&'static str),
    #[error("no checkpoint has this id")]
    Unknown,
    #[error("the last checkpoint is not confirmed")]
    Unconfirmed,
    #[error("writing was cancelled")]
    Cancelled,
    /// A write or flush has failed before, so nothing more may be written to these files.
    #[error("an earlier write of this checkpoint has failed")]
    Void,
}

impl Error {
    pub(crate) fn system(call: &'static str, path: &Path, source: io::Error) -> Error {
        Error::System { call, path: path.into(), source }
    }
}
