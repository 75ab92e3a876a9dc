//! The forms in which a chunk refers to its texts.

use snapmem::Label;

use super::heap::{MAX_BLOCK, Place};

/// The number of entries that codes of one byte can distinguish.
pub const FEW: usize = 256;
/// The first label that stands for [`Form::Rows`].
const ROWS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Codes of this many bytes, which refer to the entries of a dictionary.
    Codes(usize),
    /// Places of this many bytes; the number 0 stands for the empty text.
    Places(usize),
    /// Texts in the order of the rows, each with its length in this many bytes, or 0 if all have the same length.
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

    /// The form of codes for this many entries.
    pub fn for_entries(entries: usize) -> Form {
        match entries {
            0..=1 => Form::Codes(0),
            2..=FEW => Form::Codes(1),
            _ => Form::Codes(2),
        }
    }

    /// The written form of a place; `None` if it needs a wider form.
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

    /// A description for people.
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
