//! A section of an order: a range of its rows, by their numbers.

/// A range of rows. A number that is too large for `usize` is replaced by the greatest `usize`.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub offset: usize,
    /// The number of rows; `usize::MAX` stands for all.
    pub count: usize,
    pub ties: bool,
}
