//! Regular expressions, matched by an automaton. Its states are sets of places in the expression, and are made when a
//! text first reaches them.
//!
//! Letters and their cases are the same as in PostgreSQL: the C library's locale defines them or, in collation "C",
//! ASCII. In the database's own collation, ASCII's letters change their case as in "C", whatever the locale.

use std::collections::HashMap;

use datafusion_common::error::Result;
use locale::Locale;
use plan::regular::{Captured, Class, Parsed, Regular, Set};
use protocol::request::FailureKind;

use crate::base::error::{QueryError, known_locale};

/// The greatest number of states. When there would be more, all states are dropped, and are made again when needed.
const MOST_STATES: usize = 1000;
/// The greatest number of characters beyond ASCII whose kind is remembered.
const MOST_CHARACTERS: usize = 10_000;

/// The rules for letters and their cases.
#[derive(Clone, Copy)]
pub struct Letters {
    /// The locale; `None` for ASCII's rules.
    pub locale: Option<&'static Locale>,
    /// Whether ASCII's letters change their case by ASCII's rules.
    pub ascii: bool,
}

impl Letters {
    /// The rule that an operand names.
    pub fn of_text(text: &str) -> Result<Letters> {
        let plan::regular::Letters { locale, ascii } = plan::regular::Letters::of_text(text);
        Ok(Letters { locale: locale.as_deref().map(known_locale).transpose()?, ascii })
    }

    fn upper(self, c: char) -> char {
        match self.locale {
            Some(locale) if !self.ascii || !c.is_ascii() => locale.upper(c),
            _ => c.to_ascii_uppercase(),
        }
    }

    fn lower(self, c: char) -> char {
        match self.locale {
            Some(locale) if !self.ascii || !c.is_ascii() => locale.lower(c),
            _ => c.to_ascii_lowercase(),
        }
    }

    fn is(self, c: char, class: Class) -> bool {
        let (of_ascii, name) = match class {
            Class::Ascii => return c.is_ascii(),
            Class::Blank => return matches!(c, ' ' | '\t'),
            Class::Cntrl => return c.is_control(),
            Class::Xdigit => return c.is_ascii_hexdigit(),
            Class::Word => return c == '_' || self.is(c, Class::Alnum),
            Class::Alpha => (c.is_ascii_alphabetic(), c"alpha"),
            Class::Alnum => (c.is_ascii_alphanumeric(), c"alnum"),
            Class::Digit => (c.is_ascii_digit(), c"digit"),
            Class::Space => (matches!(c, '\t'..='\r' | ' '), c"space"),
            Class::Lower => (c.is_ascii_lowercase(), c"lower"),
            Class::Upper => (c.is_ascii_uppercase(), c"upper"),
            Class::Punct => (c.is_ascii_punctuation(), c"punct"),
            Class::Graph => (c.is_ascii_graphic(), c"graph"),
            Class::Print => (c.is_ascii_graphic() || c == ' ', c"print"),
        };
        self.locale.map_or(of_ascii, |locale| locale.is(c, name))
    }
}

/// A place in the expression, and the places to which it leads.
enum Place {
    /// A place that leads to both of these places.
    Fork(u32, u32),
    /// A character of this set leads to the next place.
    Character(u32),
    /// A place that leads to the next place only at the start of the text. `End` does so only at the end of the text.
    Start,
    End,
    Match,
}

/// A set of characters. If case is ignored, a range also contains the other cases of its characters. A single character
/// is replaced by its lower and its upper case; it is itself in the set only if it is one of these.
struct Characters {
    set: Set,
    /// If case is ignored, both cases of all characters in the set's ranges, sorted.
    cases: Vec<char>,
}

impl Characters {
    fn of(set: &Set, letters: Letters, any_case: bool) -> Characters {
        let (mut set, mut cases) = (set.clone(), Vec::new());
        if any_case {
            let all = set.ranges.iter().flat_map(|&(first, last)| first..=last);
            cases.extend(all.flat_map(|c| [letters.lower(c), letters.upper(c)]));
            cases.sort_unstable();
            cases.dedup();
            set.ranges.retain(|(first, last)| first < last);
        }
        Characters { set, cases }
    }

    fn has(&self, c: char, letters: Letters) -> bool {
        let in_range = |&(first, last): &(char, char)| (first..=last).contains(&c);
        let is_among = self.set.ranges.iter().any(in_range)
            || self.cases.binary_search(&c).is_ok()
            || self.set.classes.iter().any(|class| letters.is(c, *class));
        is_among != self.set.negated
    }
}

/// A state: the places of the expression that the characters read so far may have reached.
struct State {
    places: Vec<u32>,
    matched: bool,
    matches_at_end: bool,
    /// For each kind of character, the next state; unknown until a character of that kind is first read in this state.
    next: Vec<u32>,
}

const UNKNOWN: u32 = u32::MAX;

/// An expression that is prepared for many texts.
pub struct Automaton {
    letters: Letters,
    places: Vec<Place>,
    sets: Vec<Characters>,
    states: Vec<State>,
    known: HashMap<Vec<u32>, u32>,
    /// The kinds of characters. Two characters are of one kind if the same sets contain them.
    kinds: HashMap<Vec<bool>, u32>,
    ascii: [u32; 128],
    others: HashMap<char, u32>,
    /// For each kind, the sets that contain it.
    members: Vec<Vec<bool>>,
    marks: Vec<bool>,
    /// Whether a match may begin at any character. Otherwise it must begin where the search begins.
    anywhere: bool,
}

impl Automaton {
    /// An automaton that finds whether there is a match.
    pub fn new(parsed: &Parsed, letters: Letters) -> Automaton {
        Automaton::made(parsed, letters, true)
    }

    fn made(parsed: &Parsed, letters: Letters, anywhere: bool) -> Automaton {
        let mut automaton = Automaton {
            letters,
            places: Vec::new(),
            sets: Vec::new(),
            states: Vec::new(),
            known: HashMap::new(),
            kinds: HashMap::new(),
            ascii: [UNKNOWN; 128],
            others: HashMap::new(),
            members: Vec::new(),
            marks: Vec::new(),
            anywhere,
        };
        automaton.compile(&parsed.regular, parsed.any_case);
        automaton.places.push(Place::Match);
        automaton.marks = vec![false; automaton.places.len()];
        automaton.begin();
        automaton
    }

    /// Appends the places of an expression. A match of the expression leads to the place that is appended next.
    fn compile(&mut self, regular: &Regular, any_case: bool) {
        match regular {
            Regular::Empty => {}
            Regular::One(set) => {
                self.places.push(Place::Character(self.sets.len() as u32));
                self.sets.push(Characters::of(set, self.letters, any_case));
            }
            Regular::Start => self.places.push(Place::Start),
            Regular::End => self.places.push(Place::End),
            Regular::Sequence(all) => all.iter().for_each(|one| self.compile(one, any_case)),
            Regular::Either(branches) => {
                let mut ends = Vec::new();
                let (last, others) = branches.split_last().unwrap_or((&Regular::Empty, &[]));
                for branch in others {
                    let fork = self.fork();
                    self.compile(branch, any_case);
                    ends.push(self.fork());
                    self.places[fork] = Place::Fork(fork as u32 + 1, self.places.len() as u32);
                }
                self.compile(last, any_case);
                let end = self.places.len() as u32;
                ends.into_iter().for_each(|at| self.places[at] = Place::Fork(end, end));
            }
            Regular::Captured(inner) => self.compile(inner, any_case),
            Regular::Repeated { what, least, most } => {
                (0..*least).for_each(|_| self.compile(what, any_case));
                match most {
                    None => {
                        let fork = self.fork();
                        self.compile(what, any_case);
                        self.places.push(Place::Fork(fork as u32, fork as u32));
                        self.places[fork] = Place::Fork(fork as u32 + 1, self.places.len() as u32);
                    }
                    Some(most) => {
                        let mut forks = Vec::new();
                        for _ in *least..*most {
                            forks.push(self.fork());
                            self.compile(what, any_case);
                        }
                        let end = self.places.len() as u32;
                        forks.into_iter().for_each(|at| self.places[at] = Place::Fork(at as u32 + 1, end));
                    }
                }
            }
        }
    }

    /// Adds a fork whose two targets are set later.
    fn fork(&mut self) -> usize {
        self.places.push(Place::Fork(0, 0));
        self.places.len() - 1
    }

    /// Forgets all states except those in which a search begins.
    fn begin(&mut self) {
        self.states.clear();
        self.known.clear();
        let places = self.reached(&[0], true, false);
        let matches_at_end = self.reached(&[0], true, true).iter().any(|at| self.is_match(*at));
        self.add(places, matches_at_end);
        // The state of a search that does not begin at the start of the text.
        let places = self.reached(&[0], false, false);
        let matches_at_end = self.reached(&[0], false, true).iter().any(|at| self.is_match(*at));
        self.add(places, matches_at_end);
    }

    /// The end of the longest match that begins at `from`.
    fn longest(&mut self, text: &str, from: usize) -> Option<usize> {
        let mut state = u32::from(from > 0);
        let mut found = None;
        for (at, c) in text[from..].char_indices() {
            if self.states[state as usize].matched {
                found = Some(from + at);
            }
            if self.states[state as usize].places.is_empty() {
                return found;
            }
            state = self.after(state, c);
        }
        let state = &self.states[state as usize];
        if state.matched || state.matches_at_end { Some(text.len()) } else { found }
    }

    fn add(&mut self, places: Vec<u32>, matches_at_end: bool) -> u32 {
        let matched = places.iter().any(|at| self.is_match(*at));
        let state = self.states.len() as u32;
        self.states.push(State { places, matched, matches_at_end, next: Vec::new() });
        state
    }

    fn is_match(&self, at: u32) -> bool {
        matches!(self.places[at as usize], Place::Match)
    }

    /// All places that can be reached from these places without reading a character.
    fn reached(&mut self, from: &[u32], at_start: bool, at_end: bool) -> Vec<u32> {
        let mut waiting: Vec<u32> = from.iter().rev().copied().collect();
        let mut reached = Vec::new();
        let mut seen = Vec::new();
        while let Some(at) = waiting.pop() {
            if std::mem::replace(&mut self.marks[at as usize], true) {
                continue;
            }
            seen.push(at);
            match self.places[at as usize] {
                Place::Fork(one, other) => waiting.extend([other, one]),
                Place::Start if at_start => waiting.push(at + 1),
                Place::End if at_end => waiting.push(at + 1),
                Place::Start => {}
                Place::Character(_) | Place::End | Place::Match => reached.push(at),
            }
        }
        seen.into_iter().for_each(|at| self.marks[at as usize] = false);
        reached.sort_unstable();
        reached
    }

    pub fn matches(&mut self, text: &str) -> bool {
        let mut state = 0;
        for c in text.chars() {
            if self.states[state as usize].matched {
                return true;
            }
            state = self.after(state, c);
        }
        let state = &self.states[state as usize];
        state.matched || state.matches_at_end
    }

    /// The state after a character.
    fn after(&mut self, state: u32, c: char) -> u32 {
        let kind = self.kind(c);
        let known = self.states[state as usize].next.get(kind as usize).copied().unwrap_or(UNKNOWN);
        if known == UNKNOWN { self.step(state, kind) } else { known }
    }

    /// The state after a character of this kind.
    fn step(&mut self, state: u32, kind: u32) -> u32 {
        let members = &self.members[kind as usize];
        let mut next: Vec<u32> = Vec::new();
        for at in &self.states[state as usize].places {
            if let Place::Character(set) = self.places[*at as usize]
                && members[set as usize]
            {
                next.push(at + 1);
            }
        }
        if self.anywhere {
            next.push(0);
        }
        let places = self.reached(&next, false, false);
        if let Some(known) = self.known.get(&places).copied() {
            self.remember(state, kind, known);
            return known;
        }
        let matches_at_end = self.reached(&next, false, true).iter().any(|at| self.is_match(*at));
        if self.states.len() >= MOST_STATES {
            self.begin();
            // All states were dropped, including the state that led here. So that state cannot remember the new one as
            // its next state.
            let new = self.add(places.clone(), matches_at_end);
            self.known.insert(places, new);
            return new;
        }
        let new = self.add(places.clone(), matches_at_end);
        self.known.insert(places, new);
        self.remember(state, kind, new);
        new
    }

    fn remember(&mut self, state: u32, kind: u32, next: u32) {
        let all = &mut self.states[state as usize].next;
        if all.len() <= kind as usize {
            all.resize(kind as usize + 1, UNKNOWN);
        }
        all[kind as usize] = next;
    }

    fn kind(&mut self, c: char) -> u32 {
        let known = match self.ascii.get(c as usize) {
            Some(known) => *known,
            None => self.others.get(&c).copied().unwrap_or(UNKNOWN),
        };
        if known != UNKNOWN {
            return known;
        }
        let members: Vec<bool> = self.sets.iter().map(|set| set.has(c, self.letters)).collect();
        let next = self.kinds.len() as u32;
        let kind = *self.kinds.entry(members).or_insert_with_key(|members| {
            self.members.push(members.clone());
            next
        });
        match self.ascii.get_mut(c as usize) {
            Some(slot) => *slot = kind,
            None => {
                if self.others.len() >= MOST_CHARACTERS {
                    self.others.clear();
                }
                self.others.insert(c, kind);
            }
        }
        kind
    }
}

/// Finds where the expression matches: the earliest match or, if several begin at the same place, the longest of these.
pub struct Finder {
    whether: Automaton,
    from: Automaton,
    captured: Captured,
}

/// The greatest length of a text, in bytes. A match is tried at each place of the text, so a longer text could take too
/// long.
const LONGEST: usize = 20_000;

impl Finder {
    /// A finder; `None` if the captured part cannot be located within the match.
    pub fn new(parsed: &Parsed, letters: Letters) -> Option<Finder> {
        let (whether, from) = (Automaton::new(parsed, letters), Automaton::made(parsed, letters, false));
        Some(Finder { whether, from, captured: parsed.captured()? })
    }

    /// The first match at `from` or later.
    pub fn find(&mut self, text: &str, from: usize) -> std::result::Result<Option<(usize, usize)>, QueryError> {
        if text.len() > LONGEST {
            return Err(QueryError(FailureKind::TooLarge));
        }
        let starts = text[from..].char_indices().map(|(at, _)| from + at).chain([text.len()]);
        Ok(starts.into_iter().find_map(|start| Some((start, self.from.longest(text, start)?))))
    }

    /// The part of the first match that the expression asks for.
    pub fn part<'a>(&mut self, text: &'a str) -> std::result::Result<Option<&'a str>, QueryError> {
        if !self.whether.matches(text) {
            return Ok(None);
        }
        let Captured { in_front, behind } = self.captured;
        Ok(self.find(text, 0)?.map(|(start, end)| {
            let matched = &text[start..end];
            let (from, to) =
                (matched.char_indices().nth(in_front), matched.char_indices().rev().nth(behind.max(1) - 1));
            let from = from.map_or(matched.len(), |(at, _)| at);
            let to = if behind == 0 { matched.len() } else { to.map_or(0, |(at, _)| at) };
            matched.get(from..to).unwrap_or_default()
        }))
    }

    /// The text with the first match, or all matches, replaced.
    pub fn replaced(
        &mut self,
        text: &str,
        by: &str,
        all: bool,
        out: &mut String,
    ) -> std::result::Result<(), QueryError> {
        let (mut done, mut from) = (0, 0);
        while from <= text.len()
            && let Some((start, end)) = self.find(text, from)?
        {
            out.push_str(&text[done..start]);
            out.push_str(by);
            done = end;
            if !all {
                break;
            }
            // After an empty match, the search goes on with the next character.
            let next = text[end..].chars().next().map_or(1, char::len_utf8);
            from = if start == end { end + next } else { end };
        }
        out.push_str(&text[done..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plan::regular::parse;

    use super::*;

    const C: Letters = Letters { locale: None, ascii: true };

    fn matches(expression: &str, text: &str) -> bool {
        Automaton::new(&parse(expression, false).unwrap(), C).matches(text)
    }

    #[test]
    fn what_matches() {
        for (expression, yes, no) in [
            ("", vec!["", "a"], vec![]),
            ("^$", vec![""], vec!["a", "\n"]),
            ("^(a|bc)*d$", vec!["d", "abcad"], vec!["abd", "dd"]),
            ("b", vec!["abc"], vec!["aBc", ""]),
            ("^[0-9]{3}-[0-9]{2,}$", vec!["123-45", "123-4567"], vec!["12-45", "123-4", "123-45x"]),
            ("\\d\\D\\s?\\w", vec!["x1-a", "1- _"], vec!["11-", "1 -"]),
            ("(^a|b$)", vec!["ax", "xb"], vec!["xa", "bx"]),
            ("(?i)straße", vec!["STRAßE"], vec!["STRASSE"]),
            ("a$b", vec![], vec!["a$b", "ab"]),
            ("(a|)+x", vec!["x"], vec!["a"]),
            (".", vec!["\n", "é", "🦀"], vec![""]),
            ("^[^a-y]$", vec!["z", "é"], vec!["b", "zz"]),
            ("[[:upper:][:digit:]]", vec!["aB", "7"], vec!["ä", "é"]),
            ("x{0}y", vec!["y"], vec!["x"]),
            ("(^)*a", vec!["ba"], vec!["b"]),
        ] {
            yes.iter().for_each(|text| assert!(matches(expression, text), "{expression} {text:?}"));
            no.iter().for_each(|text| assert!(!matches(expression, text), "{expression} {text:?}"));
        }
    }

    #[test]
    fn where_matches_are() {
        let finder = |expression: &str| Finder::new(&parse(expression, false).unwrap(), C).unwrap();
        let part = |expression: &str, text: &str| finder(expression).part(text).unwrap().map(str::to_owned);
        assert_eq!(part("b+|a", "xbbba").as_deref(), Some("bbb"));
        assert_eq!(part("s=([^&]*)", "?s=é1&t=2").as_deref(), Some("é1"));
        assert_eq!(part("^x(.*)yz$", "xaayzyz").as_deref(), Some("aayz"));
        assert_eq!((part("a(b*)", "xa").as_deref(), part("q", "xa")), (Some(""), None));
        let replaced = |expression: &str, text: &str, all| {
            let mut out = String::new();
            finder(expression).replaced(text, "-", all, &mut out).unwrap();
            out
        };
        assert_eq!(replaced("b+", "abbcb", true), "a-c-");
        assert_eq!(replaced("b+", "abbcb", false), "a-cb");
        assert_eq!(replaced("b*", "abé", true), "-a--é-");
        assert_eq!(replaced("^a", "aaa", true), "-aa");
        assert_eq!(replaced("$", "ab", true), "ab-");
    }

    #[test]
    fn states_are_forgotten_when_they_are_too_many() {
        // There is a state for each combination of positions of the letter a among the last twelve characters.
        let parsed = parse("a.{12}$", false).unwrap();
        let mut automaton = Automaton::new(&parsed, C);
        let mut number = 1u64;
        for _ in 0..2000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let text: String = (0..40).map(|bit| if number >> (bit + 20) & 1 == 1 { 'a' } else { 'b' }).collect();
            assert_eq!(automaton.matches(&text), text.as_bytes()[40 - 13] == b'a', "{text}");
            assert!(automaton.states.len() <= MOST_STATES);
        }
    }
}
