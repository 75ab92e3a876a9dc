//! Reference functions of intervals. They compute months, days and microseconds separately, as PostgreSQL does.

use plan::{Field, Interval, Literal, Named, Type};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::interpreter::{Raised, decimal};
use crate::table::{Value, int};
use crate::times::{DAY, date, lengths};

type Parts = [i128; 3];

const DAYS: i128 = DAY as i128;
const SECOND: i128 = 1_000_000;
const SECONDS_OF_DAY: f64 = 86_400.0;

pub fn any(rng: &mut StdRng, extreme: bool) -> Parts {
    let months = [0, 0, 1, -1, 12, 25, -30];
    let days = [0, 0, 1, 30, -30, 29, 360, -1];
    let times = [0, 0, 1, -1, DAYS, -DAYS, 30 * DAYS, 3_600_000_000, -123_456_789_012];
    let (longest, ages) = ((1 << 27) - 1, i64::MAX as i128);
    let mut part = |usual: &[i128], far: [i128; 2]| match extreme && rng.random_bool(0.4) {
        true => *far.choose(rng).unwrap(),
        false => *usual.choose(rng).unwrap(),
    };
    let ends = [longest, -longest - 1];
    [part(&months, ends), part(&days, ends), part(&times, [ages, -ages - 1])]
}

/// An interval with these parts. The parts must be in range.
pub fn literal(parts: Parts) -> Literal {
    checked(parts).unwrap_or_else(|_| panic!("{parts:?} is no interval"))
}

fn checked(parts: Parts) -> Result<Literal, Raised> {
    within(parts)?.number().map(Literal::Decimal).ok_or(Raised)
}

/// An interval with these parts. It may be too long for the engine's number of an interval.
fn within([months, days, microseconds]: Parts) -> Result<Interval, Raised> {
    let (months, days) = (i32::try_from(months).map_err(|_| Raised)?, i32::try_from(days).map_err(|_| Raised)?);
    let microseconds = i64::try_from(microseconds).map_err(|_| Raised)?;
    Ok(Interval { months, days, microseconds })
}

pub fn parts(value: &Literal) -> Parts {
    let Interval { months, days, microseconds } = Interval::of_number(decimal(value).unwrap());
    [months.into(), days.into(), microseconds.into()]
}

/// Whether [`call`] can compute the function for operands of these types.
pub fn knows(function: Named, types: &[Type]) -> bool {
    use Named::*;
    let moves = matches!(function, PlusInterval | MinusInterval | PlusIntervalIn | MinusIntervalIn);
    types[0] == Type::Interval
        || matches!(function, MakeInterval | Age)
        || types.get(1) == Some(&Type::Interval) && !moves
}

/// The result of a function; its operands are not null.
pub fn call(function: Named, args: &[Value]) -> Result<Option<Literal>, Raised> {
    let value = |i: usize| args[i].as_ref().unwrap();
    let number = |i: usize| int(value(i));
    let result = match function {
        Named::Age => return age(number(0), number(1), |time| time).map(Some),
        Named::MakeInterval => {
            let Literal::Float(seconds) = value(6) else { panic!("seconds that are no float") };
            let [years, months, weeks, days, hours, minutes] = std::array::from_fn(|i| i128::from(number(i)));
            let seconds = whole(to_even(seconds * 1e6))?;
            let (months, days) = (years * 12 + months, weeks * 7 + days);
            let within = |part: i128| i32::try_from(part).map_err(|_| Raised);
            within(years * 12)?;
            within(weeks * 7)?;
            i64::try_from(seconds).map_err(|_| Raised)?;
            [months, days, hours * 3600 * SECOND + minutes * 60 * SECOND + seconds]
        }
        Named::Span => {
            let [months, days, time] = parts(value(0));
            return Ok(Some(Literal::Decimal((months * 30 + days) * DAYS + time)));
        }
        Named::Extract(field) => return extracted(field, parts(value(0))).map(Some),
        Named::DatePart(field) => return Ok(Some(Literal::Float(part(field, parts(value(0)))))),
        Named::JustifyHours => with_days(parts(value(0))),
        Named::JustifyDays => with_months(parts(value(0))),
        Named::JustifyInterval => justified(parts(value(0))),
        other => panic!("{other:?} of intervals"),
    };
    checked(result).map(Some)
}

/// The result of an operator on one or two values.
pub fn operator(function: Named, values: &[&Literal]) -> Result<Literal, Raised> {
    let of = |i: usize| parts(values[i]);
    let floats = |literal: &&Literal| if let Literal::Float(float) = literal { Some(*float) } else { None };
    let float = values.iter().find_map(floats);
    let interval = |f: &dyn Fn(f64) -> f64| {
        let interval = values.iter().find(|value| floats(value).is_none()).unwrap();
        scaled(parts(interval), f).and_then(checked)
    };
    let pairs = |f: fn(i128, i128) -> i128| {
        let (a, b) = (of(0), of(1));
        checked([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2])])
    };
    match (function, float) {
        (Named::IntervalSum, _) => pairs(|a, b| a + b),
        (Named::IntervalDifference, _) => pairs(|a, b| a - b),
        (Named::IntervalNegated, _) => checked(of(0).map(|part| -part)),
        (Named::IntervalTimes, Some(by)) => interval(&|part| part * by),
        (Named::IntervalBy, Some(0.0)) => Err(Raised),
        (Named::IntervalBy, Some(by)) => interval(&|part| part / by),
        (Named::Between, _) => {
            let (a, b) = (int(values[0]), int(values[1]));
            if [a, b].iter().any(|time| [i64::MIN, i64::MAX].contains(time)) {
                return Err(Raised);
            }
            let time = i128::from(a) - i128::from(b);
            checked([0, time / DAYS, time % DAYS]).and_then(|_| i64::try_from(time).map_err(|_| Raised))?;
            checked([0, time / DAYS, time % DAYS])
        }
        (Named::BetweenTimes, _) => checked([0, 0, i128::from(int(values[0])) - i128::from(int(values[1]))]),
        (Named::TimePlusInterval | Named::TimeMinusInterval, _) => {
            let (time, interval) = match values {
                [Literal::Int(time), interval] | [interval, Literal::Int(time)] => (*time, parts(interval)[2] as i64),
                other => panic!("{other:?}"),
            };
            let minus = function == Named::TimeMinusInterval;
            let moved = if minus { time.wrapping_sub(interval) } else { time.wrapping_add(interval) };
            Ok(Literal::Int(moved.rem_euclid(DAY)))
        }
        other => panic!("{other:?}"),
    }
}

pub fn sum(values: &[Literal]) -> Result<Value, Raised> {
    let all: Vec<Parts> = values.iter().map(parts).collect();
    let total = |i: usize| all.iter().map(|parts| parts[i]).sum();
    if all.is_empty() { Ok(None) } else { checked([total(0), total(1), total(2)]).map(Some) }
}

/// The interval between `low` and `next`, at the fraction `part` of the way.
pub fn between(low: &Literal, next: &Literal, part: f64) -> Result<Literal, Raised> {
    let (low, next) = (parts(low), parts(next));
    let whole: Parts = std::array::from_fn(|i| next[i] - low[i]);
    within(whole)?;
    let way = scaled(whole, &|of_part| of_part * part)?;
    within(way)?;
    checked(std::array::from_fn(|i| low[i] + way[i]))
}

fn to_even(value: f64) -> f64 {
    value.round_ties_even()
}

fn whole(value: f64) -> Result<i128, Raised> {
    if value.is_finite() && value.abs() <= 2f64.powi(63) { Ok(value as i128) } else { Err(Raised) }
}

fn scaled([months, days, time]: Parts, scale: &dyn Fn(f64) -> f64) -> Result<Parts, Raised> {
    let integer = |value: f64| match (-2147483648.0..2147483648.0).contains(&value) {
        true => Ok(value as i32),
        false => Err(Raised),
    };
    let nearest = |value: f64| to_even(value * 1e6) / 1e6;
    let (months_scaled, days_scaled) = (scale(months as f64), scale(days as f64));
    let (month, mut day) = (integer(months_scaled)?, integer(days_scaled)?);
    let month_rest = nearest((months_scaled - f64::from(month)) * 30.0);
    let whole_rest = month_rest as i32;
    let mut seconds = nearest((days_scaled - f64::from(day) + month_rest - f64::from(whole_rest)) * SECONDS_OF_DAY);
    if seconds.abs() >= SECONDS_OF_DAY {
        let more = (seconds / SECONDS_OF_DAY) as i32;
        day = day.checked_add(more).ok_or(Raised)?;
        seconds -= f64::from(more) * SECONDS_OF_DAY;
    }
    day = day.checked_add(whole_rest).ok_or(Raised)?;
    let time = whole(to_even(scale(time as f64) + seconds * 1e6))?;
    Ok([month.into(), day.into(), time])
}

fn with_days([months, days, time]: Parts) -> Parts {
    let (mut days, mut time) = (days + time / DAYS, time % DAYS);
    if days > 0 && time < 0 {
        (days, time) = (days - 1, time + DAYS);
    } else if days < 0 && time > 0 {
        (days, time) = (days + 1, time - DAYS);
    }
    [months, days, time]
}

fn with_months([months, days, time]: Parts) -> Parts {
    let (mut months, mut days) = (months + days / 30, days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    [months, days, time]
}

/// The interval with the same span whose parts all have the same sign, with fewer than 30 days and less than 24 hours
/// of time.
fn justified([months, days, time]: Parts) -> Parts {
    let span = (months * 30 + days) * DAYS + time;
    [span / (30 * DAYS), span / DAYS % 30, span % DAYS]
}

fn extracted(field: Field, [months, days, time]: Parts) -> Result<Literal, Raised> {
    let years = months / 12;
    let part = match field {
        Field::Millennium => years / 1000,
        Field::Century => years / 100,
        Field::Decade => years / 10,
        Field::Year => years,
        Field::Quarter => months % 12 / 3 + 1,
        Field::Month => months % 12,
        Field::Day => days,
        Field::Hour => time / (3600 * SECOND),
        Field::Minute => time / (60 * SECOND) % 60,
        Field::Second | Field::Milliseconds | Field::Microseconds => time % (60 * SECOND),
        Field::Epoch => (years * 1461 + months % 12 * 120 + days * 4) * 21_600 * SECOND + time,
        other => panic!("{other:?} of an interval"),
    };
    // Adding the time may bring the sum back into range. PostgreSQL reports an error even then, because the sum without
    // the time is out of range.
    if field == Field::Epoch && i64::try_from(part - time).is_err() {
        return Err(Raised);
    }
    i64::try_from(part).map(Literal::Int).map_err(|_| Raised)
}

fn part(field: Field, [months, days, time]: Parts) -> f64 {
    let (seconds, behind) = ((time / SECOND % 60) as f64, (time % SECOND) as f64);
    match field {
        Field::Second => seconds + behind / 1_000_000.0,
        Field::Milliseconds => seconds * 1000.0 + behind / 1000.0,
        Field::Epoch => {
            let mut result = time as f64 / 1_000_000.0;
            result += 365.25 * SECONDS_OF_DAY * (months / 12) as f64;
            result += 30.0 * SECONDS_OF_DAY * (months % 12) as f64;
            result + SECONDS_OF_DAY * days as f64
        }
        _ => match extracted(field, [months, days, time]) {
            Ok(Literal::Int(part)) => part as f64,
            other => panic!("{other:?}"),
        },
    }
}

/// The difference of two points in time in years, months, days and time. `shown` converts a point in time to local
/// time.
pub fn age(a: i64, b: i64, shown: impl Fn(i64) -> i64) -> Result<Literal, Raised> {
    let infinite = |time: i64| [i64::MIN, i64::MAX].contains(&time);
    if infinite(a) || infinite(b) {
        return Err(Raised);
    }
    let fields = |time: i64| {
        let (year, month, day, _) = date(time.div_euclid(DAY));
        [year, month, day, time.rem_euclid(DAY)]
    };
    let (shown_a, shown_b) = (shown(a), shown(b));
    if [shown_a, shown_b].iter().any(|time| !(-2_451_545 * DAY..106_751_983 * DAY).contains(time)) {
        return Err(Raised);
    }
    let (x, y) = (fields(shown_a), fields(shown_b));
    let sign = if a < b { -1 } else { 1 };
    let mut fields: Vec<i64> = x.iter().zip(&y).map(|(x, y)| sign * (x - y)).collect();
    let earlier = if a < b { x } else { y };
    while fields[3] < 0 {
        fields[3] += DAY;
        fields[2] -= 1;
    }
    while fields[2] < 0 {
        fields[2] += lengths(earlier[0])[earlier[1] as usize - 1];
        fields[1] -= 1;
    }
    let parts = [fields[0] * 12 + fields[1], fields[2], fields[3]];
    checked(parts.map(|part| i128::from(sign * part)))
}
