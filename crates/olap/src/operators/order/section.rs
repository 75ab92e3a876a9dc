//! A range of rows, by their number in an order.

/// A range of rows, as far as this machine can count.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub offset: usize,
    /// `usize::MAX`: all.
    pub count: usize,
    pub ties: bool,
}
