//! Values of fixed length that are numbers to the engine and bytes to PostgreSQL.

use super::interval::Interval;

/// The longest.
pub const LONGEST: usize = 16;

/// What the bytes are. The order of the numbers is that of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Big-endian, with the sign flipped.
    Uuid,
    /// See [`Interval`].
    Interval,
}

/// The bytes of a value.
pub struct Bytes {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Bytes {
    fn new<const N: usize>(stored: [u8; N]) -> Bytes {
        let mut bytes = [0; LONGEST];
        bytes[..N].copy_from_slice(&stored);
        Bytes { bytes, length: N }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Image {
    /// Bytes of a value.
    pub const fn length(self) -> usize {
        match self {
            Image::Uuid | Image::Interval => 16,
        }
    }

    /// Whether numbers need 128 bits; others have room in 64.
    pub const fn is_wide(self) -> bool {
        match self {
            Image::Uuid | Image::Interval => true,
        }
    }

    /// The number that bytes of this length stand for; `None`: it is beyond the engine's.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Image::Uuid => Some(i128::from_be_bytes(bytes.try_into().ok()?) ^ i128::MIN),
            Image::Interval => Interval::of_stored(bytes.try_into().ok()?)?.number(),
        }
    }

    #[inline]
    pub fn bytes(self, number: i128) -> Bytes {
        match self {
            Image::Uuid => Bytes::new((number ^ i128::MIN).to_be_bytes()),
            Image::Interval => Bytes::new(Interval::of_number(number).stored()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_ordered_by_their_bytes_and_come_back() {
        let uuids = [[0; 16], [0x7f; 16], [0x80; 16], [0xff; 16]];
        let numbers = uuids.map(|uuid| Image::Uuid.number(&uuid).unwrap());
        assert!(numbers.is_sorted());
        for (uuid, number) in uuids.iter().zip(numbers) {
            assert_eq!(&*Image::Uuid.bytes(number), uuid);
        }
        assert_eq!(Image::Uuid.number(&[0; 15]), None);
    }

    #[test]
    fn intervals_come_back() {
        let day = Interval { months: 1, days: -2, microseconds: 3 };
        let bytes = Image::Interval.bytes(day.number().unwrap());
        assert_eq!(Interval::of_stored((&*bytes).try_into().unwrap()), Some(day));
        assert_eq!(bytes.len(), Image::Interval.length());
    }
}
