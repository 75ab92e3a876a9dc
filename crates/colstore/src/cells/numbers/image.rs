//! Images of chunks of numbers.
//!
//! ```text
//!   offsets   width of a value | low | high | width of a code | base | codes
//!   list      width of a value | low | high | count | codes | numbers
//! ```

use snapmem::OutOfMemory;

use super::form::Form;
use super::{CHUNK_ROWS, Chunk, NO_VALUES, Numbers, NumbersSnapshot, SHORTEST, is_canonical};
use crate::base::bitmap::Mask;
use crate::base::image::{ImageFault, Reader, ensure, reserve, wrong};
use crate::base::order::Order;
use crate::cells::codes::coding::Coding;
use crate::cells::codes::listing::Listing;

const OFFSETS: u8 = 1;
const LIST: u8 = 2;

impl NumbersSnapshot {
    /// Appends the numbers of a chunk, and returns the kind of the image. The snapshot must not have patches.
    pub fn encode(&self, chunk: usize, rows: usize, into: &mut Vec<u8>) -> Result<u8, OutOfMemory> {
        let coded = self.chunk(chunk)?;
        let (low, high) = self.bounds(chunk);
        let bytes = match coded.form {
            Form::Offsets(coding) => coding.width * rows,
            Form::Listed(listing) => listing.place(listing.count()),
        };
        reserve(into, 64 + bytes)?;
        into.push(self.width as u8);
        into.extend(low.to_le_bytes());
        into.extend(high.to_le_bytes());
        let kind = match coded.form {
            Form::Offsets(coding) => {
                into.push(coding.width as u8);
                into.extend(coding.base().to_le_bytes());
                OFFSETS
            }
            Form::Listed(listing) => {
                into.extend((listing.count() as u16).to_le_bytes());
                LIST
            }
        };
        into.extend_from_slice(&coded.codes[..bytes]);
        Ok(kind)
    }
}

impl Numbers {
    /// Adds a chunk from its image, without closing the chunk before it. `valid` has the rows that are not null.
    pub fn load(
        &mut self,
        room: usize,
        rows: usize,
        valid: &Mask,
        kind: u8,
        from: &mut Reader<'_>,
    ) -> Result<(), ImageFault> {
        ensure(from.u8()? as usize == self.width, "numbers of another width")?;
        let (low, high) = (from.i128()?, from.i128()?);
        let (form, codes) = match kind {
            OFFSETS => self.offsets(rows, from)?,
            LIST => self.listing(rows, from)?,
            _ => return wrong("not a form of numbers"),
        };
        let chunk = self.chunks.len();
        self.push_chunk()?;
        self.rows = room;
        let bytes = form.bytes(room.min(CHUNK_ROWS)).max(SHORTEST);
        self.region.replace_run(chunk, bytes, form.label(), |_, run| run[..codes.len()].copy_from_slice(codes))?;
        // Bounds of readers have an end for all numbers beyond 64 bits. The writer's bounds have none.
        let unused = 128 - 8 * self.width;
        let all = (i128::MIN >> unused, i128::MAX >> unused);
        let bounds = if low > high { NO_VALUES } else { (low.max(all.0), high.min(all.1)) };
        self.chunks[chunk] = Chunk { form, low: bounds.0, high: bounds.1, moved: false };
        let mut used = *valid;
        for (at, word) in used.iter_mut().enumerate() {
            *word &= u64::MAX.checked_shr((64 * (at + 1)).saturating_sub(rows) as u32).unwrap_or(0);
        }
        let (least, greatest) = self.ends(chunk, rows, &used);
        ensure(least > greatest || bounds.0 <= least && greatest <= bounds.1, "a number beyond its bounds")?;
        if bounds.0 <= bounds.1 {
            self.bounds.widen(chunk, bounds.0, bounds.1);
        }
        Ok(())
    }

    fn offsets<'a>(&self, rows: usize, from: &mut Reader<'a>) -> Result<(Form, &'a [u8]), ImageFault> {
        let (width, base) = (from.u8()? as usize, from.i64()?);
        let coding = Coding::with(width, base, self.width);
        let coding = coding.map_or_else(|| wrong("codes of no known width"), Ok)?;
        Ok((Form::Offsets(coding), from.bytes(width * rows)?))
    }

    fn listing<'a>(&self, rows: usize, from: &mut Reader<'a>) -> Result<(Form, &'a [u8]), ImageFault> {
        ensure(rows == CHUNK_ROWS, "a list for a chunk that is not full")?;
        let listing = Listing::with(from.u16()?.into(), self.width);
        let listing = listing.map_or_else(|| wrong("a list of no known length"), Ok)?;
        let run = from.bytes(listing.place(listing.count()))?;
        ensure(listing.has_all_codes(run), "a code behind its list")?;
        let numbers = listing.numbers(run);
        ensure(numbers.is_sorted_by(|before, behind| before < behind), "a list in no order")?;
        let is_one = |bits: &i128| is_canonical(*bits as i64);
        ensure(self.order != Order::Floats || numbers.iter().all(is_one), "a float in two forms")?;
        Ok((Form::Listed(listing), run))
    }
}
