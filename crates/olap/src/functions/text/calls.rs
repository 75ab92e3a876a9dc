//! Functions on texts. They are strict; positions and lengths count characters.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array, StringViewArray, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use locale::{Locale, Scratch};
use plan::regular::{self, Parsed};
use plan::{Named, Type};
use protocol::request::FailureKind;

use crate::base::arrow_form::arrow_type;
use crate::base::error::{QueryError, known_locale};
use crate::functions::text::like::{Pattern, find};
use crate::functions::text::md5;
use crate::functions::text::regular::{Automaton, Finder, Letters};

/// The greatest number of bytes in the results of one call for one batch.
const MAX_BYTES: usize = 64 << 20;

type Outcome<T> = std::result::Result<T, QueryError>;

/// A text or integer operand: an array, or a constant for all rows.
enum Values {
    Texts(StringViewArray),
    Text(String),
    Integers(Int32Array),
    Integer(i32),
}

struct Call {
    args: Vec<Values>,
    rows: usize,
    nulls: Option<NullBuffer>,
}

/// Applies a function to `rows` rows; its result has type `ty`.
pub fn apply(function: Named, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let mut call = Call { args: Vec::new(), rows, nulls: None };
    for arg in args {
        match operand(arg)? {
            None => return Ok(new_null_array(&arrow_type(ty), rows)),
            Some(values) => {
                call.nulls = NullBuffer::union(call.nulls.as_ref(), values.nulls());
                call.args.push(values);
            }
        }
    }
    call.compute(function)
}

/// The values of an operand; `None` if it is null in every row.
fn operand(arg: &ColumnarValue) -> Result<Option<Values>> {
    let wrong = |found: &dyn std::fmt::Debug| DataFusionError::Internal(format!("{found:?} for a function of text"));
    Ok(match arg {
        ColumnarValue::Array(array) => match (array.as_string_view_opt(), array.as_primitive_opt::<Int32Type>()) {
            (Some(texts), _) => Some(Values::Texts(texts.clone())),
            (_, Some(integers)) => Some(Values::Integers(integers.clone())),
            (None, None) => return Err(wrong(array.data_type())),
        },
        ColumnarValue::Scalar(ScalarValue::Utf8View(text)) => text.clone().map(Values::Text),
        ColumnarValue::Scalar(ScalarValue::Int32(integer)) => integer.map(Values::Integer),
        ColumnarValue::Scalar(other) => return Err(wrong(other)),
    })
}

impl Values {
    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Values::Texts(texts) => texts.nulls(),
            Values::Integers(integers) => integers.nulls(),
            Values::Text(_) | Values::Integer(_) => None,
        }
    }
}

impl Call {
    /// The value of a text operand; empty if the operand is missing or no text. The catalogue admits no call with such
    /// an operand.
    fn text(&self, index: usize, row: usize) -> &str {
        match self.args.get(index) {
            Some(Values::Texts(texts)) => texts.value(row),
            Some(Values::Text(text)) => text,
            Some(Values::Integers(_) | Values::Integer(_)) | None => "",
        }
    }

    fn integer(&self, index: usize, row: usize) -> i32 {
        match self.args.get(index) {
            Some(Values::Integers(integers)) => integers.value(row),
            Some(Values::Integer(integer)) => *integer,
            Some(Values::Texts(_) | Values::Text(_)) | None => 0,
        }
    }

    fn compute(&self, function: Named) -> Result<ArrayRef> {
        let two = self.args.len() > 1;
        match function {
            Named::Like => self.like(),
            Named::Matches => self.regular(false),
            Named::MatchesAnyCase => self.regular(true),
            Named::MatchedPart => self.matched_parts(),
            Named::ReplacedMatch => self.replaced_matches(false),
            Named::ReplacedMatches => self.replaced_matches(true),
            Named::Initcap => self.texts(|row, out| {
                let mut is_within = false;
                out.push_each(self.text(0, row).chars().map(|c| {
                    let c = if is_within { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
                    is_within = c.is_ascii_alphanumeric();
                    c
                }))
            }),
            Named::InitcapIn => {
                let locale = self.locale()?;
                self.texts(|row, out| {
                    let mut is_within = false;
                    out.push_each(self.text(0, row).chars().map(|c| {
                        let c = if is_within { locale.lower(c) } else { locale.upper(c) };
                        is_within = locale.is(c, c"alnum");
                        c
                    }))
                })
            }
            Named::Translate => self.texts(|row, out| {
                let (from, to) = (self.text(1, row), self.text(2, row));
                let at = |c: char| from.chars().position(|other| other == c);
                out.push_each(self.text(0, row).chars().filter_map(|c| match at(c) {
                    None => Some(c),
                    Some(at) => to.chars().nth(at),
                }))
            }),
            Named::Chr => self.texts(|row, out| {
                let code = u32::try_from(self.integer(0, row)).ok().filter(|code| *code > 0);
                let character = code.and_then(char::from_u32).ok_or(QueryError(FailureKind::NoCharacter))?;
                out.push(character.encode_utf8(&mut [0; 4]))
            }),
            Named::Md5 => self.texts(|row, out| out.push(&md5::hex(self.text(0, row).as_bytes()))),
            Named::StartsWith => self.booleans(|row| Ok(self.text(0, row).starts_with(self.text(1, row)))),
            Named::Length => self.integers(|row| length(self.text(0, row)) as i32),
            Named::OctetLength => self.integers(|row| self.text(0, row).len() as i32),
            Named::Ascii => self.integers(|row| self.text(0, row).chars().next().map_or(0, |first| first as i32)),
            Named::Position => self.integers(|row| position(self.text(0, row), self.text(1, row))),
            Named::Substring if self.args.len() > 2 => {
                self.parts(|row| substring(self.text(0, row), self.integer(1, row), Some(self.integer(2, row))))
            }
            Named::Substring => self.parts(|row| substring(self.text(0, row), self.integer(1, row), None)),
            Named::Left => self.parts(|row| Ok(left(self.text(0, row), self.integer(1, row)))),
            Named::Right => self.parts(|row| Ok(right(self.text(0, row), self.integer(1, row)))),
            Named::Trim => self.parts(|row| Ok(self.trimmed(row, two, true, true))),
            Named::TrimLeft => self.parts(|row| Ok(self.trimmed(row, two, true, false))),
            Named::TrimRight => self.parts(|row| Ok(self.trimmed(row, two, false, true))),
            Named::CharToText => self.parts(|row| Ok(self.text(0, row))),
            Named::SplitPart => {
                self.parts(|row| split_part(self.text(0, row), self.text(1, row), self.integer(2, row)))
            }
            Named::Concat => self.texts(|row, out| {
                out.push(self.text(0, row))?;
                out.push(self.text(1, row))
            }),
            Named::Replace => {
                self.texts(|row, out| replace(self.text(0, row), self.text(1, row), self.text(2, row), out))
            }
            Named::PadLeft => self.texts(|row, out| {
                let (text, fill) = padding(self.text(0, row), self.integer(1, row), self.text(2, row));
                out.push_cycle(self.text(2, row), fill)?;
                out.push(text)
            }),
            Named::PadRight => self.texts(|row, out| {
                let (text, fill) = padding(self.text(0, row), self.integer(1, row), self.text(2, row));
                out.push(text)?;
                out.push_cycle(self.text(2, row), fill)
            }),
            Named::Repeat => self.texts(|row, out| {
                let text = self.text(0, row);
                let times = if text.is_empty() { 0 } else { self.integer(1, row) };
                (0..times).try_for_each(|_| out.push(text))
            }),
            Named::Reverse => self.texts(|row, out| {
                let mut buffer = [0; 4];
                self.text(0, row).chars().rev().try_for_each(|c| out.push(c.encode_utf8(&mut buffer)))
            }),
            Named::Upper => self.texts(|row, out| out.push_changed(self.text(0, row), str::make_ascii_uppercase)),
            Named::Lower => self.texts(|row, out| out.push_changed(self.text(0, row), str::make_ascii_lowercase)),
            Named::UpperIn => {
                let locale = self.locale()?;
                self.texts(|row, out| out.push_each(self.text(0, row).chars().map(|c| locale.upper(c))))
            }
            Named::LowerIn => {
                let locale = self.locale()?;
                self.texts(|row, out| out.push_each(self.text(0, row).chars().map(|c| locale.lower(c))))
            }
            Named::CompareIn => {
                let (locale, mut scratch) = (self.locale()?, Scratch::default());
                self.integers(|row| locale.compare(self.text(0, row), self.text(1, row), &mut scratch) as i32)
            }
            other => Err(DataFusionError::Internal(format!("{other:?} is no function of text"))),
        }
    }

    /// The locale that the last operand names.
    fn locale(&self) -> Result<&'static Locale> {
        match self.args.last() {
            Some(Values::Text(name)) => known_locale(name),
            _ => Err(DataFusionError::Internal("a locale that is not constant".into())),
        }
    }

    fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    fn booleans(&self, f: impl Fn(usize) -> Outcome<bool>) -> Result<ArrayRef> {
        let mut failure = None;
        let values = BooleanBuffer::collect_bool(self.rows, |row| {
            self.is_valid(row)
                && f(row).unwrap_or_else(|error| {
                    failure = Some(error);
                    false
                })
        });
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(Arc::new(BooleanArray::new(values, self.nulls.clone()))),
        }
    }

    fn integers(&self, mut f: impl FnMut(usize) -> i32) -> Result<ArrayRef> {
        let value = |row| if self.is_valid(row) { f(row) } else { 0 };
        let values: Vec<i32> = (0..self.rows).map(value).collect();
        Ok(Arc::new(Int32Array::new(values.into(), self.nulls.clone())))
    }

    /// Applies `f`, whose results are parts of an operand. The results need no limit, because none is longer than the
    /// operand.
    fn parts<'a>(&'a self, f: impl Fn(usize) -> Outcome<&'a str>) -> Result<ArrayRef> {
        let mut result = StringViewBuilder::with_capacity(self.rows);
        for row in 0..self.rows {
            if self.is_valid(row) { result.append_value(f(row)?) } else { result.append_null() }
        }
        Ok(Arc::new(result.finish()))
    }

    fn texts(&self, f: impl Fn(usize, &mut Room) -> Outcome<()>) -> Result<ArrayRef> {
        let mut result = StringViewBuilder::with_capacity(self.rows);
        let mut room = Room { text: String::new(), left: MAX_BYTES };
        for row in 0..self.rows {
            room.text.clear();
            if self.is_valid(row) {
                f(row, &mut room)?;
                result.append_value(&room.text);
            } else {
                result.append_null();
            }
        }
        Ok(Arc::new(result.finish()))
    }

    fn like(&self) -> Result<ArrayRef> {
        match self.args.get(1) {
            Some(Values::Text(pattern)) => {
                let pattern = Pattern::new(pattern);
                self.booleans(|row| pattern.matches(self.text(0, row)))
            }
            _ => self.booleans(|row| Pattern::new(self.text(1, row)).matches(self.text(0, row))),
        }
    }

    /// The regular expression, which the plan's check has found to be constant.
    fn expression(&self, any_case: bool) -> Result<(Parsed, Letters)> {
        let wrong = || DataFusionError::Internal("a regular expression that is not known".into());
        let (Some(Values::Text(expression)), Some(Values::Text(letters))) = (self.args.get(1), self.args.last()) else {
            return Err(wrong());
        };
        Ok((regular::parse(expression, any_case).ok_or_else(wrong)?, Letters::of_text(letters)?))
    }

    fn finder(&self) -> Result<Finder> {
        let (parsed, letters) = self.expression(false)?;
        let unknown = || DataFusionError::Internal("a part of a match that is not known".into());
        Finder::new(&parsed, letters).ok_or_else(unknown)
    }

    fn regular(&self, any_case: bool) -> Result<ArrayRef> {
        let (parsed, letters) = self.expression(any_case)?;
        let mut automaton = Automaton::new(&parsed, letters);
        let matches = |row| self.is_valid(row) && automaton.matches(self.text(0, row));
        let values = BooleanBuffer::collect_bool(self.rows, matches);
        Ok(Arc::new(BooleanArray::new(values, self.nulls.clone())))
    }

    fn matched_parts(&self) -> Result<ArrayRef> {
        let mut finder = self.finder()?;
        let mut result = StringViewBuilder::with_capacity(self.rows);
        for row in 0..self.rows {
            result.append_option(if self.is_valid(row) { finder.part(self.text(0, row))? } else { None });
        }
        Ok(Arc::new(result.finish()))
    }

    fn replaced_matches(&self, all: bool) -> Result<ArrayRef> {
        let mut finder = self.finder()?;
        let mut result = StringViewBuilder::with_capacity(self.rows);
        let mut room = Room { text: String::new(), left: MAX_BYTES };
        for row in 0..self.rows {
            if !self.is_valid(row) {
                result.append_null();
                continue;
            }
            room.text.clear();
            finder.replaced(self.text(0, row), self.text(2, row), all, &mut room.text)?;
            room.took(room.text.len())?;
            result.append_value(&room.text);
        }
        Ok(Arc::new(result.finish()))
    }

    fn trimmed(&self, row: usize, has_set: bool, start: bool, end: bool) -> &str {
        let set = if has_set { self.text(1, row) } else { " " };
        let in_set = |c: char| set.contains(c);
        let text = self.text(0, row);
        let text = if start { text.trim_start_matches(in_set) } else { text };
        if end { text.trim_end_matches(in_set) } else { text }
    }
}

/// A buffer for one row's result. All further results of the batch may take `left` bytes.
struct Room {
    text: String,
    left: usize,
}

impl Room {
    fn push(&mut self, text: &str) -> Outcome<()> {
        self.took(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Appends this many characters, repeating `text`, which must not be empty.
    fn push_cycle(&mut self, text: &str, characters: usize) -> Outcome<()> {
        let mut buffer = [0; 4];
        text.chars().cycle().take(characters).try_for_each(|c| self.push(c.encode_utf8(&mut buffer)))
    }

    fn push_each(&mut self, characters: impl Iterator<Item = char>) -> Outcome<()> {
        self.text.extend(characters);
        self.took(self.text.len())
    }

    fn took(&mut self, bytes: usize) -> Outcome<()> {
        self.left = self.left.checked_sub(bytes).ok_or(QueryError(FailureKind::OutOfMemory))?;
        Ok(())
    }

    fn push_changed(&mut self, text: &str, change: impl Fn(&mut str)) -> Outcome<()> {
        self.push(text)?;
        change(&mut self.text);
        Ok(())
    }
}

fn length(text: &str) -> usize {
    text.as_bytes().iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// The offset behind the first `characters` characters.
fn offset(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

fn position(text: &str, wanted: &str) -> i32 {
    find(text, wanted).map_or(0, |at| length(&text[..at]) as i32 + 1)
}

fn substring(text: &str, start: i32, characters: Option<i32>) -> Outcome<&str> {
    let rest = &text[offset(text, start.max(1) as usize - 1)..];
    match characters {
        Some(..0) => Err(QueryError(FailureKind::NegativeSubstring)),
        // If the end is too large for an integer, the part reaches to the end of the text.
        Some(characters) => Ok(match start.checked_add(characters) {
            Some(end) => &rest[..offset(rest, (end.max(1) - start.max(1)).max(0) as usize)],
            None => rest,
        }),
        None => Ok(rest),
    }
}

/// The first `characters` characters. If the number is negative, that many characters are cut off at the end.
fn left(text: &str, characters: i32) -> &str {
    let wanted = if characters < 0 {
        length(text).saturating_sub(characters.unsigned_abs() as usize)
    } else {
        characters as usize
    };
    &text[..offset(text, wanted)]
}

/// The last `characters` characters. If the number is negative, that many characters are cut off at the beginning.
fn right(text: &str, characters: i32) -> &str {
    let skipped = match characters {
        ..0 => characters.unsigned_abs() as usize,
        0.. => length(text).saturating_sub(characters as usize),
    };
    &text[offset(text, skipped)..]
}

/// The part of the text that fits the wanted length, and the number of characters to add.
fn padding<'a>(text: &'a str, wanted: i32, fill: &str) -> (&'a str, usize) {
    let (wanted, own) = (wanted.max(0) as usize, length(text));
    let missing = if fill.is_empty() { 0 } else { wanted.saturating_sub(own) };
    (&text[..offset(text, wanted)], missing)
}

fn replace(text: &str, from: &str, to: &str, out: &mut Room) -> Outcome<()> {
    let mut rest = text;
    if !from.is_empty() {
        while let Some(at) = find(rest, from) {
            out.push(&rest[..at])?;
            out.push(to)?;
            rest = &rest[at + from.len()..];
        }
    }
    out.push(rest)
}

fn split_part<'a>(text: &'a str, delimiter: &str, field: i32) -> Outcome<&'a str> {
    if field == 0 {
        return Err(QueryError(FailureKind::FieldZero));
    }
    if delimiter.is_empty() {
        return Ok(if field.unsigned_abs() == 1 { text } else { "" });
    }
    let fields = || text.split(delimiter);
    let found = if field > 0 {
        fields().nth(field as usize - 1)
    } else {
        let all = fields().count();
        all.checked_sub(field.unsigned_abs() as usize).and_then(|index| fields().nth(index))
    };
    Ok(found.unwrap_or_default())
}
