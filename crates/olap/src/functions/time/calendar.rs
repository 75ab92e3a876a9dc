//! Fields of dates and timestamps, and the beginnings of the units in which these lie. The calendar is Gregorian for
//! all times.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::{Field, Named};
use protocol::request::FailureKind;

use crate::base::error::QueryError;

pub const SECOND: i64 = 1_000_000;
pub const DAY: i64 = 86_400 * SECOND;
/// Whether a point in time is infinity or minus infinity.
pub fn is_infinite(time: i64) -> bool {
    time == i64::MIN || time == i64::MAX
}

/// 2000-01-01 in days since 1970-01-01. `JULIAN` is the same day as a Julian day.
const FROM_UNIX: i64 = 10_957;
pub const JULIAN: i64 = 2_451_545;
/// The first timestamp, which is on Julian day 0.
pub const FIRST: i64 = -JULIAN * DAY;
/// The end of the timestamps: the beginning of the year 294277.
pub const END: i64 = 106_751_983 * DAY;

/// Applies a function of dates and timestamps to `rows` rows.
pub fn apply(function: Named, arg: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let times = Times::of(&arg.to_array(rows)?)?;
    match function {
        Named::Extract(field) => times.extract(field),
        Named::DatePart(field) => Ok(times.date_part(field)),
        Named::DateTrunc(field) => times.truncated(field),
        Named::TimestampToDate => Ok(times.dates()),
        Named::TimestampToTime => Ok(times.times()),
        other => Err(DataFusionError::Internal(format!("{other:?} is no function of time"))),
    }
}

/// Dates in days since 2000-01-01, or timestamps in microseconds.
enum Times {
    Dates(Int32Array),
    Timestamps(Int64Array),
}

impl Times {
    fn of(array: &ArrayRef) -> Result<Times> {
        match array.data_type() {
            DataType::Int32 => Ok(Times::Dates(array.as_primitive::<Int32Type>().clone())),
            DataType::Int64 => Ok(Times::Timestamps(array.as_primitive::<Int64Type>().clone())),
            other => Err(DataFusionError::Internal(format!("{other} is no point in time"))),
        }
    }

    fn len(&self) -> usize {
        match self {
            Times::Dates(dates) => dates.len(),
            Times::Timestamps(timestamps) => timestamps.len(),
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Times::Dates(dates) => dates.nulls(),
            Times::Timestamps(timestamps) => timestamps.nulls(),
        }
    }

    /// The day, and the microseconds within it.
    fn get(&self, row: usize) -> (i64, i64) {
        match self {
            Times::Dates(dates) => (dates.value(row) as i64, 0),
            Times::Timestamps(timestamps) => {
                let timestamp = timestamps.value(row);
                (timestamp.div_euclid(DAY), timestamp.rem_euclid(DAY))
            }
        }
    }

    /// The sign of an infinite time; 0 for a finite one.
    fn infinity(&self, row: usize) -> i32 {
        let (first, last) = match self {
            Times::Dates(dates) => (dates.value(row) == i32::MIN, dates.value(row) == i32::MAX),
            Times::Timestamps(all) => (all.value(row) == i64::MIN, all.value(row) == i64::MAX),
        };
        last as i32 - first as i32
    }

    /// The null bitmap, in which infinite times are null, too. An infinite time has a value only in fields that
    /// increase without end, such as the year.
    fn finite(&self) -> Option<NullBuffer> {
        let finite = BooleanBuffer::collect_bool(self.len(), |row| self.infinity(row) == 0);
        let finite = Some(NullBuffer::new(finite)).filter(|nulls| nulls.null_count() > 0);
        NullBuffer::union(self.nulls(), finite.as_ref())
    }

    fn extract(&self, field: Field) -> Result<ArrayRef> {
        let finite = self.finite();
        let nulls = |nulls: Option<&NullBuffer>| nulls.map_or(0, NullBuffer::null_count);
        if field.moves_on() && nulls(finite.as_ref()) != nulls(self.nulls()) {
            return Err(QueryError(FailureKind::InfiniteDecimal).into());
        }
        if let (Times::Timestamps(timestamps), Field::Epoch) = (self, field) {
            // If a value exceeds 64 bits, PostgreSQL divides in another way, and rounds. A query with such a value runs
            // on the heap.
            let valid = |row| finite.as_ref().is_none_or(|finite| finite.is_valid(row));
            if (0..self.len()).any(|row| valid(row) && timestamps.value(row) >= i64::MAX - FROM_UNIX * DAY) {
                return Err(QueryError(FailureKind::DecimalTooWide).into());
            }
            let since_1970 = |timestamp: &i64| timestamp.wrapping_add(FROM_UNIX * DAY);
            let values: Vec<i64> = timestamps.values().iter().map(since_1970).collect();
            return Ok(Arc::new(Int64Array::new(values.into(), finite)));
        }
        let values: Vec<i64> = (0..self.len()).map(|row| part(field, self.get(row))).collect();
        Ok(Arc::new(Int64Array::new(values.into(), finite)))
    }

    fn date_part(&self, field: Field) -> ArrayRef {
        let value = |row| match self.infinity(row) {
            0 => self.float_part(field, row),
            sign => f64::INFINITY.copysign(sign as f64),
        };
        let nulls = if field.moves_on() { self.nulls().cloned() } else { self.finite() };
        Arc::new(Float64Array::new((0..self.len()).map(value).collect::<Vec<f64>>().into(), nulls))
    }

    /// A field as float, computed with PostgreSQL's divisions, so that all digits are the same.
    fn float_part(&self, field: Field, row: usize) -> f64 {
        let (day, time) = self.get(row);
        let (seconds, behind) = (time % (60 * SECOND) / SECOND, (time % SECOND) as f64);
        match (field, self) {
            (Field::Second, _) => seconds as f64 + behind / 1e6,
            (Field::Milliseconds, _) => seconds as f64 * 1e3 + behind / 1e3,
            (Field::Julian, _) => {
                (day + JULIAN) as f64 + ((time / SECOND) as f64 + behind / 1e6) / (DAY / SECOND) as f64
            }
            (Field::Epoch, Times::Timestamps(all)) => {
                let (timestamp, epoch) = (all.value(row), -FROM_UNIX * DAY);
                let since = match timestamp < i64::MAX + epoch {
                    true => timestamp.wrapping_sub(epoch) as f64,
                    false => timestamp as f64 - epoch as f64,
                };
                since / 1e6
            }
            _ => part(field, (day, time)) as f64,
        }
    }

    fn truncated(&self, field: Field) -> Result<ArrayRef> {
        if begin(field, 0, 0).is_none() {
            return Err(DataFusionError::Internal(format!("{field:?} has no beginning")));
        }
        let mut before_time = None;
        let mut value = |row| {
            let (day, time) = self.get(row);
            let begin = match self.infinity(row) {
                0 => begin(field, day, time).unwrap_or_default(),
                sign => return if sign < 0 { i64::MIN } else { i64::MAX },
            };
            if begin < FIRST && self.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
                before_time = Some(QueryError(FailureKind::NoTimestamp));
            }
            begin
        };
        let values: Vec<i64> = (0..self.len()).map(&mut value).collect();
        match before_time {
            Some(error) => Err(error.into()),
            None => Ok(Arc::new(Int64Array::new(values.into(), self.nulls().cloned()))),
        }
    }

    /// The times of day, in microseconds.
    fn times(&self) -> ArrayRef {
        let is_known = |row| self.nulls().is_none_or(|nulls| nulls.is_valid(row)) && self.infinity(row) == 0;
        let times = (0..self.len()).map(|row| is_known(row).then(|| self.get(row).1));
        Arc::new(times.collect::<PrimitiveArray<Int64Type>>())
    }

    fn dates(&self) -> ArrayRef {
        let value = |row| match self.infinity(row) {
            0 => self.get(row).0 as i32,
            ..0 => i32::MIN,
            1.. => i32::MAX,
        };
        let values: Vec<i32> = (0..self.len()).map(value).collect();
        Arc::new(PrimitiveArray::<Int32Type>::new(values.into(), self.nulls().cloned()))
    }
}

/// The value of a field as an integer, in the unit of the field's result type.
fn part(field: Field, (day, time): (i64, i64)) -> i64 {
    match field {
        // Centuries and millennia have no number 0. A decade is the year divided by ten, and its year 0 exists.
        Field::Millennium => counted(civil(day).0, 1000),
        Field::Century => counted(civil(day).0, 100),
        Field::Decade => civil(day).0.div_euclid(10),
        Field::Year => without_zero(civil(day).0),
        Field::IsoYear => without_zero(iso_week(day).0),
        Field::Quarter => (civil(day).1 - 1) / 3 + 1,
        Field::Month => civil(day).1,
        Field::Week => iso_week(day).1,
        Field::Day => civil(day).2,
        Field::DayOfYear => day - day_of(civil(day).0, 1, 1) + 1,
        Field::DayOfWeek => (day + 6).rem_euclid(7),
        Field::IsoDayOfWeek => (day + 5).rem_euclid(7) + 1,
        Field::Hour => time / (3600 * SECOND),
        Field::Minute => time / (60 * SECOND) % 60,
        Field::Second | Field::Milliseconds | Field::Microseconds => time % (60 * SECOND),
        // The seconds of a date. For a timestamp, the callers compute the seconds.
        Field::Epoch => (day + FROM_UNIX) * 86_400,
        Field::Julian => day + JULIAN,
    }
}

/// The beginning of the unit in which a time lies.
pub fn begin(field: Field, day: i64, time: i64) -> Option<i64> {
    let (year, month, _) = civil(day);
    let within = |unit: i64| time - time % unit;
    // A millennium, century or decade contains the same years as in `part`.
    let (day, time) = match field {
        Field::Millennium => (day_of((year - 1).div_euclid(1000) * 1000 + 1, 1, 1), 0),
        Field::Century => (day_of((year - 1).div_euclid(100) * 100 + 1, 1, 1), 0),
        Field::Decade => (day_of(year.div_euclid(10) * 10, 1, 1), 0),
        Field::Year => (day_of(year, 1, 1), 0),
        Field::Quarter => (day_of(year, (month - 1) / 3 * 3 + 1, 1), 0),
        Field::Month => (day_of(year, month, 1), 0),
        Field::Week => (monday(day), 0),
        Field::Day => (day, 0),
        Field::Hour => (day, within(3600 * SECOND)),
        Field::Minute => (day, within(60 * SECOND)),
        Field::Second => (day, within(SECOND)),
        Field::Milliseconds => (day, within(SECOND / 1000)),
        Field::Microseconds => (day, time),
        Field::IsoYear | Field::DayOfYear | Field::DayOfWeek | Field::IsoDayOfWeek | Field::Epoch | Field::Julian => {
            return None;
        }
    };
    // Null slots hold arbitrary values, so the sum may overflow.
    Some(day.wrapping_mul(DAY).wrapping_add(time))
}

/// The number of the period of `years` years, such as a century, that contains `year`. AD 1 begins period 1; 1 BC
/// (`year` 0) belongs to period -1.
fn counted(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// The year as it is shown: the year before 1 is -1.
fn without_zero(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// The Monday of the day's week.
fn monday(day: i64) -> i64 {
    day - (day + 5).rem_euclid(7)
}

/// The ISO year and week of a day. The Thursday of the day's week determines both.
pub fn iso_week(day: i64) -> (i64, i64) {
    let thursday = monday(day) + 3;
    let year = civil(thursday).0;
    (year, (thursday - day_of(year, 1, 1)) / 7 + 1)
}

/// The days from 0000-03-01 to 2000-01-01. A year that begins in March has its leap day at the end.
const FROM_MARCH_0: i64 = 730_425;
const DAYS_OF_400_YEARS: i64 = 146_097;

/// The year, month and day. Year 0 is the year before year 1.
pub fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + FROM_MARCH_0;
    let (era, day) = (day.div_euclid(DAYS_OF_400_YEARS), day.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let year = era * 400 + year + i64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day - (153 * month + 2) / 5 + 1)
}

pub fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * DAYS_OF_400_YEARS + 365 * year + year / 4 - year / 100 + in_year - FROM_MARCH_0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_without_nulls_makes_no_time_infinite() {
        let year = |day, nulls| Times::Dates(Int32Array::new(vec![day].into(), nulls)).extract(Field::Year);
        for nulls in [None, Some(NullBuffer::new_valid(1)), Some(NullBuffer::new_null(1))] {
            assert!(year(0, nulls).is_ok());
        }
        assert!(year(i32::MAX, None).is_err() && year(i32::MAX, Some(NullBuffer::new_valid(1))).is_err());
        assert!(year(i32::MAX, Some(NullBuffer::new_null(1))).is_ok());
    }

    #[test]
    fn days_and_their_names() {
        for (day, date) in [
            (0, (2000, 1, 1)),
            (59, (2000, 2, 29)),
            (60, (2000, 3, 1)),
            (366, (2001, 1, 1)),
            (-1, (1999, 12, 31)),
            (-730_119, (1, 1, 1)),
            (-730_120, (0, 12, 31)),
            (-2_451_545, (-4713, 11, 24)),
            (2_145_031_948, (5_874_897, 12, 31)),
        ] {
            assert_eq!(civil(day), date);
            assert_eq!(day_of(date.0, date.1, date.2), day);
        }
        for day in (-2_451_545..4_000_000).step_by(13) {
            let (year, month, of_month) = civil(day);
            assert_eq!(day_of(year, month, of_month), day);
        }
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        assert_eq!(iso_week(day_of(2005, 1, 1)), (2004, 53));
        assert_eq!(iso_week(day_of(2007, 1, 1)), (2007, 1));
        assert_eq!(iso_week(day_of(2008, 12, 29)), (2009, 1));
        assert_eq!(civil(monday(day_of(2024, 2, 29))), (2024, 2, 26));
    }
}
