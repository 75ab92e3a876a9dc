//! Rows of a chunk that are processed together.

use colstore::Integers;

#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// A range: the first row, and the number of rows.
    From(usize, usize),
    Listed(&'a [u32]),
}

impl<'a> Rows<'a> {
    pub fn len(self) -> usize {
        match self {
            Rows::From(_, count) => count,
            Rows::Listed(rows) => rows.len(),
        }
    }

    /// `count` rows from position `at` on, in a list of rows or among all rows.
    pub fn block(list: Option<&'a [u32]>, at: usize, count: usize) -> Rows<'a> {
        match list {
            None => Rows::From(at, count),
            Some(rows) => Rows::Listed(&rows[at..at + count]),
        }
    }

    /// The integers of these rows, if they can be read without a copy.
    pub fn in_place(self, of: &Integers) -> Option<&[i64]> {
        match self {
            Rows::From(first, count) => of.in_place(first, count),
            Rows::Listed(_) => None,
        }
    }

    pub fn integers(self, of: &Integers, into: &mut [i64]) {
        match self {
            Rows::From(first, _) => of.read(first, into),
            Rows::Listed(rows) => of.pick(rows, into),
        }
    }
}
