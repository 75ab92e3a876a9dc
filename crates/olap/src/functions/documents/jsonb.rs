//! Parts of a jsonb value. It is a container of entries, each of which says its type, and its length or its end.
//!
//! ```text
//!   header            how many entries; an object, an array, or an array that stands for its only element
//!   entries           one for each element of an array; in an object first the keys, then the values
//!   contents          texts; numbers and containers at multiples of four bytes
//! ```
//!
//! Keys are sorted, shorter ones first.

use std::cmp::Ordering;
use std::fmt::Write;

use numeric::Numeric;
use protocol::request::FailureKind;

use super::part::{BROKEN, Outcome, Part, number_of, place};
use crate::base::error::QueryError;

const COUNT: u32 = 0x0fff_ffff;
const SCALAR: u32 = 0x1000_0000;
const OBJECT: u32 = 0x2000_0000;
const ARRAY: u32 = 0x4000_0000;

const LENGTH: u32 = 0x0fff_ffff;
const KIND: u32 = 0x7000_0000;
const IS_END: u32 = 0x8000_0000;

const NUMBER: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;

/// The greatest depth of nesting; a query with deeper documents runs on the heap.
const DEEPEST: usize = 200;

#[derive(Clone, Copy)]
struct Container<'a> {
    bytes: &'a [u8],
    header: u32,
}

/// A document, or a part of it.
pub enum Value<'a> {
    Null,
    Bool(bool),
    /// The bytes of PostgreSQL's numeric after its length.
    Number(&'a [u8]),
    Text(&'a str),
    /// The bytes of a container.
    Container(&'a [u8]),
}

fn word(bytes: &[u8], at: usize) -> Outcome<u32> {
    let word = bytes.get(4 * at..4 * at + 4).and_then(|word| word.try_into().ok()).ok_or(BROKEN)?;
    Ok(u32::from_ne_bytes(word))
}

impl<'a> Container<'a> {
    fn of(bytes: &'a [u8]) -> Outcome<Container<'a>> {
        Ok(Container { bytes, header: word(bytes, 0)? })
    }

    fn is(self, what: u32) -> bool {
        self.header & what != 0
    }

    /// The number of members of an object, or of elements of an array.
    fn count(self) -> usize {
        (self.header & COUNT) as usize
    }

    fn entries(self) -> usize {
        if self.is(OBJECT) { 2 * self.count() } else { self.count() }
    }

    fn entry(self, at: usize) -> Outcome<u32> {
        if at >= self.entries() {
            return Err(BROKEN);
        }
        word(self.bytes, 1 + at)
    }

    fn offset(self, at: usize) -> Outcome<usize> {
        let mut offset = 0;
        for before in (0..at).rev() {
            let entry = self.entry(before)?;
            offset += (entry & LENGTH) as usize;
            if entry & IS_END != 0 {
                break;
            }
        }
        Ok(offset)
    }

    fn value(self, at: usize) -> Outcome<Value<'a>> {
        let (entry, offset) = (self.entry(at)?, self.offset(at)?);
        let end = match entry & IS_END {
            0 => offset + (entry & LENGTH) as usize,
            _ => (entry & LENGTH) as usize,
        };
        let contents = self.bytes.get(4 * (1 + self.entries())..).ok_or(BROKEN)?;
        let aligned = || contents.get(offset.next_multiple_of(4)..end).ok_or(BROKEN);
        Ok(match entry & KIND {
            0 => Value::Text(std::str::from_utf8(contents.get(offset..end).ok_or(BROKEN)?).map_err(|_| BROKEN)?),
            NUMBER => Value::Number(numeric(aligned()?)?),
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            NULL => Value::Null,
            CONTAINER => Value::Container(aligned()?),
            _ => return Err(BROKEN),
        })
    }

    fn member(self, key: &str) -> Outcome<Option<Value<'a>>> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            let Value::Text(found) = self.value(middle)? else { return Err(BROKEN) };
            match order(found, key) {
                Ordering::Equal => return self.value(self.count() + middle).map(Some),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn element(self, number: i64) -> Outcome<Option<Value<'a>>> {
        place(number, self.count()).map(|at| self.value(at)).transpose()
    }
}

fn order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// A numeric without its length, which takes one byte or four.
fn numeric(bytes: &[u8]) -> Outcome<&[u8]> {
    let first = *bytes.first().ok_or(BROKEN)?;
    let (behind, length) = match first & 1 {
        1 => (1, (first >> 1) as usize),
        _ => (4, (word(bytes, 0)? >> 2) as usize),
    };
    bytes.get(behind..length).ok_or(BROKEN)
}

/// The document itself. A document that is a single value is stored as an array with one element.
pub fn whole(bytes: &[u8]) -> Outcome<Value<'_>> {
    let container = Container::of(bytes)?;
    if container.is(SCALAR) { container.value(0) } else { Ok(Value::Container(bytes)) }
}

pub fn part<'a>(bytes: &'a [u8], part: Part<'_>) -> Outcome<Option<Value<'a>>> {
    let container = Container::of(bytes)?;
    match part {
        Part::Member(key) | Part::Step(key) if container.is(OBJECT) => container.member(key),
        // A document that is a single value, such as `5`, is stored as an array with one element. PostgreSQL returns
        // this element, too.
        Part::Element(number) if container.is(ARRAY) => container.element(number.into()),
        Part::Step(step) if container.is(ARRAY) && !container.is(SCALAR) => match number_of(step) {
            Some(number) => container.element(number),
            None => Ok(None),
        },
        Part::Member(_) | Part::Element(_) | Part::Step(_) => Ok(None),
        Part::Whole => whole(bytes).map(Some),
    }
}

/// Whether a text is the key of a member of the object, or an element of the array.
pub fn has(bytes: &[u8], key: &str) -> Outcome<bool> {
    let container = Container::of(bytes)?;
    if container.is(OBJECT) {
        return Ok(container.member(key)?.is_some());
    }
    for at in 0..container.count() {
        if matches!(container.value(at)?, Value::Text(text) if text == key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The length of an array; `None` if the document is no array.
pub fn length(bytes: &[u8]) -> Outcome<Option<usize>> {
    let container = Container::of(bytes)?;
    Ok((container.is(ARRAY) && !container.is(SCALAR)).then(|| container.count()))
}

/// The document as PostgreSQL shows it.
pub fn shown(bytes: &[u8]) -> Outcome<String> {
    let mut out = String::new();
    whole(bytes)?.show(&mut out, 0)?;
    Ok(out)
}

impl Value<'_> {
    /// The value as a document of its own.
    pub fn document(&self) -> Vec<u8> {
        let (kind, contents): (u32, Vec<u8>) = match self {
            Value::Container(bytes) => return bytes.to_vec(),
            Value::Null => (NULL, Vec::new()),
            Value::Bool(false) => (FALSE, Vec::new()),
            Value::Bool(true) => (TRUE, Vec::new()),
            Value::Text(text) => (0, text.as_bytes().to_vec()),
            Value::Number(bytes) => {
                let length = (bytes.len() as u32 + 4) << 2;
                (NUMBER, [&length.to_ne_bytes(), *bytes].concat())
            }
        };
        let entry = kind | contents.len() as u32;
        [&(1 | SCALAR | ARRAY).to_ne_bytes()[..], &entry.to_ne_bytes(), &contents].concat()
    }

    /// A text unchanged; any other value as PostgreSQL shows it.
    pub fn text(&self) -> Outcome<String> {
        if let Value::Text(text) = self {
            return Ok((*text).to_owned());
        }
        let mut out = String::new();
        self.show(&mut out, 0)?;
        Ok(out)
    }

    pub fn number(&self) -> Option<Numeric> {
        match self {
            Value::Number(bytes) => Numeric::from_stored(bytes),
            _ => None,
        }
    }

    pub fn kind(&self) -> Outcome<&'static str> {
        Ok(match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::Container(bytes) if Container::of(bytes)?.is(OBJECT) => "object",
            Value::Container(_) => "array",
        })
    }

    fn show(&self, out: &mut String, depth: usize) -> Outcome<()> {
        if depth > DEEPEST {
            return Err(QueryError(FailureKind::TooLarge));
        }
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Value::Number(_) => {
                let number = self.number().ok_or(BROKEN)?;
                // Writing into a string cannot fail.
                let _ = write!(out, "{number}");
            }
            Value::Text(text) => quote(text, out),
            Value::Container(bytes) => {
                let container = Container::of(bytes)?;
                let is_object = container.is(OBJECT);
                out.push(if is_object { '{' } else { '[' });
                for at in 0..container.count() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    container.value(at)?.show(out, depth + 1)?;
                    if is_object {
                        out.push_str(": ");
                        container.value(container.count() + at)?.show(out, depth + 1)?;
                    }
                }
                out.push(if is_object { '}' } else { ']' });
            }
        }
        Ok(())
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container of these values. Their contents are stored one after the other.
    fn container(kind: u32, count: u32, values: &[Value<'_>]) -> Vec<u8> {
        let (mut entries, mut contents) = (Vec::new(), Vec::new());
        for value in values {
            let start = contents.len();
            let kind = match value {
                Value::Container(bytes) => {
                    contents.resize(start.next_multiple_of(4), 0);
                    contents.extend_from_slice(bytes);
                    CONTAINER
                }
                value => {
                    let own = value.document();
                    let aligned = if matches!(value, Value::Number(_)) { start.next_multiple_of(4) } else { start };
                    contents.resize(aligned, 0);
                    contents.extend_from_slice(&own[8..]);
                    word(&own, 1).unwrap() & KIND
                }
            };
            entries.extend((kind | (contents.len() - start) as u32).to_ne_bytes());
        }
        [&(kind | count).to_ne_bytes()[..], &entries, &contents].concat()
    }

    #[test]
    fn parts_of_a_document() {
        let mut stored = Vec::new();
        "1.50".parse::<Numeric>().unwrap().write_stored(&mut stored);
        let list = container(ARRAY, 3, &[Value::Bool(true), Value::Null, Value::Text("x\n\"")]);
        let values = [
            Value::Text("a"),
            Value::Text("b"),
            Value::Text("cc"),
            Value::Number(&stored),
            Value::Container(&list),
            Value::Text("é"),
        ];
        let document = container(OBJECT, 3, &values);
        assert_eq!(shown(&document).unwrap(), "{\"a\": 1.50, \"b\": [true, null, \"x\\n\\\"\"], \"cc\": \"é\"}");
        let text = |wanted| part(&document, wanted).unwrap().map(|value| value.text().unwrap());
        assert_eq!(text(Part::Member("a")).as_deref(), Some("1.50"));
        assert_eq!(text(Part::Member("cc")).as_deref(), Some("é"));
        assert_eq!((text(Part::Member("c")), text(Part::Element(0))), (None, None));
        let list = part(&document, Part::Step("b")).unwrap().unwrap().document();
        assert_eq!(part(&list, Part::Step("-1")).unwrap().unwrap().text().unwrap(), "x\n\"");
        assert!(part(&list, Part::Step("x")).unwrap().is_none() && part(&list, Part::Element(3)).unwrap().is_none());
        assert!(has(&list, "x\n\"").unwrap() && !has(&list, "true").unwrap() && has(&document, "b").unwrap());
        assert_eq!((length(&list).unwrap(), length(&document).unwrap()), (Some(3), None));
        let scalar = part(&document, Part::Member("a")).unwrap().unwrap().document();
        assert_eq!(shown(&scalar).unwrap(), "1.50");
        assert!(
            part(&scalar, Part::Element(0)).unwrap().is_some() && part(&scalar, Part::Step("0")).unwrap().is_none()
        );
        assert_eq!(whole(&scalar).unwrap().kind().unwrap(), "number");
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let document = container(OBJECT, 1, &[Value::Text("key"), Value::Text("value")]);
        for length in 0..document.len() {
            assert!(part(&document[..length], Part::Member("key")).is_err(), "{length}");
        }
    }
}
