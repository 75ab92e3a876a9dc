//! Parses an expression as PostgreSQL does by default: in its "advanced" syntax, with newlines as ordinary characters.

use std::iter::Peekable;
use std::str::Chars;

use super::{Class, Parsed, Regular, Set};

/// The greatest number of repetitions that PostgreSQL allows.
const MOST_REPEATED: u32 = 255;
/// The greatest size of an expression. Matching a longer one would take too long.
const MOST_CHARACTERS: usize = 2000;
const DEEPEST: usize = 50;
/// The greatest number of characters in a range if case is ignored, because each of them is looked up in the other
/// case.
const MOST_WITH_CASES: u32 = 1000;

/// Parses an expression; `None` if it is invalid, or not supported here. `any_case` ignores the case of letters, unless
/// the expression says otherwise.
pub fn parse(expression: &str, any_case: bool) -> Option<Parsed> {
    if expression.starts_with("***") {
        return None;
    }
    let (any_case, rest) = match (expression.strip_prefix("(?i)"), expression.strip_prefix("(?c)")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        (None, None) => (any_case, expression),
    };
    let mut parser = Parser { rest: rest.chars().peekable(), any_case, is_lazy: false };
    let regular = parser.either(0)?;
    let ended = parser.rest.next().is_none();
    (ended && regular.size() <= MOST_CHARACTERS).then_some(Parsed { regular, any_case, is_lazy: parser.is_lazy })
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    any_case: bool,
    is_lazy: bool,
}

/// An item between brackets, for example `a` in `[ab]`.
enum Member {
    One(char),
    Class(Class),
}

impl Parser<'_> {
    fn takes(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    /// Parses alternatives up to the end, or up to the closing parenthesis.
    fn either(&mut self, depth: usize) -> Option<Regular> {
        if depth > DEEPEST {
            return None;
        }
        let mut branches = vec![self.branch(depth)?];
        while self.takes('|') {
            branches.push(self.branch(depth)?);
        }
        Some(if branches.len() == 1 { branches.remove(0) } else { Regular::Either(branches) })
    }

    fn branch(&mut self, depth: usize) -> Option<Regular> {
        let mut pieces = Vec::new();
        while let Some(next) = self.rest.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            pieces.push(self.piece(depth)?);
        }
        Some(match pieces.len() {
            0 => Regular::Empty,
            1 => pieces.remove(0),
            _ => Regular::Sequence(pieces),
        })
    }

    /// Parses an atom with its quantifier.
    fn piece(&mut self, depth: usize) -> Option<Regular> {
        let what = self.atom(depth)?;
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.counted(what),
            _ => return Some(what),
        };
        self.rest.next();
        self.repeated(what, least, most)
    }

    fn counted(&mut self, what: Regular) -> Option<Regular> {
        self.rest.next();
        let least = self.number()?;
        let most = match self.takes(',') {
            true if self.rest.peek() == Some(&'}') => None,
            true => Some(self.number()?),
            false => Some(least),
        };
        let in_order = most.is_none_or(|most| least <= most);
        if !self.takes('}') || !in_order {
            return None;
        }
        self.repeated(what, least, most)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = None;
        while let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(10)) {
            self.rest.next();
            number = Some(number.unwrap_or(0) * 10 + digit).filter(|number| *number <= MOST_REPEATED);
            number?;
        }
        number
    }

    fn repeated(&mut self, what: Regular, least: u32, most: Option<u32>) -> Option<Regular> {
        self.is_lazy |= self.takes('?');
        let is_repeated_again = matches!(self.rest.peek(), Some('*' | '+' | '?' | '{'));
        // An anchor cannot be repeated.
        if is_repeated_again || matches!(what, Regular::Start | Regular::End) {
            return None;
        }
        Some(Regular::Repeated { what: Box::new(what), least, most })
    }

    fn atom(&mut self, depth: usize) -> Option<Regular> {
        Some(match self.rest.next()? {
            '(' => {
                let remembers = !self.takes('?');
                if !remembers && !self.takes(':') {
                    return None;
                }
                let inner = self.either(depth + 1)?;
                if !self.takes(')') {
                    return None;
                }
                match inner {
                    inner if remembers => Regular::Captured(Box::new(inner)),
                    // An anchor in parentheses may be repeated. It is wrapped in a sequence, so that it does not look
                    // like a bare anchor.
                    end @ (Regular::Start | Regular::End) => Regular::Sequence(vec![end]),
                    inner => inner,
                }
            }
            '[' => Regular::One(self.brackets()?),
            '.' => Regular::One(Set { negated: true, ..Set::default() }),
            '^' => Regular::Start,
            '$' => Regular::End,
            '\\' => Regular::One(self.escape()?),
            '*' | '+' | '?' | '{' | '}' | ']' => return None,
            plain => Regular::One(one(plain)),
        })
    }

    fn escape(&mut self) -> Option<Set> {
        let (class, negated) = match self.rest.next()? {
            'd' => (Class::Digit, false),
            's' => (Class::Space, false),
            'w' => (Class::Word, false),
            'D' => (Class::Digit, true),
            'S' => (Class::Space, true),
            'W' => (Class::Word, true),
            escaped => return escaped_character(escaped).map(one),
        };
        Some(Set { negated, ranges: Vec::new(), classes: vec![class] })
    }

    fn brackets(&mut self) -> Option<Set> {
        let mut set = Set { negated: self.takes('^'), ..Set::default() };
        let mut is_first = true;
        loop {
            if !is_first && self.takes(']') {
                return Some(set);
            }
            let member = self.member(is_first)?;
            is_first = false;
            let first = match member {
                // A range cannot begin with a class, so a `-` after a class must be the last character.
                Member::Class(class) => {
                    set.classes.push(self.in_any_case(class));
                    continue;
                }
                Member::One(first) => first,
            };
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.next() != Some(']');
            if !is_range {
                set.ranges.push((first, first));
                continue;
            }
            self.rest.next();
            let Member::One(last) = self.member(false)? else { return None };
            let length = u32::from(last).checked_sub(first.into())?;
            // If case is ignored, PostgreSQL treats the range `a-a` differently from the character `a`. Both would look
            // alike here, so such a range is not supported.
            if self.any_case && (length == 0 || length > MOST_WITH_CASES) {
                return None;
            }
            set.ranges.push((first, last));
        }
    }

    fn member(&mut self, is_first: bool) -> Option<Member> {
        Some(match self.rest.next()? {
            ']' if !is_first => return None,
            '[' => match self.rest.peek() {
                Some(':') => {
                    self.rest.next();
                    let mut name = String::new();
                    while let Some(letter) = self.rest.next_if(char::is_ascii_lowercase) {
                        name.push(letter);
                    }
                    if !self.takes(':') || !self.takes(']') {
                        return None;
                    }
                    Member::Class(Class::named(&name)?)
                }
                // Collating elements and equivalence classes are not supported.
                Some('.' | '=') => return None,
                _ => Member::One('['),
            },
            '\\' => match self.rest.next()? {
                'd' => Member::Class(Class::Digit),
                's' => Member::Class(Class::Space),
                'w' => Member::Class(Class::Word),
                escaped => Member::One(escaped_character(escaped)?),
            },
            '-' if !is_first && self.rest.peek() != Some(&']') => return None,
            plain => Member::One(plain),
        })
    }

    fn in_any_case(&self, class: Class) -> Class {
        match class {
            Class::Lower | Class::Upper if self.any_case => Class::Alpha,
            other => other,
        }
    }
}

fn one(character: char) -> Set {
    Set { negated: false, ranges: vec![(character, character)], classes: Vec::new() }
}

/// The character that a backslash and `escaped` stand for; `None` for letters and digits with another meaning.
fn escaped_character(escaped: char) -> Option<char> {
    Some(match escaped {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'f' => '\x0c',
        'v' => '\x0b',
        other if other.is_ascii() && !other.is_ascii_alphanumeric() && !other.is_ascii_control() => other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood() {
        let of = |expression: &str| parse(expression, false).unwrap_or_else(|| panic!("{expression}")).regular;
        assert_eq!(of(""), Regular::Empty);
        assert_eq!(of("a|"), Regular::Either(vec![Regular::One(one('a')), Regular::Empty]));
        let digits = |least, most| {
            let digit = Set { classes: vec![Class::Digit], ..Set::default() };
            Regular::Repeated { what: Box::new(Regular::One(digit)), least, most }
        };
        assert_eq!(of("\\d{2,3}?"), digits(2, Some(3)));
        assert_eq!(of("^\\d+$"), Regular::Sequence(vec![Regular::Start, digits(1, None), Regular::End]));
        let set =
            |ranges: &[(char, char)], negated| Regular::One(Set { negated, ranges: ranges.to_vec(), classes: vec![] });
        assert_eq!(of("[]a-c-]"), set(&[(']', ']'), ('a', 'c'), ('-', '-')], false));
        assert_eq!(of("[^-a\\]]"), set(&[('-', '-'), ('a', 'a'), (']', ']')], true));
        assert_eq!(of("(?:x)"), Regular::One(one('x')));
        let word = Set { classes: vec![Class::Word], ranges: vec![('.', '.'), ('-', '-')], negated: false };
        assert_eq!(of("[\\w.-]"), Regular::One(word));
        assert!(parse("(?i)x", false).is_some_and(|parsed| parsed.any_case));
        assert!(parse("(?c)x", true).is_some_and(|parsed| !parsed.any_case));
    }

    #[test]
    fn what_is_not() {
        for expression in [
            "*a",
            "a**",
            "a{2}{3}",
            "a{3,2}",
            "a{256}",
            "(a",
            "a)",
            "[a",
            "[b-a]",
            "[[.a.]]",
            "[[=a=]]",
            "\\1",
            "\\y",
            "\\m",
            "(?=a)",
            "(?!a)",
            "(?n)a",
            "***=a",
            "^*",
            "a{,2}",
            "[a-\\d]",
            "[\\d-z]",
            "\\x41",
            "a\\",
            "[a-c-e]",
            "x{",
            "(a{200}){200}",
            "[[:name:]]",
            "\\é",
        ] {
            assert_eq!(parse(expression, false), None, "{expression}");
        }
        assert_eq!(parse("[a-\u{ffff}]", true), None);
    }
}
