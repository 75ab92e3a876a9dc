//! Operations on single intervals.
//!
//! If an operation fails, the query runs on the heap. The same holds if a part of an interval leaves its range, because
//! PostgreSQL's versions then differ.

use plan::{Field, Interval};
use protocol::request::FailureKind;

use crate::base::error::QueryError;
use crate::functions::time::calendar::{DAY, END, FIRST, SECOND, civil, day_of, is_infinite};

const HOUR: i64 = 3600 * SECOND;
const MINUTE: i64 = 60 * SECOND;
const DAYS_OF_MONTH: i32 = 30;
const SECONDS_OF_DAY: f64 = 86_400.0;

pub type Outcome<T> = Result<T, QueryError>;

pub fn out_of_range() -> QueryError {
    QueryError(FailureKind::IntervalOutOfRange)
}

/// The interval in the engine's form, an integer of 128 bits.
pub fn number(interval: Interval) -> Outcome<i128> {
    interval.number().ok_or(QueryError(FailureKind::IntervalTooLong))
}

pub fn sum(a: Interval, b: Interval) -> Option<Interval> {
    Some(Interval {
        months: a.months.checked_add(b.months)?,
        days: a.days.checked_add(b.days)?,
        microseconds: a.microseconds.checked_add(b.microseconds)?,
    })
}

pub fn difference(a: Interval, b: Interval) -> Option<Interval> {
    Some(Interval {
        months: a.months.checked_sub(b.months)?,
        days: a.days.checked_sub(b.days)?,
        microseconds: a.microseconds.checked_sub(b.microseconds)?,
    })
}

pub fn negated(interval: Interval) -> Option<Interval> {
    difference(Interval { months: 0, days: 0, microseconds: 0 }, interval)
}

pub fn times(interval: Interval, factor: f64) -> Option<Interval> {
    scaled(interval, |part| part * factor)
}

pub fn by(interval: Interval, divisor: f64) -> Option<Interval> {
    scaled(interval, |part| part / divisor)
}

/// The interval with every part scaled. Fractions of months and days carry over to days and time. This is done in
/// floats, step by step as in PostgreSQL.
fn scaled(interval: Interval, scale: impl Fn(f64) -> f64) -> Option<Interval> {
    let (months_scaled, days_scaled) = (scale(interval.months.into()), scale(interval.days.into()));
    let (months, days) = (as_i32(months_scaled)?, as_i32(days_scaled)?);
    let days_left = rounded((months_scaled - f64::from(months)) * f64::from(DAYS_OF_MONTH));
    let mut seconds_left = rounded((days_scaled - f64::from(days) + days_left - days_left.trunc()) * SECONDS_OF_DAY);
    let mut days = days;
    if seconds_left.abs() >= SECONDS_OF_DAY {
        let whole = (seconds_left / SECONDS_OF_DAY).trunc();
        days = days.checked_add(whole as i32)?;
        seconds_left -= whole * SECONDS_OF_DAY;
    }
    days = days.checked_add(days_left as i32)?;
    let time = (scale(interval.microseconds as f64) + seconds_left * SECOND as f64).round_ties_even();
    Some(Interval { months, days, microseconds: as_i64(time)? })
}

/// The seconds, rounded to a microsecond as PostgreSQL does it.
fn rounded(seconds: f64) -> f64 {
    (seconds * SECOND as f64).round_ties_even() / SECOND as f64
}

/// The integer part, if it fits.
fn as_i32(value: f64) -> Option<i32> {
    (f64::from(i32::MIN)..-f64::from(i32::MIN)).contains(&value).then_some(value as i32)
}

fn as_i64(value: f64) -> Option<i64> {
    (i64::MIN as f64..-(i64::MIN as f64)).contains(&value).then_some(value as i64)
}

/// The interval with each 24 hours as a day (`justify_hours`).
pub fn with_days(interval: Interval) -> Option<Interval> {
    let days = interval.days.checked_add((interval.microseconds / DAY) as i32)?;
    Some(one_sign(Interval { days, microseconds: interval.microseconds % DAY, ..interval }))
}

/// The interval with each 30 days as a month (`justify_days`).
pub fn with_months(interval: Interval) -> Option<Interval> {
    let months = interval.months.checked_add(interval.days / DAYS_OF_MONTH)?;
    let days = interval.days % DAYS_OF_MONTH;
    Some(match (months.signum(), days.signum()) {
        (1, -1) => Interval { months: months - 1, days: days + DAYS_OF_MONTH, ..interval },
        (-1, 1) => Interval { months: months + 1, days: days - DAYS_OF_MONTH, ..interval },
        _ => Interval { months, days, ..interval },
    })
}

/// The interval with each 24 hours as a day, each 30 days as a month, and all parts of one sign (`justify_interval`).
pub fn justified(interval: Interval) -> Option<Interval> {
    let Interval { months, days, microseconds } = interval;
    // In 64 bits no sum overflows, so the result does not depend on the order of steps, which differs between
    // PostgreSQL's versions.
    let all_days = i64::from(days) + microseconds / DAY;
    let time = microseconds % DAY;
    let month = i64::from(DAYS_OF_MONTH);
    let mut months = i32::try_from(i64::from(months) + all_days / month).ok()?;
    let mut days = (all_days % month) as i32;
    if months > 0 && (days < 0 || days == 0 && time < 0) {
        days += DAYS_OF_MONTH;
        months -= 1;
    } else if months < 0 && (days > 0 || days == 0 && time > 0) {
        days -= DAYS_OF_MONTH;
        months += 1;
    }
    Some(one_sign(Interval { months, days, microseconds: time }))
}

/// The interval with days and time of one sign: a day moves between them if their signs differ. The time must be less
/// than a day.
fn one_sign(interval: Interval) -> Interval {
    let Interval { days, microseconds, .. } = interval;
    match (days.signum(), microseconds.signum()) {
        (1, -1) => Interval { days: days - 1, microseconds: microseconds + DAY, ..interval },
        (-1, 1) => Interval { days: days + 1, microseconds: microseconds - DAY, ..interval },
        _ => interval,
    }
}

/// The interval of years, months, weeks, days, hours and minutes; and of seconds.
pub fn made(parts: [i32; 6], seconds: f64) -> Option<Interval> {
    let [years, months, weeks, days, hours, minutes] = parts;
    let microseconds = as_i64((seconds * SECOND as f64).round_ties_even())?;
    Some(Interval {
        months: years.checked_mul(12)?.checked_add(months)?,
        days: weeks.checked_mul(7)?.checked_add(days)?,
        microseconds: (i64::from(hours) * HOUR + i64::from(minutes) * MINUTE).checked_add(microseconds)?,
    })
}

/// The interval between two points in time: days, and the remaining time.
pub fn between(a: i64, b: i64) -> Option<Interval> {
    let time = if is_infinite(a) || is_infinite(b) { None } else { a.checked_sub(b) }?;
    with_days(Interval { months: 0, days: 0, microseconds: time })
}

/// A time of day, moved by the time part of an interval.
pub fn later(time: i64, interval: Interval) -> i64 {
    time.wrapping_add(interval.microseconds).rem_euclid(DAY)
}

pub fn earlier(time: i64, interval: Interval) -> i64 {
    time.wrapping_sub(interval.microseconds).rem_euclid(DAY)
}

/// The difference of two local times as a calendar shows it, part by part. `is_earlier` says whether `a` lies before
/// `b`, because local times do not show this if clocks were put back in between.
pub fn age(a: i64, b: i64, is_earlier: bool) -> Outcome<Interval> {
    if [a, b].iter().any(|time| !(FIRST..END).contains(time)) {
        return Err(QueryError(FailureKind::NoTimestamp));
    }
    let (later, earlier) = if is_earlier { (b, a) } else { (a, b) };
    let (to, from) = (civil(later.div_euclid(DAY)), civil(earlier.div_euclid(DAY)));
    let mut time = later.rem_euclid(DAY) - earlier.rem_euclid(DAY);
    let mut days = to.2 - from.2;
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    let mut months = (to.0 - from.0) * 12 + to.1 - from.1;
    // A partial month has the length of the earlier point's month.
    let length = day_of(from.0 + from.1 / 12, from.1 % 12 + 1, 1) - day_of(from.0, from.1, 1);
    while days < 0 {
        days += length;
        months -= 1;
    }
    let months = i32::try_from(months).map_err(|_| out_of_range())?;
    let age = Interval { months, days: days as i32, microseconds: time };
    if is_earlier { negated(age).ok_or_else(out_of_range) } else { Ok(age) }
}

/// A field of an interval, in the units of its type; `None` if it exceeds 64 bits.
pub fn part(field: Field, interval: Interval) -> Option<i64> {
    let Interval { months, days, microseconds } = interval;
    let years = i64::from(months / 12);
    Some(match field {
        Field::Epoch => {
            // A year has 365.25 days.
            let quarters = i64::from(months / 12) * 1461 + i64::from(months % 12) * 120 + i64::from(days) * 4;
            (quarters * 21_600).checked_mul(SECOND)?.checked_add(microseconds)?
        }
        Field::Millennium => years / 1000,
        Field::Century => years / 100,
        Field::Decade => years / 10,
        Field::Year => years,
        Field::Quarter => i64::from(months % 12 / 3 + 1),
        Field::Month => i64::from(months % 12),
        Field::Day => days.into(),
        Field::Hour => microseconds / HOUR,
        Field::Minute => microseconds % HOUR / MINUTE,
        _ => microseconds % MINUTE,
    })
}

/// A field as float, computed with PostgreSQL's divisions, so that all digits are the same.
pub fn float_part(field: Field, interval: Interval) -> f64 {
    let Interval { months, days, microseconds } = interval;
    let (seconds, behind) = ((microseconds % MINUTE / SECOND) as f64, (microseconds % SECOND) as f64);
    match field {
        Field::Epoch => {
            let time = microseconds as f64 / 1e6;
            let years = 365.25 * SECONDS_OF_DAY * f64::from(months / 12);
            let months = f64::from(DAYS_OF_MONTH) * SECONDS_OF_DAY * f64::from(months % 12);
            time + years + months + SECONDS_OF_DAY * f64::from(days)
        }
        Field::Second => seconds + behind / 1e6,
        Field::Milliseconds => seconds * 1e3 + behind / 1e3,
        _ => part(field, interval).unwrap_or_default() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn interval(months: i32, days: i32, microseconds: i64) -> Interval {
        Interval { months, days, microseconds }
    }

    #[test]
    fn fractions_go_on_to_what_is_smaller() {
        // The expected values come from PostgreSQL.
        assert_eq!(times(interval(1, 0, 0), 1.5), Some(interval(1, 15, 0)));
        assert_eq!(times(interval(1, 1, 0), 0.3), Some(interval(0, 9, 7 * HOUR + 12 * MINUTE)));
        assert_eq!(by(interval(1, 0, 0), 7.0), Some(interval(0, 4, 6 * HOUR + 51 * MINUTE + 25_689_600)));
        assert_eq!(times(interval(-1, 0, 0), 0.5), Some(interval(0, -15, 0)));
        assert_eq!(times(interval(i32::MAX, 0, 0), 2.0), None);
        assert_eq!(times(interval(1, 0, 0), f64::NAN), None);
        assert_eq!(times(interval(0, 0, 0), f64::INFINITY), None);
        assert_eq!(by(interval(5, 5, 5), f64::INFINITY), Some(interval(0, 0, 0)));
        assert_eq!(times(interval(0, 0, i64::MAX), 1.0), None);
    }

    #[test]
    fn justified_intervals_have_one_sign() {
        assert_eq!(justified(interval(1, 0, -HOUR)), Some(interval(0, 29, 23 * HOUR)));
        assert_eq!(with_days(interval(0, 1, -25 * HOUR)), Some(interval(0, 0, -HOUR)));
        assert_eq!(with_months(interval(1, -1, 0)), Some(interval(0, 29, 0)));
        assert_eq!(justified(interval(i32::MAX, 30, 0)), None);
    }

    #[test]
    fn ages_are_counted_by_the_calendar() {
        let day = |year, month, day| day_of(year, month, day) * DAY;
        let age = |a, b| age(a, b, a < b);
        assert_eq!(age(day(2001, 4, 10), day(1957, 6, 13)), Ok(interval(43 * 12 + 9, 27, 0)));
        assert_eq!(age(day(2024, 3, 1), day(2024, 2, 29) + HOUR), Ok(interval(0, 0, 23 * HOUR)));
        assert_eq!(age(day(2024, 2, 29), day(2024, 3, 31)), Ok(interval(-1, -2, 0)));
        assert!(age(i64::MAX, 0).is_err());
    }
}
