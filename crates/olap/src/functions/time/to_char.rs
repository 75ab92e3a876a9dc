//! `to_char`: points in time as text, by a pattern.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::StringViewBuilder;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use plan::pattern::{self, Case, Part, Piece};
use protocol::request::FailureKind;

use crate::base::error::QueryError;
use crate::functions::time::calendar::{DAY, JULIAN, SECOND, civil, day_of, is_infinite, iso_week};
use crate::functions::time::intervals::times;

/// The greatest number of bytes in the results for one batch.
const MAX_BYTES: usize = 64 << 20;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// The length of the longest name of a month or day. Shorter names are padded with blanks to this length.
const NAME: usize = 9;

/// The operands are timestamps and the pattern.
pub fn apply(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let pieces = match &args[1] {
        // A null pattern gives the same result as the empty pattern.
        ColumnarValue::Scalar(ScalarValue::Utf8View(pattern)) => pattern::parse(pattern.as_deref().unwrap_or_default()),
        _ => None,
    };
    let pieces = pieces.ok_or_else(|| DataFusionError::Internal("a pattern that is not known".into()))?;
    let array = args[0].to_array(rows)?;
    let mut texts = StringViewBuilder::with_capacity(rows);
    let (mut text, mut bytes) = (String::new(), 0);
    for time in times(&array)? {
        match time.filter(|time| !is_infinite(*time) && !pieces.is_empty()) {
            None => texts.append_null(),
            Some(time) => {
                text.clear();
                let moment = Moment::of(time);
                pieces.iter().for_each(|piece| moment.write(*piece, &mut text));
                bytes += text.len();
                if bytes > MAX_BYTES {
                    return Err(QueryError(FailureKind::OutOfMemory).into());
                }
                texts.append_value(&text);
            }
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// The parts of a point in time for which a pattern may ask.
struct Moment {
    /// Days since 2000-01-01. `time` holds the microseconds within the day.
    day: i64,
    time: i64,
    /// The year. Year 0 is the year before year 1.
    year: i64,
    month: i64,
    of_month: i64,
}

impl Moment {
    fn of(timestamp: i64) -> Moment {
        let (day, time) = (timestamp.div_euclid(DAY), timestamp.rem_euclid(DAY));
        let (year, month, of_month) = civil(day);
        Moment { day, time, year, month, of_month }
    }

    /// The day of the week; 0 is Sunday.
    fn weekday(&self) -> usize {
        (self.day + 6).rem_euclid(7) as usize
    }

    fn day_of_year(&self) -> i64 {
        self.day - day_of(self.year, 1, 1) + 1
    }

    fn hour(&self) -> i64 {
        self.time / (3600 * SECOND)
    }

    fn write(&self, piece: Piece, text: &mut String) {
        let (part, bare) = match piece {
            Piece::Character(character) => return text.push(character),
            Piece::Part { part, bare } => (part, bare),
        };
        let behind = self.time % SECOND;
        let (number, width) = match part {
            Part::Year(digits) => (last_digits(shown(self.year), digits), digits as usize),
            Part::IsoYear(digits) => (last_digits(shown(iso_week(self.day).0), digits), digits as usize),
            Part::YearWithComma => {
                let year = shown(self.year);
                return put(text, format_args!("{},{:03}", year / 1000, year % 1000));
            }
            Part::Century => return century(self.year, bare, text),
            Part::Quarter => ((self.month - 1) / 3 + 1, 1),
            Part::Month => (self.month, 2),
            Part::MonthName(case) => return name(MONTHS[self.month as usize - 1], case, !bare, text),
            Part::ShortMonthName(case) => return name(&MONTHS[self.month as usize - 1][..3], case, false, text),
            Part::WeekOfYear => ((self.day_of_year() - 1) / 7 + 1, 2),
            Part::WeekOfMonth => ((self.of_month - 1) / 7 + 1, 1),
            Part::IsoWeek => (iso_week(self.day).1, 2),
            Part::DayOfYear => (self.day_of_year(), 3),
            Part::Day => (self.of_month, 2),
            Part::DayOfWeek => (self.weekday() as i64 + 1, 1),
            Part::IsoDayOfWeek => ((self.day + 5).rem_euclid(7) + 1, 1),
            Part::DayName(case) => return name(DAYS[self.weekday()], case, !bare, text),
            Part::ShortDayName(case) => return name(&DAYS[self.weekday()][..3], case, false, text),
            Part::JulianDay => (self.day + JULIAN, 1),
            Part::Hour => (self.hour(), 2),
            Part::HourOfHalf => ((self.hour() + 11) % 12 + 1, 2),
            Part::Minute => (self.time / (60 * SECOND) % 60, 2),
            Part::Second => (self.time / SECOND % 60, 2),
            Part::SecondOfDay => (self.time / SECOND, 1),
            // The digits of a fraction keep their zeros even if the pattern suppresses padding.
            Part::Millisecond => return put(text, format_args!("{:03}", behind / 1000)),
            Part::Microsecond => return put(text, format_args!("{behind:06}")),
            Part::Fraction(digits) => {
                let (width, digits) = (digits as usize, behind / 10i64.pow(6 - u32::from(digits)));
                return put(text, format_args!("{digits:0width$}"));
            }
            Part::Half { case, points } => {
                let names = if points { ["A.M.", "P.M."] } else { ["AM", "PM"] };
                return name(names[usize::from(self.hour() >= 12)], case, false, text);
            }
            Part::Era { case, points } => {
                let names = if points { ["B.C.", "A.D."] } else { ["BC", "AD"] };
                return name(names[usize::from(self.year > 0)], case, false, text);
            }
        };
        let width = if bare { 0 } else { width };
        put(text, format_args!("{number:0width$}"));
    }
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = text.write_fmt(what);
}

/// The year as it is shown; years before 1 are counted back from 1.
fn shown(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

/// The last digits of a year; four digits stand for the whole year.
fn last_digits(year: i64, digits: u8) -> i64 {
    if digits == 4 { year } else { year % 10i64.pow(digits.into()) }
}

fn century(year: i64, bare: bool, text: &mut String) {
    let century = if year > 0 { (year - 1) / 100 + 1 } else { year / 100 - 1 };
    let width = match century {
        _ if bare => 0,
        0..=99 => 2,
        -99..=-1 => 3,
        _ => 0,
    };
    put(text, format_args!("{century:0width$}"));
}

fn name(name: &str, case: Case, filled: bool, text: &mut String) {
    let start = text.len();
    text.push_str(name);
    match case {
        Case::Upper => text[start..].make_ascii_uppercase(),
        Case::Lower => text[start..].make_ascii_lowercase(),
        Case::Capital => {}
    }
    let missing = if filled { NAME.saturating_sub(name.len()) } else { 0 };
    text.extend(std::iter::repeat_n(' ', missing));
}
