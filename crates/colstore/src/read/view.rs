//! A query's view of a table: an immutable set of its rows, chunk by chunk, as Arrow arrays.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use plan::{Physical, Type, float_order};
use snapmem::{ExtentsSnapshot, OutOfMemory, Run};

use crate::base::chunk::CHUNK_ROWS;
use crate::base::leases::Hold;
use crate::base::pick::Pick;
use crate::base::zero_copy;
use crate::cells::codes::coded::{Coded, CodedCells, Valid, numbers_of_texts, signed};
use crate::cells::codes::coding::{Coding, Number};
use crate::cells::codes::integers::Integers;
use crate::cells::codes::select::{Codes, Distinct};
use crate::cells::column::{CellsSnapshot, ColumnSnapshot};
use crate::cells::numbers::{CodedChunk, Form, NumbersSnapshot};
use crate::cells::patches::{self, Patch};

/// [`TableView::distinct`] lists the numbers of a chunk only if there are at most this many.
const MOST_NUMBERS: i128 = 1000;

/// The rows of one table as a snapshot sees them, with the requested columns in the requested order.
///
/// Any number of threads may read it. It does not change until the last reference is gone.
pub trait TableView: Send + Sync + std::fmt::Debug {
    fn types(&self) -> &[Type];
    /// Columns that form a key: no two rows have the same values in all of them. `None` if no key is known.
    fn key(&self) -> Option<&[usize]> {
        None
    }
    /// The number of rows that exist; empty slots are not counted.
    fn row_count(&self) -> u64;
    fn chunk_count(&self) -> usize;
    /// All columns of a chunk. Decoding needs memory, and fails if there is none.
    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory>;

    /// The existing rows of a chunk.
    fn rows(&self, index: usize) -> Result<ChunkRows, OutOfMemory> {
        let chunk = self.chunk(index)?;
        Ok(ChunkRows { count: chunk.rows, live: chunk.live })
    }

    /// One column of a chunk.
    fn array(&self, index: usize, column: usize) -> Result<ArrayRef, OutOfMemory> {
        Ok(self.chunk(index)?.arrays.swap_remove(column))
    }

    /// Some rows of a column of a chunk; `rows` is in ascending order. `None` if it costs less to read the whole array,
    /// and to pick the rows from it.
    fn picked(&self, index: usize, column: usize, rows: &[u32]) -> Result<Option<ArrayRef>, OutOfMemory> {
        let _ = (index, column, rows);
        Ok(None)
    }

    /// The rows of a chunk whose values in a column are not null and lie in a range. `None` if this cannot be told
    /// without decoding the values. The column must have bounds.
    fn within(
        &self,
        index: usize,
        column: usize,
        range: RangeInclusive<i128>,
    ) -> Result<Option<BooleanBuffer>, OutOfMemory> {
        let _ = (index, column, range);
        Ok(None)
    }

    /// The distinct values of a column of a chunk, if they are known and few. A listed value may occur in no row.
    fn distinct(&self, index: usize, column: usize) -> Result<Option<Distinct>, OutOfMemory> {
        let _ = (index, column);
        Ok(None)
    }

    /// A column of a chunk for a forked child process, which may not allocate; `None` for floats and bytes.
    fn coded(&self, index: usize, column: usize) -> Result<Option<Coded>, OutOfMemory> {
        Ok(Coded::of(self.types()[column], &self.array(index, column)?))
    }

    /// A column of a chunk as integers of 64 bits. `None` unless the type is an integer or decimal, and all values
    /// except nulls fit. A decimal appears as an integer without its decimal point: 1.23 is 123.
    fn integers(&self, index: usize, column: usize) -> Result<Option<Integers>, OutOfMemory> {
        Ok(Integers::of_array(&self.array(index, column)?))
    }

    /// The rows of a chunk that are not null in a column; `None` if no row is null.
    fn valid(&self, index: usize, column: usize) -> Result<Option<BooleanBuffer>, OutOfMemory> {
        let nulls = self.array(index, column)?.logical_nulls();
        Ok(nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().clone()))
    }

    /// The least and the greatest value of a column in a chunk, if they are known; nulls are ignored. For integers,
    /// dates, times, scaled decimals and uuids, the bounds are numbers. For floats and texts, they are positions in the
    /// order of the type ([`plan::float_order`], [`plan::text_order`]). If there are no values, the first bound is
    /// greater than the second.
    fn bounds(&self, index: usize, column: usize) -> Option<(i128, i128)> {
        let _ = (index, column);
        None
    }
}

/// The existing rows of a chunk.
#[derive(Clone, Debug)]
pub struct ChunkRows {
    /// The length of every array.
    pub count: usize,
    /// The rows that exist; `None` if all do.
    pub live: Option<BooleanBuffer>,
}

/// Consecutive rows of a table.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The length of every array.
    pub rows: usize,
    /// One array per column, in Arrow's form of the column's [`Type`] (see its table).
    pub arrays: Vec<ArrayRef>,
    /// The rows that exist; `None` if all do.
    pub live: Option<BooleanBuffer>,
}

/// The view of a table over snapshots of its columns. An array that needs no decoding points into a column's memory.
#[derive(Debug)]
pub struct ColumnsView {
    types: Vec<Type>,
    columns: Vec<ColumnSnapshot>,
    /// For each requested column, its index in `columns`.
    order: Vec<usize>,
    key: Option<Vec<usize>>,
    live: ExtentsSnapshot,
    live_counts: Vec<u32>,
    slots: usize,
    row_count: u64,
    _hold: Hold,
}

impl ColumnsView {
    /// A new view. It keeps `hold` for as long as it exists.
    pub fn new(
        mut columns: Vec<ColumnSnapshot>,
        order: Vec<usize>,
        key: Option<Vec<usize>>,
        live: ExtentsSnapshot,
        live_counts: Vec<u32>,
        slots: usize,
        hold: Hold,
    ) -> ColumnsView {
        columns.iter_mut().for_each(ColumnSnapshot::seal);
        let types = order.iter().map(|&index| columns[index].ty).collect();
        let row_count = live_counts.iter().map(|&count| count as u64).sum();
        ColumnsView { types, columns, order, key, live, live_counts, slots, row_count, _hold: hold }
    }
}

impl ColumnsView {
    /// The number of slots in a chunk.
    fn slots_of(&self, index: usize) -> usize {
        CHUNK_ROWS.min(self.slots - index * CHUNK_ROWS)
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
        let ChunkRows { count, live } = self.rows(index)?;
        let arrays = (0..self.order.len()).map(|column| self.array(index, column));
        Ok(Chunk { rows: count, arrays: arrays.collect::<Result<_, _>>()?, live })
    }

    fn rows(&self, index: usize) -> Result<ChunkRows, OutOfMemory> {
        let count = self.slots_of(index);
        let all = self.live_counts[index] as usize == count;
        let live = if all { None } else { Some(bits(self.live.run(index)?, Pick::First(count))) };
        Ok(ChunkRows { count, live })
    }

    fn array(&self, index: usize, column: usize) -> Result<ArrayRef, OutOfMemory> {
        array(&self.columns[self.order[column]], index, Pick::First(self.slots_of(index)))
    }

    fn picked(&self, index: usize, column: usize, rows: &[u32]) -> Result<Option<ArrayRef>, OutOfMemory> {
        array(&self.columns[self.order[column]], index, Pick::Rows(rows)).map(Some)
    }

    fn bounds(&self, index: usize, column: usize) -> Option<(i128, i128)> {
        bounds(&self.columns[self.order[column]], index)
    }

    fn integers(&self, index: usize, column: usize) -> Result<Option<Integers>, OutOfMemory> {
        let valid = self.valid(index, column)?;
        let column = &self.columns[self.order[column]];
        let (Some(numbers), Some(full)) = (ordered(column), column.ty.slot_bytes()) else { return Ok(None) };
        let CodedChunk { codes, form, patches } = numbers.chunk(index)?;
        let coding = match form {
            _ if !patches.is_empty() => {
                return Ok(Integers::of_array(&array(column, index, Pick::First(self.slots_of(index)))?));
            }
            Form::Listed(listing) => return Ok(Integers::of_list(codes, listing, valid, numbers.bounds(index))),
            Form::Offsets(coding) => coding,
        };
        // The bounds cover all values ever written. The coding limits which values this snapshot can contain. The
        // intersection of both ranges is used.
        let ((low, high), (least, greatest)) = (numbers.bounds(index), coding.values(full));
        let (Ok(low), Ok(high)) = (i64::try_from(low.max(least)), i64::try_from(high.min(greatest))) else {
            return Ok(None);
        };
        Ok(Some(Integers::of_codes(codes, coding, full, valid, (low, high))))
    }

    fn valid(&self, index: usize, column: usize) -> Result<Option<BooleanBuffer>, OutOfMemory> {
        let rows = self.slots_of(index);
        let valid = self.columns[self.order[column]].valid(index)?.map(|valid| bits(valid, Pick::First(rows)));
        Ok(valid.filter(|valid| valid.count_set_bits() < rows))
    }

    fn within(
        &self,
        index: usize,
        column: usize,
        range: RangeInclusive<i128>,
    ) -> Result<Option<BooleanBuffer>, OutOfMemory> {
        let column = &self.columns[self.order[column]];
        let (Some(numbers), Some(full)) = (ordered(column), column.ty.slot_bytes()) else { return Ok(None) };
        let CodedChunk { codes, form, patches } = numbers.chunk(index)?;
        if !patches.is_empty() {
            return Ok(None);
        }
        let rows = self.slots_of(index);
        let within = match form {
            Form::Offsets(coding) => coding.within(&codes, rows, range, full),
            Form::Listed(listing) => listing.within(&codes, rows, range),
        };
        Ok(Some(match column.valid(index)? {
            Some(valid) => &within & &bits(valid, Pick::First(rows)),
            None => within,
        }))
    }

    fn coded(&self, index: usize, column: usize) -> Result<Option<Coded>, OutOfMemory> {
        let of = &self.columns[self.order[column]];
        let cells = match &of.cells {
            CellsSnapshot::Bits(bits) => CodedCells::Bits(bits.run(index)?),
            CellsSnapshot::Numbers(_) if of.ty.is_float() => return Ok(None),
            CellsSnapshot::Numbers(numbers) => {
                let Some(full) = of.ty.slot_bytes() else { return Ok(None) };
                let CodedChunk { codes, form, patches } = numbers.chunk(index)?;
                let patch = |(row, image): &Patch| (*row, signed(u128::from_le_bytes(*image), full));
                let patches = patches.iter().map(patch).collect();
                match form {
                    Form::Offsets(coding) => CodedCells::Numbers { codes, coding, full, patches },
                    Form::Listed(listing) => {
                        let values = listing.numbers(&codes).into();
                        CodedCells::Listed { codes, width: listing.width(), values, patches }
                    }
                }
            }
            CellsSnapshot::Text(_) if of.ty.physical() != Physical::Text => return Ok(None),
            CellsSnapshot::Text(_) => match self.distinct(index, column)? {
                Some(Distinct { values, codes: Codes { run, width, .. }, .. }) => {
                    CodedCells::Listed { codes: run, width, values: numbers_of_texts(&values), patches: Box::default() }
                }
                None => CodedCells::Values(numbers_of_texts(&self.array(index, column)?)),
            },
        };
        Ok(Some(Coded { cells, valid: of.valid(index)?.map(Valid::Bits) }))
    }

    fn distinct(&self, index: usize, column: usize) -> Result<Option<Distinct>, OutOfMemory> {
        let rows = self.slots_of(index);
        let column = &self.columns[self.order[column]];
        let found = match &column.cells {
            CellsSnapshot::Text(text) => text.distinct(index)?.map(|(views, run, width)| {
                let count = views.len();
                let values =
                    text_array(column.ty, Buffer::from_vec(views), count, text.blocks(index), last_null(count));
                (values, Codes { run, width, first: 0, rows })
            }),
            CellsSnapshot::Numbers(numbers) => few_numbers(column.ty, numbers, index, rows)?,
            CellsSnapshot::Bits(_) => None,
        };
        let Some((values, codes)) = found else { return Ok(None) };
        let valid = column.valid(index)?.map(|valid| bits(valid, Pick::First(rows)));
        Ok(Some(Distinct { values, codes, valid }))
    }
}

/// See [`TableView::bounds`].
pub fn bounds(column: &ColumnSnapshot, chunk: usize) -> Option<(i128, i128)> {
    match &column.cells {
        CellsSnapshot::Numbers(numbers) if column.ty.is_float() => {
            let (low, high) = numbers.bounds(chunk);
            let place = |end: i128| end.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            let (low, high) = float_order::ranks_between(place(low), place(high));
            Some((low.into(), high.into()))
        }
        CellsSnapshot::Numbers(numbers) if column.ty == Type::Uuid => Some(numbers.bounds(chunk)),
        CellsSnapshot::Text(text) => (column.ty.is_text() || column.ty == Type::Bytes).then(|| text.bounds(chunk)),
        _ => ordered(column).map(|numbers| numbers.bounds(chunk)),
    }
}

/// The numbers of a column, if comparing them as signed integers orders the column's values. Otherwise `None`.
fn ordered(column: &ColumnSnapshot) -> Option<&NumbersSnapshot> {
    match &column.cells {
        _ if column.ty.is_float() || column.ty == Type::Uuid => None,
        CellsSnapshot::Numbers(numbers) => Some(numbers),
        CellsSnapshot::Bits(_) | CellsSnapshot::Text(_) => None,
    }
}

/// Whether every integer between two stored numbers also stands for a value of the type.
fn counts(ty: Type) -> bool {
    use Type::{Date, Decimal64, Decimal128, Int16, Int32, Int64};
    matches!(ty, Int16 | Int32 | Int64 | Date | Decimal64 { .. } | Decimal128 { .. })
}

/// The numbers in a chunk's list, or all numbers between the chunk's bounds, if they are few.
fn few_numbers(
    ty: Type,
    numbers: &NumbersSnapshot,
    index: usize,
    rows: usize,
) -> Result<Option<(ArrayRef, Codes)>, OutOfMemory> {
    let CodedChunk { codes, form, patches } = numbers.chunk(index)?;
    let coding = match form {
        _ if !patches.is_empty() => return Ok(None),
        Form::Listed(listing) => {
            let mut all = listing.numbers(&codes);
            all.push(0);
            let values = number_array(ty, Source::Values(&all), last_null(all.len()));
            return Ok(Some((values, Codes { run: codes, width: listing.width(), first: 0, rows })));
        }
        Form::Offsets(coding) if coding.width <= 2 && counts(ty) => coding,
        Form::Offsets(_) => return Ok(None),
    };
    let (least, greatest) = ty.slot_bytes().map_or((0, 0), |full| coding.values(full));
    // The bounds may have become wider since the snapshot was taken. The coding is the snapshot's own, so it has not.
    let (low, high) = numbers.bounds(index);
    let (low, high) = (low.max(least), high.min(greatest));
    if high - low >= MOST_NUMBERS {
        return Ok(None);
    }
    let count = (high - low + 1).max(0) as usize;
    let first = if count > 0 { coding.code(low) as usize } else { 0 };
    // The last element stands for null, so its number does not matter.
    let all: Vec<i128> = (low..=high).chain([0]).collect();
    let values = number_array(ty, Source::Values(&all), last_null(count + 1));
    Ok(Some((values, Codes { run: codes, width: coding.width, first, rows })))
}

/// A validity mask for `count` values, of which only the last one is null.
fn last_null(count: usize) -> Option<NullBuffer> {
    Some(NullBuffer::new(BooleanBuffer::collect_bool(count, |at| at + 1 < count)))
}

/// An Arrow array of the selected rows of a chunk.
pub fn array(column: &ColumnSnapshot, chunk: usize, pick: Pick<'_>) -> Result<ArrayRef, OutOfMemory> {
    let valid = column.valid(chunk)?.map(|frame| NullBuffer::new(bits(frame, pick)));
    let nulls = valid.filter(|nulls| nulls.null_count() > 0);
    Ok(match &column.cells {
        CellsSnapshot::Bits(cells) => Arc::new(BooleanArray::new(bits(cells.run(chunk)?, pick), nulls)),
        CellsSnapshot::Text(text) => {
            let (views, blocks) = text.texts(chunk, pick)?;
            text_array(column.ty, views, pick.len(), blocks, nulls)
        }
        CellsSnapshot::Numbers(numbers) => number_array(column.ty, Source::Chunk(numbers.chunk(chunk)?, pick), nulls),
    })
}

/// An array of `views`, which refer to `blocks`.
fn text_array(ty: Type, views: Buffer, rows: usize, blocks: Vec<Buffer>, nulls: Option<NullBuffer>) -> ArrayRef {
    match ty.physical() {
        Physical::Bytes => Arc::new(zero_copy::bytes(views, rows, blocks, nulls)),
        _ => Arc::new(zero_copy::strings(views, rows, blocks, nulls)),
    }
}

/// The numbers from which an array is made.
enum Source<'a> {
    Chunk(CodedChunk<'a>, Pick<'a>),
    Values(&'a [i128]),
}

fn number_array(ty: Type, source: Source<'_>, nulls: Option<NullBuffer>) -> ArrayRef {
    match ty.physical() {
        Physical::Int16 => primitive::<Int16Type, i16>(source, nulls),
        Physical::Int32 => primitive::<Int32Type, i32>(source, nulls),
        Physical::Int64 => primitive::<Int64Type, i64>(source, nulls),
        Physical::Float64 => primitive::<Float64Type, i64>(source, nulls),
        Physical::Int128 => {
            let array = Decimal128Array::new(ScalarBuffer::from(values::<i128>(source)), nulls);
            Arc::new(array.with_data_type(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)))
        }
        Physical::Bit | Physical::Text | Physical::Bytes => unreachable!("these are cells of other kinds"),
    }
}

/// An array whose elements have the same bits as the integers `N`.
fn primitive<T: ArrowPrimitiveType, N: Number>(source: Source<'_>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values::<N>(source)), nulls))
}

/// The values of an array as a buffer. They are not copied if a chunk's codes are the values themselves.
fn values<N: Number>(source: Source<'_>) -> Buffer {
    let (CodedChunk { codes, form, patches }, pick) = match source {
        Source::Chunk(chunk, pick) => (chunk, pick),
        Source::Values(values) => {
            return Buffer::from_vec(values.iter().map(|value| N::of_image(*value as u128)).collect());
        }
    };
    match (pick, form) {
        (Pick::First(rows), Form::Offsets(Coding { width, .. })) if width == size_of::<N>() && patches.is_empty() => {
            zero_copy::buffer(codes, rows * width)
        }
        _ if patches.is_empty() => Buffer::from_vec(form.decode::<N>(&codes, pick)),
        _ => {
            let mut values = form.decode::<N>(&codes, Pick::First(pick.reach()));
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
