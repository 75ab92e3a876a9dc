//! Sorts more rows than fit into memory.
//!
//! ```text
//!   rows -> Runs in memory -- memory runs out --> sorted rows on disk --+
//!                                                 sorted rows on disk --+--> Merge -> rows in their order
//! ```
//!
//! Before the first row is returned, all rows are on disk. They are in so few sorted parts that there is memory for the
//! last merge.

mod merge;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion_common::error::{DataFusionError, Result};
use futures::stream::{self, BoxStream, StreamExt};

use self::merge::Merge;
use crate::base::keys::{Keys, SortColumn};
use crate::operators::order::runs::{Runs, Sorted, Wanted};
use crate::spill::{Account, Means, SINK_BYTES, Sink, Stored, blocking};

/// The bytes of a block of sorted rows with their keys.
const BLOCK_BYTES: usize = 64 << 10;
/// The number of sorted parts that are merged at once.
const MERGED: usize = 16;

pub struct Sorter {
    columns: Arc<[SortColumn]>,
    schema: SchemaRef,
    wanted: Wanted,
    batch_size: usize,
    means: Means,
    runs: Runs,
    parts: Vec<Part>,
}

/// Sorted rows on disk.
struct Part {
    stored: Stored,
    rows_of_a_block: usize,
    /// The memory of the largest block with its keys.
    largest_block: usize,
}

impl Sorter {
    pub fn new(
        columns: Arc<[SortColumn]>,
        schema: SchemaRef,
        wanted: Wanted,
        batch_size: usize,
        means: Means,
    ) -> Result<Sorter> {
        let runs = Runs::new(Keys::new(columns.clone(), &schema)?, schema.clone(), wanted, means.room.another());
        Ok(Sorter { columns, schema, wanted, batch_size, means, runs, parts: Vec::new() })
    }

    pub fn insert(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let full = match (self.runs.insert(batch), &self.means.disk) {
            (Err(full @ DataFusionError::ResourcesExhausted(_)), Some(account)) => (full, account.clone()),
            (inserted, _) => return inserted,
        };
        match full {
            (_, account) if !self.runs.is_empty() => {
                self.put_on_disk(account)?;
                self.insert(batch)
            }
            (full, _) if rows <= 1 => Err(full),
            _ => {
                self.insert(&batch.slice(0, rows / 2))?;
                self.insert(&batch.slice(rows / 2, rows - rows / 2))
            }
        }
    }

    fn keys(&self) -> Result<Keys> {
        Keys::new(self.columns.clone(), &self.schema)
    }

    fn put_on_disk(&mut self, account: Account) -> Result<()> {
        let next = Runs::new(self.keys()?, self.schema.clone(), self.wanted, self.means.room.another());
        let runs = std::mem::replace(&mut self.runs, next);
        let rows = rows_of_a_block(runs.bytes_of_a_row(), self.batch_size);
        let mut writing = Writing::new(account, &self.schema, rows)?;
        blocking(|| {
            let mut sorted = runs.sorted();
            while let Some(block) = sorted.next_batch(rows)? {
                writing.write(&block)?;
            }
            self.parts.push(writing.finish()?);
            Ok(())
        })
    }

    /// The wanted rows in their order.
    pub async fn sorted(mut self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let batch_size = self.batch_size;
        let Some(account) = self.means.disk.clone().filter(|_| !self.parts.is_empty()) else {
            let next = move |mut sorted: Sorted| async move {
                Ok(sorted.next_batch(batch_size)?.map(|batch| (batch, sorted)))
            };
            return Ok(stream::try_unfold(self.runs.sorted(), next).boxed());
        };
        if !self.runs.is_empty() {
            self.put_on_disk(account.clone())?;
        }
        while self.parts.len() > MERGED {
            let some = self.parts.drain(..MERGED).collect();
            let part = self.merged(some, account.clone()).await?;
            self.parts.push(part);
        }
        let parts = std::mem::take(&mut self.parts);
        let merge = self.merge(parts)?;
        let next = move |(mut merge, means): (Merge, Means)| async move {
            Ok(merge.next_batch(batch_size).await?.map(|batch| (batch, (merge, means))))
        };
        Ok(stream::try_unfold((merge, self.means), next).boxed())
    }

    /// A merge of these parts, with the memory that it needs.
    fn merge(&mut self, parts: Vec<Part>) -> Result<Merge> {
        let blocks: usize = parts.iter().map(|part| part.largest_block).sum();
        self.means.room.resize(blocks + SINK_BYTES)?;
        let stored = parts.into_iter().map(|part| part.stored).collect();
        Merge::new(self.keys()?, self.schema.clone(), stored, self.wanted)
    }

    async fn merged(&mut self, parts: Vec<Part>, account: Account) -> Result<Part> {
        let rows = parts.iter().map(|part| part.rows_of_a_block).min().unwrap_or(1);
        let mut merge = self.merge(parts)?;
        let mut writing = Writing::new(account, &self.schema, rows)?;
        while let Some(block) = merge.next_batch(rows).await? {
            blocking(|| writing.write(&block))?;
        }
        blocking(|| writing.finish())
    }
}

/// Sorted rows that are being written to disk.
struct Writing {
    sink: Sink,
    rows_of_a_block: usize,
    largest_block: usize,
}

impl Writing {
    fn new(account: Account, schema: &SchemaRef, rows_of_a_block: usize) -> Result<Writing> {
        Ok(Writing { sink: Sink::new(account, schema)?, rows_of_a_block, largest_block: 0 })
    }

    fn write(&mut self, block: &RecordBatch) -> Result<()> {
        self.largest_block = self.largest_block.max(bytes_with_keys(block));
        self.sink.write(block)
    }

    fn finish(self) -> Result<Part> {
        let Writing { sink, rows_of_a_block, largest_block } = self;
        Ok(Part { stored: sink.finish()?, rows_of_a_block, largest_block })
    }
}

/// The approximate memory of a block that is read, with its keys. Short values take more bytes in keys.
fn bytes_with_keys(block: &RecordBatch) -> usize {
    block.get_array_memory_size() * 3 + block.num_rows() * (16 + 40 * block.num_columns())
}

/// The number of rows in a block, if a row with its key takes `bytes_of_a_row`.
fn rows_of_a_block(bytes_of_a_row: usize, most: usize) -> usize {
    (BLOCK_BYTES / bytes_of_a_row.max(1)).clamp(1, most)
}
