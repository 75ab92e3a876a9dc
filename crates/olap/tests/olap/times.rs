//! Reference functions of the calendar. They count day by day to find the parts of a point in time.

use plan::{Field, Literal, Named, Type};

use crate::interpreter::Raised;

pub const DAY: i64 = 86_400_000_000;

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

pub fn lengths(year: i64) -> [i64; 12] {
    [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// The year, month, day of the month, and day of the year of a day, counted since 2000-01-01.
pub fn date(day: i64) -> (i64, i64, i64, i64) {
    let (mut year, mut left) = (2000 + day.div_euclid(146_097) * 400, day.rem_euclid(146_097));
    while left >= lengths(year).iter().sum() {
        left -= lengths(year).iter().sum::<i64>();
        year += 1;
    }
    let (of_year, mut month) = (left + 1, 1);
    for length in lengths(year) {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1, of_year)
}

/// The day of the week; Monday is 1. The first day of 2000 was a Saturday.
pub fn weekday(day: i64) -> i64 {
    (day + 5).rem_euclid(7) + 1
}

/// The year and the number of the ISO week that contains a day. The week's Thursday decides about its year. The number
/// is the number of that year's Thursdays up to this one.
pub fn week(day: i64) -> (i64, i64) {
    let (year, _, _, of_year) = date(day - weekday(day) + 4);
    (year, (of_year + 6) / 7)
}

fn ceiling(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)
}

/// The number of the period of `years` years (such as a century) that contains `year`. AD 1 begins period 1; 1 BC
/// (`year` 0) ends period -1.
fn group(year: i64, years: i64) -> i64 {
    if year > 0 { ceiling(year, years) } else { -ceiling(1 - year, years) }
}

pub fn part(field: Field, day: i64, time: i64) -> i64 {
    let (year, month, of_month, of_year) = date(day);
    let shown = |year: i64| if year > 0 { year } else { year - 1 };
    match field {
        Field::Millennium => group(year, 1000),
        Field::Century => group(year, 100),
        Field::Decade => year.div_euclid(10),
        Field::Year => shown(year),
        Field::IsoYear => shown(week(day).0),
        Field::Quarter => ceiling(month, 3),
        Field::Month => month,
        Field::Week => week(day).1,
        Field::Day => of_month,
        Field::DayOfYear => of_year,
        Field::DayOfWeek => weekday(day) % 7,
        Field::IsoDayOfWeek => weekday(day),
        Field::Hour => time / 3_600_000_000,
        Field::Minute => time / 60_000_000 % 60,
        Field::Second | Field::Milliseconds | Field::Microseconds => time % 60_000_000,
        Field::Epoch => panic!("computed from the whole"),
        Field::Julian => day + 2_451_545,
    }
}

/// A function of a date or timestamp, computed from the parts of its value.
pub fn call(function: Named, from: Type, value: i64) -> Result<Option<Literal>, Raised> {
    let ends = if from == Type::Date { [i32::MIN as i64, i32::MAX as i64] } else { [i64::MIN, i64::MAX] };
    let infinity = ends.iter().position(|end| *end == value);
    let (day, time) = if from == Type::Date { (value, 0) } else { (value.div_euclid(DAY), value.rem_euclid(DAY)) };
    Ok(match (function, infinity) {
        (Named::Extract(field), Some(_)) if field.moves_on() => return Err(Raised),
        (Named::DatePart(field), Some(end)) if field.moves_on() => {
            Some(Literal::Float([f64::NEG_INFINITY, f64::INFINITY][end]))
        }
        (Named::Extract(_) | Named::DatePart(_), Some(_)) => None,
        (Named::Extract(Field::Epoch), None) if from == Type::Date => Some(Literal::Int((day + 10_957) * 86_400)),
        (Named::Extract(Field::Epoch), None) if value >= i64::MAX - 10_957 * DAY => return Err(Raised),
        (Named::Extract(Field::Epoch), None) => Some(Literal::Int(value + 10_957 * DAY)),
        (Named::Extract(field), None) => Some(Literal::Int(part(field, day, time))),
        (Named::DatePart(field), None) => Some(Literal::Float(match field {
            Field::Second => (time / 1_000_000 % 60) as f64 + (time % 1_000_000) as f64 / 1_000_000.0,
            Field::Milliseconds => (time / 1_000_000 % 60) as f64 * 1000.0 + (time % 1_000_000) as f64 / 1000.0,
            Field::Julian => {
                let seconds = (time / 1_000_000) as f64 + (time % 1_000_000) as f64 / 1_000_000.0;
                (day + 2_451_545) as f64 + seconds / 86_400.0
            }
            Field::Epoch if value < i64::MAX - 10_957 * DAY => (value + 10_957 * DAY) as f64 / 1_000_000.0,
            Field::Epoch => (value as f64 + (10_957 * DAY) as f64) / 1_000_000.0,
            _ => part(field, day, time) as f64,
        })),
        (Named::DateTrunc(_), Some(_)) => Some(Literal::Int(value)),
        (Named::DateTrunc(field), None) => {
            let whole = |day: i64| day as i128 * DAY as i128;
            let since = |unit: i64| value as i128 - (time % unit) as i128;
            let begin = match field {
                Field::Hour => since(3_600_000_000),
                Field::Minute => since(60_000_000),
                Field::Second => since(1_000_000),
                Field::Milliseconds => since(1000),
                Field::Microseconds => since(1),
                _ => whole(begin(field, day)),
            };
            if begin < -211_813_488_000_000_000 {
                return Err(Raised);
            }
            Some(Literal::Int(begin as i64))
        }
        (Named::TimestampToDate, Some(end)) => Some(Literal::Int([i32::MIN as i64, i32::MAX as i64][end])),
        (Named::TimestampToDate, None) => Some(Literal::Int(day)),
        (other, _) => panic!("{other:?} of a time"),
    })
}

/// The first day of the unit that contains this day.
pub fn begin(field: Field, day: i64) -> i64 {
    let (year, month, of_month, of_year) = date(day);
    // Goes back to the first year for which `part` returns the same number of the unit as for this day's year.
    let same_group = |field: Field| {
        let mut first = day - of_year + 1;
        while part(field, first - 1, 0) == part(field, day, 0) {
            first -= lengths(date(first - 1).0).iter().sum::<i64>();
        }
        first
    };
    match field {
        Field::Millennium | Field::Century | Field::Decade => same_group(field),
        Field::Year => day - of_year + 1,
        // Goes back to the first day of the month that begins the quarter.
        Field::Quarter => {
            let before: i64 = (1..=(month - 1) % 3).map(|m| lengths(year)[(month - m - 1) as usize]).sum();
            day - of_month + 1 - before
        }
        Field::Month => day - of_month + 1,
        Field::Week => day - weekday(day) + 1,
        Field::Day => day,
        other => panic!("date_trunc to {other:?}"),
    }
}
