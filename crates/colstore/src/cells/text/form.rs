//! The forms in which the rows of a chunk refer to their texts.

use snapmem::Label;

use super::heap::{MAX_BLOCK, Place};

/// The number of entries that codes of one byte can distinguish.
pub const FEW: usize = 256;
/// The label of [`Form::Rows`] with a width of 0. All labels of `Codes` and `Places` are lower.
const ROWS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each row has a code of this many bytes, which is the index of a dictionary entry.
    Codes(usize),
    /// Each row has the place of its text's record in the heap, in this many bytes; 0 stands for the empty text.
    Places(usize),
    /// The texts are stored one after the other in the order of the rows. Each row has the length of its text, in this
    /// many bytes. With 0 bytes, all texts have the same length.
    Rows(usize),
}

impl Form {
    /// The number of bytes for each row.
    pub fn width(self) -> usize {
        match self {
            Form::Codes(width) | Form::Places(width) | Form::Rows(width) => width,
        }
    }

    pub fn label(self) -> Label {
        match self {
            Form::Codes(width) | Form::Places(width) => width as Label,
            Form::Rows(width) => (ROWS + width) as Label,
        }
    }

    pub fn from_label(label: Label) -> Form {
        match label as usize {
            width @ 0..=2 => Form::Codes(width),
            width if width < ROWS => Form::Places(width),
            width => Form::Rows(width - ROWS),
        }
    }

    /// The form of codes for a dictionary with this many entries.
    pub fn for_entries(entries: usize) -> Form {
        match entries {
            0..=1 => Form::Codes(0),
            2..=FEW => Form::Codes(1),
            _ => Form::Codes(2),
        }
    }

    /// The bytes that a row stores for a place; `place` is `None` for the empty text. Returns `None` if the place does
    /// not fit this form.
    pub fn write(self, place: Option<Place>) -> Option<u64> {
        let Some(Place { block, offset }) = place else { return Some(0) };
        match self {
            Form::Places(4) if block >= 0xfff || offset as usize >= MAX_BLOCK => None,
            Form::Places(4) => Some(u64::from(block + 1) << 20 | u64::from(offset)),
            _ => Some((u64::from(block) + 1) << 32 | u64::from(offset)),
        }
    }

    pub fn read(self, place: u64) -> Option<Place> {
        let shift = if self == Form::Places(4) { 20 } else { 32 };
        let block = (place >> shift).checked_sub(1)?;
        Some(Place { block: block as u32, offset: (place & ((1 << shift) - 1)) as u32 })
    }

    /// The form, described for people.
    pub fn in_words(self) -> String {
        match self {
            Form::Codes(0) => "constant".into(),
            Form::Codes(1) => "dictionary, 1 byte".into(),
            Form::Codes(width) => format!("dictionary, {width} bytes"),
            Form::Places(width) => format!("places of {width} bytes"),
            Form::Rows(0) => "in rows, of one length".into(),
            Form::Rows(1) => "in rows, lengths of 1 byte".into(),
            Form::Rows(width) => format!("in rows, lengths of {width} bytes"),
        }
    }
}
