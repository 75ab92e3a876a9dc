//! One bit per slot: liveness, validity, and columns of type boolean.

use snapmem::{EpochRegion, EpochSnapshot, OutOfMemory, Pool};

use crate::view::CHUNK_ROWS;

const RUN_BYTES: usize = CHUNK_ROWS / 8;

#[derive(Debug)]
pub struct Bitmap {
    region: EpochRegion,
    /// What the bits of a new chunk are.
    initial: bool,
}

impl Bitmap {
    pub fn new(pool: &Pool, initial: bool) -> Bitmap {
        Bitmap { region: EpochRegion::automatic(pool, RUN_BYTES), initial }
    }

    /// Room for one more chunk.
    pub fn grow(&mut self) -> Result<(), OutOfMemory> {
        self.region.push_run()?;
        if self.initial {
            self.region.write_at((self.region.run_count() - 1) * RUN_BYTES, &[0xff; RUN_BYTES])?;
        }
        Ok(())
    }

    #[inline]
    pub fn get(&self, slot: u32) -> bool {
        let (byte, mask) = place(slot);
        self.region.bytes(byte, 1)[0] & mask != 0
    }

    /// Writes only if the bit changes.
    #[inline]
    pub fn set(&mut self, slot: u32, bit: bool) -> Result<(), OutOfMemory> {
        let (byte, mask) = place(slot);
        let old = self.region.bytes(byte, 1)[0];
        if (old & mask != 0) != bit {
            self.region.write_at(byte, &[old ^ mask])?;
        }
        Ok(())
    }

    pub fn snapshot(&mut self) -> Result<EpochSnapshot, OutOfMemory> {
        self.region.take_snapshot()
    }

    /// See [`EpochRegion::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        self.region.tidy(runs)
    }

    pub fn is_tidy(&self) -> bool {
        self.region.is_tidy()
    }

    pub fn bytes(&self) -> u64 {
        (self.region.run_count() * RUN_BYTES) as u64
    }
}

/// Writes a bit of a private snapshot of a bitmap; returns whether it changed.
pub fn patch(snapshot: &mut EpochSnapshot, slot: u32, bit: bool) -> Result<bool, OutOfMemory> {
    let (byte, mask) = place(slot);
    let mut old = [0];
    snapshot.read_at(byte, &mut old);
    let changes = (old[0] & mask != 0) != bit;
    if changes {
        snapshot.patch_at(byte, &[old[0] ^ mask])?;
    }
    Ok(changes)
}

/// Chunk, and row in the chunk.
#[inline]
pub fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_ROWS, slot as usize % CHUNK_ROWS)
}

/// The byte that holds the slot's bit, and which of its bits that is.
#[inline]
fn place(slot: u32) -> (usize, u8) {
    (slot as usize / 8, 1 << (slot % 8))
}
