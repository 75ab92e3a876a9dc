//! A form for chunks with few distinct numbers, however far apart. The run has a list with each number once, in
//! ascending order, and for each row a code: an index into the list.
//!
//! ```text
//!   run      c0 c1 c2 … | n0 n1 …        codes of 0, 1 or 2 bytes for all rows of a chunk, and the numbers
//! ```
//!
//! The list lies in its chunk's run, so a snapshot of the run contains it. The list never changes: if a number is
//! written that it does not contain, the chunk is recoded as offsets.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use arrow_buffer::BooleanBuffer;
use foldhash::fast::FixedState;
use snapmem::Label;

use crate::base::chunk::CHUNK_ROWS;
use crate::cells::codes::coding::image;
use crate::cells::codes::short;

/// The greatest number of entries in a list.
const MOST: usize = 2048;
/// The number of entries that codes of one byte can distinguish.
const SHORT_CODES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The number of entries in the list, at least one.
    count: usize,
    /// The length of a number in bytes.
    full: usize,
}

impl Listing {
    /// The listing of this many numbers of `full` bytes, if a list may have that many.
    pub fn with(count: usize, full: usize) -> Option<Listing> {
        (1..=MOST).contains(&count).then_some(Listing { count, full })
    }

    /// Whether the list has a number for each code of a run.
    pub fn has_all_codes(self, run: &[u8]) -> bool {
        let codes = &run[..self.place(0)];
        match self.width() {
            0 => true,
            1 => codes.iter().all(|code| usize::from(*code) < self.count),
            _ => codes.as_chunks().0.iter().all(|code| usize::from(u16::from_le_bytes(*code)) < self.count),
        }
    }

    /// The length of a code in bytes.
    pub fn width(self) -> usize {
        match self.count {
            1 => 0,
            2..=SHORT_CODES => 1,
            _ => 2,
        }
    }

    /// The length of a run in bytes, a power of two.
    pub fn bytes(self) -> usize {
        self.place(self.count).next_power_of_two()
    }

    /// The offset in a run of the number that a code stands for.
    pub fn place(self, code: usize) -> usize {
        CHUNK_ROWS * self.width() + code * self.full
    }

    pub fn count(self) -> usize {
        self.count
    }

    /// The label of a run in this form. The caller adds a mark that distinguishes it from labels of other forms.
    pub fn label(self) -> Label {
        (self.count | self.full << 16) as Label
    }

    pub fn from_label(label: Label) -> Listing {
        Listing { count: label as usize % (1 << 16), full: label as usize >> 16 & 0xff }
    }

    /// The numbers in a run's list.
    pub fn numbers(self, run: &[u8]) -> Vec<i128> {
        let list = run[self.place(0)..self.place(self.count)].chunks_exact(self.full);
        list.map(number_of).collect()
    }

    /// The number that a row contains.
    pub fn number(self, run: &[u8], row: usize) -> i128 {
        let place = self.place(self.code(run, row));
        number_of(&run[place..place + self.full])
    }

    #[inline]
    fn code(self, run: &[u8], row: usize) -> usize {
        match self.width() {
            0 => 0,
            1 => run[row].into(),
            _ => u16::from_le_bytes([run[2 * row], run[2 * row + 1]]).into(),
        }
    }

    /// A substitute for each number of the list, computed by `of`. The result is padded to the number of possible
    /// codes, so that indexing by a code needs no check.
    pub fn stand_ins<T: Copy>(self, run: &[u8], of: impl Fn(i128) -> T) -> Vec<T> {
        let mut all: Vec<T> = self.numbers(run).into_iter().map(of).collect();
        match self.width() {
            0 => {}
            1 => all.resize(SHORT_CODES, all[0]),
            _ => all.resize(MOST, all[0]),
        }
        all
    }

    /// Reads the substitutes of consecutive rows, from `first` on.
    pub fn read<T: Copy>(self, run: &[u8], first: usize, stand_ins: &[T], into: &mut [T]) {
        let (few, many) = (stand_ins.first_chunk::<SHORT_CODES>(), stand_ins.first_chunk::<MOST>());
        match (self.width(), few, many) {
            (1, Some(all), _) => {
                into.iter_mut().zip(&run[first..]).for_each(|(into, code)| *into = all[usize::from(*code)]);
            }
            (2, _, Some(all)) => {
                for (into, code) in into.iter_mut().zip(run[2 * first..].as_chunks().0) {
                    *into = all[usize::from(u16::from_le_bytes(*code)) % MOST];
                }
            }
            _ => into.fill(stand_ins[0]),
        }
    }

    /// The substitute of the number that a row contains.
    #[inline]
    pub fn read_one<T: Copy>(self, run: &[u8], row: usize, stand_ins: &[T]) -> T {
        stand_ins[self.code(run, row)]
    }

    /// The rows whose numbers lie in a range.
    pub fn within(self, run: &[u8], rows: usize, range: RangeInclusive<i128>) -> BooleanBuffer {
        let numbers = self.numbers(run);
        let first = numbers.partition_point(|number| number < range.start());
        let behind = numbers.partition_point(|number| number <= range.end());
        match (first < behind, self.width()) {
            (false, _) => BooleanBuffer::new_unset(rows),
            (true, 0) => BooleanBuffer::new_set(rows),
            (true, 1) => short::bytes(run, rows, first as u8, (behind - 1 - first) as u8),
            (true, _) => short::words(run, rows, first as u16, (behind - 1 - first) as u16),
        }
    }
}

/// A number, from its bytes.
#[inline]
pub fn number_of(bytes: &[u8]) -> i128 {
    match bytes.len() {
        2 => i16::from_le_bytes(image(bytes)).into(),
        4 => i32::from_le_bytes(image(bytes)).into(),
        8 => i64::from_le_bytes(image(bytes)).into(),
        _ => i128::from_le_bytes(image(bytes)),
    }
}

/// The distinct numbers of a chunk, in ascending order, from which a list is written.
pub struct Few {
    numbers: Vec<i128>,
    listing: Listing,
}

impl Few {
    /// The distinct values of a chunk's rows, if list and codes together need at most half as much memory as codes of
    /// `width` bytes. `full` is the length of a value in bytes.
    pub fn of(values: impl Iterator<Item = i128>, width: usize, full: usize) -> Option<Few> {
        let most = most(width, full);
        if most == 0 {
            return None;
        }
        let mut found = HashSet::with_hasher(FixedState::default());
        for value in values {
            if found.insert(value) && found.len() > most {
                return None;
            }
        }
        let mut numbers: Vec<i128> = found.into_iter().collect();
        numbers.sort_unstable();
        let listing = Listing { count: numbers.len(), full };
        (!numbers.is_empty()).then_some(Few { numbers, listing })
    }

    pub fn numbers(&self) -> &[i128] {
        &self.numbers
    }

    pub fn listing(&self) -> Listing {
        self.listing
    }

    /// Writes a run with the codes of all rows of a chunk, and the list. A value that is not in the list gets the code
    /// of the first number.
    pub fn write(&self, values: &[i128], run: &mut [u8]) {
        let (width, full) = (self.listing.width(), self.listing.full);
        let codes: HashMap<i128, u16, FixedState> = self.numbers.iter().copied().zip(0..).collect();
        let (into, list) = run.split_at_mut(self.listing.place(0));
        // If there is only one number, codes have no bytes.
        for (code, value) in into.chunks_exact_mut(width.max(1)).zip(values) {
            let found = codes.get(value).copied().unwrap_or(0);
            code.copy_from_slice(&found.to_le_bytes()[..width]);
        }
        for (place, number) in list.chunks_exact_mut(full).zip(&self.numbers) {
            place.copy_from_slice(&number.to_le_bytes()[..full]);
        }
    }
}

/// The greatest number of entries with which list and codes need at most half as much memory as codes of `width` bytes.
fn most(width: usize, full: usize) -> usize {
    let half = CHUNK_ROWS * width / 2;
    let of_codes = |width: usize, most: usize| (half.saturating_sub(CHUNK_ROWS * width) / full).min(most);
    of_codes(1, SHORT_CODES).max(of_codes(2, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::codes::coded::signed;

    fn listed(values: &[i128], width: usize, full: usize) -> Option<(Listing, Vec<u8>)> {
        let few = Few::of(values.iter().copied(), width, full)?;
        let mut run = vec![0; few.listing().bytes()];
        few.write(values, &mut run);
        Some((few.listing(), run))
    }

    #[test]
    fn a_list_is_half_as_long_at_most() {
        assert_eq!([1, 2, 4, 8].map(|width| most(width, 8)), [0, 0, 256, 2048]);
        assert_eq!([2, 4, 8, 16].map(|width| most(width, 16)), [0, 256, 1024, 2048]);
        for (width, full) in [(4, 4), (4, 8), (8, 8), (4, 16), (8, 16), (16, 16)] {
            for count in [1, 256, 257, most(width, full)] {
                if count <= most(width, full) {
                    assert!(Listing { count, full }.bytes() <= CHUNK_ROWS * width / 2, "{count} of {full} for {width}");
                }
            }
        }
    }

    #[test]
    fn what_was_listed_is_read_again() {
        for (count, full) in [(1, 4), (2, 8), (256, 8), (257, 8), (2048, 8), (100, 16), (1000, 16)] {
            let number = |row: usize| {
                let value = ((row / 4 % count) as i128 - 77).wrapping_mul(0x0123_4567_89ab_cdef_0fed_cba9_8765_4321);
                signed(value as u128, full)
            };
            let values: Vec<i128> = (0..CHUNK_ROWS).map(number).collect();
            let (listing, run) = listed(&values, full, full).unwrap();
            assert_eq!(listing.count(), count);
            assert_eq!(Listing::from_label(listing.label()), listing);
            let mut again = vec![0; CHUNK_ROWS - 70];
            let all = listing.stand_ins(&run, |number| number);
            listing.read(&run, 70, &all, &mut again);
            assert_eq!(again, values[70..]);
            assert!((0..70).all(|row| listing.read_one(&run, row, &all) == values[row]));
            assert!((0..70).all(|row| listing.number(&run, row) == values[row]));
            let numbers = listing.numbers(&run);
            assert!(numbers.is_sorted());
            let (first, last) = (numbers[0], numbers[count - 1]);
            let middle = numbers[count / 2];
            let empty = RangeInclusive::new(3, 2);
            for range in [first..=last, first + 1..=last, middle..=middle, i128::MIN..=middle, middle + 1..=last, empty]
            {
                let expected: BooleanBuffer = values[..8000].iter().map(|value| range.contains(value)).collect();
                assert_eq!(listing.within(&run, 8000, range), expected);
            }
        }
    }

    #[test]
    fn many_numbers_are_not_listed() {
        let values: Vec<i128> = (0..CHUNK_ROWS as i128).map(|row| row << 32).collect();
        assert!(listed(&values, 8, 8).is_none());
        let values: Vec<i128> = (0..CHUNK_ROWS as i128).map(|row| (row / 3) << 32).collect();
        assert!(listed(&values, 8, 8).is_none(), "too many");
        assert!(listed(&values[..3000], 8, 8).is_some());
        assert!(listed(&values[..30], 2, 8).is_none(), "not shorter");
        assert!(listed(&[], 8, 8).is_none());
    }
}
