//! The range of places in which the texts of a chunk lie ([`text_order`]).

use plan::text_order;

/// The least and the greatest text of a chunk. The writer's edges widen with every text, and are exact again when the
/// chunk is rewritten. A snapshot has the edges of its own time.
#[derive(Clone, Copy, Debug)]
pub struct Edges {
    low: i128,
    high: i128,
}

impl Edges {
    /// The edges of a chunk without texts.
    pub const NONE: Edges = Edges { low: i128::MAX, high: i128::MIN };

    #[inline]
    pub fn include(&mut self, text: &[u8]) {
        let place = text_order::place(text);
        (self.low, self.high) = (self.low.min(place), self.high.max(place));
    }

    /// The edges of the remaining texts of the same chunk. A null looks like an empty text. If the chunk never had an
    /// empty text, an empty one is taken for a null.
    pub fn of_those_left<'a>(self, texts: impl Iterator<Item = &'a [u8]>) -> Edges {
        let mut edges = Edges::NONE;
        texts.for_each(|text| edges.include_left(text, self));
        edges
    }

    /// Widens the edges for one remaining text. `before` are the edges that held for all texts.
    #[inline]
    pub fn include_left(&mut self, text: &[u8], before: Edges) {
        if !text.is_empty() || before.low == text_order::place(&[]) {
            self.include(text);
        }
    }

    /// The bounds; the first is greater than the second if there are no texts.
    pub fn bounds(self) -> (i128, i128) {
        (self.low, self.high)
    }
}
