//! One pass over rows: it groups as many of them as memory allows, and writes the others to disk.
//!
//! When memory runs out, the groups are *frozen*. Rows of existing groups, found by the hash of their key, are still
//! added. All other rows go to one of several parts on disk. If a new group's key has a known hash, the group is added,
//! too. This does no harm: all rows of the group have that hash, so none of them has gone to disk.
//!
//! ```text
//!   row -> hash of its key -> is the hash known? yes -> the table
//!                                              no  -> a part on disk, by the upper bits of the hash
//! ```

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_select::take::take;
use datafusion_common::error::{DataFusionError, Result};

use super::table::{Hashes, Shape, Table};
use crate::spill::{Account, Means, SINK_BYTES, Sink, Stored, blocking};

const PART_BITS: u32 = 4;
const PARTS: usize = 1 << PART_BITS;
/// The deepest level. Each level has sixteen times as many parts, so no disk is large enough for a deeper one.
const DEEPEST: u64 = 10;

pub struct Level<'a> {
    means: &'a mut Means,
    shape: Arc<Shape>,
    table: Table,
    frozen: Option<Frozen>,
    depth: u64,
    batch_size: usize,
}

struct Frozen {
    known: Hashes,
    parts: [Option<Sink>; PARTS],
}

impl<'a> Level<'a> {
    pub fn new(shape: Arc<Shape>, means: &'a mut Means, depth: u64, batch_size: usize) -> Result<Level<'a>> {
        let table = Table::new(shape.clone())?;
        Ok(Level { means, shape, table, frozen: None, depth, batch_size })
    }

    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        match self.frozen.is_some() {
            false => self.table.add(batch)?,
            true => blocking(|| self.add_known(batch))?,
        }
        self.make_room()
    }

    fn add_known(&mut self, batch: &RecordBatch) -> Result<()> {
        let (Some(frozen), Some(account)) = (&mut self.frozen, &self.means.disk) else {
            return self.table.add(batch);
        };
        let mut known = Vec::with_capacity(batch.num_rows());
        let mut others: [Vec<u32>; PARTS] = Default::default();
        for (row, hash) in (0..).zip(self.shape.hashes(batch, seed(self.depth))?) {
            match frozen.known.find(hash, |other| *other == hash) {
                Some(_) => known.push(row),
                None => others[(hash >> (u64::BITS - PART_BITS)) as usize].push(row),
            }
        }
        if known.len() == batch.num_rows() {
            return self.table.add(batch);
        }
        if !known.is_empty() {
            self.table.add(&taken(batch, known)?)?;
        }
        for (rows, part) in others.into_iter().zip(&mut frozen.parts).filter(|(rows, _)| !rows.is_empty()) {
            let part = match part {
                Some(part) => part,
                None => part.insert(Sink::new(account.clone(), &batch.schema())?),
            };
            part.write(&taken(batch, rows)?)?;
        }
        Ok(())
    }

    fn make_room(&mut self) -> Result<()> {
        let bytes = self.table.bytes();
        match (&self.frozen, &self.means.disk) {
            (Some(frozen), _) => self.means.room.resize(bytes + frozen.bytes()),
            (None, None) => self.means.room.resize(bytes),
            (None, Some(_)) => {
                // If memory runs out, the groups are frozen. Memory for this must remain: for the hashes of their keys,
                // and for the sinks.
                if self.means.room.try_resize(bytes + self.table.bytes_to_hash() + PARTS * SINK_BYTES) {
                    return Ok(());
                }
                if self.depth == DEEPEST {
                    return Err(DataFusionError::ResourcesExhausted("too many groups for any number of parts".into()));
                }
                let known = self.table.key_hashes(seed(self.depth), self.batch_size)?;
                let frozen = self.frozen.insert(Frozen { known, parts: Default::default() });
                self.means.room.resize(self.table.bytes() + frozen.bytes())
            }
        }
    }

    /// The groups, and the parts on disk.
    pub fn finish(self) -> Result<(RecordBatch, Vec<Stored>)> {
        let parts = match self.frozen {
            Some(frozen) => blocking(|| frozen.parts.into_iter().flatten().map(Sink::finish).collect::<Result<_>>())?,
            None => Vec::new(),
        };
        Ok((self.table.finish()?, parts))
    }
}

/// The selected rows. If groups have only constant keys, the batch may have no columns.
fn taken(batch: &RecordBatch, rows: Vec<u32>) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let rows = UInt32Array::from(rows);
    let columns = batch.columns().iter().map(|column| Ok(take(column, &rows, None)?)).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

impl Frozen {
    fn bytes(&self) -> usize {
        self.known.allocation_size() + PARTS * SINK_BYTES
    }
}

/// The seed of the hash at a depth. It differs from the seeds of other depths, and from the seed by which DataFusion
/// distributes rows.
fn seed(depth: u64) -> u64 {
    0x616e_6b65_7200 + depth
}

/// Results that wait on disk until all parts are grouped.
pub struct Results {
    account: Account,
    sink: Option<Sink>,
}

impl Results {
    pub fn new(account: Account) -> Results {
        Results { account, sink: None }
    }

    pub fn write(&mut self, batch: &RecordBatch, batch_size: usize) -> Result<()> {
        let sink = match &mut self.sink {
            Some(sink) => sink,
            None => self.sink.insert(Sink::new(self.account.clone(), &batch.schema())?),
        };
        slices(batch, batch_size).try_for_each(|slice| sink.write(&slice))
    }

    pub fn finish(self) -> Result<Option<Stored>> {
        self.sink.map(|sink| blocking(|| sink.finish())).transpose()
    }
}

pub fn slices(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> + Send + use<> {
    let batch = batch.clone();
    (0..batch.num_rows()).step_by(rows).map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
}
