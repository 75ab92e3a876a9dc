//! Cells of equal width: integers, floats, decimals. Each chunk is a run of its own coding.

use plan::float_order;
use snapmem::{Extents, ExtentsSnapshot, Mechanism, OutOfMemory, Pool, Run, prefetch};

use crate::bitmap::Mask;
use crate::bounds::Bounds;
use crate::chunk::{CHUNK_ROWS, split};
use crate::coding::Coding;
use crate::order::Order;
use crate::patches::{Patch, Patches};

/// The shortest run.
const SHORTEST: usize = 64;
/// Codes that are written together, where several come.
const WRITTEN_AT_ONCE: usize = 64;

/// Bytes of a run that lie together for sure.
const LINE: usize = 64;
/// The least and the greatest of none.
const NO_VALUES: (i128, i128) = (i128::MAX, i128::MIN);

#[derive(Debug)]
pub struct Numbers {
    region: Extents,
    /// What the writer knows of each chunk.
    chunks: Vec<Chunk>,
    /// What readers may know.
    bounds: Bounds,
    order: Order,
    /// Bytes of a value.
    width: usize,
    /// Slots that there is room for.
    rows: usize,
    pool: Pool,
}

#[derive(Debug)]
struct Chunk {
    coding: Coding,
    /// All values that are there, and those that were since the last look, have their places between; empty at first.
    low: i128,
    high: i128,
    /// It was coded anew without becoming wider: the next time it does.
    moved: bool,
}

impl Chunk {
    const EMPTY: Chunk = Chunk { coding: Coding::NOTHING, low: NO_VALUES.0, high: NO_VALUES.1, moved: false };

    /// A coding that holds values of places from `low` to `high`, too.
    fn coding_with(&self, low: i128, high: i128, order: Order, width: usize) -> Coding {
        let (low, high) = order.numbers(self.low.min(low), self.high.max(high));
        let coding = Coding::covering(low, high, width);
        let wide_enough = coding.width > self.coding.width || !self.moved && coding.width == self.coding.width;
        if wide_enough || self.low > self.high { coding } else { self.coding.wider(low, high, width) }
    }
}

impl Numbers {
    pub fn new(pool: &Pool, mechanism: Mechanism, order: Order, width: usize) -> Numbers {
        let region = Extents::new(pool, mechanism, SHORTEST);
        Numbers { region, chunks: Vec::new(), bounds: Bounds::default(), order, width, rows: 0, pool: pool.clone() }
    }

    /// Room for so many cells: up to a chunk's, or for one more chunk.
    pub fn grow(&mut self, rows: usize) -> Result<(), OutOfMemory> {
        if let Some(last) = self.chunks.len().checked_sub(1) {
            match rows <= CHUNK_ROWS {
                true => self.code_anew(last, self.chunks[last].coding, rows)?,
                false => self.tighten(last)?,
            }
        }
        while self.chunks.len() * CHUNK_ROWS < rows {
            let refused = OutOfMemory::Limit { wanted: size_of::<Chunk>() as u64, limit: self.pool.limit() };
            self.chunks.try_reserve(1).map_err(|_| refused)?;
            self.region.push_run()?;
            self.chunks.push(Chunk::EMPTY);
            self.bounds.grow(self.chunks.len());
        }
        self.rows = rows;
        Ok(())
    }

    /// The cell's bytes, little-endian; those beyond the width are zero.
    #[inline]
    pub fn get(&self, slot: u32) -> u128 {
        let (chunk, row) = split(slot);
        let coding = self.chunks[chunk].coding;
        let code = |width| self.region.bytes_in(chunk, row * width, width);
        let code = match coding.width {
            0 => 0,
            1 => code(1)[0].into(),
            2 => u16::from_le_bytes(image(code(2))).into(),
            4 => u32::from_le_bytes(image(code(4))).into(),
            8 => u64::from_le_bytes(image(code(8))).into(),
            _ => u128::from_le_bytes(image(code(16))),
        };
        coding.value(code) & (u128::MAX >> (128 - 8 * self.width))
    }

    /// What [`Numbers::get`] reads is wanted soon.
    #[inline]
    pub fn expect(&self, slot: u32) {
        let (chunk, row) = split(slot);
        let width = self.chunks[chunk].coding.width;
        if width > 0 {
            prefetch(self.region.bytes_in(chunk, row * width, width).as_ptr());
        }
    }

    #[inline]
    pub fn put(&mut self, slot: u32, image: u128) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(slot);
        let value = value_of(image, self.width);
        let place = self.order.place(value);
        self.prepare(chunk, place, place)?;
        let coding = self.chunks[chunk].coding;
        let (width, code) = (coding.width, coding.code(value).to_le_bytes());
        if width == 0 { Ok(()) } else { self.region.write_in(chunk, row * width, &code[..width]) }
    }

    /// Puts several, within a chunk; `None` may be anything.
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
        self.prepare(chunk, low, high)?;
        let any = order.number(low);
        let values = values.map(|value| value.unwrap_or(any));
        match self.chunks[chunk].coding.width {
            0 => Ok(()),
            1 => self.write_codes::<1>(chunk, row, values),
            2 => self.write_codes::<2>(chunk, row, values),
            4 => self.write_codes::<4>(chunk, row, values),
            8 => self.write_codes::<8>(chunk, row, values),
            _ => self.write_codes::<16>(chunk, row, values),
        }
    }

    fn write_codes<const N: usize>(
        &mut self,
        chunk: usize,
        mut row: usize,
        values: impl Iterator<Item = i128>,
    ) -> Result<(), OutOfMemory> {
        let coding = self.chunks[chunk].coding;
        let (mut codes, mut count) = ([[0; N]; WRITTEN_AT_ONCE], 0);
        for value in values {
            codes[count].copy_from_slice(&coding.code(value).to_le_bytes()[..N]);
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

    /// Makes a chunk ready for values of places from `low` to `high`.
    #[inline]
    fn prepare(&mut self, chunk: usize, low: i128, high: i128) -> Result<(), OutOfMemory> {
        let known = &self.chunks[chunk];
        let holds = |value| known.coding.holds(value, self.width);
        let (least, greatest) = self.order.numbers(low, high);
        if known.low > known.high || !holds(least) || !holds(greatest) {
            self.code_with(chunk, low, high)?;
        }
        let known = &mut self.chunks[chunk];
        if low < known.low || high > known.high {
            (known.low, known.high) = (known.low.min(low), known.high.max(high));
            self.bounds.widen(chunk, known.low, known.high);
        }
        Ok(())
    }

    /// Codes a chunk so that it can hold values that it cannot hold yet.
    #[cold]
    fn code_with(&mut self, chunk: usize, low: i128, high: i128) -> Result<(), OutOfMemory> {
        let known = &self.chunks[chunk];
        let (old, new) = (known.coding, known.coding_with(low, high, self.order, self.width));
        self.code_anew(chunk, new, self.rows.min(CHUNK_ROWS))?;
        self.chunks[chunk].moved = new.width == old.width;
        Ok(())
    }

    /// All slots of the chunk are taken: what is left open for values to come is not needed any more.
    fn tighten(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let known = &self.chunks[chunk];
        if known.coding.width == 0 {
            return Ok(());
        }
        let (low, high) = self.order.numbers(known.low, known.high);
        let coding = Coding::covering(low, high, self.width);
        if coding.width < known.coding.width { self.code_anew(chunk, coding, CHUNK_ROWS) } else { Ok(()) }
    }

    /// Looks at the values of a chunk's first `rows`, of which only the `kept` ones will ever be asked for: writes them in
    /// fewer bytes, and tells of closer bounds, where an earlier value wanted more than those that are there.
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
        let coding = if tightest.width < known.coding.width { tightest } else { known.coding };
        if (low, high) == (known.low, known.high) && coding == known.coding {
            return Ok(());
        }
        // Nobody shall come upon numbers beyond the bounds, whatever he knows of the rows.
        let (least, greatest) = self.ends(chunk, rows, &[u64::MAX; _]);
        if coding != known.coding || least < low || greatest > high {
            let (width, code) = (coding.width, coding.code(self.order.number(low.min(high))).to_le_bytes());
            self.code_anew_but(chunk, coding, self.rows.min(CHUNK_ROWS), |codes| {
                for row in (0..rows).filter(|row| width > 0 && !has(kept, *row)) {
                    codes[row * width..][..width].copy_from_slice(&code[..width]);
                }
            })?;
        }
        self.chunks[chunk] = Chunk { coding, low, high, moved: false };
        self.bounds.tighten(chunk, low, high);
        Ok(())
    }

    /// The places of the least and the greatest value of those rows; the first is greater than the second where there are none.
    fn ends(&self, chunk: usize, rows: usize, kept: &Mask) -> (i128, i128) {
        let coding = self.chunks[chunk].coding;
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

    /// `mend` is given the new codes.
    fn code_anew_but(
        &mut self,
        chunk: usize,
        new: Coding,
        rows: usize,
        mend: impl FnOnce(&mut [u8]),
    ) -> Result<(), OutOfMemory> {
        let old = self.chunks[chunk].coding;
        let bytes = (new.width * rows).max(SHORTEST);
        if old != new || new.width > 0 {
            self.region.replace_run(chunk, bytes, new.label(), |codes, into| {
                old.recode(codes, new, into);
                mend(into);
            })?;
        }
        self.chunks[chunk].coding = new;
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

    /// Of one chunk.
    pub fn bytes_of(&self, chunk: usize) -> u64 {
        (self.chunks[chunk].coding.width * self.rows.min(CHUNK_ROWS)).max(SHORTEST) as u64
    }
}

#[inline]
fn has(mask: &Mask, row: usize) -> bool {
    mask[row / 64] & 1 << (row % 64) != 0
}

/// The number that is an image's low bytes.
#[inline]
fn value_of(image: u128, width: usize) -> i128 {
    let unused = 128 - 8 * width;
    (image << unused) as i128 >> unused
}

#[inline]
fn image<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.as_chunks::<N>().0[0]
}

/// Numbers as they were, and private patches to them, which need not fit into the coding of their chunk.
#[derive(Debug)]
pub struct NumbersSnapshot {
    cells: ExtentsSnapshot,
    patches: Patches,
    bounds: Bounds,
    order: Order,
    /// Bytes of a value.
    width: usize,
}

/// The numbers of a chunk.
pub struct CodedChunk<'a> {
    pub codes: Run,
    pub coding: Coding,
    /// Rows that have another value than their code says, and its image; of two for a row the later one counts.
    pub patches: &'a [Patch],
}

impl NumbersSnapshot {
    pub fn patch(&mut self, slot: u32, image: u128) -> Result<(), OutOfMemory> {
        self.patches.add(slot, image)
    }

    /// Between which the images of a chunk's values lie, as signed numbers, or the places of floats; patched ones, too, which may
    /// be from before the bounds became tighter.
    pub fn bounds(&self, chunk: usize) -> (i128, i128) {
        self.patches.of(chunk).iter().fold(self.bounds.of(chunk), |(low, high), (_, image)| {
            let place = self.order.place(value_of(u128::from_le_bytes(*image), self.width));
            (low.min(place), high.max(place))
        })
    }

    pub fn chunk(&self, chunk: usize) -> Result<CodedChunk<'_>, OutOfMemory> {
        let (codes, label) = self.cells.labelled_run(chunk)?;
        Ok(CodedChunk { codes, coding: Coding::from_label(label), patches: self.patches.of(chunk) })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::tests::rig::mechanisms;
    use crate::view::Pick;

    /// By slot, the images, their bytes beyond the width zero.
    type Model = Vec<u128>;

    fn image_of(value: i128, width: usize) -> u128 {
        value as u128 & (u128::MAX >> (128 - 8 * width))
    }

    /// Values of a size that changes by and by, so that chunks are coded in every way.
    fn some_value(rnd: &mut StdRng, slot: usize, width: usize) -> i128 {
        let bits = 8 * width as u32;
        let size =
            [1, 7, 8, 15, 16, 31, 33, 63, 64, 100, 127][(slot / 3000 + rnd.random_range(0..2)) % 11].min(bits - 1);
        let shift = [0, 1 << 20, i64::MAX as i128 - 1000, -(1 << 62)][slot / 9000 % 4];
        let value = (rnd.random::<i128>() >> (128 - size)).wrapping_add(shift);
        if rnd.random_bool(0.01) { rnd.random() } else { value }
    }

    fn check(snapshot: &NumbersSnapshot, model: &Model, width: usize) {
        for (chunk, want) in model.chunks(CHUNK_ROWS).enumerate() {
            let CodedChunk { codes, coding, patches } = snapshot.chunk(chunk).unwrap();
            let mut found = coding.decode::<i128>(&codes, Pick::First(want.len()));
            patches.iter().for_each(|(row, image)| found[*row as usize] = i128::from_le_bytes(*image));
            let (low, high) = snapshot.bounds(chunk);
            let mut places = want.iter().map(|image| snapshot.order.place(value_of(*image, width)));
            assert!(places.all(|place| (low..=high).contains(&place)), "beyond the bounds of chunk {chunk}");
            let found = found.into_iter().map(|value| image_of(value, width));
            let first = found.zip(want).position(|(found, want)| found != *want);
            assert_eq!(first, None, "{coding:?} of chunk {chunk}, width {width}");
        }
    }

    #[test]
    fn numbers_equal_a_plain_vector() {
        let numbers = [2, 4, 8, 16].map(|width| (Order::Numbers, width));
        let kinds = || numbers.into_iter().chain([(Order::Floats, 8)]);
        let best = [Mechanism::BEST; 2].into_iter();
        let cases = best.chain(mechanisms()).flat_map(|mechanism| kinds().map(move |kind| (kind, mechanism)));
        for (seed, ((order, width), mechanism)) in cases.enumerate() {
            let pool = Pool::new(1 << 30);
            let mut rnd = StdRng::seed_from_u64(seed as u64);
            let (mut numbers, mut model) = (Numbers::new(&pool, mechanism, order, width), Model::new());
            let (mut room, mut held) = (0, Vec::new());
            for _ in 0..60_000 {
                let slot = match rnd.random_range(0..5) {
                    0..3 => model.len(),
                    _ => rnd.random_range(0..=model.len()),
                };
                if slot == room {
                    room = if room < CHUNK_ROWS { (room * 4).clamp(64, CHUNK_ROWS) } else { room + CHUNK_ROWS };
                    numbers.grow(room).unwrap();
                }
                if slot == model.len() && rnd.random_bool(0.2) {
                    // Several together.
                    let most = (room - slot).min(CHUNK_ROWS - slot % CHUNK_ROWS).min(200);
                    let count = rnd.random_range(1..=most);
                    let mut some = || rnd.random_bool(0.9).then(|| image_of(some_value(&mut rnd, slot, width), width));
                    let images: Vec<Option<u128>> = (0..count).map(|_| some()).collect();
                    numbers.put_all(slot as u32, images.iter().copied()).unwrap();
                    let known = |(at, image): (usize, &Option<u128>)| {
                        let found = numbers.get((slot + at) as u32);
                        assert!(image.is_none_or(|image| image == found));
                        found
                    };
                    model.extend(images.iter().enumerate().map(known));
                    continue;
                }
                let image = image_of(some_value(&mut rnd, slot, width), width);
                numbers.put(slot as u32, image).unwrap();
                match model.get_mut(slot) {
                    Some(old) => *old = image,
                    None => model.push(image),
                }
                assert_eq!(numbers.get(slot as u32), image);
                if rnd.random_bool(0.001) {
                    let chunk = rnd.random_range(0..=(model.len() - 1) / CHUNK_ROWS);
                    let of_chunk = chunk * CHUNK_ROWS..model.len().min((chunk + 1) * CHUNK_ROWS);
                    let kept: Vec<bool> = of_chunk.clone().map(|_| rnd.random_bool(0.9)).collect();
                    let rows = mask((0..kept.len()).filter(|row| kept[*row]));
                    numbers.look_at(chunk, kept.len(), &rows).unwrap();
                    // What is not kept may have become anything.
                    let lost = |slot: &usize| !kept[slot % CHUNK_ROWS];
                    of_chunk.filter(lost).for_each(|slot| model[slot] = numbers.get(slot as u32));
                }
                if rnd.random_bool(0.001) {
                    let mut snapshot = numbers.snapshot().unwrap();
                    let mut seen = model.clone();
                    for _ in 0..rnd.random_range(0..50) {
                        let slot = rnd.random_range(0..seen.len());
                        seen[slot] = image_of(some_value(&mut rnd, slot, width), width);
                        snapshot.patch(slot as u32, seen[slot]).unwrap();
                    }
                    held.push((snapshot, seen));
                }
                if held.len() > 4 {
                    let (snapshot, seen) = held.swap_remove(rnd.random_range(0..held.len()));
                    check(&snapshot, &seen, width);
                }
            }
            check(&numbers.snapshot().unwrap(), &model, width);
            held.iter().for_each(|(snapshot, seen)| check(snapshot, seen, width));
            drop((held, numbers));
            assert_eq!(pool.used(), 0);
        }
    }

    /// Bytes a value, of rows that were written one after the other.
    fn bytes_a_value(values: impl Iterator<Item = i128>) -> f64 {
        let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Numbers, 8);
        let mut count = 0;
        for (slot, value) in values.enumerate() {
            if slot % CHUNK_ROWS == 0 {
                numbers.grow(slot + CHUNK_ROWS).unwrap();
            }
            numbers.put(slot as u32, image_of(value, 8)).unwrap();
            count += 1;
        }
        numbers.bytes() as f64 / count as f64
    }

    #[test]
    fn values_take_the_bytes_that_their_range_needs() {
        let rows = 8 * CHUNK_ROWS as i128;
        assert!(bytes_a_value((0..rows).map(|_| 77)) < 0.02);
        assert_eq!(bytes_a_value((0..rows).map(|i| i % 50 * 5)), 1.0);
        // Numbers that go up or down, in steps.
        assert_eq!(bytes_a_value((0..rows).map(|i| 1_000_000_007 + 4 * i)), 2.0);
        assert_eq!(bytes_a_value((0..rows).map(|i| -4 * i)), 2.0);
        assert_eq!(bytes_a_value((0..rows).map(|i| i * 7919 % 1_000_003 * 100)), 4.0);
        assert_eq!(bytes_a_value((0..rows).map(|i| (i % 2) << 40)), 8.0);
    }

    /// A bit for each of these rows.
    fn mask(rows: impl Iterator<Item = usize>) -> Mask {
        let mut mask = [0; CHUNK_ROWS / 64];
        rows.for_each(|row| mask[row / 64] |= 1 << (row % 64));
        mask
    }

    #[test]
    fn what_is_not_there_any_more_takes_no_bytes_and_widens_no_bounds() {
        for mechanism in mechanisms() {
            let pool = Pool::new(1 << 30);
            let mut numbers = Numbers::new(&pool, mechanism, Order::Numbers, 8);
            numbers.grow(CHUNK_ROWS).unwrap();
            let mut model: Model = (0..CHUNK_ROWS as u128).map(|row| row % 100).collect();
            numbers.put_all(0, model.iter().copied().map(Some)).unwrap();
            let look = |numbers: &mut Numbers, kept: &Mask| {
                numbers.look_at(0, CHUNK_ROWS, kept).unwrap();
                (numbers.bytes_of(0) as usize / CHUNK_ROWS, numbers.snapshot().unwrap().bounds(0))
            };
            let all = mask(0..CHUNK_ROWS);
            assert_eq!(look(&mut numbers, &all), (1, (0, 99)));

            // Values far beyond, of which one stays in a row that nobody can see.
            let (low, high) = (image_of(-5, 8), 1 << 60);
            for (row, image) in [(17, low), (4711, high), (42, high)] {
                numbers.put(row, image).unwrap();
            }
            let (mut before, mut past) = (numbers.snapshot().unwrap(), model.clone());
            (past[17], past[4711], past[42]) = (low, high, high);
            assert_eq!(look(&mut numbers, &all), (8, (-5, 1 << 60)));
            numbers.put(17, 50).unwrap();
            numbers.put(4711, 50).unwrap();
            (model[17], model[4711]) = (50, 50);
            let others = mask((0..CHUNK_ROWS).filter(|row| *row != 42));
            assert_eq!(look(&mut numbers, &others), (1, (0, 99)));

            // Who has a snapshot sees what he saw, and who has one now may be shown what was.
            check(&before, &past, 8);
            assert_eq!(before.bounds(0), (-5, 1 << 60));
            before.patch(1, image_of(-77, 8)).unwrap();
            assert_eq!(before.bounds(0), (-77, 1 << 60));
            let mut now = numbers.snapshot().unwrap();
            model[42] = numbers.get(42);
            check(&now, &model, 8);
            now.patch(4711, high).unwrap();
            model[4711] = high;
            check(&now, &model, 8);
            assert_eq!(now.bounds(0), (0, 1 << 60));

            // One value, and none.
            (0..CHUNK_ROWS as u32).filter(|row| row % 2 == 0).for_each(|row| numbers.put(row, 7).unwrap());
            assert_eq!(look(&mut numbers, &mask((0..CHUNK_ROWS).step_by(2))), (0, (7, 7)));
            assert_eq!(numbers.get(2), 7);
            let (width, (low, high)) = look(&mut numbers, &mask(0..0));
            assert!(width == 0 && low > high);
            numbers.put(3, 123_456_789).unwrap();
            assert_eq!(
                (numbers.get(3), numbers.snapshot().unwrap().bounds(0)),
                (123_456_789, (123_456_789, 123_456_789))
            );
            drop((before, now, numbers));
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn bounds_of_floats_are_those_of_their_order() {
        let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Floats, 8);
        numbers.grow(CHUNK_ROWS).unwrap();
        let image = |value: f64| u128::from(value.to_bits());
        let bounds = |numbers: &mut Numbers| {
            let (low, high) = numbers.snapshot().unwrap().bounds(0);
            (float_order::of_rank(low as i64), float_order::of_rank(high as i64))
        };
        numbers.put_all(0, (0..CHUNK_ROWS).map(|row| Some(image(row as f64 - 100.5)))).unwrap();
        assert_eq!(bounds(&mut numbers), (-100.5, 8091.0 - 0.5));
        numbers.put(17, image(f64::NEG_INFINITY)).unwrap();
        numbers.put(4711, image(1e300)).unwrap();
        assert_eq!(bounds(&mut numbers), (f64::NEG_INFINITY, 1e300));
        // Those of some rows, of one sign and of both.
        for rows in [200..300, 0..50, 50..150] {
            let ends = (rows.start as f64 - 100.5, rows.end as f64 - 101.5);
            let kept = mask(rows.filter(|row| *row != 17));
            numbers.look_at(0, CHUNK_ROWS, &kept).unwrap();
            assert_eq!(bounds(&mut numbers), ends);
            numbers.put_all(0, (0..CHUNK_ROWS).map(|row| Some(image(row as f64 - 100.5)))).unwrap();
        }
    }

    #[test]
    fn a_chunk_is_coded_anew_a_few_times_only() {
        let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Numbers, 8);
        numbers.grow(CHUNK_ROWS).unwrap();
        let mut codings = std::collections::HashSet::new();
        let mut changes = 0;
        for i in 0..10_000_i128 {
            // Each value lies a little beyond the last on the other side, and now and then far beyond.
            let value = if i % 100 == 99 { 1 << (i % 61) } else { (i * i) * if i % 2 == 0 { 1 } else { -1 } };
            numbers.put((i % 8192) as u32, image_of(value, 8)).unwrap();
            let coding = numbers.chunks[0].coding;
            changes += usize::from(codings.insert((coding.label(), numbers.chunks[0].moved)));
        }
        assert!(changes <= 10, "coded {changes} times");
    }
}
