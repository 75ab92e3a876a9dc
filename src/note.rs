//! Notes: logical messages that our workers write into the WAL for the capture worker to find.
//!
//! No committed transaction causes certain decisions: to read the list of mirrored tables at the start, or to watch a
//! table again after a fault. Still they must be made at a definite position of the stream, under the catalog of that
//! position. A note marks one: decoding reaches it in order, and calls back with the historic snapshot of that
//! position.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::pg::wal;

/// The prefix of our messages, by which other consumers of logical decoding can skip them.
pub const PREFIX: &CStr = c"pg_anker";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The addressee: it distinguishes notes to this worker from notes to an earlier worker of the database.
    pub token: u64,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The contents of `anker.mirrored`, without changes that the stream itself has brought or will bring.
    List { relids: Vec<u32> },
    /// Tables that are to be watched again.
    WatchAgain { relids: Vec<u32> },
}

impl Note {
    pub fn write(&self) {
        // Serialising plain data into memory cannot fail.
        let bytes = postcard::to_stdvec(self).expect("plain data serialises");
        wal::write_message(PREFIX, &bytes);
    }

    /// The note in these bytes; `None` if they come from another version.
    pub fn read(bytes: &[u8]) -> Option<Note> {
        postcard::from_bytes(bytes).ok()
    }
}
