//! How a table's slots are cut into chunks.

/// Rows of a full chunk. All chunks of a table but the last are full.
pub const CHUNK_ROWS: usize = 8192;
/// Rows that a table's first chunk has room for at first: most tables of a database with thousands of them are small.
pub const SMALLEST_CHUNK: usize = 64;

/// Chunk, and row in the chunk.
#[inline]
pub fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_ROWS, slot as usize % CHUNK_ROWS)
}
