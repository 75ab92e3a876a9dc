//! A section of an order: a range of its rows, by their numbers.

/// A range of rows. Numbers beyond `usize` stand for its greatest value.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub offset: usize,
    /// The number of rows; `usize::MAX` stands for all.
    pub count: usize,
    pub ties: bool,
}
