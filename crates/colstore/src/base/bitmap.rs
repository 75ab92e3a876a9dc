//! Bitmaps with one bit per slot: liveness, validity, and columns of type boolean.

use snapmem::{Extents, ExtentsSnapshot, Mechanism, OutOfMemory, Pool};

use crate::base::chunk::{CHUNK_ROWS, split};

/// One bit for each row of a chunk.
pub type Mask = [u64; CHUNK_ROWS / 64];

/// The length in bytes of a bitmap's shortest run.
const SHORTEST_RUN: usize = 64;

#[derive(Debug)]
pub struct Bitmap {
    region: Extents,
    /// The value of the bits of a new chunk.
    initial: bool,
}

#[inline]
pub fn has(mask: &Mask, row: usize) -> bool {
    mask[row / 64] & 1 << (row % 64) != 0
}

/// The bits of a chunk's first rows, from bytes that have at least that many. All other bits are 0.
pub fn mask_of(bytes: &[u8], rows: usize) -> Mask {
    let mut mask = [0; CHUNK_ROWS / 64];
    for (at, byte) in bytes.iter().enumerate().take(rows.div_ceil(8)) {
        let unused = (8 * (at + 1)).saturating_sub(rows);
        mask[at / 8] |= u64::from(byte & 0xff >> unused) << (8 * (at % 8));
    }
    mask
}

/// The number of bits that are set.
pub fn count(mask: &Mask) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

impl Bitmap {
    pub fn new(pool: &Pool, mechanism: Mechanism, initial: bool) -> Bitmap {
        Bitmap { region: Extents::new(pool, mechanism, SHORTEST_RUN), initial }
    }

    /// Makes room for this many bits: lengthens the first run, and appends further runs once there is more than one
    /// chunk.
    pub fn grow(&mut self, rows: usize) -> Result<(), OutOfMemory> {
        let wanted = rows.min(CHUNK_ROWS) / 8;
        let mut filled = self.bytes() as usize;
        if self.region.run_count() <= 1 && self.region.run_bytes() < wanted {
            self.region.lengthen_runs(wanted)?;
        }
        while self.bytes() * 8 < rows as u64 {
            self.region.push_run()?;
        }
        let (bytes, run_bytes) = (self.bytes() as usize, self.region.run_bytes());
        while self.initial && filled < bytes {
            let (run, within) = (filled / run_bytes, filled % run_bytes);
            self.region.write_in(run, within, &[0xff; CHUNK_ROWS / 8][within..run_bytes])?;
            filled = (run + 1) * run_bytes;
        }
        Ok(())
    }

    /// Writes the bits of a new chunk's first rows.
    pub fn fill(&mut self, chunk: usize, rows: usize, mask: &Mask) -> Result<(), OutOfMemory> {
        let mut bytes = [0; CHUNK_ROWS / 8];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(mask) {
            *bytes = word.to_le_bytes();
        }
        if self.initial && !rows.is_multiple_of(8) {
            // Slots that were never used keep their initial bit.
            bytes[rows / 8] |= 0xff << (rows % 8);
        }
        self.region.write_in(chunk, 0, &bytes[..rows.div_ceil(8)])
    }

    #[inline]
    pub fn get(&self, slot: u32) -> bool {
        let (chunk, byte, mask) = place(slot);
        self.region.bytes_in(chunk, byte, 1)[0] & mask != 0
    }

    /// Sets a bit; memory is written only if the bit changes.
    #[inline]
    pub fn set(&mut self, slot: u32, bit: bool) -> Result<(), OutOfMemory> {
        let (chunk, byte, mask) = place(slot);
        let old = self.region.bytes_in(chunk, byte, 1)[0];
        if (old & mask != 0) != bit {
            self.region.write_in(chunk, byte, &[old ^ mask])?;
        }
        Ok(())
    }

    /// The bits of a chunk's first rows; all other bits are 0.
    pub fn mask(&self, chunk: usize, rows: usize) -> Mask {
        let mut mask = [0; CHUNK_ROWS / 64];
        for (at, word) in mask.iter_mut().enumerate().take(rows.div_ceil(64)) {
            let bytes = self.region.bytes_in(chunk, 8 * at, 8).as_chunks().0[0];
            let unused = (64 * (at + 1)).saturating_sub(rows);
            *word = u64::from_le_bytes(bytes) & (u64::MAX >> unused);
        }
        mask
    }

    /// The memory of a chunk's bits in bytes. All runs have the same length.
    pub fn bytes_of(&self, chunk: usize) -> u64 {
        if chunk < self.region.run_count() { self.region.run_bytes() as u64 } else { 0 }
    }

    pub fn snapshot(&mut self) -> Result<ExtentsSnapshot, OutOfMemory> {
        self.region.snapshot()
    }

    /// See [`Extents::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        self.region.tidy(runs)
    }

    pub fn is_tidy(&self) -> bool {
        self.region.is_tidy()
    }

    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }
}

/// Writes a bit of a private snapshot of a bitmap; returns whether it changed.
pub fn patch(snapshot: &mut ExtentsSnapshot, slot: u32, bit: bool) -> Result<bool, OutOfMemory> {
    let (chunk, byte, mask) = place(slot);
    let byte = chunk * CHUNK_ROWS / 8 + byte;
    let mut old = [0];
    snapshot.read(byte, &mut old)?;
    let changes = (old[0] & mask != 0) != bit;
    if changes {
        snapshot.patch(byte, &[old[0] ^ mask])?;
    }
    Ok(changes)
}

/// The place of a slot's bit: the chunk, the byte in it, and the bit's mask in that byte.
#[inline]
fn place(slot: u32) -> (usize, usize, u8) {
    let (chunk, row) = split(slot);
    (chunk, row / 8, 1 << (row % 8))
}
