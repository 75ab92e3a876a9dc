//! Values of type interval: months, days and microseconds, counted separately.
//!
//! PostgreSQL compares intervals by their spans, where a month has 30 days and a day 24 hours. So equal intervals may
//! have different parts, for example 1 month and 30 days. In the engine, an interval is one number, and the order of
//! the numbers is the order of the spans. The number consists of the span, then the months, then the days; the
//! microseconds follow from these. There is room for millions of years in months, and for some hundred thousand years
//! in days. A query with a longer interval runs on the heap.

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;
const DAYS_OF_MONTH: i64 = 30;
/// The number of bits for the months, and also for the days. In the number, these bits stand below the span.
const BITS: u32 = 28;
const OFFSET: i128 = 1 << (BITS - 1);
const MASK: i128 = (1 << BITS) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub microseconds: i64,
}

impl Interval {
    /// The interval in PostgreSQL's stored form; `None` if the bytes are no interval.
    pub fn of_stored(bytes: &[u8]) -> Option<Interval> {
        let (time, rest) = bytes.split_first_chunk()?;
        let (days, rest) = rest.split_first_chunk()?;
        let months = rest.try_into().ok()?;
        let (microseconds, days) = (i64::from_ne_bytes(*time), i32::from_ne_bytes(*days));
        Some(Interval { months: i32::from_ne_bytes(months), days, microseconds })
    }

    pub fn stored(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.microseconds.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.months.to_ne_bytes());
        bytes
    }

    /// The length in microseconds by which the interval is compared.
    pub fn span(self) -> i128 {
        let days = i64::from(self.months) * DAYS_OF_MONTH + i64::from(self.days);
        i128::from(days) * i128::from(DAY) + i128::from(self.microseconds)
    }

    /// The engine's number for the interval; `None` if the interval is too long. The infinite intervals, which
    /// PostgreSQL has since version 17, are too long.
    pub fn number(self) -> Option<i128> {
        let (months, days) = (i128::from(self.months) + OFFSET, i128::from(self.days) + OFFSET);
        let fits = (0..=MASK).contains(&months) && (0..=MASK).contains(&days);
        fits.then(|| self.span() << (2 * BITS) | months << BITS | days)
    }

    pub fn of_number(number: i128) -> Interval {
        let part = |shift: u32| ((number >> shift & MASK) - OFFSET) as i32;
        let (months, days) = (part(BITS), part(0));
        let whole = Interval { months, days, microseconds: 0 }.span();
        // A null may come with bits that no interval has, so this must not overflow.
        Interval { months, days, microseconds: (Interval::span_of(number) - whole) as i64 }
    }

    /// The span of the interval that a number stands for.
    pub fn span_of(number: i128) -> i128 {
        number >> (2 * BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [i32; 9] = [0, 1, -1, 12, -30, 999_999, -1_000_000, (1 << 27) - 1, -(1 << 27)];
    const TIMES: [i64; 8] = [0, 1, -1, DAY, -DAY - 1, 30 * DAY, i64::MAX, i64::MIN];

    fn all() -> Vec<Interval> {
        let with_days = |months| PARTS.iter().map(move |days| (months, *days));
        let dates = PARTS.iter().flat_map(|months| with_days(*months));
        let with_time = |(months, days)| TIMES.iter().map(move |time| Interval { months, days, microseconds: *time });
        dates.flat_map(with_time).collect()
    }

    #[test]
    fn numbers_stand_for_intervals_and_are_ordered_as_their_spans() {
        let all = all();
        for a in &all {
            let number = a.number().expect("short enough");
            assert_eq!(Interval::of_number(number), *a);
            assert_eq!(Interval::span_of(number), a.span());
            assert_eq!(Interval::of_stored(&a.stored()), Some(*a));
            for b in all.iter().step_by(7) {
                let other = b.number().expect("short enough");
                assert!(a.span() == b.span() || a.span().cmp(&b.span()) == number.cmp(&other), "{a:?} {b:?}");
                assert_eq!(number == other, a == b);
            }
        }
    }

    #[test]
    fn what_is_too_long_has_no_number() {
        for long in [1 << 27, -(1 << 27) - 1, i32::MAX, i32::MIN] {
            assert_eq!(Interval { months: long, days: 0, microseconds: 0 }.number(), None);
            assert_eq!(Interval { months: 0, days: long, microseconds: 0 }.number(), None);
        }
        assert_eq!(Interval::of_stored(&[0; 15]), None);
        assert_eq!(Interval::of_stored(&[0; 17]), None);
    }
}
