//! Rows of both sides on disk, divided by the hash of their keys: rows with equal keys are in the same part.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_select::take::take;
use datafusion_common::error::Result;
use datafusion_common::hash_utils::{QualityRandomState, create_hashes};

use super::layout::Layout;
use super::shape::Shape;
use crate::base::bytes::bytes_of;
use crate::spill::{Account, SINK_BYTES, Sink, Stored, blocking};

const PART_BITS: u32 = 4;
pub const PARTS: usize = 1 << PART_BITS;

/// The greatest number of bytes in a batch on disk that has more than one row.
pub const PIECE: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    Build,
    Probe,
}

impl Side {
    pub fn layout(self, shape: &Shape) -> &Layout {
        match self {
            Side::Build => &shape.build,
            Side::Probe => &shape.probe,
        }
    }

    fn keeps_nulls(self, shape: &Shape) -> bool {
        match self {
            Side::Build => shape.keeps_nulls_of_build(),
            Side::Probe => shape.keeps_nulls_of_probe(),
        }
    }
}

/// The size of rows on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    pub rows: usize,
    /// The rows' bytes in memory.
    pub bytes: usize,
    /// Bytes of the largest batch.
    pub largest: usize,
}

impl Extent {
    pub fn with(self, other: Extent) -> Extent {
        Extent {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            largest: self.largest.max(other.largest),
        }
    }
}

/// Writes the rows of one side into parts.
pub struct Writer {
    shape: Arc<Shape>,
    side: Side,
    depth: u64,
    account: Account,
    /// Parts that are not written, because they cannot contribute to the result.
    left_out: [bool; PARTS],
    parts: [(Option<Sink>, Extent); PARTS],
}

/// The parts as they were written.
pub type Written = [(Option<Stored>, Extent); PARTS];

impl Writer {
    /// The memory of a writer.
    pub const BYTES: usize = PARTS * SINK_BYTES + 2 * PIECE;

    /// `depth` is the number of times that the rows were divided before.
    pub fn new(shape: &Arc<Shape>, side: Side, depth: u64, account: Account) -> Writer {
        Writer { shape: shape.clone(), side, depth, account, left_out: [false; PARTS], parts: Default::default() }
    }

    pub fn leaving_out(self, left_out: [bool; PARTS]) -> Writer {
        Writer { left_out, ..self }
    }

    /// Writes rows in the side's layout.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let shape = self.shape.clone();
        let layout = self.side.layout(&shape);
        let keys = layout.keys_of(rows);
        let mut hashes = vec![0; rows.num_rows()];
        create_hashes(&keys, &QualityRandomState::with_seed(seed(self.depth)), &mut hashes)?;
        let nulls = match self.side.keeps_nulls(&self.shape) {
            true => None,
            false => keys.iter().fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.nulls())),
        };
        let mut divided: [Vec<u32>; PARTS] = Default::default();
        for (row, hash) in (0..).zip(&hashes) {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row as usize)) {
                divided[(hash >> (u64::BITS - PART_BITS)) as usize].push(row);
            }
        }
        for (at, these) in divided.into_iter().enumerate() {
            if !these.is_empty() && !self.left_out[at] {
                let these = UInt32Array::from(these);
                let columns = rows.columns().iter().map(|column| take(column, &these, None));
                self.put(at, &layout.batch(columns.collect::<Result<_, _>>()?, these.len())?)?;
            }
        }
        Ok(())
    }

    /// Writes several batches; other tasks get their turn between them.
    pub async fn write_all(&mut self, batches: Vec<RecordBatch>) -> Result<()> {
        for batch in batches {
            blocking(|| self.write(&batch))?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Writes rows into a part, in pieces that are not too large.
    fn put(&mut self, at: usize, rows: &RecordBatch) -> Result<()> {
        let (count, bytes) = (rows.num_rows(), bytes_of(rows));
        if count > 1 && bytes > PIECE {
            self.put(at, &rows.slice(0, count / 2))?;
            return self.put(at, &rows.slice(count / 2, count - count / 2));
        }
        let (sink, extent) = &mut self.parts[at];
        let sink = match sink {
            Some(sink) => sink,
            None => sink.insert(Sink::new(self.account.clone(), &rows.schema())?),
        };
        *extent = extent.with(Extent { rows: count, bytes, largest: bytes });
        sink.write(rows)
    }

    pub fn finish(self) -> Result<Written> {
        let mut written = Written::default();
        for (place, (sink, extent)) in written.iter_mut().zip(self.parts) {
            *place = (sink.map(Sink::finish).transpose()?, extent);
        }
        Ok(written)
    }
}

/// The seed of the hash at a depth. Each depth has its own seed, which no other hash uses. So the next depth divides
/// rows that this depth has put into the same part.
fn seed(depth: u64) -> u64 {
    0x616e_6b65_7300 + depth
}

/// Rows of one side on disk.
#[derive(Default)]
pub struct Rows {
    pub stored: Vec<Stored>,
    pub extent: Extent,
}

impl Rows {
    pub fn add(&mut self, (stored, extent): (Option<Stored>, Extent)) {
        self.stored.extend(stored);
        self.extent = self.extent.with(extent);
    }
}

/// Rows of both sides that have partners only among each other.
#[derive(Default)]
pub struct Part {
    pub build: Rows,
    pub probe: Rows,
    /// The number of times that the rows were divided.
    pub depth: u64,
    /// Whether the last division left all rows of the build side together, so that another division would not help.
    pub is_whole: bool,
}

impl Part {
    /// Whether the part can contribute to the result.
    pub fn is_wanted(&self, shape: &Shape) -> bool {
        match (self.build.extent.rows > 0, self.probe.extent.rows > 0) {
            (true, true) => true,
            (true, false) => shape.keeps_nulls_of_build(),
            (false, true) => shape.keeps_nulls_of_probe(),
            (false, false) => false,
        }
    }
}
