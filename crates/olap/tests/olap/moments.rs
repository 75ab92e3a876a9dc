//! Reference functions of time zones, intervals and patterns, computed as in their documentation.

use plan::{Field, Literal, Named, Type};

use crate::interpreter::{Raised, fit};
use crate::intervals;
use crate::table::{Value, int};
use crate::times::{DAY, date, lengths, part, week, weekday};

const SECOND: i64 = 1_000_000;
const CYCLE: i64 = 146_097 * 86_400;
/// The first timestamp, in microseconds since 2000; `END` is the first time after the last timestamp.
const FIRST: i64 = -2_451_545 * DAY;
const END: i64 = 106_751_983 * DAY;

/// Whether [`call`] can compute the function.
pub fn knows(function: Named) -> bool {
    use Named::*;
    function.takes_zone() && !matches!(function, ToTextIn | ReadTimestampIn)
        || matches!(function, Comparable | PlusInterval | MinusInterval | DateBin | MakeDate | ToChar)
}

/// The result of a function; its operands are not null.
pub fn call(function: Named, types: &[Type], args: &[Value]) -> Result<Option<Literal>, Raised> {
    let number = |i: usize| int(args[i].as_ref().unwrap());
    let text = |i: usize| match args[i].as_ref() {
        Some(Literal::Text(text)) => text.as_str(),
        other => panic!("{other:?} is no text"),
    };
    let zone = || Zone::read(text(args.len() - 1));
    let interval = || intervals::parts(args[1].as_ref().unwrap()).map(i64::try_from).map(Result::unwrap);
    let of_date = types[0] == Type::Date;
    let first = number(0);
    let infinite = if of_date { infinity_of_date(first) } else { infinity(first) };
    let point = |valid: Option<i64>| valid.map(|time| Some(Literal::Int(time))).ok_or(Raised);
    match function {
        Named::AgeIn => return Ok(Some(intervals::age(first, number(1), |time| zone().shown(time))?)),
        Named::MakeDate => return made(first, number(1), number(2)).map(Some),
        Named::ZoneOffset | Named::ToChar if infinite.is_some() => return Ok(None),
        _ => {}
    }
    if let Some(infinite) = infinite {
        return Ok(Some(Literal::Int(infinite)));
    }
    let midnight = if of_date { first.saturating_mul(DAY) } else { first };
    // Rounding a timestamp may have moved it just outside of the range.
    let clamped = |time: i64| Ok(Some(Literal::Int(if time >= END { END + 1 } else { time.max(FIRST - 1) })));
    match function {
        Named::LocalTime => Ok(Some(Literal::Int(zone().shown(first)))),
        Named::ToTimestamp => point(valid(zone().shown(first))),
        Named::ToTimestampTz if of_date && valid(midnight).is_none() => Err(Raised),
        Named::ToTimestampTz => point(valid(zone().read_local(midnight))),
        Named::Comparable => clamped(midnight),
        Named::ComparableIn if midnight >= END => clamped(midnight),
        Named::ComparableIn => clamped(zone().read_local(midnight)),
        Named::ZoneOffset => Ok(Some(Literal::Int(zone().offset(first.div_euclid(SECOND))))),
        Named::DateTruncIn(field) => point(truncated(field, first, &zone())),
        Named::PlusInterval => point(moved(first, interval(), &Zone::utc())),
        Named::MinusInterval => point(moved(first, negated(interval()), &Zone::utc())),
        Named::PlusIntervalIn => point(moved(first, interval(), &zone())),
        Named::MinusIntervalIn => point(moved(first, negated(interval()), &zone())),
        Named::DateBin => binned(first, number(1), number(2)).map(|time| Some(Literal::Int(time))),
        Named::ToChar => Ok(written(first, text(1)).map(Literal::Text)),
        other => panic!("{other:?} of a moment"),
    }
}

fn infinity(time: i64) -> Option<i64> {
    [i64::MIN, i64::MAX].contains(&time).then_some(time)
}

fn infinity_of_date(date: i64) -> Option<i64> {
    match date as i32 {
        i32::MIN => Some(i64::MIN),
        i32::MAX => Some(i64::MAX),
        _ => None,
    }
}

fn valid(time: i64) -> Option<i64> {
    (FIRST..END).contains(&time).then_some(time)
}

/// A zone, from the numbers of its text form: the first offset, the first offset for local times, whether the changes
/// repeat in earlier and in later cycles, and then each change.
pub struct Zone {
    first: i64,
    first_local: i64,
    repeats: [bool; 2],
    changes: Vec<(i64, i64)>,
}

impl Zone {
    fn utc() -> Zone {
        Zone { first: 0, first_local: 0, repeats: [false; 2], changes: vec![] }
    }

    pub fn read(text: &str) -> Zone {
        let numbers: Vec<i64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let mut at = 0;
        let changes = numbers[5..].chunks(2).map(|change| {
            at += change[0];
            (at, change[1])
        });
        let changes: Vec<(i64, i64)> = changes.collect();
        assert_eq!(changes.len() as i64, numbers[4]);
        Zone { first: numbers[0], first_local: numbers[1], repeats: [numbers[2] == 1, numbers[3] == 1], changes }
    }

    fn offset_from(&self, first: i64, mut at: i64) -> i64 {
        while self.repeats[0] && at < self.changes[0].0 {
            at += CYCLE;
        }
        while self.repeats[1] && at >= self.changes[self.changes.len() - 1].0 {
            at -= CYCLE;
        }
        self.changes.iter().rev().find(|(change, _)| *change <= at).map_or(first, |(_, offset)| *offset)
    }

    pub fn offset(&self, at: i64) -> i64 {
        self.offset_from(self.first, at)
    }

    fn shown(&self, time: i64) -> i64 {
        time + self.offset(time.div_euclid(SECOND)) * SECOND
    }

    /// The offset at a local time, which is the offset before or after the nearest change. If the clocks show the time
    /// twice, it is the later offset; if they skip the time, the earlier offset. Changes are never close together.
    pub fn read_local(&self, local: i64) -> i64 {
        let second = local.div_euclid(SECOND);
        let offset = |at: i64| self.offset_from(self.first_local, at);
        let (before, after) = (offset(second - 2 * 86_400), offset(second + 2 * 86_400));
        let shows = |by: i64| offset(second - by) == by;
        let by = if shows(after) || before == after { after } else { before };
        local - by * SECOND
    }
}

fn truncated(field: Field, time: i64, zone: &Zone) -> Option<i64> {
    let local = zone.shown(time);
    let (day, within) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let unit = match field {
        Field::Hour => 3600 * SECOND,
        Field::Minute => 60 * SECOND,
        Field::Second => SECOND,
        Field::Milliseconds => 1000,
        Field::Microseconds => 1,
        _ => return valid(zone.read_local(crate::times::begin(field, day) * DAY)),
    };
    valid(time - within % unit)
}

fn negated(interval: [i64; 3]) -> [i64; 3] {
    let [months, days, microseconds] = interval;
    [(months as i32).wrapping_neg().into(), (days as i32).wrapping_neg().into(), microseconds.wrapping_neg()]
}

/// Adds an interval to a point in time. Months are added one by one.
fn moved(time: i64, [months, days, microseconds]: [i64; 3], zone: &Zone) -> Option<i64> {
    let mut time = valid(time)?;
    if months != 0 {
        let local = zone.shown(time);
        let (mut year, month, of_month, _) = date(local.div_euclid(DAY));
        // Whole years are added at once, because only the length of February differs.
        year += months / 12;
        let mut month = month + months % 12;
        if month > 12 {
            (year, month) = (year + 1, month - 12);
        }
        if month < 1 {
            (year, month) = (year - 1, month + 12);
        }
        if !(-5000..300_000).contains(&year) {
            return None;
        }
        let of_month = of_month.min(lengths(year)[month as usize - 1]);
        let day = first_day(year) + lengths(year)[..month as usize - 1].iter().sum::<i64>() + of_month - 1;
        time = valid(zone.read_local(day * DAY + local.rem_euclid(DAY)))?;
    }
    if days != 0 {
        let local = zone.shown(time);
        // With a zone, the first day may still be the evening before in UTC. Some versions of PostgreSQL refuse it
        // nevertheless, so it counts as an error here.
        if local.div_euclid(DAY) + days < FIRST / DAY {
            return None;
        }
        let moved = i64::try_from(i128::from(local) + i128::from(days) * i128::from(DAY)).ok()?;
        time = valid(zone.read_local(moved))?;
    }
    valid(time.checked_add(microseconds)?)
}

/// The number of the first day of a year, counted from 2000-01-01.
fn first_day(year: i64) -> i64 {
    let years = (year - 2000).rem_euclid(400);
    let cycles = (year - 2000).div_euclid(400);
    cycles * 146_097 + (2000..2000 + years).map(|year| lengths(year).iter().sum::<i64>()).sum::<i64>()
}

fn made(year: i64, month: i64, day: i64) -> Result<Literal, Raised> {
    let year = match year {
        0 => return Err(Raised),
        ..0 => year + 1,
        _ => year,
    };
    let exists = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !exists || !(-5000..6_000_000).contains(&year) {
        return Err(Raised);
    }
    if day > lengths(year)[month as usize - 1] {
        return Err(Raised);
    }
    let date = first_day(year) + lengths(year)[..month as usize - 1].iter().sum::<i64>() + day - 1;
    if (-2_451_545..2_145_031_949).contains(&date) { fit(Type::Int32, date.into()) } else { Err(Raised) }
}

fn binned(time: i64, origin: i64, length: i64) -> Result<i64, Raised> {
    if infinity(origin).is_some() || length <= 0 {
        return Err(Raised);
    }
    let since = i128::from(time) - i128::from(origin);
    let bins = since.div_euclid(length.into());
    // If the time is before the origin, and is itself the beginning of a bin, the versions of PostgreSQL give different
    // results.
    if i64::try_from(since).is_err() || since < 0 && bins * i128::from(length) == since {
        return Err(Raised);
    }
    let begin = i64::try_from(i128::from(origin) + bins * i128::from(length)).map_err(|_| Raised)?;
    valid(begin).ok_or(Raised)
}

const MONTHS: &str = "January February March April May June July August September October November December";
const DAYS: &str = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday";

/// A time as text, by a pattern of `to_char`. `None` if the pattern is empty.
fn written(time: i64, pattern: &str) -> Option<String> {
    let (day, within) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    let (year, month, of_month, of_year) = date(day);
    let name = |names: &str, i: i64| names.split(' ').nth(i as usize - 1).unwrap().to_string();
    let (month_name, day_name) = (name(MONTHS, month), name(DAYS, weekday(day)));
    let hour = within / 3_600_000_000;
    let ad = |year: i64| if year > 0 { year } else { 1 - year };
    let (year_shown, iso_year) = (ad(year), ad(week(day).0));
    let half = ["AM", "PM"][usize::from(hour > 11)];
    // Each word of a pattern, with its value and its width.
    let numbers: Vec<(&str, i64, usize)> = vec![
        ("YYYY", year_shown, 4),
        ("YYY", year_shown % 1000, 3),
        ("YY", year_shown % 100, 2),
        ("Y", year_shown % 10, 1),
        ("IYYY", iso_year, 4),
        ("IY", iso_year % 100, 2),
        ("Q", part(Field::Quarter, day, 0), 1),
        ("MM", month, 2),
        ("WW", (of_year + 6) / 7, 2),
        ("W", (of_month + 6) / 7, 1),
        ("IW", week(day).1, 2),
        ("DDD", of_year, 3),
        ("DD", of_month, 2),
        ("D", weekday(day) % 7 + 1, 1),
        ("ID", weekday(day), 1),
        ("J", day + 2_451_545, 1),
        ("HH24", hour, 2),
        ("HH12", [12, hour % 12][usize::from(hour % 12 != 0)], 2),
        ("MI", within / 60_000_000 % 60, 2),
        ("SSSS", within / SECOND, 1),
        ("SS", within / SECOND % 60, 2),
        ("MS", within % SECOND / 1000, 3),
        ("US", within % SECOND, 6),
    ];
    let texts: Vec<(&str, String, usize)> = vec![
        ("Month", month_name.clone(), 9),
        ("MONTH", month_name.to_uppercase(), 9),
        ("Mon", month_name[..3].to_string(), 3),
        ("MON", month_name[..3].to_uppercase(), 3),
        ("Day", day_name.clone(), 9),
        ("day", day_name.to_lowercase(), 9),
        ("Dy", day_name[..3].to_string(), 3),
        ("AM", half.to_string(), 2),
        ("BC", ["BC", "AD"][usize::from(year > 0)].to_string(), 2),
    ];
    let mut words: Vec<(&str, String, String)> = Vec::new();
    for (word, number, width) in numbers {
        let bare = if ["MS", "US"].contains(&word) { format!("{number:0width$}") } else { number.to_string() };
        words.push((word, format!("{number:0width$}"), bare));
    }
    words.extend(texts.into_iter().map(|(word, text, width)| (word, format!("{text:<width$}"), text)));
    words.sort_by_key(|(word, ..)| std::cmp::Reverse(word.len()));
    let (mut rest, mut result) = (pattern, String::new());
    while !rest.is_empty() {
        if let Some((quoted, behind)) = rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            result.push_str(quoted);
            rest = behind;
            continue;
        }
        let bare = rest.starts_with("FM");
        rest = rest.trim_start_matches("FM");
        match words.iter().find(|(word, ..)| rest.starts_with(word)) {
            Some((word, filled, shown)) => {
                result.push_str(if bare { shown } else { filled });
                rest = &rest[word.len()..];
            }
            None => {
                let first = rest.chars().next().unwrap();
                result.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    (!pattern.is_empty()).then_some(result)
}
