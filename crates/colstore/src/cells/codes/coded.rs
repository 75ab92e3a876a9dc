//! A chunk's column in its coded form. A forked child process can read it, because reading needs no allocation.
//!
//! Every value is represented by a number. For a text of at most [`SHORT_TEXT`] bytes, the number determines the text.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use plan::{Physical, Type};
use snapmem::Run;

use crate::cells::codes::coding::Coding;

/// The length in bytes of the longest text whose number determines it.
pub const SHORT_TEXT: usize = 15;

/// The number that all longer texts have.
pub const LONG_TEXT: i128 = -1;

/// The number that represents a text. Two texts of at most [`SHORT_TEXT`] bytes are equal if and only if their numbers
/// are.
pub fn number_of_text(text: &[u8]) -> i128 {
    let mut bytes = [0; 16];
    match bytes.get_mut(..text.len()) {
        Some(start) if text.len() <= SHORT_TEXT => start.copy_from_slice(text),
        _ => return LONG_TEXT,
    }
    bytes[SHORT_TEXT] = text.len() as u8;
    i128::from_le_bytes(bytes)
}

/// The text that a number represents; `None` for the number of all longer texts.
pub fn text_of_number(number: i128) -> Option<String> {
    let bytes = number.to_le_bytes();
    let text = bytes.get(..bytes[SHORT_TEXT] as usize).filter(|text| text.len() <= SHORT_TEXT)?;
    String::from_utf8(text.to_vec()).ok()
}

/// The values of a chunk's rows in a column.
pub struct Coded {
    pub(crate) cells: CodedCells,
    /// The rows that are not null; `None` if no row is null.
    pub(crate) valid: Option<Valid>,
}

pub(crate) enum Valid {
    Bits(Run),
    Each(Box<[bool]>),
}

pub(crate) enum CodedCells {
    Bits(Run),
    /// Numbers as codes. `full` is the length of a decoded value in bytes. A patch replaces the decoded value of a row;
    /// if a row has two patches, the later one counts.
    Numbers {
        codes: Run,
        coding: Coding,
        full: usize,
        patches: Box<[(u16, i128)]>,
    },
    /// Codes of 0, 1 or 2 bytes, with the number that each stands for.
    Listed {
        codes: Run,
        width: usize,
        values: Box<[i128]>,
        patches: Box<[(u16, i128)]>,
    },
    Values(Box<[i128]>),
}

impl Coded {
    /// The values of an array, copied; `None` if its elements are floats or bytes.
    pub fn of(ty: Type, array: &ArrayRef) -> Option<Coded> {
        let rows = 0..array.len();
        let values: Box<[i128]> = match ty.physical() {
            Physical::Bit => rows.map(|row| array.as_boolean().value(row).into()).collect(),
            Physical::Int16 => rows.map(|row| array.as_primitive::<Int16Type>().value(row).into()).collect(),
            Physical::Int32 => rows.map(|row| array.as_primitive::<Int32Type>().value(row).into()).collect(),
            Physical::Int64 => rows.map(|row| array.as_primitive::<Int64Type>().value(row).into()).collect(),
            Physical::Int128 => rows.map(|row| array.as_primitive::<Decimal128Type>().value(row)).collect(),
            Physical::Text => numbers_of_texts(array),
            Physical::Float64 | Physical::Bytes => return None,
        };
        let valid = |row| array.is_valid(row);
        let valid = (array.null_count() > 0).then(|| Valid::Each((0..array.len()).map(valid).collect()));
        Some(Coded { cells: CodedCells::Values(values), valid })
    }

    /// Reads the values of the first rows into `values`, and whether each value is not null into `valid`. Allocates
    /// nothing.
    pub fn read(&self, values: &mut [i128], valid: &mut [bool]) {
        match &self.cells {
            CodedCells::Bits(bits) => each(values, |row| i128::from(bit(bits, row))),
            CodedCells::Numbers { codes, coding, full, patches } => {
                coding.read(codes, *full, values);
                patch(patches, values);
            }
            CodedCells::Listed { codes, width, values: listed, patches } => {
                // The code of a null may exceed the list.
                let value = |code: usize| listed.get(code).copied().unwrap_or_default();
                match width {
                    0 => values.fill(value(0)),
                    1 => each(values, |row| value(codes[row].into())),
                    _ => each(values, |row| value(u16::from_le_bytes([codes[2 * row], codes[2 * row + 1]]).into())),
                }
                patch(patches, values);
            }
            CodedCells::Values(all) => values.copy_from_slice(&all[..values.len()]),
        }
        match &self.valid {
            None => valid.fill(true),
            Some(Valid::Each(each)) => valid.copy_from_slice(&each[..valid.len()]),
            Some(Valid::Bits(bits)) => valid.iter_mut().enumerate().for_each(|(row, valid)| *valid = bit(bits, row)),
        }
    }
}

/// The number that represents each text. A null gets an arbitrary number.
pub(crate) fn numbers_of_texts(texts: &ArrayRef) -> Box<[i128]> {
    texts.as_string_view().iter().map(|text| number_of_text(text.unwrap_or_default().as_bytes())).collect()
}

fn patch(patches: &[(u16, i128)], values: &mut [i128]) {
    for (row, value) in patches {
        if let Some(place) = values.get_mut(*row as usize) {
            *place = *value;
        }
    }
}

fn each(values: &mut [i128], value: impl Fn(usize) -> i128) {
    values.iter_mut().enumerate().for_each(|(row, place)| *place = value(row));
}

#[inline]
fn bit(bits: &[u8], row: usize) -> bool {
    bits[row / 8] & 1 << (row % 8) != 0
}

/// The signed number in the low `full` bytes of an image.
pub(crate) fn signed(image: u128, full: usize) -> i128 {
    let unused = 128 - 8 * full as u32;
    (image << unused) as i128 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_numbers_and_long_ones_are_all_alike() {
        let texts = ["", "a", "a\0", "\0", "ä", "0123456789abcde", "0123456789abcd"];
        for (at, text) in texts.iter().enumerate() {
            let number = number_of_text(text.as_bytes());
            assert_eq!(text_of_number(number).as_deref(), Some(*text));
            assert!(texts[..at].iter().all(|other| number_of_text(other.as_bytes()) != number));
        }
        assert_eq!(number_of_text(b"0123456789abcdef"), LONG_TEXT);
        assert_eq!(text_of_number(LONG_TEXT), None);
    }
}
