//! The texts of one chunk as records in append-only blocks. A record is the text's length, followed by the text.
//!
//! Only the last block is extended. If a snapshot shares that block, a new block is begun instead. Texts that are no
//! longer needed remain as dead bytes until the chunk's heap is rewritten.

use std::sync::Arc;

use snapmem::{FrameRef, OutOfMemory, Pool, prefetch};

const MIN_BLOCK: usize = 512;
/// The size of a new block that is begun because a snapshot shares the last block. It is small, because there may be
/// many such blocks.
const SHARED_BLOCK: usize = 4 << 10;
/// The greatest offset in a block; no record begins beyond it.
pub const MAX_BLOCK: usize = 1 << 20;
/// A heap is rewritten if it has this many blocks more than its texts require.
const SPARE_BLOCKS: usize = 24;
/// The length of a block is a multiple of this.
const GRAIN: usize = 64;

/// The place of a record: its block, and the offset in that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub block: u32,
    pub offset: u32,
}

#[derive(Debug, Default)]
pub struct Heap {
    blocks: Arc<Vec<Block>>,
    /// The bytes of all records, including those to which no row refers any more.
    written: usize,
}

#[derive(Clone, Debug)]
pub struct Block {
    frame: FrameRef,
    used: usize,
}

impl Block {
    /// The block's memory as an immutable run, and the number of bytes in use.
    pub fn into_run(self) -> (snapmem::Run, usize) {
        (self.frame.into_run(), self.used)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.frame[..self.used]
    }
}

impl Heap {
    #[inline]
    pub fn text(&self, place: Place) -> &[u8] {
        text_at(self.blocks[place.block as usize].bytes(), place.offset as usize).1
    }

    /// Prefetches the text at a place.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        prefetch(&self.blocks[place.block as usize].bytes()[place.offset as usize]);
    }

    pub fn append(&mut self, text: &[u8], pool: &Pool) -> Result<Place, OutOfMemory> {
        // New blocks become longer as the heap grows. So there are few blocks, and only a small part of the heap is
        // unused.
        let size = if self.is_shared() { SHARED_BLOCK } else { self.written.min(64 << 10).max(self.written / 4) };
        self.append_into(text, size.clamp(MIN_BLOCK, MAX_BLOCK).next_power_of_two(), pool)
    }

    /// Like [`Heap::append`], for a text that belongs to a series of texts: their records, including this one, have
    /// `total` bytes. So new blocks need no spare room.
    pub fn append_of(&mut self, text: &[u8], total: usize, pool: &Pool) -> Result<Place, OutOfMemory> {
        self.append_into(text, total.clamp(GRAIN, MAX_BLOCK).next_multiple_of(GRAIN), pool)
    }

    /// Appends to the last block if possible, otherwise to a new one of `size` bytes, or more if the text is longer.
    fn append_into(&mut self, text: &[u8], size: usize, pool: &Pool) -> Result<Place, OutOfMemory> {
        let bytes = record_bytes(text.len());
        if !self.extend_open_block(text) {
            let block = Block { frame: pool.frame(size.max(bytes.next_multiple_of(GRAIN)))?, used: 0 };
            // If a snapshot holds the present list of blocks, the list is copied. The snapshot keeps the old list.
            Arc::make_mut(&mut self.blocks).push(block);
            let extended = self.extend_open_block(text);
            debug_assert!(extended, "a new block is unshared and long enough");
        }
        self.written += bytes;
        let block = self.blocks.len() - 1;
        Ok(Place { block: block as u32, offset: (self.blocks[block].used - bytes) as u32 })
    }

    fn is_shared(&mut self) -> bool {
        match Arc::get_mut(&mut self.blocks) {
            Some(blocks) => blocks.last_mut().is_some_and(|open| open.frame.get_mut().is_none()),
            None => true,
        }
    }

    fn extend_open_block(&mut self, text: &[u8]) -> bool {
        let bytes = record_bytes(text.len());
        let Some(block) = Arc::get_mut(&mut self.blocks).and_then(|blocks| blocks.last_mut()) else { return false };
        if block.used >= MAX_BLOCK {
            return false;
        }
        let end = block.used + bytes;
        let Some(room) = block.frame.get_mut().and_then(|frame| frame.get_mut(block.used..end)) else { return false };
        let head = bytes - text.len();
        write_length(text.len(), &mut room[..head]);
        room[head..].copy_from_slice(text);
        block.used = end;
        true
    }

    /// A heap of one block, in which the texts are stored without gaps and without their lengths.
    pub fn of_block(bytes: &[u8], pool: &Pool) -> Result<Heap, OutOfMemory> {
        let mut heap = Heap { written: bytes.len(), ..Heap::default() };
        if !bytes.is_empty() {
            let mut frame = pool.frame(bytes.len().next_multiple_of(GRAIN))?;
            if let Some(room) = frame.get_mut() {
                room[..bytes.len()].copy_from_slice(bytes);
            }
            heap.blocks = Arc::new(vec![Block { frame, used: bytes.len() }]);
        }
        Ok(heap)
    }

    /// The bytes of a heap's only block; empty if the heap has no block.
    #[inline]
    pub fn only_block(&self) -> &[u8] {
        self.blocks.first().map_or(&[], Block::bytes)
    }

    /// A heap that has only the blocks in `kept`, numbered anew.
    pub fn with_blocks(&self, kept: &[u32]) -> Heap {
        let blocks: Vec<Block> = kept.iter().map(|block| self.blocks[*block as usize].clone()).collect();
        Heap { written: blocks.iter().map(|block| block.used).sum(), blocks: Arc::new(blocks) }
    }

    /// The bytes of a block's records.
    pub fn block_bytes(&self, block: u32) -> usize {
        self.blocks[block as usize].used
    }

    /// The bytes of all records.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Whether the records lie in more blocks than they need.
    pub fn has_many_blocks(&self) -> bool {
        self.blocks.len() > 4 * (self.written / MAX_BLOCK) + SPARE_BLOCKS
    }

    pub fn blocks(&self) -> Arc<Vec<Block>> {
        self.blocks.clone()
    }

    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.frame.len() as u64).sum()
    }
}

/// The length of the record for a text of `length` bytes. Before the text stand bytes with its length, seven bits in
/// each.
pub fn record_bytes(length: usize) -> usize {
    let bits = usize::BITS - length.leading_zeros();
    length + bits.div_ceil(7).max(1) as usize
}

fn write_length(length: usize, into: &mut [u8]) {
    let mut rest = length;
    for byte in into.iter_mut() {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    if let Some(last) = into.last_mut() {
        *last &= 0x7f;
    }
}

/// The text of the record at `offset`, after the offset at which the text itself begins.
#[inline]
pub fn text_at(block: &[u8], offset: usize) -> (usize, &[u8]) {
    let (mut length, mut at, mut shift) = (0, offset, 0);
    loop {
        let byte = block[at] as usize;
        length |= (byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            return (at, &block[at..at + length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_every_length() {
        let pool = Pool::new(1 << 30);
        let mut heap = Heap::default();
        let lengths = [0, 1, 127, 128, 129, 16_383, 16_384, 70_000, MAX_BLOCK - 3, MAX_BLOCK, 3 << 20, 5];
        let texts: Vec<Vec<u8>> = lengths.iter().map(|length| (0..*length).map(|i| i as u8).collect()).collect();
        let places: Vec<Place> = texts.iter().map(|text| heap.append(text, &pool).unwrap()).collect();
        for (text, place) in texts.iter().zip(&places) {
            assert!(heap.text(*place) == text, "{} bytes", text.len());
        }
        assert_eq!(heap.written(), lengths.iter().map(|length| record_bytes(*length)).sum::<usize>());
    }

    #[test]
    fn of_a_known_total_little_is_left_empty() {
        let pool = Pool::new(1 << 30);
        let mut heap = Heap::default();
        let total = 8192 * record_bytes(27);
        for i in 0..8192 {
            heap.append_of(&[7; 27], total - i * record_bytes(27), &pool).unwrap();
        }
        assert!(heap.bytes() as usize - total < GRAIN);
    }
}
