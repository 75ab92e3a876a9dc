//! Surveys of a table's columns, for people: their codings, sizes and contents.
//!
//! A survey is computed on request, from a snapshot, in the thread that requests it. So it is up to date, costs updates
//! nothing, and does not hold up the writer.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use foldhash::fast::FixedState;
use plan::Type;
use protocol::survey::{ChunkSurvey, ColumnSurvey};
use snapmem::{ExtentsSnapshot, OutOfMemory};

use crate::base::chunk::CHUNK_ROWS;
use crate::base::pick::Pick;
use crate::cells::column::{CellsSnapshot, ColumnSnapshot};
use crate::read::view;

/// The number of rows in the sample from which the number of distinct values is estimated. By default, ANALYZE's sample
/// has the same size.
const SAMPLED: usize = 30_000;
/// The number of bits in the bitmap that counts the distinct values of a chunk. Each value sets the bit that its hash
/// chooses.
const MARKS: usize = 1 << 17;

/// A table's columns as they were when the survey was requested.
#[derive(Debug)]
pub struct Survey {
    pub(crate) columns: Vec<Surveyed>,
    pub(crate) live: ExtentsSnapshot,
    pub(crate) live_counts: Vec<u32>,
    pub(crate) slots: usize,
    pub(crate) _alive: Arc<()>,
}

#[derive(Debug)]
pub struct Surveyed {
    pub attnum: i16,
    pub cells: ColumnSnapshot,
    /// The memory of each chunk in bytes.
    pub bytes: Vec<u64>,
}

impl Survey {
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// A column's attribute number and type.
    pub fn described(&self, column: usize) -> (i16, Type) {
        let Surveyed { attnum, cells, .. } = &self.columns[column];
        (*attnum, cells.ty)
    }

    pub fn chunk_count(&self) -> usize {
        self.slots.div_ceil(CHUNK_ROWS)
    }

    /// The survey of one column in one chunk, except the number of distinct values, which stays 0.
    fn part(&self, column: usize, chunk: usize) -> Result<ChunkSurvey, OutOfMemory> {
        let Surveyed { cells, bytes, .. } = &self.columns[column];
        let (slots, rows) = (self.slots_of(chunk), self.live_counts[chunk]);
        let mut nulls = 0;
        if let Some(valid) = cells.valid(chunk)? {
            let (live, unholdable) = (self.live.run(chunk)?, cells.unholdable(chunk)?);
            let is_null =
                |at: usize| live[at] & !valid[at] & !unholdable.as_ref().map_or(0, |unholdable| unholdable[at]);
            nulls = (0..live.len().min(valid.len())).map(|at| is_null(at).count_ones()).sum();
        }
        // Bounds do not include values that the layout cannot represent. If there is such a value, the true bounds are
        // unknown.
        let bounds = match &cells.cells {
            _ if !has_known_order(cells.ty) || cells.has_unholdable() => None,
            CellsSnapshot::Bits(bits) => Some(self.truths(bits, cells, chunk)?),
            _ => view::bounds(cells, chunk),
        };
        Ok(ChunkSurvey {
            coding: cells.coding(chunk)?,
            bytes: bytes[chunk],
            slots: slots as u64,
            rows: rows.into(),
            nulls: nulls.into(),
            distinct: 0,
            bounds: bounds.filter(|(low, high)| low <= high),
        })
    }

    /// The bounds of a chunk's booleans, as 0 and 1. If there are no values, the first bound is greater than the
    /// second.
    fn truths(
        &self,
        bits: &ExtentsSnapshot,
        cells: &ColumnSnapshot,
        chunk: usize,
    ) -> Result<(i128, i128), OutOfMemory> {
        let (bits, live, valid) = (bits.run(chunk)?, self.live.run(chunk)?, cells.valid(chunk)?);
        let known = |at: usize| live[at] & valid.as_ref().map_or(u8::MAX, |valid| valid[at]);
        let rows = 0..self.slots_of(chunk).div_ceil(8);
        let is_any = |wanted: fn(u8) -> u8| rows.clone().any(|at| known(at) & wanted(bits[at]) != 0);
        Ok((i128::from(!is_any(|bits| !bits)), i128::from(is_any(|bits| bits))))
    }

    /// The survey of a column in a chunk, with an estimate of its number of distinct values.
    pub fn chunk(&self, column: usize, chunk: usize) -> Result<ChunkSurvey, OutOfMemory> {
        let rows: Vec<u32> = self.live_rows(chunk)?.collect();
        let array = view::array(&self.columns[column].cells, chunk, Pick::Rows(&rows))?;
        let mut marks = vec![0u64; MARKS / 64];
        for hash in hashes(&array).into_iter().flatten() {
            let mark = hash as usize % MARKS;
            marks[mark / 64] |= 1 << (mark % 64);
        }
        let marked: u32 = marks.iter().map(|word| word.count_ones()).sum();
        // Several distinct values may have set the same bit, so the count is corrected for the expected collisions.
        let all = MARKS as f64;
        let distinct = all * (all / (all - f64::from(marked))).ln();
        Ok(ChunkSurvey { distinct: distinct.round() as u64, ..self.part(column, chunk)? })
    }

    /// The survey of a whole column. `go_on` is called between two chunks, and may end the survey with an error.
    pub fn column<E>(
        &self,
        column: usize,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<ColumnSurvey, OutOfMemory>, E> {
        let chunks = self.chunk_count();
        let Surveyed { attnum, cells, .. } = &self.columns[column];
        let mut survey = ColumnSurvey::of(*attnum, cells.ty);
        let (mut sample, mut codings) = (Sample::default(), BTreeMap::<String, u64>::new());
        for chunk in 0..chunks {
            go_on()?;
            let found = self.part(column, chunk).and_then(|part| {
                let rows: Vec<u32> = self.live_rows(chunk)?.filter(|row| self.is_sampled(chunk, *row)).collect();
                sample.add(&view::array(cells, chunk, Pick::Rows(&rows))?);
                Ok(part)
            });
            let part = match found {
                Ok(part) => part,
                Err(refused) => return Ok(Err(refused)),
            };
            *codings.entry(part.coding.clone()).or_default() += 1;
            survey.add(&part);
        }
        survey.codings = codings.into_iter().collect();
        survey.distinct = sample.distinct_among(survey.rows.saturating_sub(survey.nulls));
        Ok(Ok(survey))
    }

    /// Whether a row is sampled. The choice is pseudo-random, but always the same.
    fn is_sampled(&self, chunk: usize, row: u32) -> bool {
        let slot = (chunk * CHUNK_ROWS) as u64 + u64::from(row);
        let one_in = self.slots.div_ceil(SAMPLED).max(1) as u64;
        (slot.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(one_in)
    }

    fn slots_of(&self, chunk: usize) -> usize {
        CHUNK_ROWS.min(self.slots - chunk * CHUNK_ROWS)
    }

    fn live_rows(&self, chunk: usize) -> Result<impl Iterator<Item = u32>, OutOfMemory> {
        let live = self.live.run(chunk)?;
        let is_live = move |row: &u32| live[*row as usize / 8] & 1 << (row % 8) != 0;
        Ok((0..self.slots_of(chunk) as u32).filter(is_live))
    }
}

/// Whether the stored numbers or bytes of a type, compared as such, have the same order as the values.
fn has_known_order(ty: Type) -> bool {
    use Type::{Enum, Interval, Numeric, Opaque};
    !matches!(ty, Enum | Interval | Numeric | Opaque)
}

/// The sampled values of a column: how often each hash was seen, and how many values there were.
#[derive(Default)]
struct Sample {
    seen: HashMap<u64, u32>,
    values: u64,
}

impl Sample {
    fn add(&mut self, array: &ArrayRef) {
        for hash in hashes(array).into_iter().flatten() {
            *self.seen.entry(hash).or_default() += 1;
            self.values += 1;
        }
    }

    /// The estimated number of distinct values in the column, which has `all` values. The estimator is that of Haas and
    /// Stokes, which ANALYZE uses, too.
    fn distinct_among(&self, all: u64) -> u64 {
        let (found, once) = (self.seen.len() as u64, self.seen.values().filter(|times| **times == 1).count());
        if self.values == 0 || self.values >= all {
            return found;
        }
        let (sampled, once, all) = (self.values as f64, once as f64, all as f64);
        let guess = sampled * found as f64 / (sampled - once + once * sampled / all);
        (guess.round() as u64).clamp(found, all as u64)
    }
}

/// A hash of each value; `None` for a null.
fn hashes(array: &ArrayRef) -> Vec<Option<u64>> {
    fn of<T: Hash>(values: impl Iterator<Item = Option<T>>) -> Vec<Option<u64>> {
        let state = FixedState::default();
        values.map(|value| value.map(|value| state.hash_one(value))).collect()
    }
    use arrow_schema::DataType;
    match array.data_type() {
        DataType::Boolean => of(array.as_boolean().iter()),
        DataType::Int16 => of(array.as_primitive::<Int16Type>().iter()),
        DataType::Int32 => of(array.as_primitive::<Int32Type>().iter()),
        DataType::Int64 => of(array.as_primitive::<Int64Type>().iter()),
        DataType::Float64 => of(array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits))),
        DataType::Decimal128(..) => of(array.as_primitive::<Decimal128Type>().iter()),
        DataType::Utf8View => of(array.as_string_view().iter()),
        _ => of(array.as_binary_view().iter()),
    }
}
