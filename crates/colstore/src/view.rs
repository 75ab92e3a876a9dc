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
    /// Cheap: no value is copied, but in chunks where some have to be replaced by older or newer ones. Those need memory,
    /// which may not be there.
    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory>;
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
        let rows = CHUNK_ROWS.min(self.slots - index * CHUNK_ROWS);
        let arrays = self.order.iter().map(|&column| array(&self.columns[column], index, rows));
        let arrays = arrays.collect::<Result<_, _>>()?;
        let all = self.live_counts[index] as usize == rows;
        let live = if all { None } else { Some(bits(self.live.run(index)?, rows)) };
        Ok(Chunk { rows, arrays, live })
    }
}

fn array(column: &ColumnSnapshot, chunk: usize, rows: usize) -> Result<ArrayRef, OutOfMemory> {
    let valid = column.valid(chunk)?.map(|frame| NullBuffer::new(bits(frame, rows)));
    let nulls = valid.filter(|nulls| nulls.null_count() > 0);
    Ok(match &column.cells {
        CellsSnapshot::Bits(cells) => Arc::new(BooleanArray::new(bits(cells.run(chunk)?, rows), nulls)),
        CellsSnapshot::Text(text) => {
            let (views, blocks) = (text.views(chunk, rows)?, text.buffers(chunk));
            match column.ty.physical() {
                Physical::Bytes => Arc::new(zero_copy::bytes(views, rows, blocks, nulls)),
                _ => Arc::new(zero_copy::strings(views, rows, blocks, nulls)),
            }
        }
        CellsSnapshot::Numbers(numbers) => {
            let chunk = numbers.chunk(chunk)?;
            match column.ty.physical() {
                Physical::Int16 => primitive::<Int16Type, i16>(chunk, rows, nulls),
                Physical::Int32 => primitive::<Int32Type, i32>(chunk, rows, nulls),
                Physical::Int64 => primitive::<Int64Type, i64>(chunk, rows, nulls),
                Physical::Float64 => primitive::<Float64Type, i64>(chunk, rows, nulls),
                Physical::Int128 => {
                    let array = Decimal128Array::new(ScalarBuffer::new(values::<i128>(chunk, rows), 0, rows), nulls);
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
    rows: usize,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(values::<N>(chunk, rows), 0, rows), nulls))
}

/// The values of a chunk: where they are, if their codes are the values themselves.
fn values<N: Number>(chunk: CodedChunk<'_>, rows: usize) -> Buffer {
    let CodedChunk { codes, coding, patches } = chunk;
    if coding.width == size_of::<N>() && patches.is_empty() {
        return zero_copy::buffer(codes, rows * coding.width);
    }
    let mut values = coding.decode::<N>(&codes, rows);
    for (row, image) in patches {
        values[*row as usize] = N::of_image(u128::from_le_bytes(*image));
    }
    Buffer::from_vec(values)
}

fn bits(run: Run, rows: usize) -> BooleanBuffer {
    BooleanBuffer::new(zero_copy::buffer(run, rows.div_ceil(8)), 0, rows)
}
