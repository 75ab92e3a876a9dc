//! Parts of a json value, which is stored as the text that was written. PostgreSQL has checked its syntax.
//!
//! PostgreSQL decodes all escapes of a document when it looks for a part, and some escapes of character codes are
//! errors. So queries on documents with such escapes run on the heap.

use protocol::request::FailureKind;

use super::part::{BROKEN, Outcome, Part, number_of, place};
use crate::base::error::QueryError;

/// The text, without blanks around it.
fn text_of(bytes: &[u8]) -> Outcome<&str> {
    let text = std::str::from_utf8(bytes).map_err(|_| BROKEN)?;
    match text.contains("\\u") {
        true => Err(QueryError(FailureKind::TextUnread)),
        false => Ok(trimmed(text)),
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(is_blank)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

pub fn part<'a>(bytes: &'a [u8], part: Part<'_>) -> Outcome<Option<&'a str>> {
    let text = text_of(bytes)?;
    let is_object = text.starts_with('{');
    match part {
        Part::Whole => Ok(Some(text)),
        Part::Member(key) | Part::Step(key) if is_object => {
            let mut found = None;
            // If several members have the same key, the last one counts. On a path with more steps, PostgreSQL may
            // follow another of these members, so the query runs on the heap.
            for (name, value) in members(text)? {
                if unescaped(name)? == key {
                    if found.is_some() && matches!(part, Part::Step(_)) {
                        return Err(QueryError(FailureKind::TextUnread));
                    }
                    found = Some(value);
                }
            }
            Ok(found)
        }
        Part::Element(number) if text.starts_with('[') => element(text, number.into()),
        Part::Step(step) if text.starts_with('[') => match number_of(step) {
            Some(number) => element(text, number),
            None => Ok(None),
        },
        Part::Member(_) | Part::Element(_) | Part::Step(_) => Ok(None),
    }
}

/// The unescaped content of a string; `None` for null; any other value as it is written.
pub fn as_text(part: &str) -> Outcome<Option<String>> {
    match part {
        "null" => Ok(None),
        text if text.starts_with('"') => unescaped(text).map(Some),
        other => Ok(Some(other.to_owned())),
    }
}

pub fn kind(bytes: &[u8]) -> Outcome<&'static str> {
    let text = trimmed(std::str::from_utf8(bytes).map_err(|_| BROKEN)?);
    Ok(match text.as_bytes().first().ok_or(BROKEN)? {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "boolean",
        b'n' => "null",
        _ => "number",
    })
}

/// The length of an array; `None` if the document is no array.
pub fn length(bytes: &[u8]) -> Outcome<Option<usize>> {
    let text = trimmed(std::str::from_utf8(bytes).map_err(|_| BROKEN)?);
    if text.starts_with('[') { Ok(Some(items(text)?.len())) } else { Ok(None) }
}

pub fn elements(bytes: &[u8]) -> Outcome<Option<Vec<&str>>> {
    let text = text_of(bytes)?;
    if text.starts_with('[') { items(text).map(Some) } else { Ok(None) }
}

fn element(text: &str, number: i64) -> Outcome<Option<&str>> {
    let items = items(text)?;
    Ok(place(number, items.len()).map(|at| items[at]))
}

fn members(text: &str) -> Outcome<Vec<(&str, &str)>> {
    let both = |item| {
        let end = string_end(item).ok_or(BROKEN)?;
        let behind = item[end..].trim_start_matches(is_blank).strip_prefix(':').ok_or(BROKEN)?;
        Ok((&item[..end], trimmed(behind)))
    };
    items(text)?.into_iter().map(both).collect()
}

/// The parts between the commas of an array or object.
fn items(text: &str) -> Outcome<Vec<&str>> {
    let inner = trimmed(text.get(1..text.len().saturating_sub(1)).ok_or(BROKEN)?);
    let mut items = Vec::new();
    let (mut depth, mut start, mut at) = (0, 0, 0);
    let bytes = inner.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += string_end(&inner[at..]).ok_or(BROKEN)? - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                items.push(trimmed(&inner[start..at]));
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if !inner.is_empty() {
        items.push(trimmed(&inner[start..]));
    }
    Ok(items)
}

/// The offset behind the closing quote of the string with which the text begins.
fn string_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// The unescaped content of a string.
fn unescaped(string: &str) -> Outcome<String> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(BROKEN)?;
    let (mut out, mut rest) = (String::with_capacity(inner.len()), inner.chars());
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next().ok_or(BROKEN)? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                escaped @ ('"' | '\\' | '/') => escaped,
                _ => return Err(BROKEN),
            },
            c => c,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &str, wanted: Part<'_>) -> Option<String> {
        part(document.as_bytes(), wanted).unwrap().and_then(|part| as_text(part).unwrap())
    }

    #[test]
    fn parts_of_a_document() {
        let document =
            " {\"a\" : 1.50, \"b\\n\": [ {\"x\": \"],\"}, null , \"\\\"\"], \"a\":{ \"c\":2 } ,\"e\":\"\"}\n";
        let of = |wanted| text(document, wanted);
        assert_eq!(of(Part::Member("a")).as_deref(), Some("{ \"c\":2 }"));
        assert_eq!(of(Part::Member("b\n")).as_deref(), Some("[ {\"x\": \"],\"}, null , \"\\\"\"]"));
        assert_eq!(of(Part::Member("e")).as_deref(), Some(""));
        assert_eq!((of(Part::Member("x")), of(Part::Element(0))), (None, None));
        let list = "[ {\"x\": \"],\"}, null , \"\\\"\"]";
        assert_eq!(text(list, Part::Element(0)).as_deref(), Some("{\"x\": \"],\"}"));
        assert_eq!(text(list, Part::Element(1)), None);
        assert_eq!(text(list, Part::Step("-1")).as_deref(), Some("\""));
        assert_eq!(
            (length(list.as_bytes()).unwrap(), length(b" [ ] ").unwrap(), length(b"1").unwrap()),
            (Some(3), Some(0), None)
        );
        assert_eq!((kind(b" null").unwrap(), kind(b"-1").unwrap(), kind(b"{}").unwrap()), ("null", "number", "object"));
        assert!(part(b"{\"a\": \"\\u0000\"}", Part::Member("b")).is_err());
        assert_eq!(part(b"{}", Part::Member("b")).unwrap(), None);
    }
}
