//! Patterns of `to_char` for dates and times, as far as the engine's result is the same as PostgreSQL's.

/// A piece of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Character(char),
    /// A part of a point in time. `bare` (FM in the pattern) omits blanks and zeros around it.
    Part {
        part: Part,
        bare: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The last 1 to 3 digits of the year; with 4, the whole year.
    Year(u8),
    IsoYear(u8),
    YearWithComma,
    Century,
    Quarter,
    Month,
    MonthName(Case),
    ShortMonthName(Case),
    WeekOfYear,
    WeekOfMonth,
    IsoWeek,
    DayOfYear,
    Day,
    /// The day of the week; 1 is Sunday.
    DayOfWeek,
    /// The day of the week; 1 is Monday.
    IsoDayOfWeek,
    DayName(Case),
    ShortDayName(Case),
    JulianDay,
    Hour,
    HourOfHalf,
    Minute,
    Second,
    SecondOfDay,
    Millisecond,
    Microsecond,
    /// The fraction of the second, with this many digits.
    Fraction(u8),
    /// AM or PM, with or without points (A.M.).
    Half {
        case: Case,
        points: bool,
    },
    /// BC or AD.
    Era {
        case: Case,
        points: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Upper,
    Capital,
    Lower,
}

/// A word that may occur in a pattern, with its meaning; `None` if the word is not supported here.
type Word = (&'static str, Option<Part>);
type Name = (&'static str, fn(Case) -> Part);

/// The words of PostgreSQL's patterns. If one word is the beginning of another word, the longer one comes first. Each
/// word may also be written in small letters.
#[rustfmt::skip]
const WORDS: &[Word] = &[
    ("YYYY", Some(Part::Year(4))), ("YYY", Some(Part::Year(3))), ("YY", Some(Part::Year(2))),
    ("Y,YYY", Some(Part::YearWithComma)), ("Y", Some(Part::Year(1))),
    ("IYYY", Some(Part::IsoYear(4))), ("IYY", Some(Part::IsoYear(3))), ("IY", Some(Part::IsoYear(2))),
    ("IDDD", None), ("ID", Some(Part::IsoDayOfWeek)), ("IW", Some(Part::IsoWeek)), ("I", Some(Part::IsoYear(1))),
    ("CC", Some(Part::Century)), ("Q", Some(Part::Quarter)), ("MM", Some(Part::Month)),
    ("WW", Some(Part::WeekOfYear)), ("W", Some(Part::WeekOfMonth)),
    ("DDD", Some(Part::DayOfYear)), ("DD", Some(Part::Day)),
    ("HH24", Some(Part::Hour)), ("HH12", Some(Part::HourOfHalf)), ("HH", Some(Part::HourOfHalf)),
    ("MI", Some(Part::Minute)), ("SSSSS", Some(Part::SecondOfDay)), ("SSSS", Some(Part::SecondOfDay)),
    ("SS", Some(Part::Second)), ("MS", Some(Part::Millisecond)), ("US", Some(Part::Microsecond)),
    ("FF1", Some(Part::Fraction(1))), ("FF2", Some(Part::Fraction(2))), ("FF3", Some(Part::Fraction(3))),
    ("FF4", Some(Part::Fraction(4))), ("FF5", Some(Part::Fraction(5))), ("FF6", Some(Part::Fraction(6))),
    ("FX", None), ("RM", None), ("TZH", None), ("TZM", None), ("TZ", None), ("OF", None),
    ("J", Some(Part::JulianDay)),
];

/// Words whose case in the pattern says in which case the value is to be written.
#[rustfmt::skip]
const NAMES: &[Name] = &[
    ("MONTH", Part::MonthName), ("MON", Part::ShortMonthName), ("DAY", Part::DayName), ("DY", Part::ShortDayName),
    ("A.M.", |case| Part::Half { case, points: true }), ("P.M.", |case| Part::Half { case, points: true }),
    ("AM", |case| Part::Half { case, points: false }), ("PM", |case| Part::Half { case, points: false }),
    ("A.D.", |case| Part::Era { case, points: true }), ("B.C.", |case| Part::Era { case, points: true }),
    ("AD", |case| Part::Era { case, points: false }), ("BC", |case| Part::Era { case, points: false }),
];

/// The pieces of a pattern; `None` if something in it is not supported here.
pub fn parse(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = literal(quoted, &mut pieces);
            continue;
        }
        let bare = rest.starts_with("FM") || rest.starts_with("fm");
        let at = if bare { &rest[2..] } else { rest };
        if rest.starts_with("TM") || rest.starts_with("tm") {
            return None;
        }
        match word(at) {
            Some((length, part)) => {
                rest = &at[length..];
                // The suffixes TH and SP ask for an ordinal number, or for a number in words. Both are not supported.
                if ["TH", "th", "SP"].iter().any(|suffix| rest.starts_with(suffix)) {
                    return None;
                }
                pieces.push(Piece::Part { part: part?, bare });
            }
            None if bare || first == '\\' => return None,
            None => {
                pieces.push(Piece::Character(first));
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Some(pieces)
}

/// Adds the characters up to the closing quote to the pieces. Returns the text after the quote.
fn literal<'a>(quoted: &'a str, pieces: &mut Vec<Piece>) -> &'a str {
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        let meant = match character {
            '"' => break,
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        };
        pieces.push(Piece::Character(meant));
    }
    characters.as_str()
}

/// The word at the beginning of a pattern: its length, and its meaning if it is supported.
fn word(pattern: &str) -> Option<(usize, Option<Part>)> {
    for (name, part) in NAMES {
        let begin = pattern.get(..name.len()).unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        let capital = format!("{}{}", &name[..1], &lower[1..]);
        // Only names of months and days have a form with one capital letter.
        let has_capital = matches!(*name, "MONTH" | "MON" | "DAY" | "DY");
        let case = match begin {
            _ if begin == *name => Case::Upper,
            _ if begin == lower => Case::Lower,
            _ if begin == capital && has_capital => Case::Capital,
            _ => continue,
        };
        return Some((name.len(), Some(part(case))));
    }
    // The word D is tried last, because other words begin with D.
    let words = WORDS.iter().copied().chain([("D", Some(Part::DayOfWeek))]);
    for (name, part) in words {
        let begin = pattern.get(..name.len()).unwrap_or_default();
        if begin == name || begin == name.to_ascii_lowercase() {
            return Some((name.len(), part));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(part: Part) -> Piece {
        Piece::Part { part, bare: false }
    }

    #[test]
    fn the_longest_word_counts() {
        let parsed = parse("YYYYMMDD").unwrap();
        assert_eq!(parsed, [Part::Year(4), Part::Month, Part::Day].map(part));
        assert_eq!(parse("DDDdd").unwrap(), [Part::DayOfYear, Part::Day].map(part));
        assert_eq!(parse("hh24:mi").unwrap(), [part(Part::Hour), Piece::Character(':'), part(Part::Minute)]);
        let month = |case| Piece::Part { part: Part::MonthName(case), bare: true };
        assert_eq!(parse("FMMonthFMMONTHFMmonth").unwrap(), [Case::Capital, Case::Upper, Case::Lower].map(month));
        assert_eq!(parse("Y,YYY").unwrap(), [part(Part::YearWithComma)]);
    }

    #[test]
    fn quotes_hold_plain_text() {
        let text: Vec<Piece> = "Year é\"".chars().map(Piece::Character).collect();
        assert_eq!(parse("\"Year é\\\"\"").unwrap(), text);
        assert_eq!(parse("x\"YY").unwrap().len(), 3);
    }

    #[test]
    fn what_is_not_known_is_nothing() {
        for pattern in ["TZ", "DDth", "FX", "TMMonth", "OF", "RM", "FM ", "\\x", "IDDD", "HH24SP"] {
            assert_eq!(parse(pattern), None, "{pattern}");
        }
    }
}
