//! Regular expressions in PostgreSQL's dialect, as far as they are supported here.
//!
//! Queries with other expressions run on the heap: back references, look-ahead and look-behind, word boundaries, and
//! options except the one for case. A quantifier that takes as little as possible (`*?`) is treated like one that takes
//! as much as possible (`*`), because both match the same texts. Only the position of the match differs. It is
//! therefore known only if all quantifiers take as much as possible.

mod like;
mod parse;

pub use like::as_like;
pub use parse::parse;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regular {
    Empty,
    One(Set),
    /// The beginning of the text; `End` is its end.
    Start,
    End,
    Sequence(Vec<Regular>),
    Either(Vec<Regular>),
    /// An expression in parentheses, which captures its match.
    Captured(Box<Regular>),
    Repeated {
        what: Box<Regular>,
        least: u32,
        /// The greatest number of repetitions; `None` if there is no limit.
        most: Option<u32>,
    },
}

/// A set of characters, for example `[^a-z]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Whether the set contains all characters except those listed.
    pub negated: bool,
    pub ranges: Vec<(char, char)>,
    pub classes: Vec<Class>,
}

/// A class of characters. Which characters the named classes contain depends on the locale of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Alpha,
    Alnum,
    Digit,
    Space,
    Lower,
    Upper,
    Punct,
    Graph,
    Print,
    /// Letters, digits, and `_`.
    Word,
    Blank,
    Cntrl,
    Xdigit,
    Ascii,
}

impl Class {
    pub fn named(name: &str) -> Option<Class> {
        Some(match name {
            "alpha" => Class::Alpha,
            "alnum" => Class::Alnum,
            "digit" => Class::Digit,
            "space" => Class::Space,
            "lower" => Class::Lower,
            "upper" => Class::Upper,
            "punct" => Class::Punct,
            "graph" => Class::Graph,
            "print" => Class::Print,
            "word" => Class::Word,
            "blank" => Class::Blank,
            "cntrl" => Class::Cntrl,
            "xdigit" => Class::Xdigit,
            "ascii" => Class::Ascii,
            _ => return None,
        })
    }
}

/// The rules that say which characters are letters, and how the case of letters is changed. They are passed to matching
/// functions as an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letters {
    /// A locale of the C library; `None` if only ASCII's letters are letters.
    pub locale: Option<String>,
    /// Whether the case of ASCII's letters is changed by ASCII's rules, whatever the locale.
    pub ascii: bool,
}

/// The prefix of the text form if `ascii` is set. No locale's name begins with it.
const OF_DATABASE: &str = "database:";

impl Letters {
    pub fn to_text(&self) -> String {
        let locale = self.locale.as_deref().unwrap_or_default();
        if self.ascii { format!("{OF_DATABASE}{locale}") } else { locale.to_owned() }
    }

    pub fn of_text(text: &str) -> Letters {
        let (ascii, locale) = match text.strip_prefix(OF_DATABASE) {
            Some(locale) => (true, locale),
            None => (false, text),
        };
        Letters { locale: (!locale.is_empty()).then(|| locale.to_owned()), ascii }
    }
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    pub regular: Regular,
    pub any_case: bool,
    /// Whether some quantifier takes as little as possible.
    pub is_lazy: bool,
}

/// The captured part of a match, as the numbers of characters to remove from the beginning and from the end of the
/// match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    pub in_front: usize,
    pub behind: usize,
}

impl Parsed {
    /// The part of a match that the only parentheses capture; without parentheses, the whole match. `None` if the
    /// part's position does not follow from the match, or if a quantifier takes as little as possible.
    pub fn captured(&self) -> Option<Captured> {
        if self.is_lazy {
            return None;
        }
        let parts = match &self.regular {
            Regular::Sequence(parts) => &parts[..],
            whole => std::slice::from_ref(whole),
        };
        let is_captured = |part: &Regular| matches!(part, Regular::Captured(inner) if inner.captures() == 0);
        let length = |parts: &[Regular]| parts.iter().map(Regular::length).sum();
        match (self.regular.captures(), parts.iter().position(is_captured)) {
            (0, _) => Some(Captured { in_front: 0, behind: 0 }),
            (1, Some(at)) => {
                let (in_front, behind): (Option<usize>, Option<usize>) =
                    (length(&parts[..at]), length(&parts[at + 1..]));
                Some(Captured { in_front: in_front?, behind: behind? })
            }
            _ => None,
        }
    }
}

impl Regular {
    /// The number of parentheses that capture.
    fn captures(&self) -> usize {
        match self {
            Regular::Empty | Regular::One(_) | Regular::Start | Regular::End => 0,
            Regular::Sequence(all) | Regular::Either(all) => all.iter().map(Regular::captures).sum(),
            Regular::Captured(inner) => 1 + inner.captures(),
            Regular::Repeated { what, .. } => what.captures(),
        }
    }

    /// The number of characters in a match, if all matches have the same length.
    fn length(&self) -> Option<usize> {
        match self {
            Regular::Empty | Regular::Start | Regular::End => Some(0),
            Regular::One(_) => Some(1),
            Regular::Sequence(all) => all.iter().map(Regular::length).sum(),
            Regular::Either(all) => {
                let mut lengths = all.iter().map(Regular::length);
                let first = lengths.next()??;
                lengths.all(|length| length == Some(first)).then_some(first)
            }
            Regular::Captured(inner) => inner.length(),
            Regular::Repeated { what, least, most } => {
                let times = most.filter(|most| most == least)?;
                what.length()?.checked_mul(times as usize)
            }
        }
    }

    /// The size that the expression has when all repetitions are written out.
    pub fn size(&self) -> usize {
        match self {
            Regular::Empty | Regular::One(_) | Regular::Start | Regular::End => 1,
            Regular::Sequence(all) | Regular::Either(all) => {
                all.iter().map(Regular::size).fold(1, usize::saturating_add)
            }
            Regular::Captured(inner) => inner.size(),
            Regular::Repeated { what, least, most } => {
                what.size().saturating_mul(most.unwrap_or(*least).max(1) as usize + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parentheses_remember() {
        let of = |expression: &str| parse(expression, false).unwrap().captured().map(|c| (c.in_front, c.behind));
        assert_eq!((of("a+"), of("ab(.*)"), of("^x(a|bc)+d{2}$")), (Some((0, 0)), Some((2, 0)), None));
        assert_eq!((of("^x((?:a|bc)+)d{2}$"), of("(?:ab|cd)(e)"), of("a*(b)")), (Some((1, 2)), Some((2, 0)), None));
        assert_eq!(
            (of("(a)(b)"), of("(a(b))"), of("a(b+?)"), of("(a)|b"), of("(a){2}")),
            (None, None, None, None, None)
        );
    }

    #[test]
    fn letters_travel_as_text() {
        for locale in [None, Some("tr_TR.UTF-8".to_owned())] {
            for ascii in [false, true] {
                let letters = Letters { locale: locale.clone(), ascii };
                assert_eq!(Letters::of_text(&letters.to_text()), letters);
            }
        }
    }
}
