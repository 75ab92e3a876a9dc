//! A coding writes the numbers of a chunk as differences from a base, in as few bytes as their range needs.
//!
//! ```text
//!   value = base + code        codes of 0, 1, 2, 4 or 8 bytes, or the value's own bytes
//! ```
//!
//! A chunk stays writable in place, because each code has its own bytes. If a value is written that has no code, the
//! chunk is recoded first.

use arrow_buffer::ArrowNativeType;
use snapmem::Label;

use crate::base::pick::Pick;

/// The lengths in bytes that a code may have. A code may also be as long as the value itself.
const WIDTHS: [usize; 5] = [0, 1, 2, 4, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// The length of a code in bytes.
    pub width: usize,
    /// The number that is added to each code; 0 if the codes are the values themselves.
    base: i64,
}

impl Coding {
    /// The coding of a new run, in which every value is 0 and takes no bytes.
    pub const NOTHING: Coding = Coding { width: 0, base: 0 };

    /// The coding with codes of `width` bytes and this base, if there is one for values of `full` bytes.
    pub fn with(width: usize, base: i64, full: usize) -> Option<Coding> {
        let is_known = width < full && WIDTHS.contains(&width) || width == full && base == 0;
        is_known.then_some(Coding { width, base })
    }

    /// The narrowest coding of the values from `low` to `high`. If the codes can represent more values, half of the
    /// additional ones lie below `low`, and half above `high`. `full` is the length of a value in bytes.
    pub fn covering(low: i128, high: i128, full: usize) -> Coding {
        let narrow = WIDTHS.into_iter().filter(|&width| width < full);
        narrow.filter_map(|width| Coding::around(low, high, width)).next().unwrap_or(Coding { width: full, base: 0 })
    }

    /// The narrowest coding of the values from `low` to `high` whose codes are longer than those of this coding.
    pub fn wider(self, low: i128, high: i128, full: usize) -> Coding {
        let wide = WIDTHS.into_iter().filter(|&width| width < full && width > self.width);
        wide.filter_map(|width| Coding::around(low, high, width)).next().unwrap_or(Coding { width: full, base: 0 })
    }

    /// A coding of the values from `low` to `high` with codes of `width` bytes, if that many codes suffice.
    fn around(low: i128, high: i128, width: usize) -> Option<Coding> {
        let room = largest_code(width).checked_sub(high.checked_sub(low)?).filter(|room| *room >= 0)?;
        let base = (i64::try_from(low).ok()?).saturating_sub(i64::try_from(room / 2).unwrap_or(i64::MAX));
        Some(Coding { width, base })
    }

    /// The number that is added to each code.
    pub fn base(self) -> i64 {
        self.base
    }

    /// Whether a value has a code. `full` is the length of a value in bytes.
    #[inline]
    pub fn holds(self, value: i128, full: usize) -> bool {
        let distance = value.wrapping_sub(self.base.into());
        self.width == full || (0..=largest_code(self.width)).contains(&distance)
    }

    /// The code of a value, in the low bytes of the result. [`Coding::holds`] must be true for the value.
    #[inline]
    pub fn code(self, value: i128) -> u128 {
        value.wrapping_sub(self.base.into()) as u128
    }

    /// The value that a code stands for. Only the low bytes of the result, as many as a value has, are meaningful.
    #[inline]
    pub fn value(self, code: u128) -> u128 {
        code.wrapping_add(i128::from(self.base) as u128)
    }

    /// The least and the greatest value that the coding can represent. `full` is the length of a value in bytes.
    pub fn values(self, full: usize) -> (i128, i128) {
        match self.width == full {
            true => (i128::MIN >> (128 - 8 * full), i128::MAX >> (128 - 8 * full)),
            false => (self.base.into(), i128::from(self.base) + largest_code(self.width)),
        }
    }

    /// A description for people. `full` is the length of a value in bytes.
    pub fn in_words(self, full: Option<usize>) -> String {
        match self.width {
            0 => "constant".into(),
            width if Some(width) == full => format!("{width} bytes"),
            1 => "offsets of 1 byte".into(),
            width => format!("offsets of {width} bytes"),
        }
    }

    pub fn label(self) -> Label {
        (self.width as u128) << 64 | u128::from(self.base as u64)
    }

    pub fn from_label(label: Label) -> Coding {
        Coding { width: (label >> 64) as usize, base: label as u64 as i64 }
    }

    /// Rewrites a chunk's codes in the coding `new`. A value that `new` cannot represent becomes an arbitrary one.
    pub fn recode(self, codes: &[u8], new: Coding, into: &mut [u8]) {
        match new.width {
            0 => {}
            1 => self.recode_as(codes, new, into.as_chunks_mut().0, |value| [value as u8]),
            2 => self.recode_as(codes, new, into.as_chunks_mut().0, |value| (value as u16).to_le_bytes()),
            4 => self.recode_as(codes, new, into.as_chunks_mut().0, |value| (value as u32).to_le_bytes()),
            8 => self.recode_as(codes, new, into.as_chunks_mut().0, |value| (value as u64).to_le_bytes()),
            _ => self.recode_as(codes, new, into.as_chunks_mut().0, |value| (value as u128).to_le_bytes()),
        }
    }

    fn recode_as<const N: usize>(self, codes: &[u8], new: Coding, into: &mut [[u8; N]], as_code: fn(i128) -> [u8; N]) {
        let moved = i128::from(self.base) - i128::from(new.base);
        let code = |value: i128| as_code(value.wrapping_add(moved));
        match self.width {
            0 => into.fill(code(0)),
            1 => each(codes, into, |from: &[u8; 1]| code(from[0].into())),
            2 => each(codes, into, |from| code(u16::from_le_bytes(*from).into())),
            4 => each(codes, into, |from| code(u32::from_le_bytes(*from).into())),
            8 => each(codes, into, |from| code(u64::from_le_bytes(*from).into())),
            _ => each(codes, into, |from| code(i128::from_le_bytes(*from))),
        }
    }

    /// Reads the values of a chunk's first rows as signed numbers, into existing memory. `full` is the length of a
    /// value in bytes.
    pub fn read(self, codes: &[u8], full: usize, values: &mut [i128]) {
        let base = i128::from(self.base);
        let plus = |code: u64| base + i128::from(code);
        match self.width {
            0 => values.fill(base),
            // Codes as long as the values are the values themselves.
            width if width == full => match width {
                2 => each_value(codes, values, |code| i16::from_le_bytes(*code).into()),
                4 => each_value(codes, values, |code| i32::from_le_bytes(*code).into()),
                8 => each_value(codes, values, |code| i64::from_le_bytes(*code).into()),
                _ => each_value(codes, values, |code| i128::from_le_bytes(*code)),
            },
            1 => each_value(codes, values, |[code]: &[u8; 1]| plus((*code).into())),
            2 => each_value(codes, values, |code| plus(u16::from_le_bytes(*code).into())),
            4 => each_value(codes, values, |code| plus(u32::from_le_bytes(*code).into())),
            _ => each_value(codes, values, |code| plus(u64::from_le_bytes(*code))),
        }
    }

    /// The values of a chunk's rows.
    pub fn decode<T: Number>(self, codes: &[u8], pick: Pick<'_>) -> Vec<T> {
        let base = T::of_base(self.base);
        match self.width {
            0 => vec![base; pick.len()],
            1 => decoded(codes, pick, |[code]: [u8; 1]| base.plus(code.into())),
            2 => decoded(codes, pick, |code| base.plus(u16::from_le_bytes(code).into())),
            4 => decoded(codes, pick, |code| base.plus(u32::from_le_bytes(code).into())),
            8 => decoded(codes, pick, |code| base.plus(u64::from_le_bytes(code))),
            // Only values of 16 bytes have codes of 16 bytes.
            _ => decoded(codes, pick, |code| T::of_image(u128::from_le_bytes(code))),
        }
    }
}

/// The number of rows that are decoded together if they are adjacent.
const BLOCK: usize = 16;

#[inline]
fn decoded<const N: usize, T>(codes: &[u8], pick: Pick<'_>, value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let codes = codes.as_chunks::<N>().0;
    match pick {
        Pick::First(rows) => codes[..rows].iter().map(|code| value(*code)).collect(),
        Pick::Rows(rows) => {
            let mut values = Vec::with_capacity(rows.len());
            let (blocks, others) = rows.as_chunks::<BLOCK>();
            for block in blocks {
                let first = block[0] as usize;
                // If most rows are selected, a block's rows are often adjacent. Then the codes can be read as one
                // slice, without looking at each row's index.
                match block[BLOCK - 1] as usize == first + BLOCK - 1 {
                    true => values.extend(codes[first..first + BLOCK].iter().map(|code| value(*code))),
                    false => values.extend(block.iter().map(|row| value(codes[*row as usize]))),
                }
            }
            values.extend(others.iter().map(|row| value(codes[*row as usize])));
            values
        }
    }
}

/// The first `N` bytes, as an array.
#[inline]
pub fn image<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.as_chunks::<N>().0[0]
}

/// The largest code of this many bytes.
fn largest_code(width: usize) -> i128 {
    (1 << (8 * width)) - 1
}

fn each<const M: usize, const N: usize>(from: &[u8], into: &mut [[u8; N]], code: impl Fn(&[u8; M]) -> [u8; N]) {
    for (from, into) in from.as_chunks().0.iter().zip(into) {
        *into = code(from);
    }
}

fn each_value<const N: usize>(codes: &[u8], values: &mut [i128], value: impl Fn(&[u8; N]) -> i128) {
    codes.as_chunks().0.iter().zip(values).for_each(|(code, place)| *place = value(code));
}

/// An element type of Arrow's arrays. A float is represented by its bits as an integer.
pub trait Number: ArrowNativeType {
    fn of_base(base: i64) -> Self;
    fn of_image(image: u128) -> Self;
    fn plus(self, code: u64) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Number for $number {
            fn of_base(base: i64) -> Self {
                base as $number
            }
            fn of_image(image: u128) -> Self {
                image as $number
            }
            #[inline(always)]
            fn plus(self, code: u64) -> Self {
                self.wrapping_add(code as $number)
            }
        })*
    };
}

numbers!(i16, i32, i64, i128);

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases: the length of a value in bytes, and some values of that length.
    const CASES: [(usize, &[i128]); 6] = [
        (2, &[-32768, 32767, 0]),
        (4, &[-5, 250]),
        (4, &[i32::MIN as i128, i32::MAX as i128, 17]),
        (8, &[i64::MAX as i128 - 3, i64::MAX as i128]),
        (8, &[i64::MIN as i128, i64::MIN as i128 + 70_000, i64::MIN as i128 + 1]),
        (16, &[i128::MIN, i128::MAX, 0, -1]),
    ];

    fn written(coding: Coding, values: &[i128]) -> Vec<u8> {
        values.iter().flat_map(|value| coding.code(*value).to_le_bytes()[..coding.width].to_vec()).collect()
    }

    fn check(coding: Coding, full: usize, values: &[i128], codes: &[u8]) {
        let rows = values.len();
        match full {
            2 => assert_eq!(
                coding.decode::<i16>(codes, Pick::First(rows)),
                values.iter().map(|v| *v as i16).collect::<Vec<_>>()
            ),
            4 => assert_eq!(
                coding.decode::<i32>(codes, Pick::First(rows)),
                values.iter().map(|v| *v as i32).collect::<Vec<_>>()
            ),
            8 => assert_eq!(
                coding.decode::<i64>(codes, Pick::First(rows)),
                values.iter().map(|v| *v as i64).collect::<Vec<_>>()
            ),
            _ => assert_eq!(coding.decode::<i128>(codes, Pick::First(rows)), values),
        }
    }

    #[test]
    fn every_coding_holds_what_it_covers_and_becomes_every_other() {
        let spans = [0, 1, 255, 256, 65_535, 65_536, u32::MAX as i128, u32::MAX as i128 + 1, u64::MAX as i128];
        let between = spans.iter().flat_map(|span| {
            let ends = [-1000, 0, i64::MIN as i128, i64::MAX as i128 - span];
            ends.map(|low| (16, vec![low, low + span, low + span / 2]))
        });
        let small = spans[..5].iter().flat_map(|span| [(8, vec![77, 77 + span]), (4, vec![-77, span - 77])]);
        let given = CASES.into_iter().map(|(full, values)| (full, values.to_vec()));
        for (full, values) in given.chain(between).chain(small) {
            let (low, high) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            let coding = Coding::covering(low, high, full);
            assert!(values.iter().all(|value| coding.holds(*value, full)), "{coding:?} of {values:?}");
            assert_eq!(Coding::from_label(coding.label()), coding);
            let codes = written(coding, &values);
            check(coding, full, &values, &codes);
            let mut other = coding;
            while other.width < full {
                let next = other.wider(low, high, full);
                assert!(next.width > other.width && values.iter().all(|value| next.holds(*value, full)));
                for (from, to) in [(coding, next), (next, coding)] {
                    let mut again = vec![0; values.len() * to.width];
                    from.recode(&written(from, &values), to, &mut again);
                    check(to, full, &values, &again);
                }
                other = next;
            }
        }
    }

    #[test]
    fn wanted_rows_are_decoded() {
        let values: Vec<i128> = (0..200).map(|row| row * row % 251).collect();
        let coding = Coding::covering(0, 250, 8);
        let codes = written(coding, &values);
        let wanted: [Vec<u32>; 5] = [
            vec![],
            (0..200).collect(),
            (0..200).filter(|row| row % 40 != 7).collect(),
            (0..200).step_by(3).collect(),
            (5..21).chain([22, 199]).collect(),
        ];
        for rows in wanted {
            let expected: Vec<i64> = rows.iter().map(|row| values[*row as usize] as i64).collect();
            assert_eq!(coding.decode::<i64>(&codes, Pick::Rows(&rows)), expected);
        }
    }

    #[test]
    fn there_is_room_on_both_sides() {
        let coding = Coding::covering(1000, 2000, 8);
        assert_eq!(coding.width, 2);
        assert!(coding.holds(-30_000, 8) && coding.holds(30_000, 8) && !coding.holds(40_000, 8));
        let coding = Coding::covering(i64::MIN as i128, i64::MIN as i128 + 300, 8);
        assert!(coding.holds(i64::MIN as i128 + 65_535, 8));
    }

    #[test]
    fn what_lies_outside_of_64_bits_is_written_as_it_is() {
        for (low, high) in [(i64::MAX as i128 + 1, i64::MAX as i128 + 2), (-(1 << 70), -(1 << 70) + 1)] {
            assert_eq!(Coding::covering(low, high, 16), Coding { width: 16, base: 0 });
        }
    }
}
