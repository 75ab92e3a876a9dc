//! A table's rows in a checkpoint, for a load.

use checkpoint::{Error, Place, TableEntry, TableReader};
use colstore::ChunkImage;
use protocol::request::Changed;

/// The rows of a table in a checkpoint.
pub struct Kept {
    pub threshold: u64,
    /// The place of the rows' index.
    pub index: Place,
    reader: TableReader,
}

impl Kept {
    pub fn new(entry: &TableEntry, reader: TableReader) -> Kept {
        Kept { threshold: entry.head.threshold, index: entry.index, reader }
    }

    pub fn rows(&self) -> u64 {
        self.reader.index().chunks.iter().map(|chunk| u64::from(chunk.rows)).sum()
    }

    /// The next chunk; `None` behind the last one.
    pub fn next_chunk(&mut self) -> Result<Option<OwnedChunk>, Error> {
        let Some(chunk) = self.reader.next_chunk()? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(chunk.pieces.iter().map(|piece| piece.len()).sum());
        let ends = chunk.pieces.iter().map(|piece| {
            bytes.extend_from_slice(piece);
            bytes.len()
        });
        let ends = ends.collect();
        Ok(Some(OwnedChunk { slots: chunk.slots as usize, bytes, ends }))
    }
}

/// A chunk that was read, for another thread.
pub struct OwnedChunk {
    slots: usize,
    /// The pieces, one directly after the other, and the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl OwnedChunk {
    pub fn image(&self) -> ChunkImage<'_> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut pieces = starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end]);
        ChunkImage { slots: self.slots, live: pieces.next().unwrap_or_default(), columns: pieces.collect() }
    }
}

/// The rows of a checkpoint that must not be used, because their blocks have changed or are gone.
#[derive(Default)]
pub struct Dropped {
    rows_per_block: i64,
    blocks: u32,
    /// A bit for each block: whether it has changed.
    changed: Vec<u64>,
}

impl Dropped {
    /// Takes over a part of the list of changed blocks.
    pub fn add(&mut self, part: &Changed) {
        self.rows_per_block = i64::from(part.rows_per_block.max(1));
        self.blocks = part.blocks;
        self.changed.resize((part.blocks as usize).div_ceil(64), 0);
        for &(first, count) in &part.runs {
            for block in first..first.saturating_add(count).min(part.blocks) {
                self.changed[block as usize / 64] |= 1 << (block % 64);
            }
        }
    }

    /// The number of the table's blocks, and of those that have changed.
    pub fn blocks(&self) -> (u64, u64) {
        (self.blocks.into(), self.changed.iter().map(|word| u64::from(word.count_ones())).sum())
    }

    /// Whether a row with this address must not be used.
    #[inline]
    pub fn has(&self, address: i64) -> bool {
        let block = address / self.rows_per_block;
        match usize::try_from(block) {
            Ok(at) if block < i64::from(self.blocks) => self.changed[at / 64] & 1 << (at % 64) != 0,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_changed_and_missing_blocks_are_dropped() {
        let mut dropped = Dropped::default();
        let part = |runs| Changed { blocks: 200, rows_per_block: 10, runs, last: false };
        dropped.add(&part(vec![(0, 1), (63, 2)]));
        dropped.add(&part(vec![(199, 1)]));
        let blocks: Vec<i64> = (0..300).filter(|block| dropped.has(block * 10 + 9)).collect();
        assert_eq!(blocks, [0, 63, 64].into_iter().chain(199..300).collect::<Vec<_>>());
        assert!(dropped.has(-1));
    }
}
