//! Images of chunks: bytes that a chunk is written to, and made from again. The bytes may come from a damaged file. So
//! each length, code and place in them is checked before it is used.

use snapmem::OutOfMemory;

/// The reason why no chunk could be made from an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageFault {
    #[error("{0}")]
    OutOfMemory(#[from] OutOfMemory),
    #[error("{0}")]
    Wrong(&'static str),
}

/// The fault of an image that does not obey this rule.
pub fn wrong<T>(rule: &'static str) -> Result<T, ImageFault> {
    Err(ImageFault::Wrong(rule))
}

/// Checks a rule that every image obeys.
pub fn ensure(holds: bool, rule: &'static str) -> Result<(), ImageFault> {
    if holds { Ok(()) } else { wrong(rule) }
}

/// An image, read from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(image: &'a [u8]) -> Reader<'a> {
        Reader { rest: image }
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ImageFault> {
        match self.rest.split_at_checked(count) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => wrong("it ends too early"),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageFault> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8, ImageFault> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, ImageFault> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, ImageFault> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, ImageFault> {
        self.array().map(i64::from_le_bytes)
    }

    pub fn i128(&mut self) -> Result<i128, ImageFault> {
        self.array().map(i128::from_le_bytes)
    }

    pub fn end(self) -> Result<(), ImageFault> {
        ensure(self.rest.is_empty(), "it is longer than its chunk")
    }
}

/// Makes room for `more` bytes of an image.
pub fn reserve(into: &mut Vec<u8>, more: usize) -> Result<(), OutOfMemory> {
    let refused = OutOfMemory::Limit { wanted: more as u64, limit: isize::MAX as u64 };
    into.try_reserve(more).map_err(|_| refused)
}
