//! The Gregorian calendar. Like PostgreSQL, it is applied to all times.

/// The number of days from 1 March 6401 BC, which is before every date of PostgreSQL, to 2000-01-01.
const TO_2000: i64 = 730_425 + 16 * CYCLE;
/// The number of days in four hundred years.
const CYCLE: i64 = 146_097;
/// The year (0 is 1 BC) of the day from which [`TO_2000`] counts.
const FIRST_YEAR: i64 = -6400;

/// The year (0 is 1 BC), the month and the day of the month. `days` is counted from 2000-01-01.
///
/// Years begin in March here, so that a leap day is the last day of its year. Divisions are replaced by multiplications
/// with fractions whose denominator is a power of two (Neri and Schneider, "Euclidean affine functions and their
/// application to calendar algorithms", 2023).
#[inline]
pub fn civil(days: i64) -> (i64, u32, u32) {
    let day = 4 * (days + TO_2000) as u64 + 3;
    let (century, of_century) = (day / CYCLE as u64, (day % CYCLE as u64) as u32 / 4);
    let product = 2_939_745 * u64::from(4 * of_century + 3);
    let (year, of_year) = (product >> 32, product as u32 / 2_939_745 / 4);
    let months = 2141 * of_year + 197_913;
    let (month, day) = (months >> 16, (months & 0xffff) / 2141 + 1);
    let (month, later) = if of_year >= 306 { (month - 12, 1) } else { (month, 0) };
    ((100 * century + year) as i64 + FIRST_YEAR + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn every_day_follows_the_one_before() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = |year, month| match month {
            4 | 6 | 9 | 11 => 30,
            2 if is_leap(year) => 29,
            2 => 28,
            _ => 31,
        };
        assert_eq!(civil(0), (2000, 1, 1));
        for from in [-2_451_545i64, -730_600, 0, 2_147_000_000] {
            let mut before = civil(from);
            for day in from + 1..from + 200_000 {
                let (year, month, day_of_month) = before;
                let next = match (month, day_of_month) {
                    (12, 31) => (year + 1, 1, 1),
                    (month, last) if last == length(year, month) => (year, month + 1, 1),
                    (month, other) => (year, month, other + 1),
                };
                before = civil(day);
                assert_eq!(before, next, "day {day}");
            }
        }
    }
}
