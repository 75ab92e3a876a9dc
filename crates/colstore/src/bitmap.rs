//! One bit per slot: liveness, validity, and columns of type boolean.

use snapmem::{LegacyRegion as Region, LegacySnapshot as Snapshot, OutOfMemory, Pool};

use crate::view::CHUNK_ROWS;

const FRAME_BYTES: usize = CHUNK_ROWS / 8;

#[derive(Debug)]
pub struct Bitmap {
    region: Region,
    /// What the bits of a new chunk are.
    initial: bool,
}

impl Bitmap {
    pub fn new(pool: &Pool, initial: bool) -> Bitmap {
        Bitmap { region: Region::new(pool, FRAME_BYTES), initial }
    }

    /// Room for one more chunk.
    pub fn grow(&mut self) -> Result<(), OutOfMemory> {
        self.region.grow()?;
        if self.initial {
            self.region.write(self.region.frame_count() - 1)?.fill(0xff);
        }
        Ok(())
    }

    #[inline]
    pub fn get(&self, slot: u32) -> bool {
        let (chunk, row) = split(slot);
        get_bit(self.region.read(chunk), row)
    }

    /// Writes only if the bit changes.
    #[inline]
    pub fn set(&mut self, slot: u32, bit: bool) -> Result<(), OutOfMemory> {
        if self.get(slot) != bit {
            let (chunk, row) = split(slot);
            put_bit(self.region.write(chunk)?, row, bit);
        }
        Ok(())
    }

    pub fn snapshot(&mut self) -> Result<Snapshot, OutOfMemory> {
        self.region.snapshot()
    }

    pub fn bytes(&self) -> u64 {
        (self.region.frame_count() * FRAME_BYTES) as u64
    }
}

/// Writes a bit of a private snapshot of a bitmap; returns whether it changed.
pub fn patch(snapshot: &mut Snapshot, slot: u32, bit: bool) -> Result<bool, OutOfMemory> {
    let (chunk, row) = split(slot);
    let changes = get_bit(snapshot.frame(chunk), row) != bit;
    if changes {
        put_bit(snapshot.patch(chunk)?, row, bit);
    }
    Ok(changes)
}

/// Chunk, and row in the chunk.
#[inline]
pub fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_ROWS, slot as usize % CHUNK_ROWS)
}

#[inline]
fn get_bit(bytes: &[u8], row: usize) -> bool {
    bytes[row / 8] >> (row % 8) & 1 == 1
}

#[inline]
fn put_bit(bytes: &mut [u8], row: usize, bit: bool) {
    let mask = 1 << (row % 8);
    if bit {
        bytes[row / 8] |= mask;
    } else {
        bytes[row / 8] &= !mask;
    }
}
