//! Rows of a table that is being loaded: whole chunks from images first, then rows one by one.

use snapmem::OutOfMemory;

use super::{CHUNK_GROWTH, Fault, Rows, undecodable};
use crate::base::bitmap::{self, Mask, has};
use crate::base::chunk::{CHUNK_ROWS, SMALLEST_CHUNK, split};
use crate::cells::column::Cell;

/// Rows are added to free slots once more than 1/8 of all slots are free. Before that they are appended, because that
/// leaves most chunks as they are in the file.
const MOST_FREE: usize = 8;

/// The number of rows that are added to the index together.
const ENTERED_TOGETHER: usize = 32;

/// A chunk as `TableImage` has written it.
#[derive(Clone, Debug)]
pub struct ChunkImage<'a> {
    /// The number of slots that were ever used.
    pub slots: usize,
    /// A bit for each slot: whether the row exists.
    pub live: &'a [u8],
    /// The image of each column, that of addresses last.
    pub columns: Vec<&'a [u8]>,
}

impl Rows {
    /// Makes room in the key index for about `count` rows. The table must be empty.
    pub fn expect_rows(&mut self, count: u64) -> Result<(), OutOfMemory> {
        if self.slots == 0 { self.index.expect(count.min(u32::MAX.into()) as usize) } else { Ok(()) }
    }

    /// Adds a chunk from its image. All slots of the chunks before it must be used. A row is added if it exists and its
    /// address is not `dropped`. The slots of all other rows are free.
    pub fn load_chunk(&mut self, image: &ChunkImage<'_>, dropped: impl Fn(i64) -> bool) -> Result<(), Fault> {
        let (first, slots) = (self.slots as usize, image.slots);
        let ensure = |holds: bool, rule| if holds { Ok(()) } else { Err(Fault::Image(rule)) };
        ensure(first == self.room && first.is_multiple_of(CHUNK_ROWS), "a chunk behind one that is not full")?;
        ensure((1..=CHUNK_ROWS).contains(&slots), "no number of rows that a chunk can have")?;
        ensure(image.live.len() == slots.div_ceil(8), "another number of rows than its chunk")?;
        ensure(image.columns.len() == self.columns.len(), "another number of columns than its table")?;
        // Slot `u32::MAX` must not be used, because it marks the end of a chain in the index.
        let behind = u32::try_from(first + slots).ok().filter(|behind| *behind < u32::MAX).ok_or(Fault::TooManyRows)?;
        let room = match first {
            0 => {
                let grown = |room: &usize| Some((room * CHUNK_GROWTH).min(CHUNK_ROWS));
                let mut rooms = std::iter::successors(Some(SMALLEST_CHUNK), grown);
                rooms.find(|room| *room >= slots).unwrap_or(CHUNK_ROWS)
            }
            _ => first + CHUNK_ROWS,
        };
        let existing = bitmap::mask_of(image.live, slots);
        let mut kept = existing;
        if let (Some((addresses, columns)), [images @ .., own]) = (self.columns.split_last_mut(), &image.columns[..]) {
            addresses.load(room, slots, &existing, own)?;
            for row in (0..slots).filter(|row| has(&existing, *row)) {
                if addresses.address((first + row) as u32).is_some_and(&dropped) {
                    kept[row / 64] &= !(1 << (row % 64));
                }
            }
            for (column, image) in columns.iter_mut().zip(images) {
                column.load(room, slots, &kept, image)?;
            }
        }
        self.live.grow(room)?;
        let chunk = first / CHUNK_ROWS;
        self.live.fill(chunk, slots, &kept)?;
        self.count_chunks(room);
        if kept != existing {
            self.live_stamps.written(chunk);
        }
        self.live_counts[chunk] = bitmap::count(&kept) as u32;
        self.count += u64::from(self.live_counts[chunk]);
        self.slots = behind;
        self.enter_chunk(first, slots, &kept)?;
        // The last free slot is used first, so the list begins with the last slot of the chunk.
        for row in (0..slots).rev().filter(|row| !has(&kept, *row)) {
            self.set_free((first + row) as u32)?;
        }
        Ok(())
    }

    /// Adds the kept rows of a chunk to the index.
    fn enter_chunk(&mut self, first: usize, slots: usize, kept: &Mask) -> Result<(), Fault> {
        let mut rows = (0..slots).filter(|row| has(kept, *row)).map(|row| (first + row) as u32);
        let mut hashed = Vec::with_capacity(ENTERED_TOGETHER);
        loop {
            hashed.clear();
            hashed.extend(rows.by_ref().take(ENTERED_TOGETHER).map(|slot| (slot, self.hash_of(slot))));
            if hashed.is_empty() {
                return Ok(());
            }
            // The places of these rows in the index are scattered. Looking at all of them first lets the processor load
            // them at the same time, and also the keys of rows with which they must be compared.
            for (_, hash) in &hashed {
                if let Some(other) = self.index.find(*hash, |_| true) {
                    self.identity.iter().for_each(|column| self.columns[*column].prefetch(other));
                }
            }
            for (slot, hash) in &hashed {
                self.enter(*slot, *hash)?;
            }
        }
    }

    /// Adds `count` rows, given column by column, to free slots or behind all others.
    pub fn add_all(&mut self, columns: &[Vec<Cell<'_>>], count: usize) -> Result<(), Fault> {
        let many = self.free.len().saturating_sub(self.slots as usize / MOST_FREE).min(count);
        for row in 0..many {
            let Some(slot) = self.free.pop() else { break };
            self.free_counts[split(slot).0] -= 1;
            self.overwritten(slot);
            for (column, cells) in self.columns.iter_mut().zip(columns) {
                column.check(cells[row]).map_err(undecodable)?;
                column.put(slot, cells[row])?;
            }
            self.enter(slot, self.hash_of(slot))?;
            self.set_live(slot, true)?;
        }
        self.append_all(columns, many, count)
    }
}
