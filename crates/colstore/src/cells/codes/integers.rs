//! A chunk's column as integers of 64 bits, read from any coding. Callers read a few integers at a time, so that these
//! stay in the level-1 cache.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::DataType;
use snapmem::Run;

use crate::base::fastest::{Loop, fastest};
use crate::base::zero_copy;
use crate::cells::codes::coding::Coding;
use crate::cells::codes::listing::Listing;

#[derive(Debug)]
pub struct Integers {
    form: Form,
    /// The rows that are not null; `None` if no row is null.
    pub valid: Option<BooleanBuffer>,
    /// The least value. All values that are not null lie between `low` and `high`.
    pub low: i64,
    pub high: i64,
}

#[derive(Debug)]
enum Form {
    /// The codes, their coding, and the length of a value of the column in bytes.
    Codes(Run, Coding, usize),
    /// The codes, and the integer that each code stands for.
    Listed(Run, Listing, Box<[i64]>),
    Values(ScalarBuffer<i64>),
}

impl Integers {
    /// The integers of a chunk that is coded as offsets. All values that are not null lie between `low` and `high`.
    /// `full` is the length of a value in bytes.
    pub(crate) fn of_codes(
        codes: Run,
        coding: Coding,
        full: usize,
        valid: Option<BooleanBuffer>,
        (low, high): (i64, i64),
    ) -> Integers {
        let form = match (coding.width, coding.base()) {
            (8, 0) => {
                let rows = codes.len() / 8;
                Form::Values(ScalarBuffer::new(zero_copy::buffer(codes, rows * 8), 0, rows))
            }
            _ => Form::Codes(codes, coding, full),
        };
        Integers { form, valid, low, high }
    }

    /// The integers of a chunk that is coded as a list; `None` if a number of the list does not fit 64 bits.
    pub(crate) fn of_list(
        run: Run,
        listing: Listing,
        valid: Option<BooleanBuffer>,
        (low, high): (i128, i128),
    ) -> Option<Integers> {
        let all = listing.numbers(&run);
        let (first, last) = (i64::try_from(*all.first()?).ok()?, i64::try_from(*all.last()?).ok()?);
        let within = |end: i128| end.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let (low, high) = (within(low).max(first), within(high).min(last));
        // The numbers are in ascending order.
        let numbers = listing.stand_ins(&run, |number| number as i64).into();
        Some(Integers { form: Form::Listed(run, listing, numbers), valid, low, high })
    }

    /// `count` integers from row `first` on, without a copy; `None` if the chunk is coded, so that they must be decoded
    /// first.
    pub fn in_place(&self, first: usize, count: usize) -> Option<&[i64]> {
        match &self.form {
            Form::Values(values) => Some(&values[first..first + count]),
            Form::Codes(..) | Form::Listed(..) => None,
        }
    }

    /// The integers of an array, if its type is an integer or decimal and all values fit 64 bits.
    pub fn of_array(array: &ArrayRef) -> Option<Integers> {
        let values: Vec<i64> = match array.data_type() {
            DataType::Int16 => array.as_primitive::<Int16Type>().values().iter().map(|v| i64::from(*v)).collect(),
            DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|v| i64::from(*v)).collect(),
            DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
            DataType::Decimal128(..) => {
                let array = array.as_primitive::<Decimal128Type>();
                if array.iter().flatten().any(|value| i64::try_from(value).is_err()) {
                    return None;
                }
                array.values().iter().map(|value| *value as i64).collect()
            }
            _ => return None,
        };
        let valid = array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().clone());
        let (low, high) = match &valid {
            None => range(values.iter().copied()),
            Some(valid) => range(valid.set_indices().map(|row| values[row])),
        };
        Some(Integers { form: Form::Values(values.into()), valid, low, high })
    }

    /// Reads the integers of the rows from `first` on.
    pub fn read(&self, first: usize, into: &mut [i64]) {
        match &self.form {
            Form::Values(values) => into.copy_from_slice(&values[first..first + into.len()]),
            Form::Listed(run, listing, numbers) => listing.read(run, first, numbers, into),
            Form::Codes(run, coding, full) => {
                let base = coding.base();
                let codes = &run[first * coding.width..];
                match (coding.width, coding.width == *full) {
                    (0, _) => into.fill(base),
                    (1, _) => widened(codes, into, base, |[code]: [u8; 1]| i64::from(code)),
                    (2, false) => widened(codes, into, base, |c| u16::from_le_bytes(c).into()),
                    (2, true) => widened(codes, into, base, |c| i16::from_le_bytes(c).into()),
                    (4, false) => widened(codes, into, base, |c| u32::from_le_bytes(c).into()),
                    (4, true) => widened(codes, into, base, |c| i32::from_le_bytes(c).into()),
                    (8, _) => widened(codes, into, base, i64::from_le_bytes),
                    _ => widened(codes, into, base, |c| i128::from_le_bytes(c) as i64),
                }
            }
        }
    }

    /// Reads the integers of the given rows.
    pub fn pick(&self, rows: &[u32], into: &mut [i64]) {
        match &self.form {
            Form::Values(values) => rows.iter().zip(into).for_each(|(row, into)| *into = values[*row as usize]),
            Form::Listed(run, listing, numbers) => {
                let picked = rows.iter().map(|row| listing.read_one(run, *row as usize, numbers));
                into.iter_mut().zip(picked).for_each(|(into, number)| *into = number);
            }
            Form::Codes(run, coding, full) => {
                let base = coding.base();
                match (coding.width, coding.width == *full) {
                    (0, _) => into.fill(base),
                    (1, _) => picked(run, rows, into, base, |[code]: [u8; 1]| i64::from(code)),
                    (2, false) => picked(run, rows, into, base, |c| u16::from_le_bytes(c).into()),
                    (2, true) => picked(run, rows, into, base, |c| i16::from_le_bytes(c).into()),
                    (4, false) => picked(run, rows, into, base, |c| u32::from_le_bytes(c).into()),
                    (4, true) => picked(run, rows, into, base, |c| i32::from_le_bytes(c).into()),
                    (8, _) => picked(run, rows, into, base, i64::from_le_bytes),
                    _ => picked(run, rows, into, base, |c| i128::from_le_bytes(c) as i64),
                }
            }
        }
    }
}

/// The least and the greatest value; if there is none, the first is greater than the second.
fn range(values: impl Iterator<Item = i64>) -> (i64, i64) {
    values.fold((i64::MAX, i64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

/// Converts consecutive codes to integers.
fn widened<const N: usize>(codes: &[u8], into: &mut [i64], base: i64, code: impl Fn([u8; N]) -> i64) {
    let codes = &codes.as_chunks::<N>().0[..into.len()];
    fastest(Widen { codes, into, base, code });
}

struct Widen<'a, const N: usize, F> {
    codes: &'a [[u8; N]],
    into: &'a mut [i64],
    base: i64,
    code: F,
}

impl<const N: usize, F: Fn([u8; N]) -> i64> Loop for Widen<'_, N, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (into, code) in self.into.iter_mut().zip(self.codes) {
            *into = self.base.wrapping_add((self.code)(*code));
        }
    }
}

#[inline]
fn picked<const N: usize>(codes: &[u8], rows: &[u32], into: &mut [i64], base: i64, code: impl Fn([u8; N]) -> i64) {
    let codes = codes.as_chunks::<N>().0;
    for (into, row) in into.iter_mut().zip(rows) {
        *into = base.wrapping_add(code(codes[*row as usize]));
    }
}
