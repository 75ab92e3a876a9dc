//! Merges sorted rows on disk, one block of each part at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;
use datafusion_common::error::Result;
use futures::TryStreamExt;
use futures::stream::{BoxStream, StreamExt};

use crate::base::compact::owned;
use crate::base::keys::{KeyRows, Keys, OwnedKey};
use crate::operators::order::runs::Wanted;
use crate::spill::Stored;

/// A part of sorted rows on disk.
struct Source {
    blocks: BoxStream<'static, Result<RecordBatch>>,
    batch: RecordBatch,
    keys: KeyRows,
    /// The position of the next row in the block.
    at: usize,
}

impl Source {
    fn is_exhausted(&self) -> bool {
        self.at == self.batch.num_rows()
    }

    /// Reads the next block if this one has no rows left; false at the end.
    async fn fill(&mut self, keys: &Keys) -> Result<bool> {
        while self.is_exhausted() {
            let Some(batch) = self.blocks.try_next().await? else { return Ok(false) };
            self.keys = keys.of(&batch)?;
            self.batch = batch;
            self.at = 0;
        }
        Ok(true)
    }
}

pub struct Merge {
    keys: Keys,
    schema: SchemaRef,
    sources: Vec<Source>,
    wanted: Wanted,
    /// The key of the last wanted row, once that row was returned.
    last: Option<OwnedKey>,
}

impl Merge {
    pub fn new(keys: Keys, schema: SchemaRef, sorted: Vec<Stored>, wanted: Wanted) -> Result<Merge> {
        let source = |stored: Stored| {
            let batch = RecordBatch::new_empty(schema.clone());
            Ok(Source { blocks: stored.batches(1).boxed(), keys: keys.of(&batch)?, batch, at: 0 })
        };
        let sources = sorted.into_iter().map(source).collect::<Result<_>>()?;
        Ok(Merge { keys, schema, sources, wanted, last: None })
    }

    /// The next rows, at most `rows`; `None` at the end.
    pub async fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        let mut left = Vec::with_capacity(self.sources.len());
        for mut source in std::mem::take(&mut self.sources) {
            if source.fill(&self.keys).await? {
                left.push(source);
            }
        }
        self.sources = left;
        let places = self.merge(rows);
        match places.is_empty() {
            true => Ok(None),
            false => self.gathered(&places).map(Some),
        }
    }

    /// Merges until the block of a source has no rows left.
    fn merge(&mut self, rows: usize) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        let mut at: Vec<usize> = self.sources.iter().map(|source| source.at).collect();
        let head = |source: usize, at: usize| Reverse((self.sources[source].keys.row(at), source));
        let mut heads: BinaryHeap<_> = at.iter().enumerate().map(|(source, at)| head(source, *at)).collect();
        while places.len() < rows {
            let Some(Reverse((key, source))) = heads.pop() else { break };
            if self.last.as_ref().is_some_and(|last| !self.wanted.ties || last.key() != key) {
                break;
            }
            places.push((source, at[source]));
            at[source] += 1;
            if self.last.is_none() {
                self.wanted.rows -= 1;
                self.last = (self.wanted.rows == 0).then(|| key.owned());
            }
            if at[source] == self.sources[source].batch.num_rows() {
                break;
            }
            heads.push(head(source, at[source]));
        }
        drop(heads);
        self.sources.iter_mut().zip(at).for_each(|(source, at)| source.at = at);
        places
    }

    fn gathered(&self, places: &[(usize, usize)]) -> Result<RecordBatch> {
        let column = |i: usize| -> Result<ArrayRef> {
            let arrays: Vec<_> = self.sources.iter().map(|source| source.batch.column(i).as_ref()).collect();
            Ok(owned(interleave(&arrays, places)?))
        };
        let columns = (0..self.schema.fields().len()).map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}
