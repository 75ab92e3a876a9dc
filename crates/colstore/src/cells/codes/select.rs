//! Selection of a chunk's rows by value, from their codes, without decoding.

use std::ops::RangeInclusive;

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use snapmem::Run;

use crate::base::fastest::{Loop, fastest};
use crate::cells::codes::coding::Coding;
use crate::cells::codes::passing::where_code;
use crate::cells::codes::short;

/// The distinct values of a chunk's column, and the codes that say which row has which value.
#[derive(Debug)]
pub struct Distinct {
    /// The distinct values in the order of their codes, followed by a null. The index of a value in this array is
    /// called its place.
    pub values: ArrayRef,
    pub(crate) codes: Codes,
    /// The rows that are not null; `None` if no row is null.
    pub(crate) valid: Option<BooleanBuffer>,
}

/// The codes of a chunk's rows.
#[derive(Debug)]
pub struct Codes {
    pub run: Run,
    /// The length of a code in bytes: 0, 1 or 2.
    pub width: usize,
    /// The code of the first distinct value. Codes count on from there, and wrap around after the largest code.
    pub first: usize,
    pub rows: usize,
}

impl Distinct {
    /// The rows whose values are wanted. `wanted` has a bit for each of `values`.
    pub fn rows_of(&self, wanted: &BooleanBuffer) -> BooleanBuffer {
        let Codes { run, width, rows, .. } = &self.codes;
        let (nulls, place) = (wanted.len() - 1, self.place());
        let is_wanted: Vec<bool> = wanted.iter().collect();
        let bits = match width {
            0 if is_wanted[usize::from(place(0))] => BooleanBuffer::new_set(*rows),
            0 => BooleanBuffer::new_unset(*rows),
            1 => {
                let is_wanted: [bool; 256] = std::array::from_fn(|code| is_wanted[usize::from(place(code as u16))]);
                where_code(run, *rows, |[code]: [u8; 1]| is_wanted[usize::from(code)])
            }
            _ => where_code(run, *rows, |code| is_wanted[usize::from(place(u16::from_le_bytes(code)))]),
        };
        match (&self.valid, wanted.value(nulls)) {
            (None, _) => bits,
            (Some(valid), false) => &bits & valid,
            (Some(valid), true) => &bits | &!valid,
        }
    }
}

impl Distinct {
    /// Returns a function from a row's code to its place, that is, its index in `values`. Rows that are null or do not
    /// exist may have any code, so a place beyond `values` becomes the last place, that of the null.
    #[inline(always)]
    fn place(&self) -> impl Fn(u16) -> u16 + use<> {
        let (first, null) = (self.codes.first as u16, self.values.len() as u16 - 1);
        move |code| code.wrapping_sub(first).min(null)
    }

    /// A mask of those `values` that occur in any row, or in any row of the mask `live`.
    pub fn used(&self, live: Option<&BooleanBuffer>) -> BooleanBuffer {
        let mut places = vec![0; self.codes.rows];
        self.places(None, &mut places);
        let mut used = vec![false; self.values.len()];
        match live {
            Some(live) => live.set_indices().for_each(|row| used[usize::from(places[row])] = true),
            None => places.into_iter().for_each(|place| used[usize::from(place)] = true),
        }
        used.into()
    }

    /// The number of places that a row may have. The place of the null counts only if a row is null.
    pub fn count(&self) -> usize {
        let nulls = usize::from(self.valid.is_some());
        (self.values.len() - 1 + nulls).max(1)
    }

    /// Writes each row's place, that is, the index of its value in `values`. If `some` is given, only its rows are
    /// written. A row that does not exist may get any place.
    pub fn places(&self, some: Option<&[u32]>, into: &mut [u16]) {
        let Codes { run, width, .. } = &self.codes;
        let (place, null) = (self.place(), self.values.len() as u16 - 1);
        match width {
            0 => into.fill(place(0)),
            1 => places_of(run.as_chunks().0, some, into, |[code]: [u8; 1]| place(code.into())),
            _ => places_of(run.as_chunks().0, some, into, |code| place(u16::from_le_bytes(code))),
        }
        let Some(valid) = &self.valid else { return };
        match some {
            None => (!valid).set_indices().for_each(|row| into[row] = null),
            Some(rows) => {
                let nulls = into.iter_mut().zip(rows).filter(|(_, row)| !valid.value(**row as usize));
                nulls.for_each(|(into, _)| *into = null);
            }
        }
    }
}

fn places_of<const N: usize>(
    codes: &[[u8; N]],
    some: Option<&[u32]>,
    into: &mut [u16],
    place: impl Fn([u8; N]) -> u16,
) {
    match some {
        None => fastest(Places { codes, into, place }),
        Some(rows) => into.iter_mut().zip(rows).for_each(|(into, row)| *into = place(codes[*row as usize])),
    }
}

struct Places<'a, const N: usize, F> {
    codes: &'a [[u8; N]],
    into: &'a mut [u16],
    place: F,
}

impl<const N: usize, F: Fn([u8; N]) -> u16> Loop for Places<'_, N, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (into, code) in self.into.iter_mut().zip(self.codes) {
            *into = (self.place)(*code);
        }
    }
}

impl Coding {
    /// The rows whose values lie in a range. `full` is the length of a value in bytes.
    pub fn within(self, codes: &[u8], rows: usize, range: RangeInclusive<i128>, full: usize) -> BooleanBuffer {
        let (base, largest) = self.values(full);
        let (low, high) = (base.max(*range.start()), largest.min(*range.end()));
        if low > high {
            return BooleanBuffer::new_unset(rows);
        }
        if (low, high) == (base, largest) {
            return BooleanBuffer::new_set(rows);
        }
        // Differences are taken modulo the number of codes. So the test is right even if the codes are negative numbers
        // themselves.
        let (first, span) = (self.code(low), high.wrapping_sub(low));
        match self.width {
            0 => BooleanBuffer::new_set(rows),
            1 => short::bytes(codes, rows, first as u8, span as u8),
            2 => short::words(codes, rows, first as u16, span as u16),
            4 => short::longs(codes, rows, first as u32, span as u32),
            8 => where_code(codes, rows, |code| u64::from_le_bytes(code).wrapping_sub(first as u64) <= span as u64),
            _ => where_code(codes, rows, |code| u128::from_le_bytes(code).wrapping_sub(first) <= span as u128),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_that_of_the_values_in_every_coding() {
        let ends = |full: usize| {
            let (low, high) = (i128::MIN >> (128 - 8 * full), i128::MAX >> (128 - 8 * full));
            [low, low + 1, -70_000, -1, 0, 1, 77, 200, 300, 66_000, high - 1, high].map(|end| end.clamp(low, high))
        };
        for full in [2, 4, 8, 16] {
            let values = ends(full);
            for (at, low) in values.into_iter().enumerate() {
                for high in values[at..].iter().copied() {
                    let coding = Coding::covering(low, high, full);
                    let held: Vec<i128> = values.into_iter().filter(|v| (low..=high).contains(v)).collect();
                    let held: Vec<i128> = held.iter().copied().cycle().take(held.len() + 130).collect();
                    let codes = held.iter().flat_map(|v| coding.code(*v).to_le_bytes()[..coding.width].to_vec());
                    let codes: Vec<u8> = codes.collect();
                    let outer = [i128::MIN, i128::MAX];
                    for from in values.into_iter().chain(outer) {
                        for to in values.into_iter().chain(outer) {
                            let found = coding.within(&codes, held.len(), from..=to, full);
                            let expected: BooleanBuffer = held.iter().map(|v| (from..=to).contains(v)).collect();
                            assert_eq!(found, expected, "{from} to {to} in {coding:?}, full {full}");
                        }
                    }
                }
            }
        }
    }
}
