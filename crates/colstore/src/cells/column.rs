//! A column: its cells by slot, the slots that are null, and the slots whose value the mirror's layout cannot
//! represent.

mod image;

use plan::{Physical, Type};
use protocol::change::Value;
use snapmem::{ExtentsSnapshot, Mechanism, OutOfMemory, Pool, Run};

use crate::base::bitmap::{self, Bitmap, Mask};
use crate::base::chunk::{CHUNK_ROWS, split};
use crate::base::order::Order;
use crate::base::stamps::Stamps;
use crate::cells::numbers::{Numbers, NumbersSnapshot};
use crate::cells::text::{TextColumn, TextSnapshot};

/// The content of a row in a column. Two values are equal as parts of a key if and only if their cells are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell<'a> {
    Null,
    /// A value that the mirror's layout cannot represent. The column stores a null in its place, and remembers the
    /// slot.
    Unholdable,
    /// An integer, float, decimal or boolean. The low bytes, as many as the column is wide, hold the value; all higher
    /// bytes are zero.
    Fixed(u128),
    /// A text or other bytes. [`Column::check`] checks that a text is UTF-8 before it is written.
    Text(&'a [u8]),
}

/// A value that does not belong to its column's type.
#[derive(Debug, thiserror::Error)]
pub enum BadValue {
    #[error("text is not valid UTF-8")]
    NotUtf8,
    #[error("value does not belong to the column's type")]
    Type,
}

impl<'a> Cell<'a> {
    /// The cell of a value; `None` if the value is unchanged. UTF-8 is not checked here, because most texts of an
    /// update equal texts that are already in the column. [`Column::check`] checks it.
    #[inline]
    pub fn from_value(ty: Type, value: Value<'a>) -> Result<Option<Cell<'a>>, BadValue> {
        Ok(Some(match value {
            Value::Unchanged => return Ok(None),
            Value::Null => Cell::Null,
            Value::Unholdable => Cell::Unholdable,
            Value::Bool(b) => Cell::Fixed(b as u128),
            Value::Int(i) => match ty.physical() {
                Physical::Int16 => Cell::Fixed(i as u16 as u128),
                Physical::Int32 => Cell::Fixed(i as u32 as u128),
                Physical::Int64 => Cell::Fixed(i as u64 as u128),
                _ => return Err(BadValue::Type),
            },
            Value::Float(f) => Cell::Fixed(f.to_bits() as u128),
            Value::Decimal(d) => Cell::Fixed(d as u128),
            Value::Text(bytes) => match ty.physical() {
                Physical::Bytes | Physical::Text => Cell::Text(bytes),
                _ => return Err(BadValue::Type),
            },
        }))
    }
}

#[derive(Debug)]
pub struct Column {
    pub ty: Type,
    cells: Cells,
    /// A bit per slot: 1 if the cell is not null. `None` until the first null is written.
    valid: Option<Bitmap>,
    /// The slots that hold [`Cell::Unholdable`]. `None` until there is such a slot.
    unholdable: Option<UnholdableSlots>,
    /// The number of slots that the column has room for.
    rows: usize,
    /// For each chunk, when a cell was last written. The cells of a deleted row count as unchanged, because nobody
    /// reads them in an image.
    stamps: Stamps,
    mechanism: Mechanism,
    pool: Pool,
}

#[derive(Debug)]
struct UnholdableSlots {
    bits: Bitmap,
    /// The number of bits that are set.
    count: u64,
}

#[derive(Debug)]
enum Cells {
    Bits(Bitmap),
    Numbers(Numbers),
    Text(TextColumn),
}

impl Column {
    /// A new column. `is_key` says whether [`Column::get`] will be called.
    pub fn new(ty: Type, pool: &Pool, mechanism: Mechanism, is_key: bool) -> Column {
        let cells = match (ty.physical(), ty.slot_bytes()) {
            (Physical::Text | Physical::Bytes, _) => Cells::Text(TextColumn::new(pool, mechanism, !is_key)),
            (_, Some(width)) => Cells::Numbers(Numbers::new(pool, mechanism, Order::of(ty), width)),
            (_, None) => Cells::Bits(Bitmap::new(pool, mechanism, false)),
        };
        let stamps = Stamps::new();
        Column { ty, cells, valid: None, unholdable: None, rows: 0, stamps, mechanism, pool: pool.clone() }
    }

    /// Makes room for `rows` slots: more slots of the first chunk, or one more chunk.
    pub fn grow(&mut self, rows: usize) -> Result<(), OutOfMemory> {
        match &mut self.cells {
            Cells::Bits(bits) => bits.grow(rows)?,
            Cells::Numbers(numbers) => numbers.grow(rows, self.valid.as_ref())?,
            Cells::Text(text) => text.grow(rows, self.valid.as_ref())?,
        }
        if let Some(valid) = &mut self.valid {
            valid.grow(rows)?;
        }
        if let Some(slots) = &mut self.unholdable {
            slots.bits.grow(rows)?;
        }
        self.stamps.grow(rows.div_ceil(CHUNK_ROWS));
        self.rows = rows;
        Ok(())
    }

    /// The slot's cell if it is null or unholdable; otherwise `None`.
    #[inline]
    fn no_value(&self, slot: u32) -> Option<Cell<'static>> {
        match &self.valid {
            Some(valid) if !valid.get(slot) => {
                Some(if self.is_unholdable(slot) { Cell::Unholdable } else { Cell::Null })
            }
            _ => None,
        }
    }

    /// The cell of a slot. The column must belong to the table's key.
    #[inline]
    pub fn get(&self, slot: u32) -> Cell<'_> {
        self.no_value(slot).unwrap_or_else(|| match &self.cells {
            Cells::Bits(bits) => Cell::Fixed(bits.get(slot) as u128),
            Cells::Numbers(numbers) => Cell::Fixed(numbers.get(slot)),
            Cells::Text(text) => Cell::Text(text.get(slot)),
        })
    }

    /// Prefetches a slot's content. For a text, this is only the reference to it; [`Column::prefetch_text`] then
    /// follows the reference, and prefetches the text.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        match &self.cells {
            // A whole chunk's bits take only a few cache lines, which usually stay in the cache.
            Cells::Bits(_) => {}
            Cells::Numbers(numbers) => numbers.prefetch(slot),
            Cells::Text(text) => text.prefetch(slot),
        }
    }

    #[inline]
    pub fn prefetch_text(&self, slot: u32) {
        if let Cells::Text(text) = &self.cells {
            text.prefetch_text(slot);
        }
    }

    /// Whether a slot's cell equals this one.
    #[inline]
    pub fn has(&self, slot: u32, cell: Cell<'_>) -> bool {
        match (&self.cells, cell, self.no_value(slot)) {
            (_, cell, Some(no_value)) => cell == no_value,
            (Cells::Bits(bits), Cell::Fixed(image), None) => bits.get(slot) == (image != 0),
            (Cells::Numbers(numbers), Cell::Fixed(image), None) => numbers.get(slot) == image,
            (Cells::Text(column), Cell::Text(text), None) => column.stored(slot).is(text),
            _ => false,
        }
    }

    /// The cell of a slot, in any column. A packed text is unpacked into `buffer`.
    pub fn read<'a>(&'a self, slot: u32, buffer: &'a mut Vec<u8>) -> Cell<'a> {
        self.no_value(slot).unwrap_or_else(|| match &self.cells {
            Cells::Bits(bits) => Cell::Fixed(bits.get(slot) as u128),
            Cells::Numbers(numbers) => Cell::Fixed(numbers.get(slot)),
            Cells::Text(text) => Cell::Text(text.stored(slot).read(buffer)),
        })
    }

    /// Checks whether a cell that comes from the stream may be written to the column.
    #[inline]
    pub fn check(&self, cell: Cell<'_>) -> Result<(), BadValue> {
        match cell {
            Cell::Text(text) if self.ty.physical() == Physical::Text && std::str::from_utf8(text).is_err() => {
                Err(BadValue::NotUtf8)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub fn put(&mut self, slot: u32, cell: Cell<'_>) -> Result<(), OutOfMemory> {
        self.stamps.written(split(slot).0);
        let null = matches!(cell, Cell::Null | Cell::Unholdable);
        self.set_valid(slot, !null)?;
        self.set_unholdable(slot, matches!(cell, Cell::Unholdable))?;
        match (&mut self.cells, cell) {
            (Cells::Bits(bits), Cell::Fixed(image)) => bits.set(slot, image != 0),
            (Cells::Numbers(numbers), Cell::Fixed(image)) => numbers.put(slot, image),
            (Cells::Text(text), Cell::Text(bytes)) => text.put(slot, bytes),
            (Cells::Text(text), _) => text.forget(slot),
            // The bytes of a null do not matter.
            _ => Ok(()),
        }
    }

    /// Writes cells into consecutive slots of one chunk, which were never used before.
    pub fn fill(&mut self, first: u32, cells: &[Cell<'_>]) -> Result<(), OutOfMemory> {
        self.stamps.written(split(first).0);
        for (slot, cell) in (first..).zip(cells) {
            if matches!(cell, Cell::Null | Cell::Unholdable) {
                self.set_valid(slot, false)?;
                self.set_unholdable(slot, *cell == Cell::Unholdable)?;
            }
        }
        let image = |cell: &Cell<'_>| match cell {
            Cell::Fixed(image) => Some(*image),
            _ => None,
        };
        match &mut self.cells {
            Cells::Numbers(numbers) => return numbers.put_all(first, cells.iter().map(image)),
            Cells::Bits(bits) => {
                for (slot, cell) in (first..).zip(cells) {
                    bits.set(slot, *cell == Cell::Fixed(1))?;
                }
            }
            Cells::Text(text) => {
                for (slot, cell) in (first..).zip(cells) {
                    if let Cell::Text(bytes) = cell {
                        text.put(slot, bytes)?;
                    }
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn set_valid(&mut self, slot: u32, valid: bool) -> Result<(), OutOfMemory> {
        if self.valid.is_none() && !valid {
            self.valid = Some(self.new_bitmap(true)?);
        }
        self.valid.as_mut().map_or(Ok(()), |bitmap| bitmap.set(slot, valid))
    }

    #[inline]
    fn set_unholdable(&mut self, slot: u32, unholdable: bool) -> Result<(), OutOfMemory> {
        if self.unholdable.is_none() && unholdable {
            self.unholdable = Some(UnholdableSlots { bits: self.new_bitmap(false)?, count: 0 });
        }
        if let Some(slots) = &mut self.unholdable
            && slots.bits.get(slot) != unholdable
        {
            slots.bits.set(slot, unholdable)?;
            slots.count = if unholdable { slots.count + 1 } else { slots.count - 1 };
        }
        Ok(())
    }

    fn new_bitmap(&self, initial: bool) -> Result<Bitmap, OutOfMemory> {
        let mut bitmap = Bitmap::new(&self.pool, self.mechanism, initial);
        bitmap.grow(self.rows)?;
        Ok(bitmap)
    }

    fn is_unholdable(&self, slot: u32) -> bool {
        self.unholdable.as_ref().is_some_and(|slots| slots.bits.get(slot))
    }

    /// Clears the slot's mark of an unholdable value, and returns whether it was set. It is called when a row is
    /// deleted, while older snapshots may still need the row.
    pub fn forget_unholdable(&mut self, slot: u32) -> Result<bool, OutOfMemory> {
        let unholdable = self.is_unholdable(slot);
        self.set_unholdable(slot, false)?;
        Ok(unholdable)
    }

    /// Drops the content of a deleted row's slot. It is called when no snapshot can need the row any more.
    pub fn forget(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        match &mut self.cells {
            Cells::Text(text) => text.forget(slot),
            _ => Ok(()),
        }
    }

    pub fn snapshot(&mut self) -> Result<ColumnSnapshot, OutOfMemory> {
        let cells = match &mut self.cells {
            Cells::Bits(bits) => CellsSnapshot::Bits(bits.snapshot()?),
            Cells::Numbers(numbers) => CellsSnapshot::Numbers(numbers.snapshot()?),
            Cells::Text(text) => CellsSnapshot::Text(text.snapshot()?),
        };
        let valid = self.valid.as_mut().map(Bitmap::snapshot).transpose()?;
        let unholdable = match &mut self.unholdable {
            Some(slots) => Some(UnholdableSnapshot { bits: slots.bits.snapshot()?, count: slots.count }),
            None => None,
        };
        Ok(ColumnSnapshot { ty: self.ty, cells, valid, unholdable })
    }

    /// See [`Extents::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        let cells = match &mut self.cells {
            Cells::Bits(bits) => bits.tidy(runs),
            Cells::Numbers(numbers) => numbers.tidy(runs),
            Cells::Text(text) => text.tidy(runs),
        };
        let unholdable = self.unholdable.as_mut().map(|slots| &mut slots.bits);
        cells + self.valid.iter_mut().chain(unholdable).map(|bits| bits.tidy(runs)).sum::<usize>()
    }

    /// The stamps of an image that is taken now, see [`Stamps`].
    pub fn take_stamps(&mut self) -> Box<[u32]> {
        self.stamps.take()
    }

    /// See [`TextColumn::tidy_rest`].
    pub fn tidy_rest(&mut self, now_ms: u64) -> bool {
        match &mut self.cells {
            Cells::Text(text) => text.tidy_rest(now_ms, self.valid.as_ref()),
            Cells::Bits(_) | Cells::Numbers(_) => false,
        }
    }

    pub fn has_numbers(&self) -> bool {
        matches!(self.cells, Cells::Numbers(_))
    }

    /// Like [`Numbers::look_at`]. `seen` marks those of the chunk's first `rows` rows that can ever be read.
    pub fn look_at(&mut self, chunk: usize, rows: usize, seen: &Mask) -> Result<(), OutOfMemory> {
        let Cells::Numbers(numbers) = &mut self.cells else { return Ok(()) };
        let mut kept = *seen;
        if let Some(valid) = &self.valid {
            kept.iter_mut().zip(valid.mask(chunk, rows)).for_each(|(kept, valid)| *kept &= valid);
        }
        numbers.look_at(chunk, rows, &kept)
    }

    pub fn is_tidy(&self) -> bool {
        let cells = match &self.cells {
            Cells::Bits(bits) => bits.is_tidy(),
            Cells::Numbers(numbers) => numbers.is_tidy(),
            Cells::Text(text) => text.is_tidy(),
        };
        let unholdable = self.unholdable.as_ref().map(|slots| &slots.bits);
        cells && self.valid.iter().chain(unholdable).all(Bitmap::is_tidy)
    }

    pub fn bytes(&self) -> u64 {
        let cells = match &self.cells {
            Cells::Bits(bits) => bits.bytes(),
            Cells::Numbers(numbers) => numbers.bytes(),
            Cells::Text(text) => text.bytes(),
        };
        let unholdable = self.unholdable.as_ref().map(|slots| &slots.bits);
        cells + self.valid.iter().chain(unholdable).map(Bitmap::bytes).sum::<u64>()
    }
}

impl Column {
    /// The memory of one chunk in bytes.
    pub fn bytes_of(&self, chunk: usize) -> u64 {
        let cells = match &self.cells {
            Cells::Bits(bits) => bits.bytes_of(chunk),
            Cells::Numbers(numbers) => numbers.bytes_of(chunk),
            Cells::Text(text) => text.bytes_of(chunk),
        };
        let unholdable = self.unholdable.as_ref().map(|slots| &slots.bits);
        cells + self.valid.iter().chain(unholdable).map(|bits| bits.bytes_of(chunk)).sum::<u64>()
    }
}

/// A snapshot of a column. The thread that took it may patch older values into it before other threads see it.
#[derive(Debug)]
pub struct ColumnSnapshot {
    pub ty: Type,
    pub cells: CellsSnapshot,
    valid: Option<ExtentsSnapshot>,
    unholdable: Option<UnholdableSnapshot>,
}

#[derive(Debug)]
struct UnholdableSnapshot {
    bits: ExtentsSnapshot,
    count: u64,
}

#[derive(Debug)]
pub enum CellsSnapshot {
    Bits(ExtentsSnapshot),
    Numbers(NumbersSnapshot),
    Text(TextSnapshot),
}

impl ColumnSnapshot {
    pub fn patch(&mut self, slot: u32, cell: Cell<'_>) -> Result<(), OutOfMemory> {
        self.patch_unholdable(slot, cell == Cell::Unholdable)?;
        let null = matches!(cell, Cell::Null | Cell::Unholdable);
        match &mut self.valid {
            Some(valid) => {
                bitmap::patch(valid, slot, !null)?;
            }
            None => debug_assert!(!null, "a column that ever held a null has its bitmap"),
        }
        match (&mut self.cells, cell) {
            (CellsSnapshot::Bits(bits), Cell::Fixed(image)) => {
                bitmap::patch(bits, slot, image != 0)?;
            }
            (CellsSnapshot::Numbers(numbers), Cell::Fixed(image)) => numbers.patch(slot, image)?,
            (CellsSnapshot::Text(text), Cell::Text(bytes)) => text.patch(slot, bytes)?,
            _ => {}
        }
        Ok(())
    }

    pub fn patch_unholdable(&mut self, slot: u32, unholdable: bool) -> Result<(), OutOfMemory> {
        match &mut self.unholdable {
            Some(slots) => {
                if bitmap::patch(&mut slots.bits, slot, unholdable)? {
                    slots.count = if unholdable { slots.count + 1 } else { slots.count - 1 };
                }
            }
            None => debug_assert!(!unholdable, "a column that ever had such a value has its bitmap"),
        }
        Ok(())
    }

    /// Whether the layout cannot represent the value of some row.
    pub fn has_unholdable(&self) -> bool {
        self.unholdable.as_ref().is_some_and(|slots| slots.count > 0)
    }

    /// See [`TextSnapshot::look_only`].
    pub fn look_only(&mut self) {
        if let CellsSnapshot::Text(text) = &mut self.cells {
            text.look_only();
        }
    }

    /// Makes the patches readable. It is called when all patches have been made.
    pub fn seal(&mut self) {
        if let CellsSnapshot::Text(text) = &mut self.cells {
            text.seal();
        }
    }

    /// The form in which a chunk is written, described for people.
    pub fn coding(&self, chunk: usize) -> Result<String, OutOfMemory> {
        match &self.cells {
            CellsSnapshot::Bits(_) => Ok("bits".into()),
            CellsSnapshot::Numbers(numbers) => Ok(numbers.chunk(chunk)?.form.in_words(self.ty.slot_bytes())),
            CellsSnapshot::Text(text) => text.coding(chunk),
        }
    }

    /// The chunk's validity bits, if there are any.
    pub fn valid(&self, chunk: usize) -> Result<Option<Run>, OutOfMemory> {
        self.valid.as_ref().map(|valid| valid.run(chunk)).transpose()
    }

    /// A bitmap of the slots whose values the layout cannot represent. These slots are also marked as null.
    pub fn unholdable(&self, chunk: usize) -> Result<Option<Run>, OutOfMemory> {
        self.unholdable.as_ref().map(|slots| slots.bits.run(chunk)).transpose()
    }
}
