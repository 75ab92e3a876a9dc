//! LIKE, as PostgreSQL matches in a deterministic collation: `%` is any text, `_` is any character, and `\` takes the
//! next character literally. A pattern that ends in `\` is an error only if the comparison with a text reaches this
//! `\`.

use memchr::memmem::Finder;
use protocol::request::FailureKind;

use crate::base::error::QueryError;

/// A pattern that is prepared for many texts.
pub enum Pattern {
    /// A pattern without `%`.
    Equal(String),
    /// A pattern with `%`: the text begins with `first`, ends with `last`, and contains the `middle` parts in between,
    /// in this order.
    Parts { first: String, middle: Vec<Finder<'static>>, last: String },
    /// A pattern with `_`, or with an escape at its end.
    General(Vec<u8>),
}

impl Pattern {
    pub fn new(pattern: &str) -> Pattern {
        let mut texts = vec![String::new()];
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            let literal = match c {
                '%' => {
                    texts.push(String::new());
                    continue;
                }
                '_' => return Pattern::General(pattern.into()),
                '\\' => match rest.next() {
                    Some(escaped) => escaped,
                    None => return Pattern::General(pattern.into()),
                },
                other => other,
            };
            // `texts` always has a last element.
            if let Some(last) = texts.last_mut() {
                last.push(literal);
            }
        }
        let last = texts.pop().unwrap_or_default();
        let mut others = texts.into_iter();
        let Some(first) = others.next() else { return Pattern::Equal(last) };
        let middle = others.filter(|part| !part.is_empty()).map(|part| Finder::new(&part).into_owned()).collect();
        Pattern::Parts { first, middle, last }
    }

    pub fn matches(&self, text: &str) -> Result<bool, QueryError> {
        match self {
            Pattern::Equal(wanted) => Ok(text == wanted),
            Pattern::Parts { first, middle, last } => Ok(in_order(text, first, middle, last)),
            Pattern::General(pattern) => general(text.as_bytes(), pattern),
        }
    }
}

fn in_order(text: &str, first: &str, middle: &[Finder<'static>], last: &str) -> bool {
    // Both ends are compared first, because comparisons are faster than searches. An empty part is skipped: it has no
    // memory, and on some processors a comparison with it takes as long as twenty other comparisons.
    let ends = (first.is_empty() || text.starts_with(first)) && (last.is_empty() || text.ends_with(last));
    if !ends || text.len() < first.len() + last.len() {
        return false;
    }
    let text = &text[first.len()..text.len() - last.len()];
    let mut text = text.as_bytes();
    for part in middle {
        match part.find(text) {
            Some(at) => text = &text[at + part.needle().len()..],
            None => return false,
        }
    }
    true
}

/// The greatest length of a wanted text that is compared at each possible place. A longer text could take too long to
/// compare at each place.
const SHORT: usize = 16;

/// The offset at which `wanted` first occurs in `text`.
pub fn find(text: &str, wanted: &str) -> Option<usize> {
    if wanted.len() > SHORT {
        return text.find(wanted);
    }
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return Some(0) };
    let ends = text.get(wanted.len() - 1..)?;
    let mut candidates = text.iter().zip(ends).enumerate().filter(|&(_, (&a, &b))| a == first && b == last);
    candidates.find(|&(at, _)| text[at..at + wanted.len()] == *wanted).map(|(at, _)| at)
}

/// Matches any pattern. After a mismatch it goes back only to the last `%`, because everything before that `%` has
/// matched as early as possible.
fn general(text: &[u8], pattern: &[u8]) -> Result<bool, QueryError> {
    let ends_in_escape = QueryError(FailureKind::PatternEndsInEscape);
    let (mut t, mut p) = (0, 0);
    // The point from which a failed match is tried again: the position in the pattern behind its last `%`, and the
    // position in the text at which the last attempt began.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if t == text.len() {
            return Ok(pattern[p..].iter().all(|&c| c == b'%'));
        }
        match pattern.get(p) {
            Some(b'\\') => match pattern.get(p + 1) {
                None => return Err(ends_in_escape),
                Some(&escaped) if escaped == text[t] => {
                    (t, p) = (t + 1, p + 2);
                    continue;
                }
                Some(_) => {}
            },
            Some(b'%') => {
                while let Some(&wild @ (b'%' | b'_')) = pattern.get(p) {
                    if wild == b'_' {
                        if t == text.len() {
                            return Ok(false);
                        }
                        t = next_character(text, t);
                    }
                    p += 1;
                }
                match pattern[p..] {
                    [] => return Ok(true),
                    [b'\\'] => return Err(ends_in_escape),
                    _ if t == text.len() => return Ok(false),
                    _ => {}
                }
                retry = Some((p, t));
                continue;
            }
            Some(b'_') => {
                (t, p) = (next_character(text, t), p + 1);
                continue;
            }
            Some(&literal) if literal == text[t] => {
                (t, p) = (t + 1, p + 1);
                continue;
            }
            Some(_) | None => {}
        }
        let Some((behind, began)) = retry else { return Ok(false) };
        let next = next_character(text, began);
        if next == text.len() {
            return Ok(false);
        }
        (t, p, retry) = (next, behind, Some((behind, next)));
    }
}

fn next_character(text: &[u8], at: usize) -> usize {
    let following = text[at + 1..].iter().take_while(|&&byte| byte & 0xc0 == 0x80).count();
    at + 1 + following
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let matches = |text: &str, pattern: &str| Pattern::new(pattern).matches(text).ok();
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "ab", false),
            ("", "", true),
            ("", "%", true),
            ("", "%%", true),
            ("", "_", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("a", "a%a", false),
            ("aa", "a%a", true),
            ("abcabd", "%ab%d", true),
            ("abab", "%ab", true),
            ("日本", "__", true),
            ("日本", "_", false),
            ("日本語", "日_語", true),
            ("xaybz", "%a_b%", true),
            ("ab", "%a_b%", false),
            ("aab", "%a_", true),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("a_b", "%\\_%", true),
            ("a\\b", "a\\\\b", true),
            ("aaab", "%a_b", true),
            ("special requests", "%special%requests%", true),
            ("requests, special", "%special%requests%", false),
            ("日本語の本", "%本%本%", true),
            ("日本語の本", "%本%本%本%", false),
            ("abcab", "%ab%ab", true),
            ("abab", "ab%ab%ab", false),
        ] {
            assert_eq!(matches(text, pattern), Some(expected), "{text} like {pattern}");
        }
    }

    #[test]
    fn an_escape_at_the_end_is_an_error_where_it_is_reached() {
        let matches = |text: &str, pattern: &str| Pattern::new(pattern).matches(text);
        assert_eq!(matches("x", "a\\"), Ok(false));
        assert_eq!(matches("a", "a\\"), Ok(false));
        assert!(matches("ab", "a\\").is_err() && matches("b", "%\\").is_err() && matches("axb", "%x\\").is_err());
        assert_eq!(matches("axbx", "%c\\"), Ok(false));
        assert_eq!(matches("", "\\"), Ok(false));
    }

    #[test]
    fn texts_are_found_at_their_first_place() {
        assert_eq!((find("abcabc", "bc"), find("aaab", "ab")), (Some(1), Some(2)));
        assert_eq!((find("ab", "abc"), find("", ""), find("ab", "")), (None, Some(0), Some(0)));
        let long = "a text that is longer than a short one";
        assert_eq!((find(&format!("x{long}"), long), find(&long[1..], long)), (Some(1), None));
    }
}
