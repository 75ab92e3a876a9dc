//! Cells of equal width in frames, and patches to them.
//!
//! A view that has to show older values does not copy the frames that hold newer ones: that would cost the writer time
//! and the store memory, for each view anew. It notes the old values by chunk, and who reads a chunk that has some
//! copies it then, on his own thread.

use std::collections::HashMap;

use arrow_buffer::{Buffer, MutableBuffer};
use snapmem::{Charge, FrameRef, OutOfMemory, Pool};

use crate::bitmap::split;
use crate::zero_copy;

/// About what a patch takes in memory.
const PATCH_BYTES: u64 = 2 * size_of::<(u16, u128)>() as u64;

/// The cell's bytes, little-endian; those beyond `width` are zero.
#[inline]
pub fn get(frame: &[u8], width: usize, row: usize) -> u128 {
    fn image<const N: usize>(frame: &[u8], row: usize) -> [u8; N] {
        frame.as_chunks::<N>().0[row]
    }
    match width {
        2 => u16::from_le_bytes(image(frame, row)) as u128,
        4 => u32::from_le_bytes(image(frame, row)) as u128,
        8 => u64::from_le_bytes(image(frame, row)) as u128,
        _ => u128::from_le_bytes(image(frame, row)),
    }
}

#[inline]
pub fn put(frame: &mut [u8], width: usize, row: usize, image: u128) {
    match width {
        2 => frame.as_chunks_mut().0[row] = (image as u16).to_le_bytes(),
        4 => frame.as_chunks_mut().0[row] = (image as u32).to_le_bytes(),
        8 => frame.as_chunks_mut().0[row] = (image as u64).to_le_bytes(),
        _ => frame.as_chunks_mut().0[row] = image.to_le_bytes(),
    }
}

/// What some cells of a column's snapshot have to hold instead.
#[derive(Debug)]
pub struct Patches {
    width: usize,
    /// Row and image; of several for a row the last counts.
    by_chunk: HashMap<usize, Vec<(u16, u128)>>,
    charge: Charge,
}

impl Patches {
    pub fn new(pool: &Pool, width: usize) -> Patches {
        Patches { width, by_chunk: HashMap::new(), charge: pool.charge() }
    }

    pub fn add(&mut self, slot: u32, image: u128) -> Result<(), OutOfMemory> {
        self.charge.set(self.charge.bytes() + PATCH_BYTES)?;
        let (chunk, row) = split(slot);
        self.by_chunk.entry(chunk).or_default().push((row as u16, image));
        Ok(())
    }

    /// The first `rows` cells of a chunk; without patches it is the frame itself.
    pub fn buffer(&self, chunk: usize, frame: &FrameRef, rows: usize) -> Buffer {
        let bytes = rows * self.width;
        let Some(patches) = self.by_chunk.get(&chunk) else { return zero_copy::buffer(frame, bytes) };
        let mut copy = MutableBuffer::with_capacity(bytes);
        copy.extend_from_slice(&frame[..bytes]);
        patches.iter().for_each(|&(row, image)| put(copy.as_slice_mut(), self.width, row as usize, image));
        copy.into()
    }
}
