//! A table's columns as they were at one time, as bytes for a file. `rows::load` makes a table from them again.
//!
//! An image has everything that was applied, and nothing is taken back. The writer takes it; any thread may write it to
//! a file. It holds memory like a survey: the old content of what changes in the meantime.

use snapmem::{ExtentsSnapshot, OutOfMemory};

use crate::base::chunk::CHUNK_ROWS;
use crate::base::image::reserve;
use crate::base::leases::Hold;
use crate::cells::column::ColumnSnapshot;

/// A table's columns, and when each chunk last changed (see `base::stamps`).
#[derive(Debug)]
pub struct TableImage {
    pub(crate) generation: u64,
    pub(crate) fingerprint: u64,
    pub(crate) stamp: u32,
    pub(crate) columns: Vec<Imaged>,
    pub(crate) live: ImagedRows,
    pub(crate) slots: usize,
    pub(crate) rows: u64,
    pub(crate) _hold: Hold,
}

#[derive(Debug)]
pub struct Imaged {
    pub cells: ColumnSnapshot,
    pub stamps: Box<[u32]>,
}

/// The rows that exist.
#[derive(Debug)]
pub struct ImagedRows {
    pub bits: ExtentsSnapshot,
    pub stamps: Box<[u32]>,
    pub counts: Box<[u32]>,
}

impl TableImage {
    /// The generation of the table. Stamps of different generations cannot be compared.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The fingerprint of the table's definition.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The greatest stamp that a chunk of this image may have. All later changes get greater stamps.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// The number of slots that were ever used.
    pub fn slots(&self) -> u64 {
        self.slots as u64
    }

    /// The number of rows that exist.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of columns, including that of addresses, which is the last.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    pub fn chunk_count(&self) -> usize {
        self.slots.div_ceil(CHUNK_ROWS)
    }

    /// The number of slots of a chunk that were ever used.
    pub fn slots_of(&self, chunk: usize) -> usize {
        CHUNK_ROWS.min(self.slots - chunk * CHUNK_ROWS)
    }

    /// The number of rows of a chunk that exist.
    pub fn rows_of(&self, chunk: usize) -> u32 {
        self.live.counts[chunk]
    }

    /// The time of the last change of a column in a chunk, counted in images; 0 if the chunk came from an image and was
    /// not written to since.
    pub fn column_stamp(&self, chunk: usize, column: usize) -> u32 {
        self.columns[column].stamps[chunk]
    }

    /// The time of the last insert or delete in a chunk, like [`TableImage::column_stamp`].
    pub fn live_stamp(&self, chunk: usize) -> u32 {
        self.live.stamps[chunk]
    }

    /// Appends the image of a column in a chunk.
    pub fn encode(&self, chunk: usize, column: usize, into: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        self.columns[column].cells.encode(chunk, self.slots_of(chunk), into)
    }

    /// Appends a bit for each slot of a chunk, which says whether the row exists.
    pub fn encode_live(&self, chunk: usize, into: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        let bytes = self.slots_of(chunk).div_ceil(8);
        reserve(into, bytes)?;
        into.extend_from_slice(&self.live.bits.run(chunk)?[..bytes]);
        Ok(())
    }
}
