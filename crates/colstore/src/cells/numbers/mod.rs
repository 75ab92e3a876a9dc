//! Cells of equal width: integers, floats, decimals. Each chunk is a run of memory, and each has its own form: offsets
//! or a list.

mod form;
mod image;

use std::cmp::Ordering;

use plan::float_order;
use snapmem::{Extents, ExtentsSnapshot, Mechanism, OutOfMemory, Pool, Run, prefetch};

pub use self::form::Form;
use crate::base::bitmap::{Bitmap, Mask, has};
use crate::base::bounds::Bounds;
use crate::base::chunk::{CHUNK_ROWS, split};
use crate::base::order::Order;
use crate::cells::codes::coding::{Coding, image};
use crate::cells::codes::listing::{Few, Listing, number_of};
use crate::cells::patches::{Patch, Patches};

/// The length of the shortest run in bytes.
const SHORTEST: usize = 64;
/// The number of codes that are written at a time.
const WRITTEN_AT_ONCE: usize = 64;

/// The alignment and length of pieces of a run that are surely contiguous in memory.
const LINE: usize = 64;
/// The bounds of a chunk without values: the first is greater than the second.
const NO_VALUES: (i128, i128) = (i128::MAX, i128::MIN);

#[derive(Debug)]
pub struct Numbers {
    region: Extents,
    /// The writer's state of each chunk.
    chunks: Vec<Chunk>,
    /// The bounds of each chunk, as readers see them.
    bounds: Bounds,
    order: Order,
    /// The length of a value in bytes.
    width: usize,
    /// The number of slots that there is room for.
    rows: usize,
    pool: Pool,
}

#[derive(Debug)]
struct Chunk {
    form: Form,
    /// The place of the least value in the column's [`Order`]; `high` is the place of the greatest. Both cover all
    /// present values, and all values written since the last check. Without values, `low` exceeds `high`.
    low: i128,
    high: i128,
    /// Whether the chunk was last recoded with codes of the same width. If so, the next recoding widens the codes.
    moved: bool,
}

impl Chunk {
    const EMPTY: Chunk =
        Chunk { form: Form::Offsets(Coding::NOTHING), low: NO_VALUES.0, high: NO_VALUES.1, moved: false };

    /// A coding for the chunk's present values, and for additional values whose places lie between `low` and `high`.
    fn coding_with(&self, low: i128, high: i128, order: Order, width: usize) -> Coding {
        let (low, high) = order.numbers(self.low.min(low), self.high.max(high));
        let coding = Coding::covering(low, high, width);
        let Form::Offsets(old) = self.form else { return coding };
        let wide_enough = coding.width > old.width || !self.moved && coding.width == old.width;
        if wide_enough || self.low > self.high { coding } else { old.wider(low, high, width) }
    }
}

impl Numbers {
    pub fn new(pool: &Pool, mechanism: Mechanism, order: Order, width: usize) -> Numbers {
        let region = Extents::new(pool, mechanism, SHORTEST);
        let bounds = Bounds::new(order.unseen());
        Numbers { region, chunks: Vec::new(), bounds, order, width, rows: 0, pool: pool.clone() }
    }

    /// Makes room for `rows` cells: lengthens the first chunk, or adds one chunk. `valid` marks the cells that are not
    /// null; `None` if no cell is null.
    pub fn grow(&mut self, rows: usize, valid: Option<&Bitmap>) -> Result<(), OutOfMemory> {
        if let Some(last) = self.chunks.len().checked_sub(1) {
            match (rows <= CHUNK_ROWS, self.chunks[last].form) {
                (true, Form::Offsets(coding)) => self.code_anew(last, coding, rows)?,
                // A list has room for all rows of the chunk.
                (true, Form::Listed(_)) => {}
                (false, _) => {
                    let valid = valid.map_or([u64::MAX; _], |valid| valid.mask(last, CHUNK_ROWS));
                    self.tighten(last, &valid)?;
                }
            }
        }
        while self.chunks.len() * CHUNK_ROWS < rows {
            self.push_chunk()?;
        }
        self.rows = rows;
        Ok(())
    }

    fn push_chunk(&mut self) -> Result<(), OutOfMemory> {
        let refused = OutOfMemory::Limit { wanted: size_of::<Chunk>() as u64, limit: self.pool.limit() };
        self.chunks.try_reserve(1).map_err(|_| refused)?;
        self.region.push_run()?;
        self.chunks.push(Chunk::EMPTY);
        self.bounds.grow(self.chunks.len());
        Ok(())
    }

    /// The cell's value, in the low bytes. Bytes beyond the column's width are zero.
    #[inline]
    pub fn get(&self, slot: u32) -> u128 {
        let (chunk, row) = split(slot);
        self.value(chunk, row) & (u128::MAX >> (128 - 8 * self.width))
    }

    /// The value of a row, in the low bytes of the result. Bytes beyond the column's width are meaningless.
    #[inline]
    fn value(&self, chunk: usize, row: usize) -> u128 {
        match self.chunks[chunk].form {
            Form::Offsets(coding) => coding.value(self.code(chunk, row, coding.width)),
            Form::Listed(listing) => {
                let code = self.code(chunk, row, listing.width()) as usize;
                self.listed(chunk, listing, code) as u128
            }
        }
    }

    #[inline]
    fn code(&self, chunk: usize, row: usize, width: usize) -> u128 {
        let code = |width| self.region.bytes_in(chunk, row * width, width);
        match width {
            0 => 0,
            1 => code(1)[0].into(),
            2 => u16::from_le_bytes(image(code(2))).into(),
            4 => u32::from_le_bytes(image(code(4))).into(),
            8 => u64::from_le_bytes(image(code(8))).into(),
            _ => u128::from_le_bytes(image(code(16))),
        }
    }

    /// The number that a code stands for, read from the chunk's list.
    #[inline]
    fn listed(&self, chunk: usize, listing: Listing, code: usize) -> i128 {
        number_of(self.region.bytes_in(chunk, listing.place(code), self.width))
    }

    /// The code of a number, if the chunk is coded as a list that contains the number.
    #[inline]
    fn listed_code(&self, chunk: usize, number: i128) -> Option<(u16, usize)> {
        let Form::Listed(listing) = self.chunks[chunk].form else { return None };
        let (mut from, mut to) = (0, listing.count());
        while from < to {
            let middle = from.midpoint(to);
            match self.listed(chunk, listing, middle).cmp(&number) {
                Ordering::Equal => return Some((middle as u16, listing.width())),
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// Prefetches the memory that [`Numbers::get`] reads.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        let (chunk, row) = split(slot);
        let width = self.chunks[chunk].form.width();
        if width > 0 {
            prefetch(self.region.bytes_in(chunk, row * width, width).as_ptr());
        }
    }

    #[inline]
    pub fn put(&mut self, slot: u32, image: u128) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(slot);
        let value = value_of(image, self.width);
        let place = self.order.place(value);
        if let Some((code, width)) = self.listed_code(chunk, value) {
            self.widen(chunk, place, place);
            let code = code.to_le_bytes();
            return if width == 0 { Ok(()) } else { self.region.write_in(chunk, row * width, &code[..width]) };
        }
        let coding = self.prepare(chunk, place, place)?;
        let (width, code) = (coding.width, coding.code(value).to_le_bytes());
        if width == 0 { Ok(()) } else { self.region.write_in(chunk, row * width, &code[..width]) }
    }

    /// Writes values into consecutive slots of one chunk. If a value is `None`, its slot gets an arbitrary value.
    pub fn put_all(
        &mut self,
        first: u32,
        images: impl Iterator<Item = Option<u128>> + Clone,
    ) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(first);
        let (width, order) = (self.width, self.order);
        let values = images.map(|image| image.map(|image| value_of(image, width)));
        let ends = |(low, high): (i128, i128), place: i128| (low.min(place), high.max(place));
        let (low, high) = values.clone().flatten().map(|value| order.place(value)).fold(NO_VALUES, ends);
        if low > high {
            return Ok(());
        }
        let coding = self.prepare(chunk, low, high)?;
        let any = order.number(low);
        let codes = values.map(|value| coding.code(value.unwrap_or(any)));
        match coding.width {
            0 => Ok(()),
            1 => self.write_codes::<1>(chunk, row, codes),
            2 => self.write_codes::<2>(chunk, row, codes),
            4 => self.write_codes::<4>(chunk, row, codes),
            8 => self.write_codes::<8>(chunk, row, codes),
            _ => self.write_codes::<16>(chunk, row, codes),
        }
    }

    fn write_codes<const N: usize>(
        &mut self,
        chunk: usize,
        mut row: usize,
        all: impl Iterator<Item = u128>,
    ) -> Result<(), OutOfMemory> {
        let (mut codes, mut count) = ([[0; N]; WRITTEN_AT_ONCE], 0);
        for code in all {
            codes[count].copy_from_slice(&code.to_le_bytes()[..N]);
            count += 1;
            if count == WRITTEN_AT_ONCE {
                self.region.write_in(chunk, row * N, codes.as_flattened())?;
                (row, count) = (row + count, 0);
            }
        }
        match count {
            0 => Ok(()),
            _ => self.region.write_in(chunk, row * N, codes[..count].as_flattened()),
        }
    }

    /// Makes sure that a chunk can hold values whose places lie between `low` and `high`. If necessary, recodes it as
    /// offsets.
    #[inline]
    fn prepare(&mut self, chunk: usize, low: i128, high: i128) -> Result<Coding, OutOfMemory> {
        let known = &self.chunks[chunk];
        let (least, greatest) = self.order.numbers(low, high);
        let holds = |coding: Coding| coding.holds(least, self.width) && coding.holds(greatest, self.width);
        let coding = match known.form {
            Form::Offsets(coding) if known.low <= known.high && holds(coding) => coding,
            _ => self.code_with(chunk, low, high)?,
        };
        self.widen(chunk, low, high);
        Ok(coding)
    }

    /// Widens a chunk's bounds to the places `low` and `high`. It is called before the values with these places are
    /// written.
    #[inline]
    fn widen(&mut self, chunk: usize, low: i128, high: i128) {
        let known = &mut self.chunks[chunk];
        if low < known.low || high > known.high {
            (known.low, known.high) = (known.low.min(low), known.high.max(high));
            self.bounds.widen(chunk, known.low, known.high);
        }
    }

    /// Recodes a chunk as offsets, for its present values, and for additional values whose places lie between `low` and
    /// `high`.
    #[cold]
    fn code_with(&mut self, chunk: usize, low: i128, high: i128) -> Result<Coding, OutOfMemory> {
        let known = &self.chunks[chunk];
        let (old, new) = (known.form, known.coding_with(low, high, self.order, self.width));
        self.code_anew(chunk, new, self.rows.min(CHUNK_ROWS))?;
        self.chunks[chunk].moved = matches!(old, Form::Offsets(old) if old.width == new.width);
        Ok(new)
    }

    /// Recodes a chunk for exactly its present values. It is called once all slots of the chunk are taken.
    fn tighten(&mut self, chunk: usize, valid: &Mask) -> Result<(), OutOfMemory> {
        let known = &self.chunks[chunk];
        let old = match known.form {
            Form::Offsets(coding) if coding.width > 0 => coding,
            _ => return Ok(()),
        };
        let (low, high) = self.order.numbers(known.low, known.high);
        let tightest = Coding::covering(low, high, self.width);
        let coding = if tightest.width < old.width { tightest } else { old };
        // Rows that are null contain arbitrary numbers, which must not be counted.
        match self.few(chunk, CHUNK_ROWS, valid, coding) {
            // If there is no memory for the list, the chunk keeps its coding.
            Some(few) if self.list(chunk, &few).is_ok() => Ok(()),
            _ if coding != old => self.code_anew(chunk, coding, CHUNK_ROWS),
            _ => Ok(()),
        }
    }

    /// The distinct numbers of the `kept` rows. `None` if the chunk is not full, or if a list would not save enough
    /// memory compared with codes in this coding.
    fn few(&self, chunk: usize, rows: usize, kept: &Mask, coding: Coding) -> Option<Few> {
        if rows < CHUNK_ROWS {
            return None;
        }
        let kept = (0..rows).filter(|row| has(kept, *row));
        let values = kept.map(|row| value_of(self.value(chunk, row), self.width));
        let few = Few::of(values, coding.width, self.width)?;
        // A list tells floats apart by their bits. So each float must have only one bit pattern here (no -0, one NaN),
        // because grouping by code would otherwise separate equal floats.
        let is_one = |bits: &i128| is_canonical(*bits as i64);
        (self.order != Order::Floats || few.numbers().iter().all(is_one)).then_some(few)
    }

    /// Recodes a chunk as a list of these numbers. A row whose number is not in the list gets an arbitrary number of
    /// the list.
    fn list(&mut self, chunk: usize, few: &Few) -> Result<(), OutOfMemory> {
        let (old, full, new) = (self.chunks[chunk].form, self.width, Form::Listed(few.listing()));
        self.region.replace_run(chunk, new.bytes(CHUNK_ROWS).max(SHORTEST), new.label(), |codes, into| {
            let mut values = vec![0; CHUNK_ROWS];
            old.read(codes, full, &mut values);
            few.write(&values, into);
        })?;
        self.chunks[chunk].form = new;
        Ok(())
    }

    /// Whether the chunk's form is already a list of exactly these numbers.
    fn lists(&self, chunk: usize, few: &Few) -> bool {
        let numbers = || few.numbers().iter().enumerate();
        self.chunks[chunk].form == Form::Listed(few.listing())
            && numbers().all(|(code, number)| self.listed(chunk, few.listing(), code) == *number)
    }

    /// Checks a chunk that was overwritten. If the present values fit in fewer bytes or tighter bounds than earlier
    /// values did, recodes the first `rows` rows. Only the `kept` rows will ever be read.
    pub fn look_at(&mut self, chunk: usize, rows: usize, kept: &Mask) -> Result<(), OutOfMemory> {
        let (low, high) = self.ends(chunk, rows, kept);
        let known = &self.chunks[chunk];
        let tightest = match low > high {
            true => Coding::NOTHING,
            false => {
                let (least, greatest) = self.order.numbers(low, high);
                Coding::covering(least, greatest, self.width)
            }
        };
        let coding = match known.form {
            Form::Offsets(coding) if tightest.width >= coding.width => coding,
            _ => tightest,
        };
        if let Some(few) = self.few(chunk, rows, kept, coding) {
            if !self.lists(chunk, &few) {
                self.list(chunk, &few)?;
            }
            self.close_in(chunk, low, high);
            return Ok(());
        }
        let form = Form::Offsets(coding);
        let known = &self.chunks[chunk];
        if (low, high) == (known.low, known.high) && form == known.form {
            return Ok(());
        }
        // Readers assume that every row lies within the bounds. So rows that are not kept get a number within the
        // bounds, too.
        let (least, greatest) = self.ends(chunk, rows, &[u64::MAX; _]);
        if form != known.form || least < low || greatest > high {
            let (width, code) = (coding.width, coding.code(self.order.number(low.min(high))).to_le_bytes());
            self.code_anew_but(chunk, coding, self.rows.min(CHUNK_ROWS), |codes| {
                for row in (0..rows).filter(|row| width > 0 && !has(kept, *row)) {
                    codes[row * width..][..width].copy_from_slice(&code[..width]);
                }
            })?;
        }
        self.close_in(chunk, low, high);
        Ok(())
    }

    /// Tightens the bounds of a chunk to `low` and `high`, if they are wider.
    fn close_in(&mut self, chunk: usize, low: i128, high: i128) {
        let known = &mut self.chunks[chunk];
        let before = (known.low, known.high);
        (known.low, known.high, known.moved) = (low, high, false);
        if before != (low, high) {
            self.bounds.tighten(chunk, low, high);
        }
    }

    /// The places of the least and the greatest value among the kept rows. The first is greater than the second if no
    /// row is kept.
    fn ends(&self, chunk: usize, rows: usize, kept: &Mask) -> (i128, i128) {
        let coding = match self.chunks[chunk].form {
            Form::Offsets(coding) => coding,
            Form::Listed(listing) => return self.ends_of_list(chunk, rows, kept, listing),
        };
        let (from, full) = (i128::from(coding.base()), coding.width == self.width);
        match (coding.width, full) {
            (0, _) if kept.iter().all(|word| *word == 0) => NO_VALUES,
            (0, _) => (self.order.place(from), self.order.place(from)),
            (width, _) if self.order == Order::Floats => {
                let place = |code: u64| float_order::place(coding.base().wrapping_add(code as i64));
                match width {
                    1 => self.ends_of(chunk, rows, kept, 0, |[code]| place(u64::from(code))),
                    2 => self.ends_of(chunk, rows, kept, 0, |code| place(u16::from_le_bytes(code).into())),
                    4 => self.ends_of(chunk, rows, kept, 0, |code| place(u32::from_le_bytes(code).into())),
                    _ => self.ends_of(chunk, rows, kept, 0, |code| place(u64::from_le_bytes(code))),
                }
            }
            (1, _) => self.ends_of(chunk, rows, kept, from, |[code]| code),
            (2, false) => self.ends_of(chunk, rows, kept, from, u16::from_le_bytes),
            (2, true) => self.ends_of(chunk, rows, kept, 0, i16::from_le_bytes),
            (4, false) => self.ends_of(chunk, rows, kept, from, u32::from_le_bytes),
            (4, true) => self.ends_of(chunk, rows, kept, 0, i32::from_le_bytes),
            (8, false) => self.ends_of(chunk, rows, kept, from, u64::from_le_bytes),
            (8, true) => self.ends_of(chunk, rows, kept, 0, i64::from_le_bytes),
            _ => self.ends_of(chunk, rows, kept, 0, i128::from_le_bytes),
        }
    }

    fn ends_of_list(&self, chunk: usize, rows: usize, kept: &Mask, listing: Listing) -> (i128, i128) {
        let width = listing.width();
        let mut used = vec![false; listing.count()];
        for row in (0..rows).filter(|row| has(kept, *row)) {
            used[self.code(chunk, row, width) as usize] = true;
        }
        let places =
            (0..used.len()).filter(|code| used[*code]).map(|code| self.order.place(self.listed(chunk, listing, code)));
        places.fold(NO_VALUES, |(low, high), place| (low.min(place), high.max(place)))
    }

    fn ends_of<const N: usize, T: Copy + Ord + Into<i128>>(
        &self,
        chunk: usize,
        rows: usize,
        kept: &Mask,
        base: i128,
        code: impl Fn([u8; N]) -> T,
    ) -> (i128, i128) {
        let mut found: Option<(T, T)> = None;
        for first in (0..rows).step_by(LINE / N) {
            let codes = self.region.bytes_in(chunk, first * N, LINE).as_chunks::<N>().0;
            for (_, of_row) in (first..rows).zip(codes).filter(|(row, _)| has(kept, *row)) {
                let code = code(*of_row);
                found = Some(found.map_or((code, code), |(low, high)| (low.min(code), high.max(code))));
            }
        }
        found.map_or(NO_VALUES, |(low, high)| (base + low.into(), base + high.into()))
    }

    fn code_anew(&mut self, chunk: usize, new: Coding, rows: usize) -> Result<(), OutOfMemory> {
        self.code_anew_but(chunk, new, rows, |_| {})
    }

    /// Recodes a chunk as offsets. `mend` may change the new codes before they take effect.
    fn code_anew_but(
        &mut self,
        chunk: usize,
        new: Coding,
        rows: usize,
        mend: impl FnOnce(&mut [u8]),
    ) -> Result<(), OutOfMemory> {
        let (old, form) = (self.chunks[chunk].form, Form::Offsets(new));
        if old != form || new.width > 0 {
            self.region.replace_run(chunk, form.bytes(rows).max(SHORTEST), form.label(), |codes, into| {
                old.recode(codes, new, into);
                mend(into);
            })?;
        }
        self.chunks[chunk].form = form;
        Ok(())
    }

    pub fn snapshot(&mut self) -> Result<NumbersSnapshot, OutOfMemory> {
        let patches = Patches::new(&self.pool);
        Ok(NumbersSnapshot {
            cells: self.region.snapshot()?,
            patches,
            bounds: self.bounds.clone(),
            order: self.order,
            width: self.width,
        })
    }

    /// See [`Extents::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        self.region.tidy(runs)
    }

    pub fn is_tidy(&self) -> bool {
        self.region.is_tidy()
    }

    pub fn bytes(&self) -> u64 {
        self.region.bytes()
    }

    /// The memory of one chunk in bytes.
    pub fn bytes_of(&self, chunk: usize) -> u64 {
        self.chunks[chunk].form.bytes(self.rows.min(CHUNK_ROWS)).max(SHORTEST) as u64
    }
}

fn is_canonical(bits: i64) -> bool {
    float_order::canonical(f64::from_bits(bits as u64)).to_bits() as i64 == bits
}

/// The signed number in the low `width` bytes of `image`.
#[inline]
fn value_of(image: u128, width: usize) -> i128 {
    let unused = 128 - 8 * width;
    (image << unused) as i128 >> unused
}

/// A snapshot of a column's numbers, with private patches (older values). A patched value need not fit the coding of
/// its chunk.
#[derive(Debug)]
pub struct NumbersSnapshot {
    cells: ExtentsSnapshot,
    patches: Patches,
    bounds: Bounds,
    order: Order,
    /// The length of a value in bytes.
    width: usize,
}

/// The numbers of a chunk.
pub struct CodedChunk<'a> {
    pub codes: Run,
    pub form: Form,
    /// Older values of some rows, as bytes. They replace the decoded values. If a row has two patches, the later one
    /// counts.
    pub patches: &'a [Patch],
}

impl NumbersSnapshot {
    pub fn patch(&mut self, slot: u32, image: u128) -> Result<(), OutOfMemory> {
        self.patches.add(slot, image)
    }

    /// The least and the greatest place of a chunk's values in the column's [`Order`]. They include patched values,
    /// which may lie outside of the bounds of the present values.
    pub fn bounds(&self, chunk: usize) -> (i128, i128) {
        self.patches.of(chunk).iter().fold(self.bounds.of(chunk), |(low, high), (_, image)| {
            let place = self.order.place(value_of(u128::from_le_bytes(*image), self.width));
            (low.min(place), high.max(place))
        })
    }

    pub fn chunk(&self, chunk: usize) -> Result<CodedChunk<'_>, OutOfMemory> {
        let (codes, label) = self.cells.labelled_run(chunk)?;
        Ok(CodedChunk { codes, form: Form::from_label(label), patches: self.patches.of(chunk) })
    }
}

#[cfg(test)]
mod tests;
