//! A selection of a chunk's rows; all functions that read cells take it as an argument.

/// A choice of rows of a chunk.
#[derive(Clone, Copy)]
pub enum Pick<'a> {
    /// This many rows from the start of the chunk.
    First(usize),
    /// Only these rows, in ascending order.
    Rows(&'a [u32]),
}

impl Pick<'_> {
    pub fn len(self) -> usize {
        match self {
            Pick::First(rows) => rows,
            Pick::Rows(rows) => rows.len(),
        }
    }

    /// The number of rows from the start of the chunk up to and including the last selected row.
    pub fn reach(self) -> usize {
        match self {
            Pick::First(rows) => rows,
            Pick::Rows(rows) => rows.last().map_or(0, |last| *last as usize + 1),
        }
    }

    /// Calls `each` for each selected row.
    pub fn each(self, each: impl FnMut(usize)) {
        match self {
            Pick::First(rows) => (0..rows).for_each(each),
            Pick::Rows(rows) => rows.iter().map(|row| *row as usize).for_each(each),
        }
    }

    /// The value of `of` for each selected row.
    pub fn map<T>(self, of: impl Fn(usize) -> T) -> Vec<T> {
        match self {
            Pick::First(rows) => (0..rows).map(of).collect(),
            Pick::Rows(rows) => rows.iter().map(|row| of(*row as usize)).collect(),
        }
    }
}
