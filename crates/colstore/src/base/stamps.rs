//! Stamps: for each chunk, the time of its last change, counted in images taken.
//!
//! ```text
//!   writes   w0     w0 w2        w1
//!   images       1          2          3        stamps then: chunk 0: 2, chunk 1: 3, chunk 2: 2
//! ```
//!
//! A chunk with a stamp above that of an image has changed since the image was taken. A stamp of 0 says that the chunk
//! came from an image, and was never written to since.

#[derive(Debug)]
pub struct Stamps {
    of_chunk: Vec<u32>,
    now: u32,
}

impl Stamps {
    pub fn new() -> Stamps {
        Stamps { of_chunk: Vec::new(), now: 1 }
    }

    /// Makes room for this many chunks. New ones count as never written to.
    pub fn grow(&mut self, chunks: usize) {
        self.of_chunk.resize(chunks, 0);
    }

    /// Records a write to a chunk.
    #[inline]
    pub fn written(&mut self, chunk: usize) {
        self.of_chunk[chunk] = self.now;
    }

    /// The stamps of an image that is taken now. Later writes get greater stamps.
    pub fn take(&mut self) -> Box<[u32]> {
        self.now += 1;
        self.of_chunk.as_slice().into()
    }

    /// The greatest stamp that a chunk can have now.
    pub fn now(&self) -> u32 {
        self.now
    }
}
