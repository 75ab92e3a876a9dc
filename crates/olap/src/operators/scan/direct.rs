//! A scan whose chunks the operator above reads itself, straight from their codes.

use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use colstore::TableView;
use datafusion_common::error::Result;

use super::filter::{Passed, Wanted, places_of};
use super::{ChunkOf, Source, ViewScan};
use crate::spill::Meter;

/// If fewer than one row in this many is wanted, only wanted rows are read. Otherwise all rows are read, and unwanted
/// ones ignored.
const DENSE: usize = 2;

#[derive(Debug)]
pub struct Direct {
    source: Arc<Source>,
    meter: Option<Arc<Meter>>,
}

/// The wanted rows of a chunk, at least one.
pub enum Selected {
    All(usize),
    /// Many of the rows. All rows are read, and those outside of the mask are ignored.
    Masked(BooleanBuffer),
    Listed(Vec<u32>),
}

impl Direct {
    /// `meter` counts the work of the scan.
    pub fn new(scan: &ViewScan, meter: Option<Arc<Meter>>) -> Direct {
        Direct { source: scan.source.clone(), meter }
    }

    pub fn view(&self) -> &dyn TableView {
        self.source.view.as_ref()
    }

    /// The view's column that the scan returns as its column `at`.
    pub fn column(&self, at: usize) -> usize {
        self.source.columns[at]
    }

    /// Begins a partition, which is possible once.
    pub fn begin(&self, partition: usize) -> Result<()> {
        self.source.claims.begin(partition)
    }

    /// Lets the scan itself read the remaining chunks of a partition. If `chunk` was taken but not read, the scan reads
    /// it, too.
    pub fn hand_over(&self, partition: usize, chunk: Option<usize>) {
        self.source.claims.hand_over(partition, chunk);
    }

    /// Ready once the keys of all runtime filters are known, or will not become known.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.source.poll_ready(context)
    }

    /// Takes the next chunk. No other reader gets it.
    pub fn next(&self, partition: usize) -> Option<usize> {
        self.source.claims.next(partition)
    }

    /// The wanted rows of a chunk, if there are any.
    pub fn select(&self, index: usize) -> Result<Option<Selected>> {
        let select = || self.source.select(index);
        match &self.meter {
            None => select(),
            Some(meter) => meter.spent(select, |selected| match selected {
                Ok(Some(selected)) => selected.len() as u64,
                _ => 0,
            }),
        }
    }

    /// Reads all columns of the scan, for the given rows; for all rows if `rows` is `None`.
    pub fn batch(&self, index: usize, count: usize, rows: Option<&[u32]>) -> Result<RecordBatch> {
        let chunk = ChunkOf { source: &self.source, index, count };
        chunk.batch(&Wanted { rows: rows.map(<[u32]>::to_vec), read: Vec::new() })
    }
}

impl Source {
    fn select(&self, index: usize) -> Result<Option<Selected>> {
        let Some((chunk, live)) = self.begin(index)? else { return Ok(None) };
        let passed = match &self.filter {
            None => Passed::Mask(live),
            Some(filter) => filter.passed(&chunk, live)?,
        };
        let selected = match passed {
            Passed::Mask(None) => Selected::All(chunk.count),
            Passed::Mask(Some(mask)) => match mask.count_set_bits() {
                all if all == mask.len() => Selected::All(all),
                some if some * DENSE >= mask.len() => Selected::Masked(mask),
                _ => Selected::Listed(places_of(&mask)),
            },
            Passed::Rows(filtered) => match self.filtered(filtered).rows {
                None => Selected::All(chunk.count),
                Some(rows) => Selected::Listed(rows),
            },
        };
        Ok(Some(selected).filter(|selected| selected.len() > 0))
    }
}

impl Selected {
    /// The number of wanted rows.
    pub fn len(&self) -> usize {
        match self {
            Selected::All(count) => *count,
            Selected::Masked(mask) => mask.count_set_bits(),
            Selected::Listed(rows) => rows.len(),
        }
    }

    /// The number of rows that are read, wanted or not.
    pub fn read(&self) -> usize {
        match self {
            Selected::All(count) => *count,
            Selected::Masked(mask) => mask.len(),
            Selected::Listed(rows) => rows.len(),
        }
    }

    /// The list of the rows that are read; `None` if all rows are read.
    pub fn list(&self) -> Option<&[u32]> {
        match self {
            Selected::All(_) | Selected::Masked(_) => None,
            Selected::Listed(rows) => Some(rows),
        }
    }

    /// The same rows as a list, so that other rows need not be read.
    pub fn without_others(self) -> Selected {
        match self {
            Selected::Masked(mask) => Selected::Listed(places_of(&mask)),
            all_or_listed => all_or_listed,
        }
    }
}
