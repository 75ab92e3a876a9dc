//! The forms in which the numbers of a chunk are written.

use snapmem::Label;

use crate::base::pick::Pick;
use crate::cells::codes::coding::{Coding, Number};
use crate::cells::codes::listing::Listing;

/// The bit that is set in the labels of lists only.
const LISTED: Label = 1 << 127;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Offsets(Coding),
    Listed(Listing),
}

impl Form {
    /// The length of a code in bytes.
    pub fn width(self) -> usize {
        match self {
            Form::Offsets(coding) => coding.width,
            Form::Listed(listing) => listing.width(),
        }
    }

    /// The length in bytes of a run with room for `rows` rows. The run of a list always has room for a whole chunk.
    pub fn bytes(self, rows: usize) -> usize {
        match self {
            Form::Offsets(coding) => coding.width * rows,
            Form::Listed(listing) => listing.bytes(),
        }
    }

    /// The form, described for people. `full` is the length of a value in bytes.
    pub fn in_words(self, full: Option<usize>) -> String {
        match self {
            Form::Offsets(coding) => coding.in_words(full),
            Form::Listed(listing) => match listing.width() {
                0 => "constant".into(),
                1 => "dictionary, 1 byte".into(),
                width => format!("dictionary, {width} bytes"),
            },
        }
    }

    pub fn label(self) -> Label {
        match self {
            Form::Offsets(coding) => coding.label(),
            Form::Listed(listing) => LISTED | listing.label(),
        }
    }

    pub fn from_label(label: Label) -> Form {
        match label & LISTED {
            0 => Form::Offsets(Coding::from_label(label)),
            _ => Form::Listed(Listing::from_label(label)),
        }
    }

    /// Reads the values of a run's first rows. `full` is the length of a value in bytes.
    pub fn read(self, run: &[u8], full: usize, values: &mut [i128]) {
        match self {
            Form::Offsets(coding) => coding.read(run, full, values),
            Form::Listed(listing) => listing.read(run, 0, &listing.stand_ins(run, |number| number), values),
        }
    }

    /// Recodes a run as offsets, in the coding `new`. A value that `new` cannot represent becomes an arbitrary one.
    pub fn recode(self, run: &[u8], new: Coding, into: &mut [u8]) {
        match (self, new.width) {
            (Form::Offsets(coding), _) => coding.recode(run, new, into),
            (Form::Listed(_), 0) => {}
            (Form::Listed(listing), width) => {
                let codes = listing.stand_ins(run, |number| new.code(number).to_le_bytes());
                for (row, into) in into.chunks_exact_mut(width).enumerate() {
                    into.copy_from_slice(&listing.read_one(run, row, &codes)[..width]);
                }
            }
        }
    }

    /// The values of a run's rows.
    pub fn decode<T: Number>(self, run: &[u8], pick: Pick<'_>) -> Vec<T> {
        match self {
            Form::Offsets(coding) => coding.decode(run, pick),
            Form::Listed(listing) => {
                let of_number = |number: i128| T::of_image(number as u128);
                match pick {
                    Pick::First(rows) => {
                        let numbers = listing.stand_ins(run, of_number);
                        let mut values = vec![numbers[0]; rows];
                        listing.read(run, 0, &numbers, &mut values);
                        values
                    }
                    Pick::Rows(rows) if rows.len() < listing.count() => {
                        rows.iter().map(|row| of_number(listing.number(run, *row as usize))).collect()
                    }
                    Pick::Rows(rows) => {
                        let numbers = listing.stand_ins(run, of_number);
                        rows.iter().map(|row| listing.read_one(run, *row as usize, &numbers)).collect()
                    }
                }
            }
        }
    }
}
