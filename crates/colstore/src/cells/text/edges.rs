//! The least and the greatest text of a chunk, as places in the order of texts ([`text_order`]).

use plan::text_order;

/// The places of a chunk's least and greatest text. Every text that is written widens the writer's edges; rewriting the
/// chunk makes them exact again. A snapshot keeps the edges as they were when it was taken.
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

    /// The edges of a chunk after some of its texts were removed. `texts` are the remaining ones. Nulls are stored as
    /// empty texts. So if the old edges exclude the empty text, every empty text among `texts` is a null, and is not
    /// counted.
    pub fn of_those_left<'a>(self, texts: impl Iterator<Item = &'a [u8]>) -> Edges {
        let mut edges = Edges::NONE;
        texts.for_each(|text| edges.include_left(text, self));
        edges
    }

    /// Widens the edges for a remaining text. `before` are the chunk's edges before texts were removed.
    #[inline]
    pub fn include_left(&mut self, text: &[u8], before: Edges) {
        if !text.is_empty() || before.low == text_order::place(&[]) {
            self.include(text);
        }
    }

    /// Both edges; the first is greater than the second if there are no texts.
    pub fn bounds(self) -> (i128, i128) {
        (self.low, self.high)
    }
}
