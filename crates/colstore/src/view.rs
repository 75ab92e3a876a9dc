//! What a query reads: an immutable set of rows of one table, chunk by chunk, as Arrow arrays.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use plan::{Physical, Type};
use snapmem::{EpochSnapshot, OutOfMemory, Run};

use crate::chunk::CHUNK_ROWS;
use crate::coding::Number;
use crate::column::{CellsSnapshot, ColumnSnapshot};
use crate::numbers::CodedChunk;
use crate::patches;
use crate::zero_copy;

/// The rows of one table as a snapshot sees them, with the columns that were asked for, in the order asked.
///
/// Any number of threads may read it; it stays what it is until the last reference is gone.
pub trait TableView: Send + Sync + std::fmt::Debug {
    fn types(&self) -> &[Type];
    /// Columns that no two rows have in common, if that is known of some.
    fn key(&self) -> Option<&[usize]> {
        None
    }
    /// Rows that are there (not those that a chunk merely has room for).
    fn row_count(&self) -> u64;
    fn chunk_count(&self) -> usize;
    /// All columns of a chunk. What has to be put together for it needs memory, which may not be there.
    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory>;

    /// Which rows a chunk has.
    fn rows(&self, index: usize) -> Result<Rows, OutOfMemory> {
        let chunk = self.chunk(index)?;
        Ok(Rows { count: chunk.rows, live: chunk.live })
    }

    /// One column of a chunk.
    fn array(&self, index: usize, column: usize) -> Result<ArrayRef, OutOfMemory> {
        Ok(self.chunk(index)?.arrays.swap_remove(column))
    }

    /// Some rows of a column of a chunk, in ascending order, if that costs less than to pick them from the array.
    fn picked(&self, index: usize, column: usize, rows: &[u32]) -> Result<Option<ArrayRef>, OutOfMemory> {
        let _ = (index, column, rows);
        Ok(None)
    }

    /// Between which a column's values of a chunk lie that are not null, if that is known: integers, dates, times, and
    /// scaled decimals. The first is greater than the second where there are none.
    fn bounds(&self, index: usize, column: usize) -> Option<(i128, i128)> {
        let _ = (index, column);
        None
    }
}

/// Which rows a chunk has.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Length of every array.
    pub count: usize,
    /// Rows that are there; `None`: all of them.
    pub live: Option<BooleanBuffer>,
}

/// Which rows of a chunk are wanted.
#[derive(Clone, Copy)]
pub enum Pick<'a> {
    /// So many from the first on.
    First(usize),
    /// These, in ascending order.
    Rows(&'a [u32]),
}

impl Pick<'_> {
    pub fn len(self) -> usize {
        match self {
            Pick::First(rows) => rows,
            Pick::Rows(rows) => rows.len(),
        }
    }

    /// Rows from the first on, the last that is wanted among them.
    pub fn reach(self) -> usize {
        match self {
            Pick::First(rows) => rows,
            Pick::Rows(rows) => rows.last().map_or(0, |last| *last as usize + 1),
        }
    }

    /// What each wanted row has.
    pub fn map<T>(self, of: impl Fn(usize) -> T) -> Vec<T> {
        match self {
            Pick::First(rows) => (0..rows).map(of).collect(),
            Pick::Rows(rows) => rows.iter().map(|row| of(*row as usize)).collect(),
        }
    }
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

/// The view over snapshots of columns: an array points into one run of its column.
#[derive(Debug)]
pub struct ColumnsView {
    types: Vec<Type>,
    columns: Vec<ColumnSnapshot>,
    /// For each column asked for, where it is in `columns`.
    order: Vec<usize>,
    key: Option<Vec<usize>>,
    live: EpochSnapshot,
    live_counts: Vec<u32>,
    slots: usize,
    row_count: u64,
    _alive: Arc<()>,
}

impl ColumnsView {
    /// `alive` is held as long as the view is.
    pub fn new(
        mut columns: Vec<ColumnSnapshot>,
        order: Vec<usize>,
        key: Option<Vec<usize>>,
        live: EpochSnapshot,
        live_counts: Vec<u32>,
        slots: usize,
        alive: Arc<()>,
    ) -> ColumnsView {
        columns.iter_mut().for_each(ColumnSnapshot::seal);
        let types = order.iter().map(|&index| columns[index].ty).collect();
        let row_count = live_counts.iter().map(|&count| count as u64).sum();
        ColumnsView { types, columns, order, key, live, live_counts, slots, row_count, _alive: alive }
    }
}

impl TableView for ColumnsView {
    fn types(&self) -> &[Type] {
        &self.types
    }

    fn key(&self) -> Option<&[usize]> {
        self.key.as_deref()
    }

    fn row_count(&self) -> u64 {
        self.row_count
    }

    fn chunk_count(&self) -> usize {
        self.slots.div_ceil(CHUNK_ROWS)
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        let Rows { count, live } = self.rows(index)?;
        let arrays = (0..self.order.len()).map(|column| self.array(index, column));
        Ok(Chunk { rows: count, arrays: arrays.collect::<Result<_, _>>()?, live })
    }

    fn rows(&self, index: usize) -> Result<Rows, OutOfMemory> {
        let count = CHUNK_ROWS.min(self.slots - index * CHUNK_ROWS);
        let all = self.live_counts[index] as usize == count;
        let live = if all { None } else { Some(bits(self.live.run(index)?, Pick::First(count))) };
        Ok(Rows { count, live })
    }

    fn array(&self, index: usize, column: usize) -> Result<ArrayRef, OutOfMemory> {
        let count = CHUNK_ROWS.min(self.slots - index * CHUNK_ROWS);
        array(&self.columns[self.order[column]], index, Pick::First(count))
    }

    fn picked(&self, index: usize, column: usize, rows: &[u32]) -> Result<Option<ArrayRef>, OutOfMemory> {
        array(&self.columns[self.order[column]], index, Pick::Rows(rows)).map(Some)
    }

    fn bounds(&self, index: usize, column: usize) -> Option<(i128, i128)> {
        let column = &self.columns[self.order[column]];
        match &column.cells {
            // The order of their bits is not that of the values.
            _ if column.ty.is_float() || column.ty == Type::Uuid => None,
            CellsSnapshot::Numbers(numbers) => Some(numbers.bounds(index)),
            CellsSnapshot::Bits(_) | CellsSnapshot::Text(_) => None,
        }
    }
}

fn array(column: &ColumnSnapshot, chunk: usize, pick: Pick<'_>) -> Result<ArrayRef, OutOfMemory> {
    let valid = column.valid(chunk)?.map(|frame| NullBuffer::new(bits(frame, pick)));
    let nulls = valid.filter(|nulls| nulls.null_count() > 0);
    Ok(match &column.cells {
        CellsSnapshot::Bits(cells) => Arc::new(BooleanArray::new(bits(cells.run(chunk)?, pick), nulls)),
        CellsSnapshot::Text(text) => {
            let (views, blocks) = (text.views(chunk, pick)?, text.buffers(chunk));
            match column.ty.physical() {
                Physical::Bytes => Arc::new(zero_copy::bytes(views, pick.len(), blocks, nulls)),
                _ => Arc::new(zero_copy::strings(views, pick.len(), blocks, nulls)),
            }
        }
        CellsSnapshot::Numbers(numbers) => {
            let chunk = numbers.chunk(chunk)?;
            match column.ty.physical() {
                Physical::Int16 => primitive::<Int16Type, i16>(chunk, pick, nulls),
                Physical::Int32 => primitive::<Int32Type, i32>(chunk, pick, nulls),
                Physical::Int64 => primitive::<Int64Type, i64>(chunk, pick, nulls),
                Physical::Float64 => primitive::<Float64Type, i64>(chunk, pick, nulls),
                Physical::Int128 => {
                    let values = ScalarBuffer::new(values::<i128>(chunk, pick), 0, pick.len());
                    let array = Decimal128Array::new(values, nulls);
                    Arc::new(array.with_data_type(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)))
                }
                Physical::Bit | Physical::Text | Physical::Bytes => unreachable!("these are cells of other kinds"),
            }
        }
    })
}

/// An array of numbers whose bits are those of the integers `N`.
fn primitive<T: ArrowPrimitiveType, N: Number>(
    chunk: CodedChunk<'_>,
    pick: Pick<'_>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(values::<N>(chunk, pick), 0, pick.len()), nulls))
}

/// The values of a chunk: where they are, if their codes are the values themselves.
fn values<N: Number>(chunk: CodedChunk<'_>, pick: Pick<'_>) -> Buffer {
    let CodedChunk { codes, coding, patches } = chunk;
    match pick {
        Pick::First(rows) if coding.width == size_of::<N>() && patches.is_empty() => {
            zero_copy::buffer(codes, rows * coding.width)
        }
        _ if patches.is_empty() => Buffer::from_vec(coding.decode::<N>(&codes, pick)),
        _ => {
            let mut values = coding.decode::<N>(&codes, Pick::First(pick.reach()));
            patches::put(patches, &mut values, N::of_image);
            Buffer::from_vec(patches::picked(values, pick))
        }
    }
}

fn bits(run: Run, pick: Pick<'_>) -> BooleanBuffer {
    match pick {
        Pick::First(rows) => BooleanBuffer::new(zero_copy::buffer(run, rows.div_ceil(8)), 0, rows),
        Pick::Rows(rows) => BooleanBuffer::collect_bool(rows.len(), |at| {
            let row = rows[at] as usize;
            run[row / 8] & 1 << (row % 8) != 0
        }),
    }
}
