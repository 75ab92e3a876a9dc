//! Values of fixed length that are numbers in the engine, and bytes in PostgreSQL.

use super::interval::Interval;

/// The length in bytes of the longest value.
pub const LONGEST: usize = 16;

/// A second in microseconds.
const SECOND: i64 = 1_000_000;
/// The number of different zones that the number of a timetz has room for; the zone stands in its low bits, below the
/// time. There are more of them than seconds in two days, because `AT TIME ZONE` with an interval may make larger
/// offsets than any on earth. A value with an even larger offset has no number.
const ZONES: i64 = 1 << 18;
const ZONE_OFFSET: i64 = ZONES / 2;

/// A type whose values are numbers in the engine, and bytes in PostgreSQL. The order of the numbers is the order of the
/// values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// A uuid: big-endian, with the sign flipped.
    Uuid,
    /// See [`Interval`].
    Interval,
    /// A time of day with a zone. PostgreSQL stores the microseconds since midnight, then the zone in seconds west of
    /// UTC. It orders values by their time in UTC, then by the zone, so the number consists of these two.
    TimeTz,
}

/// The bytes of a value, aligned as in PostgreSQL.
#[repr(C, align(8))]
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
    /// The length of a value in bytes.
    pub const fn length(self) -> usize {
        match self {
            Image::Uuid | Image::Interval => 16,
            Image::TimeTz => 12,
        }
    }

    /// Whether the type's numbers need 128 bits. The numbers of other types fit 64 bits.
    pub const fn is_wide(self) -> bool {
        match self {
            Image::Uuid | Image::Interval => true,
            Image::TimeTz => false,
        }
    }

    /// The number that stands for a value with these bytes; `None` if the value is beyond the engine's range.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Image::Uuid => Some(i128::from_be_bytes(bytes.try_into().ok()?) ^ i128::MIN),
            Image::Interval => Interval::of_stored(bytes)?.number(),
            Image::TimeTz => {
                let (time, zone) = bytes.split_first_chunk()?;
                let (time, zone) = (i64::from_ne_bytes(*time), i32::from_ne_bytes(zone.try_into().ok()?));
                let utc = time.checked_add(i64::from(zone) * SECOND)?;
                let (zone, utc) = (i64::from(zone) + ZONE_OFFSET, utc.checked_mul(ZONES)?);
                (0..ZONES).contains(&zone).then(|| i128::from(utc | zone))
            }
        }
    }

    #[inline]
    pub fn bytes(self, number: i128) -> Bytes {
        match self {
            Image::Uuid => Bytes::new((number ^ i128::MIN).to_be_bytes()),
            Image::Interval => Bytes::new(Interval::of_number(number).stored()),
            Image::TimeTz => {
                // A null may come with any number, so this must not overflow.
                let number = number as i64;
                let zone = number.rem_euclid(ZONES) - ZONE_OFFSET;
                let time = number.div_euclid(ZONES) - zone * SECOND;
                let mut bytes = [0; 12];
                bytes[..8].copy_from_slice(&time.to_ne_bytes());
                bytes[8..].copy_from_slice(&(zone as i32).to_ne_bytes());
                Bytes::new(bytes)
            }
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
    fn times_with_zones_are_ordered_as_in_utc_and_come_back() {
        let stored = |time: i64, zone: i32| [&time.to_ne_bytes()[..], &zone.to_ne_bytes()].concat();
        let hour = 3600 * SECOND;
        // Times in ascending order: 00:00+15:59:59, 12:00+01, 11:00+00, 10:00-01, one microsecond later,
        // 24:00-15:59:59.
        let times = [(0, -57_599), (12 * hour, -3600), (11 * hour, 0), (10 * hour, 3600), (10 * hour + 1, 3600)];
        let times = times.into_iter().chain([(24 * hour, 57_599)]).map(|(time, zone)| stored(time, zone));
        let times: Vec<_> = times.collect();
        let numbers: Vec<_> = times.iter().map(|time| Image::TimeTz.number(time).unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        for (time, number) in times.iter().zip(&numbers) {
            assert_eq!(*Image::TimeTz.bytes(*number), **time);
            assert!(i64::try_from(*number).is_ok());
        }
        assert_eq!(Image::TimeTz.number(&stored(0, 1 << 17)), None);
        assert_eq!(Image::TimeTz.number(&stored(0, -(1 << 17) - 1)), None);
        assert_eq!(Image::TimeTz.number(&stored(i64::MAX, 0)), None);
        for bits in [0, -1, i64::MAX, i64::MIN] {
            Image::TimeTz.bytes(bits.into());
        }
    }

    #[test]
    fn intervals_come_back() {
        let day = Interval { months: 1, days: -2, microseconds: 3 };
        let bytes = Image::Interval.bytes(day.number().unwrap());
        assert_eq!(Interval::of_stored(&bytes), Some(day));
        assert_eq!(bytes.len(), Image::Interval.length());
    }
}
