//! The division of a table's slots into chunks.

/// The number of rows in a full chunk. All chunks of a table except the last are full.
pub const CHUNK_ROWS: usize = 8192;
/// The number of rows that a table's first chunk has room for at first. It is small, because in a database with
/// thousands of tables, most tables are small.
pub const SMALLEST_CHUNK: usize = 64;

/// The chunk of a slot, and the row within the chunk.
#[inline]
pub fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK_ROWS, slot as usize % CHUNK_ROWS)
}
