//! Reference functions that convert values to texts and texts to values, and match patterns, in the simplest way.

use plan::regular::{self, Class, Regular, Set};
use plan::{Literal, Named, Type};

use crate::interpreter::{Raised, decimal};
use crate::intervals;
use crate::moments::Zone;
use crate::numerics;
use crate::table::{Value, int};
use crate::times::{DAY, date, lengths};

const SECOND: i64 = 1_000_000;

/// Whether [`call`] can compute the function for operands of these types.
pub fn knows(function: Named, types: &[Type]) -> bool {
    use Named::*;
    let to_text = function == ToText && !matches!(types[0], Type::Int16 | Type::Int32 | Type::Int64 | Type::Numeric);
    let reads = matches!(function, ToBool | ToInt16 | ToInt32 | ToInt64 | ToFloat) && types[0] == Type::Text;
    let others = matches!(
        function,
        ToTextBy
            | ToTextIn
            | ToNumeric
            | ReadDate
            | ReadTimestamp
            | ReadTimestampIn
            | ReadUuid
            | Matches
            | MatchesAnyCase
            | MatchedPart
            | ReplacedMatch
            | ReplacedMatches
            | Initcap
            | Translate
            | Chr
            | TimestampToTime
    );
    to_text || reads || others
}

/// The result of a function; its operands are not null.
pub fn call(function: Named, types: &[Type], args: &[Value]) -> Result<Option<Literal>, Raised> {
    let value = args[0].as_ref().unwrap();
    let text = |i: usize| match args[i].as_ref() {
        Some(Literal::Text(text)) => text.as_str(),
        other => panic!("{other:?} is no text"),
    };
    let chars = |i: usize| text(i).chars().collect::<Vec<char>>();
    let zone = || Zone::read(text(args.len() - 1));
    Ok(Some(match function {
        Named::ToText | Named::ToTextBy | Named::ToTextIn => {
            let is_known = match (args.get(1), types[0]) {
                (None, _) => true,
                (Some(_), Type::Float32 | Type::Float64) => text(1) == "1",
                (Some(_), Type::Interval) => text(1) == "postgres",
                (Some(_), _) => text(1).starts_with("ISO"),
            };
            if !is_known {
                return Err(Raised);
            }
            Literal::Text(match types[0] {
                Type::Bool => if *value == Literal::Bool(true) { "true" } else { "false" }.to_owned(),
                Type::Time => full_clock(int(value)),
                Type::Uuid => {
                    let digits = format!("{:032x}", (decimal(value).unwrap() as u128) ^ (1 << 127));
                    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
                }
                Type::Date => match int(value) {
                    day if day == i64::from(i32::MIN) => "-infinity".into(),
                    day if day == i64::from(i32::MAX) => "infinity".into(),
                    day => moment(day, None, ""),
                },
                Type::Timestamp | Type::TimestampTz => match int(value) {
                    i64::MIN => "-infinity".into(),
                    i64::MAX => "infinity".into(),
                    time if types[0] == Type::Timestamp => moment(time.div_euclid(DAY), Some(time.rem_euclid(DAY)), ""),
                    time => {
                        let east = zone().offset(time.div_euclid(SECOND));
                        let local = time + east * SECOND;
                        moment(local.div_euclid(DAY), Some(local.rem_euclid(DAY)), &offset(east))
                    }
                },
                Type::Interval => interval(intervals::parts(value)),
                Type::Float64 | Type::Float32 => float(value, types[0] == Type::Float32),
                other => panic!("{other:?} as text"),
            })
        }
        Named::ToNumeric => match (types[0], value) {
            (Type::Text, _) => return text(0).parse().map(|n| Some(numerics::literal(&n))).map_err(|_| Raised),
            (ty, Literal::Float(float)) => {
                let digits = if ty == Type::Float32 { 5 } else { 14 };
                let shown = if float.is_finite() { format!("{float:.digits$e}") } else { float.to_string() };
                let numeric = match shown.as_str() {
                    "NaN" => "NaN".parse(),
                    "inf" => "Infinity".parse(),
                    "-inf" => "-Infinity".parse(),
                    finite => {
                        let (mantissa, exponent) = finite.split_once('e').unwrap();
                        let mantissa = match mantissa.contains('.') {
                            true => mantissa.trim_end_matches('0').trim_end_matches('.'),
                            false => mantissa,
                        };
                        format!("{mantissa}e{exponent}").parse::<numeric::Numeric>()
                    }
                };
                numerics::literal(&numeric.unwrap())
            }
            other => panic!("{other:?} as numeric"),
        },
        Named::ToBool => match text(0).trim() {
            "true" | "t" | "on" => Literal::Bool(true),
            "false" | "f" | "off" => Literal::Bool(false),
            _ => return Err(Raised),
        },
        Named::ToInt16 | Named::ToInt32 | Named::ToInt64 => {
            let number = text(0).trim().parse::<i64>().map_err(|_| Raised)?;
            let fits = match function {
                Named::ToInt16 => i16::try_from(number).is_ok(),
                Named::ToInt32 => i32::try_from(number).is_ok(),
                _ => true,
            };
            if !fits {
                return Err(Raised);
            }
            Literal::Int(number)
        }
        Named::ToFloat => match text(0) {
            "Infinity" => Literal::Float(f64::INFINITY),
            "-Infinity" => Literal::Float(f64::NEG_INFINITY),
            "NaN" => Literal::Float(f64::NAN),
            other if other.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                Literal::Float(other.parse().map_err(|_| Raised)?)
            }
            _ => return Err(Raised),
        },
        Named::ReadDate => Literal::Int(read(text(0))?.0),
        Named::ReadTimestamp => {
            let (day, time) = read(text(0))?;
            Literal::Int(day * DAY + time)
        }
        Named::ReadTimestampIn => {
            let (day, time) = read(text(0))?;
            Literal::Int(zone().read_local(day * DAY + time))
        }
        Named::ReadUuid => {
            let digits: String = text(0).split('-').collect();
            let is_one = text(0).len() == 36 && digits.len() == 32;
            let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_one).ok_or(Raised)?;
            Literal::Decimal((number ^ (1 << 127)) as i128)
        }
        Named::Matches | Named::MatchesAnyCase => {
            let parsed = regular::parse(text(1), function == Named::MatchesAnyCase).unwrap();
            assert_eq!(regular::Letters::of_text(text(2)).locale, None);
            let text = chars(0);
            let found = (0..=text.len()).any(|from| !ends(&parsed.regular, &text, from, parsed.any_case).is_empty());
            Literal::Bool(found)
        }
        Named::TimestampToTime => match int(value) {
            i64::MIN | i64::MAX => return Ok(None),
            time => Literal::Int(time.rem_euclid(DAY)),
        },
        Named::MatchedPart => {
            let parsed = regular::parse(text(1), false).unwrap();
            let Some((from, to)) = first(&parsed.regular, &chars(0), 0) else { return Ok(None) };
            let captured = parsed.captured().unwrap();
            Literal::Text(chars(0)[from + captured.in_front..to - captured.behind].iter().collect())
        }
        Named::ReplacedMatch | Named::ReplacedMatches => {
            let (parsed, all) = (regular::parse(text(1), false).unwrap(), chars(0));
            let (mut out, mut done, mut search) = (String::new(), 0, 0);
            while let Some((from, to)) = first(&parsed.regular, &all, search) {
                out.extend(&all[done..from]);
                out.push_str(text(2));
                done = to;
                search = if from == to { to + 1 } else { to };
                if function == Named::ReplacedMatch || search > all.len() {
                    break;
                }
            }
            out.extend(&all[done..]);
            Literal::Text(out)
        }
        Named::Initcap => {
            let all = chars(0);
            let is_word = |i: usize| all[i].is_ascii_alphanumeric();
            let changed = (0..all.len()).map(|i| match i > 0 && is_word(i - 1) {
                true => all[i].to_ascii_lowercase(),
                false => all[i].to_ascii_uppercase(),
            });
            Literal::Text(changed.collect())
        }
        Named::Translate => {
            let (from, to) = (chars(1), chars(2));
            let changed = chars(0).into_iter().filter_map(|c| match from.iter().position(|other| *other == c) {
                Some(at) => to.get(at).copied(),
                None => Some(c),
            });
            Literal::Text(changed.collect())
        }
        Named::Chr => match u32::try_from(int(value)).ok().and_then(char::from_u32) {
            None | Some('\0') => return Err(Raised),
            Some(c) => Literal::Text(c.to_string()),
        },
        other => panic!("{other:?} is no conversion"),
    }))
}

fn moment(day: i64, time: Option<i64>, zone: &str) -> String {
    let (year, month, of_month, _) = date(day);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let time = time.map_or(String::new(), |time| format!(" {}", full_clock(time)));
    format!("{year:04}-{month:02}-{of_month:02}{time}{zone}{era}")
}

/// The time of day with its seconds. A fraction follows without trailing zeros, if there is one.
fn full_clock(time: i64) -> String {
    let (whole, behind) = (time / SECOND, time % SECOND);
    let seconds = format!("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
    if behind == 0 { seconds } else { format!("{seconds}.{behind:06}").trim_end_matches('0').to_owned() }
}

fn offset(east: i64) -> String {
    let (sign, seconds) = (if east < 0 { '-' } else { '+' }, east.abs());
    let all = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match () {
        _ if seconds % 60 != 0 => all,
        _ if seconds % 3600 != 0 => all[..6].to_owned(),
        _ => all[..3].to_owned(),
    }
}

fn interval([months, days, time]: [i128; 3]) -> String {
    let mut parts = Vec::new();
    let mut was_negative = false;
    for (number, name) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if number != 0 {
            let plus = if was_negative && number > 0 { "+" } else { "" };
            parts.push(format!("{plus}{number} {name}{}", if number == 1 { "" } else { "s" }));
            was_negative = number < 0;
        }
    }
    if time != 0 || parts.is_empty() {
        let sign = if time < 0 {
            "-"
        } else if was_negative {
            "+"
        } else {
            ""
        };
        // An interval may have more than 24 hours.
        let (hours, rest) = (time.abs() / 3_600_000_000, (time.abs() % 3_600_000_000) as i64);
        parts.push(format!("{sign}{hours:02}{}", &full_clock(rest)[2..]));
    }
    parts.join(" ")
}

/// A float as text, with the fewest digits from which the same float is read back.
fn float(value: &Literal, single: bool) -> String {
    let Literal::Float(value) = value else { panic!("{value:?} is no float") };
    if !value.is_finite() {
        return if value.is_nan() { "NaN".into() } else { format!("{}Infinity", if *value < 0.0 { "-" } else { "" }) };
    }
    if *value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let same = |text: &str| match single {
        true => text.parse::<f32>().unwrap() == *value as f32,
        false => text.parse::<f64>().unwrap() == *value,
    };
    let shown = (0..17).map(|digits| format!("{value:.digits$e}")).find(|text| same(text)).unwrap();
    let (mantissa, exponent) = shown.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if (-4..if single { 6 } else { 15 }).contains(&exponent) {
        let behind = mantissa.split_once('.').map_or(0, |(_, behind)| behind.len()) as i32;
        return format!("{value:.digits$}", digits = (behind - exponent).max(0) as usize);
    }
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Reads a text in the form of ISO 8601 without a zone. Returns the days since 2000-01-01, and the microseconds of the
/// day.
fn read(text: &str) -> Result<(i64, i64), Raised> {
    let field = |from: usize, to: usize| -> Result<i64, Raised> {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        digits.ok_or(Raised)?.parse().map_err(|_| Raised)
    };
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let separated = text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    if !separated || year < 1 || !(1..=12).contains(&month) || !(1..=lengths(year)[month as usize - 1]).contains(&day) {
        return Err(Raised);
    }
    // Days are counted from the beginning of 2000.
    let mut days = day - 1 + lengths(year)[..month as usize - 1].iter().sum::<i64>();
    let of_years = |years: std::ops::Range<i64>| years.map(|year| lengths(year).iter().sum::<i64>()).sum::<i64>();
    days += if year >= 2000 { of_years(2000..year) } else { -of_years(year..2000) };
    if text.len() == 10 {
        return Ok((days, 0));
    }
    let behind = match text.get(19..).ok_or(Raised)? {
        "" => 0,
        fraction => {
            let digits = fraction.strip_prefix('.').filter(|d| (1..=6).contains(&d.len())).ok_or(Raised)?;
            format!("{digits:0<6}").parse::<i64>().map_err(|_| Raised)?
        }
    };
    let seconds = field(11, 13)? * 3600 + field(14, 16)? * 60 + field(17, 19)?;
    Ok((days, seconds * SECOND + behind))
}

/// The first match that begins at `search` or later. If several matches begin at the same place, it is the longest of
/// them.
fn first(regular: &Regular, text: &[char], search: usize) -> Option<(usize, usize)> {
    (search..=text.len()).find_map(|from| Some((from, *ends(regular, text, from, false).last()?)))
}

/// All ends that a match beginning at `from` may have, found by trying everything.
fn ends(regular: &Regular, text: &[char], from: usize, any_case: bool) -> Vec<usize> {
    let mut all = match regular {
        Regular::Empty => vec![from],
        Regular::Start => {
            if from == 0 {
                vec![from]
            } else {
                vec![]
            }
        }
        Regular::End => {
            if from == text.len() {
                vec![from]
            } else {
                vec![]
            }
        }
        Regular::One(set) => match text.get(from) {
            Some(c) if has(set, *c, any_case) => vec![from + 1],
            _ => vec![],
        },
        Regular::Sequence(parts) => parts
            .iter()
            .fold(vec![from], |at, part| at.into_iter().flat_map(|at| ends(part, text, at, any_case)).collect()),
        Regular::Either(branches) => branches.iter().flat_map(|branch| ends(branch, text, from, any_case)).collect(),
        Regular::Captured(inner) => ends(inner, text, from, any_case),
        Regular::Repeated { what, least, most } => {
            let (mut at, mut found) = (vec![from], vec![]);
            // A repetition beyond the required number counts only if it matches at least one character.
            for times in 0..=most.unwrap_or(text.len() as u32 + least) {
                if times >= *least {
                    found.extend(&at);
                }
                at = at.into_iter().flat_map(|at| ends(what, text, at, any_case)).collect();
                at.sort_unstable();
                at.dedup();
            }
            found
        }
    };
    all.sort_unstable();
    all.dedup();
    all
}

fn has(set: &Set, c: char, any_case: bool) -> bool {
    let forms = match any_case {
        true => vec![c, c.to_ascii_lowercase(), c.to_ascii_uppercase()],
        false => vec![c],
    };
    let in_ranges = set.ranges.iter().any(|(first, last)| forms.iter().any(|form| first <= form && form <= last));
    let in_classes = set.classes.iter().any(|class| match class {
        Class::Alpha => c.is_ascii_alphabetic(),
        Class::Digit => c.is_ascii_digit(),
        Class::Word => c.is_ascii_alphanumeric() || c == '_',
        Class::Space => c.is_ascii_whitespace() || c == '\x0b',
        Class::Upper => c.is_ascii_uppercase(),
        other => panic!("{other:?} is not generated"),
    });
    (in_ranges || in_classes) != set.negated
}
