//! Notes: logical messages that our workers write into the WAL for the capture worker to find.
//!
//! Some decisions are caused by no committed transaction: to read the list of mirrored tables at the start, or to watch
//! a table again after a fault. Still, each must be made at a definite position of the stream, under the catalog of
//! that position. A note marks such a position. Decoding reaches the note in order, and then calls back with the
//! historic snapshot of that position.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::pg::wal;

/// The prefix of our messages. Other consumers of logical decoding can skip messages by it.
pub const PREFIX: &CStr = c"pg_anker";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The addressee. A new capture worker has a new token, so it ignores notes to an earlier worker of the database.
    pub token: u64,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The tables that `anker.mirrored` listed when it was read. The stream itself brings later changes of the list.
    List { relids: Vec<u32> },
    /// Tables that the engine is to watch again.
    WatchAgain { relids: Vec<u32> },
    /// The database names this checkpoint, and that is durable.
    Anchored { id: u64 },
}

impl Note {
    pub fn write(&self) {
        // Serializing plain data into memory cannot fail.
        let bytes = postcard::to_stdvec(self).expect("plain data serialises");
        wal::write_message(PREFIX, &bytes);
    }

    /// The note that these bytes encode; `None` if another version of the library wrote them.
    pub fn read(bytes: &[u8]) -> Option<Note> {
        postcard::from_bytes(bytes).ok()
    }
}
