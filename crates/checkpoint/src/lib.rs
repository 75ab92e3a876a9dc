//! Checkpoints: the chunks of a database's mirrored tables in files, from which the mirror is made again after a
//! restart.
//!
//! ```text
//!   manifest 7 --> table --> index of its chunks --> pieces          immutable files, named by no one: removed
//!   manifest 8 --> table --> index of its chunks --> pieces
//!                                   '-- what did not change keeps its place in an older file
//! ```
//!
//! This crate knows nothing about tables, columns and transactions: a piece is a string of bytes. Writing a checkpoint
//! goes through these steps, and a crash between any two of them leaves the old checkpoint or the new one:
//!
//! 1. pieces and indexes are appended to new files, which are then flushed to disk;
//! 2. the manifest is written to a file of another name, flushed, and renamed; the directory is flushed;
//! 3. the caller makes the manifest's id durable elsewhere, and confirms it; only then the old checkpoint is removed.
//!
//! A checkpoint that fails removes its files. Every piece has a checksum, which is verified at each read.
//!
//! | file or folder, the upper ones first | job |
//! |---|---|
//! | `writer` | a new checkpoint |
//! | `directory` | the files of a database: found, locked, removed |
//! | `reader` | the chunks of a table, in order |
//! | `appender` | new files within limits of space and speed |
//! | `manifest` | what a checkpoint has: tables, chunks, places |
//! | `disk` | names, and the calls to the file system |
//! | `checksum` | CRC32C |
//! | `error` | the reasons why there is no checkpoint |

mod appender;
mod checksum;
mod directory;
mod disk;
mod error;
mod manifest;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use appender::{Limits, Pace};
pub use checksum::crc32c;
pub use directory::{Directory, Source};
pub use error::Error;
pub use manifest::{ChunkIndex, Database, Manifest, Piece, Place, TableEntry, TableHead, TableIndex};
pub use reader::{ChunkBytes, TableReader};
pub use writer::{Checkpoint, Finished, TableWriter};
