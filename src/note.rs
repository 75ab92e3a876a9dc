//! Notes: logical messages that workers of ours write into the WAL for the capture worker to find.
//!
//! Some decisions are not caused by a committed transaction: the list of mirrored tables at the start, or watching a
//! table again after a fault. Still they have to be made at a definite position of the stream, under the catalog of
//! that position. A note makes one: decoding reaches it in order and calls back with the historic snapshot of just
//! there.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::pg::wal;

/// Other consumers of logical decoding see our messages under this prefix and can skip them.
pub const PREFIX: &CStr = c"pg_anker";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The addressee, which tells notes to this worker from those to an earlier worker of the database.
    pub token: u64,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The contents of `anker.mirrored`, except changes that the stream itself has brought or will bring.
    List { relids: Vec<u32> },
    /// Time to watch tables again.
    WatchAgain { relids: Vec<u32> },
}

impl Note {
    pub fn write(&self) {
        // Serialising plain data into memory has no way to fail.
        let bytes = postcard::to_stdvec(self).expect("plain data serialises");
        wal::write_message(PREFIX, &bytes);
    }

    /// `None` for bytes of another version.
    pub fn read(bytes: &[u8]) -> Option<Note> {
        postcard::from_bytes(bytes).ok()
    }
}
