//! The texts of a full chunk as a sequence in the order of the rows, packed if that makes them shorter.
//!
//! ```text
//!   run      n0 n1 n2 … n15 | n16 …        for each row, the length of its text, and whether it is packed
//!   starts   s0               s16 …        the start of every sixteenth text
//!   block    text 0, text 1, …
//! ```
//!
//! If all texts have the same length, there is neither a run nor a list of starts.

use snapmem::{Charge, OutOfMemory, Pool, prefetch};

use super::packing::Packing;
use crate::base::pick::Pick;

/// The number of rows in a group, for which one start is kept. The group's length entries lie in one cache line of the
/// run.
pub const GROUP: usize = 16;
/// The greatest number of characters in a text of a sequence.
pub const LONGEST: usize = (u16::MAX / 2) as usize;

#[derive(Debug)]
pub struct Sequence {
    pub packing: Option<Packing>,
    /// Whether packing saves enough bytes, whether or not the texts are packed.
    is_packable: bool,
    /// The start of each group of rows.
    starts: Box<[u32]>,
    /// The length entry that every row has, if all entries are equal.
    same: u16,
    charge: Charge,
}

/// The length entry of a text: its number of characters, and whether they are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub u16);

impl Length {
    pub fn new(characters: usize, packed: bool) -> Length {
        Length((characters << 1) as u16 | u16::from(packed))
    }

    #[inline]
    pub fn characters(self) -> usize {
        usize::from(self.0 >> 1)
    }

    #[inline]
    pub fn is_packed(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The bytes of a text, plain or packed.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a> {
    Plain(&'a [u8]),
    Packed { packing: &'a Packing, bytes: &'a [u8], characters: usize },
}

impl<'a> Stored<'a> {
    /// The number of characters.
    pub fn characters(self) -> usize {
        match self {
            Stored::Plain(plain) => plain.len(),
            Stored::Packed { characters, .. } => characters,
        }
    }

    #[inline]
    pub fn is(self, text: &[u8]) -> bool {
        match self {
            Stored::Plain(plain) => plain == text,
            Stored::Packed { packing, bytes, characters } => characters == text.len() && packing.is(bytes, text),
        }
    }

    /// The text, unpacked into `buffer` if it is packed.
    pub fn read(self, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        match self {
            Stored::Plain(plain) => plain,
            Stored::Packed { packing, bytes, characters } => {
                buffer.clear();
                buffer.resize(characters, 0);
                packing.read(bytes, buffer);
                buffer
            }
        }
    }
}

impl Sequence {
    pub fn new(
        packing: Option<Packing>,
        is_packable: bool,
        lengths: &[Length],
        pool: &Pool,
    ) -> Result<Sequence, OutOfMemory> {
        let same = lengths.first().map_or(0, |length| length.0);
        let mut sequence = Sequence { packing, is_packable, starts: Box::new([]), same, charge: pool.charge() };
        if lengths.iter().any(|length| length.0 != same) {
            let bytes = lengths.len().div_ceil(GROUP) * size_of::<u32>();
            sequence.charge.set((bytes + size_of::<Sequence>()) as u64)?;
            let mut at = 0;
            let start = |group: &[Length]| {
                let start = at;
                at += group.iter().map(|length| sequence.bytes(*length)).sum::<usize>();
                start as u32
            };
            let starts = lengths.chunks(GROUP).map(start).collect();
            sequence.starts = starts;
        } else {
            sequence.charge.set(size_of::<Sequence>() as u64)?;
        }
        Ok(sequence)
    }

    /// The length entry of every row, if all texts have the same length.
    pub fn same(&self) -> Length {
        Length(self.same)
    }

    pub fn is_packable(&self) -> bool {
        self.is_packable
    }

    pub fn is_of_one_length(&self) -> bool {
        self.starts.is_empty()
    }

    /// The memory in bytes, not counting the run and the block.
    pub fn memory(&self) -> u64 {
        self.charge.bytes()
    }

    /// The bytes of a text with this length entry.
    #[inline]
    pub fn bytes(&self, length: Length) -> usize {
        match &self.packing {
            Some(packing) if length.is_packed() => packing.bytes(length.characters()),
            _ => length.characters(),
        }
    }

    /// The offset and the length entry of a row's text. `group` returns the length entries of one group of rows, at
    /// least up to the given row.
    #[inline]
    pub fn locate<'r>(&self, row: usize, width: usize, group: impl FnOnce(usize) -> &'r [u8]) -> (usize, Length) {
        if width == 0 {
            let length = Length(self.same);
            return (row * self.bytes(length), length);
        }
        let (written, within) = (group(row / GROUP), row % GROUP);
        let length = |at: usize| match width {
            1 => Length(written[at].into()),
            _ => Length(u16::from_le_bytes([written[2 * at], written[2 * at + 1]])),
        };
        let before = (0..within).map(|at| self.bytes(length(at))).sum::<usize>();
        (self.starts[row / GROUP] as usize + before, length(within))
    }

    /// Prefetches the starts that [`Sequence::locate`] reads, but not the length entries.
    #[inline]
    pub fn prefetch(&self, row: usize) {
        if let Some(start) = self.starts.get(row / GROUP) {
            prefetch(start);
        }
    }

    #[inline]
    pub fn stored<'a>(&'a self, block: &'a [u8], start: usize, length: Length) -> Stored<'a> {
        let characters = length.characters();
        match &self.packing {
            Some(packing) if length.is_packed() => Stored::Packed { packing, bytes: &block[start..], characters },
            _ => Stored::Plain(&block[start..start + characters]),
        }
    }

    /// Calls `each` for each selected row, with the offset and the length entry of its text. `run` holds the length
    /// entries of all rows.
    pub fn walk(&self, run: &[u8], width: usize, pick: Pick<'_>, mut each: impl FnMut(usize, Length)) {
        let group = |group: usize| &run[group * GROUP * width..];
        match pick {
            Pick::First(rows) if width > 0 => {
                let mut at = 0;
                for row in 0..rows {
                    let length = match width {
                        1 => Length(run[row].into()),
                        _ => Length(u16::from_le_bytes([run[2 * row], run[2 * row + 1]])),
                    };
                    each(at, length);
                    at += self.bytes(length);
                }
            }
            pick => pick.each(|row| {
                let (start, length) = self.locate(row, width, group);
                each(start, length);
            }),
        }
    }
}
