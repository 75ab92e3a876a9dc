//! What a query reads: an immutable set of rows of one table, chunk by chunk, as Arrow arrays.

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use plan::Type;

/// Rows of a full chunk. All chunks of a table but the last are full.
pub const CHUNK_ROWS: usize = 8192;

/// The rows of one table as a snapshot sees them, with the columns that were asked for, in the order asked.
///
/// Any number of threads may read it; it stays what it is until the last reference is gone.
pub trait TableView: Send + Sync + std::fmt::Debug {
    fn types(&self) -> &[Type];
    /// Rows that are there (not those that a chunk merely has room for).
    fn row_count(&self) -> u64;
    fn chunk_count(&self) -> usize;
    /// Cheap: no value is copied.
    fn chunk(&self, index: usize) -> Chunk;
}

/// A run of rows.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Length of every array.
    pub rows: usize,
    /// One array per column, in Arrow's form of the column's [`Type`] (see its table).
    pub arrays: Vec<ArrayRef>,
    /// Rows that are there; `None`: all of them.
    pub live: Option<BooleanBuffer>,
}
