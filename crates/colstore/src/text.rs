//! Text, and bytes that are none: Arrow's 16-byte views, and the bytes of long values in a heap per chunk.
//!
//! ```text
//!   up to 12 bytes   length: u32 | bytes, zero-padded
//!   longer           length: u32 | first 4 bytes | block: u32 | offset: u32
//! ```
//!
//! A heap is a list of append-only blocks. The last block is open: it is extended while nobody shares it, otherwise a
//! new one begins. What is overwritten stays behind as dead bytes; when these dominate, or the blocks are too many,
//! the chunk's heap is written anew. A snapshot holds the views and the lists of blocks of the same moment.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::Buffer;
use snapmem::{Charge, EpochRegion, EpochSnapshot, FrameRef, OutOfMemory, Pool};

use crate::chunk::{CHUNK_ROWS, SMALLEST_CHUNK, split};
use crate::zero_copy;

const VIEW_BYTES: usize = 16;
/// Longest text that lies in its view.
const INLINE: usize = 12;
const MIN_BLOCK: usize = 512;
/// A block that follows one which a snapshot shares: there will be many of them.
const SHARED_BLOCK: u64 = 4 << 10;
const MAX_BLOCK: usize = 1 << 20;
/// More blocks than this (beyond those that the amount of text needs) make a heap be written anew.
const SPARE_BLOCKS: usize = 24;
/// Offsets are 32 bits wide, with a sign.
const MAX_PATCHES: usize = i32::MAX as usize;
/// Fewer dead bytes than this are not worth it.
const MIN_DEAD: u64 = 16 << 10;

#[derive(Debug)]
pub struct TextColumn {
    views: EpochRegion,
    heaps: Vec<Heap>,
    pool: Pool,
}

impl TextColumn {
    pub fn new(pool: &Pool) -> TextColumn {
        let views = EpochRegion::automatic(pool, VIEW_BYTES * SMALLEST_CHUNK);
        TextColumn { views, heaps: Vec::new(), pool: pool.clone() }
    }

    /// Room for so many texts.
    pub fn grow(&mut self, rows: usize) -> Result<(), OutOfMemory> {
        let wanted = VIEW_BYTES * rows.min(CHUNK_ROWS);
        if self.views.run_bytes() < wanted {
            self.views.lengthen_runs(wanted)?;
        }
        if self.views.bytes() < (VIEW_BYTES * rows) as u64 {
            self.views.push_run()?;
        }
        self.heaps.resize_with(self.views.run_count(), Heap::default);
        Ok(())
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &[u8] {
        let bytes = self.view(slot);
        match View::parse(bytes) {
            View::Inline { length } => &bytes[4..4 + length],
            View::Long(place) => self.heaps[split(slot).0].text(place),
        }
    }

    #[inline]
    fn view(&self, slot: u32) -> &[u8; VIEW_BYTES] {
        let (chunk, row) = split(slot);
        &self.views.bytes_in(chunk, row * VIEW_BYTES, VIEW_BYTES).as_chunks().0[0]
    }

    pub fn put(&mut self, slot: u32, text: &[u8]) -> Result<(), OutOfMemory> {
        let chunk = split(slot).0;
        let old = long_length(self.view(slot));
        let view = if text.len() <= INLINE {
            inline_view(text)
        } else {
            let (block, offset) = self.heaps[chunk].append(text, &self.pool)?;
            long_view(text, block, offset)
        };
        self.views.write(slot as usize * VIEW_BYTES, &view)?;
        if old > 0 {
            self.heaps[chunk].live -= old;
            self.compact_if_worthwhile(chunk)?;
        }
        Ok(())
    }

    /// The slot's text is not needed any more.
    pub fn forget(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        if long_length(self.view(slot)) > 0 { self.put(slot, &[]) } else { Ok(()) }
    }

    fn compact_if_worthwhile(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let heap = &self.heaps[chunk];
        let dead = heap.written - heap.live;
        let needed_blocks = 4 * (heap.live as usize / MAX_BLOCK);
        if dead <= heap.live + MIN_DEAD && heap.blocks.len() <= needed_blocks + SPARE_BLOCKS {
            return Ok(());
        }
        let mut fresh = Heap::default();
        let run_bytes = self.views.run_bytes();
        let mut views = vec![0; run_bytes];
        self.views.read(chunk * run_bytes, &mut views);
        for view in views.as_chunks_mut::<VIEW_BYTES>().0 {
            if let View::Long(place) = View::parse(view) {
                let text = heap.text(place);
                let (block, offset) = fresh.append_sized(text, heap.live - fresh.live, &self.pool)?;
                *view = long_view(text, block, offset);
            }
        }
        self.views.write(chunk * run_bytes, &views)?;
        self.heaps[chunk] = fresh;
        Ok(())
    }

    pub fn snapshot(&mut self) -> Result<TextSnapshot, OutOfMemory> {
        Ok(TextSnapshot {
            views: self.views.snapshot()?,
            blocks: self.heaps.iter().map(|heap| heap.blocks.clone()).collect(),
            patches: HashMap::new(),
            sealed: HashMap::new(),
            charge: self.pool.charge(),
        })
    }

    /// See [`EpochRegion::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        self.views.tidy(runs)
    }

    pub fn is_tidy(&self) -> bool {
        self.views.is_tidy()
    }

    pub fn bytes(&self) -> u64 {
        self.views.bytes() + self.heaps.iter().map(Heap::bytes).sum::<u64>()
    }
}

/// The long texts of one chunk.
#[derive(Debug, Default)]
struct Heap {
    blocks: Arc<Vec<Block>>,
    /// Bytes that a view refers to.
    live: u64,
    /// Bytes written into blocks.
    written: u64,
}

#[derive(Clone, Debug)]
struct Block {
    frame: FrameRef,
    used: usize,
}

#[derive(Clone, Copy)]
struct Place {
    length: usize,
    block: usize,
    offset: usize,
}

impl Heap {
    fn text(&self, place: Place) -> &[u8] {
        &self.blocks[place.block].frame[place.offset..place.offset + place.length]
    }

    fn append(&mut self, text: &[u8], pool: &Pool) -> Result<(u32, u32), OutOfMemory> {
        // Blocks grow with the heap, but leave little of it empty.
        let size = if self.is_shared() { SHARED_BLOCK } else { self.written.min(64 << 10).max(self.written / 4) };
        self.append_sized(text, size, pool)
    }

    fn is_shared(&mut self) -> bool {
        match Arc::get_mut(&mut self.blocks) {
            Some(blocks) => blocks.last_mut().is_some_and(|open| open.frame.get_mut().is_none()),
            None => true,
        }
    }

    /// Appends to the open block, or to a new one of about `size` bytes. Returns block and offset.
    fn append_sized(&mut self, text: &[u8], size: u64, pool: &Pool) -> Result<(u32, u32), OutOfMemory> {
        if !self.extend_open_block(text) {
            let size = if text.len() > MAX_BLOCK {
                text.len()
            } else {
                text.len().max(size.min(MAX_BLOCK as u64) as usize).max(MIN_BLOCK).next_power_of_two()
            };
            let block = Block { frame: pool.frame(size)?, used: 0 };
            // A snapshot may hold the list; it keeps the old one then.
            Arc::make_mut(&mut self.blocks).push(block);
            let extended = self.extend_open_block(text);
            debug_assert!(extended, "a new block is unshared and long enough");
        }
        self.live += text.len() as u64;
        self.written += text.len() as u64;
        let block = self.blocks.len() - 1;
        Ok((block as u32, (self.blocks[block].used - text.len()) as u32))
    }

    fn extend_open_block(&mut self, text: &[u8]) -> bool {
        let Some(block) = Arc::get_mut(&mut self.blocks).and_then(|blocks| blocks.last_mut()) else { return false };
        let Some(room) = block.frame.get_mut().and_then(|bytes| bytes.get_mut(block.used..block.used + text.len()))
        else {
            return false;
        };
        room.copy_from_slice(text);
        block.used += text.len();
        true
    }

    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.frame.len() as u64).sum()
    }
}

/// A text column as it was, and private patches to it.
#[derive(Debug)]
pub struct TextSnapshot {
    views: EpochSnapshot,
    /// By chunk.
    blocks: Vec<Arc<Vec<Block>>>,
    /// Long texts of patches, by chunk. Their block is numbered behind the chunk's own.
    patches: HashMap<usize, Vec<u8>>,
    /// The same, once there will be no more of them.
    sealed: HashMap<usize, Buffer>,
    charge: Charge,
}

impl TextSnapshot {
    pub fn patch(&mut self, slot: u32, text: &[u8]) -> Result<(), OutOfMemory> {
        let view = if text.len() <= INLINE { inline_view(text) } else { self.add_long(split(slot).0, text)? };
        self.views.patch(slot as usize * VIEW_BYTES, &view)
    }

    fn add_long(&mut self, chunk: usize, text: &[u8]) -> Result<[u8; VIEW_BYTES], OutOfMemory> {
        self.charge.set(self.charge.bytes() + text.len() as u64)?;
        let block = self.blocks[chunk].len() as u32;
        let patches = self.patches.entry(chunk).or_default();
        let offset = patches.len();
        if offset + text.len() > MAX_PATCHES {
            return Err(OutOfMemory { wanted: text.len() as u64, limit: MAX_PATCHES as u64 });
        }
        patches.extend_from_slice(text);
        Ok(long_view(text, block, offset as u32))
    }

    /// No more patches.
    pub fn seal(&mut self) {
        let patches = std::mem::take(&mut self.patches).into_iter();
        self.sealed = patches.map(|(chunk, texts)| (chunk, Buffer::from_vec(texts))).collect();
    }

    /// The first `rows` views of a chunk.
    pub fn views(&self, chunk: usize, rows: usize) -> Result<Buffer, OutOfMemory> {
        Ok(zero_copy::buffer(self.views.run(chunk)?, rows * VIEW_BYTES))
    }

    /// The chunk's blocks, as the views number them.
    pub fn buffers(&self, chunk: usize) -> Vec<Buffer> {
        let blocks =
            self.blocks[chunk].iter().map(|block| zero_copy::buffer(block.frame.clone().into_run(), block.used));
        blocks.chain(self.sealed.get(&chunk).cloned()).collect()
    }
}

enum View {
    Inline { length: usize },
    Long(Place),
}

impl View {
    #[inline]
    fn parse(bytes: &[u8; VIEW_BYTES]) -> View {
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]) as usize;
        let length = word(0);
        if length <= INLINE {
            View::Inline { length }
        } else {
            View::Long(Place { length, block: word(8), offset: word(12) })
        }
    }
}

/// Length of a text outside its view, else 0.
fn long_length(bytes: &[u8; VIEW_BYTES]) -> u64 {
    match View::parse(bytes) {
        View::Inline { .. } => 0,
        View::Long(place) => place.length as u64,
    }
}

fn inline_view(text: &[u8]) -> [u8; VIEW_BYTES] {
    let mut view = [0; VIEW_BYTES];
    view[0] = text.len() as u8;
    view[4..4 + text.len()].copy_from_slice(text);
    view
}

fn long_view(text: &[u8], block: u32, offset: u32) -> [u8; VIEW_BYTES] {
    let mut view = [0; VIEW_BYTES];
    view[0..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    view[4..8].copy_from_slice(&text[..4]);
    view[8..12].copy_from_slice(&block.to_le_bytes());
    view[12..16].copy_from_slice(&offset.to_le_bytes());
    view
}
