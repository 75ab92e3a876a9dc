//! Cells of equal width.
//!
//! The cells of a chunk are one run of their region, so a slot's offset does not depend on its chunk.

use snapmem::{EpochRegion, EpochSnapshot, OutOfMemory, Pool};

use crate::chunk::{CHUNK_ROWS, SMALLEST_CHUNK};

/// Without room at first.
pub fn new_region(pool: &Pool, width: usize) -> EpochRegion {
    EpochRegion::automatic(pool, width * SMALLEST_CHUNK)
}

/// Room for as many cells: a longer first run, or one more.
pub fn grow(region: &mut EpochRegion, width: usize, rows: usize) -> Result<(), OutOfMemory> {
    if rows <= CHUNK_ROWS && region.run_bytes() < width * rows {
        region.lengthen_runs(width * rows)?;
    }
    if region.run_count() * region.run_bytes() < width * rows { region.push_run() } else { Ok(()) }
}

/// The cell's bytes, little-endian; those beyond `width` are zero.
#[inline]
pub fn get(region: &EpochRegion, width: usize, slot: u32) -> u128 {
    fn image<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.as_chunks::<N>().0[0]
    }
    let bytes = region.bytes(slot as usize * width, width);
    match width {
        2 => u16::from_le_bytes(image(bytes)) as u128,
        4 => u32::from_le_bytes(image(bytes)) as u128,
        8 => u64::from_le_bytes(image(bytes)) as u128,
        _ => u128::from_le_bytes(image(bytes)),
    }
}

#[inline]
pub fn put(region: &mut EpochRegion, width: usize, slot: u32, image: u128) -> Result<(), OutOfMemory> {
    region.write(slot as usize * width, &image.to_le_bytes()[..width])
}

/// Puts an older image back, in a private snapshot.
pub fn patch(snapshot: &mut EpochSnapshot, width: usize, slot: u32, image: u128) -> Result<(), OutOfMemory> {
    snapshot.patch(slot as usize * width, &image.to_le_bytes()[..width])
}
