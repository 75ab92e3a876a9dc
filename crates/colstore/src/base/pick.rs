//! A selection of a chunk's rows, as every reader of cells takes it.

/// A choice of rows of a chunk.
#[derive(Clone, Copy)]
pub enum Pick<'a> {
    /// So many from the first on.
    First(usize),
    /// These, in ascending order.
    Rows(&'a [u32]),
}

impl Pick<'_> {
    pub fn len(self) -> usize {
        match self {
            Pick::First(rows) => rows,
            Pick::Rows(rows) => rows.len(),
        }
    }

    /// Rows from the first on, the last that is wanted among them.
    pub fn reach(self) -> usize {
        match self {
            Pick::First(rows) => rows,
            Pick::Rows(rows) => rows.last().map_or(0, |last| *last as usize + 1),
        }
    }

    /// Each wanted row.
    pub fn each(self, each: impl FnMut(usize)) {
        match self {
            Pick::First(rows) => (0..rows).for_each(each),
            Pick::Rows(rows) => rows.iter().map(|row| *row as usize).for_each(each),
        }
    }

    /// The value of `of` for each wanted row.
    pub fn map<T>(self, of: impl Fn(usize) -> T) -> Vec<T> {
        match self {
            Pick::First(rows) => (0..rows).map(of).collect(),
            Pick::Rows(rows) => rows.iter().map(|row| of(*row as usize)).collect(),
        }
    }
}
