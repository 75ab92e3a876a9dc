//! Images of a column's chunks.
//!
//! ```text
//!   kind | flags | rows | bits of cells that are not null | bits of unholdable cells | the cells, coded as in memory
//! ```
//!
//! All numbers are little-endian. Each of the two lists of bits is left out if it says nothing.

use snapmem::OutOfMemory;

use super::{Cells, CellsSnapshot, Column, ColumnSnapshot, UnholdableSlots};
use crate::base::bitmap::{self, Mask};
use crate::base::chunk::CHUNK_ROWS;
use crate::base::image::{ImageFault, Reader, ensure, reserve};

/// The kind of an image whose cells are bits. Numbers and texts have kinds of their own.
const BITS: u8 = 0;
/// The flag of an image that has bits of cells that are not null.
const NULLS: u8 = 1;
/// The flag of an image that has bits of unholdable cells.
const UNHOLDABLE: u8 = 2;

impl ColumnSnapshot {
    /// Appends the image of a chunk, of whose slots the first `rows` were used.
    pub fn encode(&self, chunk: usize, rows: usize, into: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        let bytes = rows.div_ceil(8);
        let valid = self.valid(chunk)?.map(|valid| bitmap::mask_of(&valid, rows));
        let valid = valid.filter(|valid| bitmap::count(valid) < rows);
        let unholdable = self.unholdable(chunk)?.map(|slots| bitmap::mask_of(&slots, rows));
        let unholdable = unholdable.filter(|slots| bitmap::count(slots) > 0);
        reserve(into, 6 + 2 * bytes)?;
        let kind = into.len();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        into.extend([BITS, flag(valid.is_some(), NULLS) | flag(unholdable.is_some(), UNHOLDABLE)]);
        into.extend((rows as u32).to_le_bytes());
        for mask in valid.iter().chain(&unholdable) {
            into.extend(mask.iter().flat_map(|word| word.to_le_bytes()).take(bytes));
        }
        into[kind] = match &self.cells {
            CellsSnapshot::Bits(bits) => {
                reserve(into, bytes)?;
                into.extend_from_slice(&bits.run(chunk)?[..bytes]);
                BITS
            }
            CellsSnapshot::Numbers(numbers) => numbers.encode(chunk, rows, into)?,
            CellsSnapshot::Text(text) => text.encode(chunk, rows, into)?,
        };
        Ok(())
    }
}

impl Column {
    /// Adds a chunk from its image. Then the column has room for `room` slots, and the first `rows` slots of the chunk
    /// are used. `kept` has the rows that exist; the cells of all others may be dropped.
    pub fn load(&mut self, room: usize, rows: usize, kept: &Mask, image: &[u8]) -> Result<(), ImageFault> {
        let chunk = room.div_ceil(CHUNK_ROWS) - 1;
        let mut from = Reader::new(image);
        let (kind, flags) = (from.u8()?, from.u8()?);
        ensure(flags & !(NULLS | UNHOLDABLE) == 0, "unknown flags")?;
        ensure(from.u32()? as usize == rows, "another number of rows than its chunk")?;
        let mut mask = |flag: u8| match flags & flag {
            0 => Ok(None),
            _ => from.bytes(rows.div_ceil(8)).map(|bytes| Some(bitmap::mask_of(bytes, rows))),
        };
        let (valid, unholdable) = (mask(NULLS)?, mask(UNHOLDABLE)?);
        self.rows = room;
        self.stamps.grow(chunk + 1);
        self.load_nulls(chunk, rows, valid, unholdable, kept)?;
        let valid = valid.unwrap_or([u64::MAX; _]);
        match (&mut self.cells, kind) {
            (Cells::Bits(bits), BITS) => {
                bits.grow(room)?;
                bits.fill(chunk, rows, &bitmap::mask_of(from.bytes(rows.div_ceil(8))?, rows))?;
            }
            (Cells::Bits(_), _) => ensure(false, "not the form of a boolean")?,
            (Cells::Numbers(numbers), kind) => numbers.load(room, rows, &valid, kind, &mut from)?,
            (Cells::Text(text), kind) => {
                let is_text = self.ty.physical() == plan::Physical::Text;
                let read = std::array::from_fn(|at| kept[at] & valid[at]);
                text.load(room, rows, &read, kind, is_text, &mut from)?;
                text.close(chunk, self.valid.as_ref())?;
            }
        }
        from.end()
    }

    fn load_nulls(
        &mut self,
        chunk: usize,
        rows: usize,
        valid: Option<Mask>,
        unholdable: Option<Mask>,
        kept: &Mask,
    ) -> Result<(), ImageFault> {
        match (&mut self.valid, valid) {
            (Some(bitmap), _) => bitmap.grow(self.rows)?,
            (None, Some(_)) => self.valid = Some(self.new_bitmap(true)?),
            (None, None) => {}
        }
        if let (Some(bitmap), Some(valid)) = (&mut self.valid, valid) {
            bitmap.fill(chunk, rows, &valid)?;
        }
        // A row that is gone must not make the column unreadable.
        let slots: Mask = std::array::from_fn(|at| unholdable.map_or(0, |slots| slots[at]) & kept[at]);
        let is_null = |at: usize| valid.map_or(u64::MAX, |valid| valid[at]) & slots[at] == 0;
        ensure((0..slots.len()).all(is_null), "a cell that is unholdable and has a value")?;
        match &mut self.unholdable {
            Some(known) => known.bits.grow(self.rows)?,
            None if bitmap::count(&slots) > 0 => {
                self.unholdable = Some(UnholdableSlots { bits: self.new_bitmap(false)?, count: 0 });
            }
            None => {}
        }
        if let Some(known) = &mut self.unholdable {
            known.bits.fill(chunk, rows, &slots)?;
            known.count += bitmap::count(&slots) as u64;
        }
        Ok(())
    }

    /// The address in a slot, if this is the column of addresses.
    pub fn address(&self, slot: u32) -> Option<i64> {
        match (&self.cells, self.no_value(slot)) {
            (Cells::Numbers(numbers), None) => Some(numbers.get(slot) as i64),
            _ => None,
        }
    }
}
