//! Parts of documents: jsonb, which has a binary form, and json, which is text.

mod json;
mod jsonb;
mod part;

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, BooleanBuilder, Int32Builder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, StringViewArray};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::{Document, Named, Type};
use protocol::request::FailureKind;

use self::jsonb::Value;
use self::part::{BROKEN, Outcome, Part};
use crate::base::error::QueryError;
use crate::functions::numerics::Collected;

/// The greatest number of bytes in the results of one call for one batch.
const MAX_BYTES: usize = 64 << 20;

/// The keys, numbers or paths in the second operand.
enum Keys {
    Texts(StringViewArray),
    Numbers(Int32Array),
    None,
}

impl Keys {
    fn of(args: &[ColumnarValue], rows: usize) -> Result<Keys> {
        let Some(arg) = args.get(1) else { return Ok(Keys::None) };
        let array = arg.to_array(rows)?;
        match (array.as_string_view_opt(), array.as_primitive_opt::<Int32Type>()) {
            (Some(texts), _) => Ok(Keys::Texts(texts.clone())),
            (_, Some(numbers)) => Ok(Keys::Numbers(numbers.clone())),
            (None, None) => Err(DataFusionError::Internal(format!("{} is no key", array.data_type()))),
        }
    }

    /// The part that a row asks for; `None` for a null.
    fn part(&self, row: usize, by_step: bool) -> Option<Part<'_>> {
        match self {
            Keys::Texts(texts) if texts.is_null(row) => None,
            Keys::Texts(texts) if by_step => Some(Part::Step(texts.value(row))),
            Keys::Texts(texts) => Some(Part::Member(texts.value(row))),
            Keys::Numbers(numbers) => numbers.is_valid(row).then(|| Part::Element(numbers.value(row))),
            Keys::None => Some(Part::Whole),
        }
    }
}

/// Applies a function of documents to `rows` rows; its result has type `ty`.
pub fn apply(function: Named, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (documents, keys) = (args[0].to_array(rows)?, Keys::of(args, rows)?);
    let documents = documents.as_binary_view_opt().ok_or_else(|| DataFusionError::Internal("no document".into()))?;
    let by_step = matches!(function, Named::Step(_) | Named::StepText(_));
    let at = |row: usize| documents.is_valid(row).then(|| documents.value(row)).zip(keys.part(row, by_step));
    let wrong = || DataFusionError::Internal(format!("{function:?} is no function of documents"));
    match (function, ty) {
        (Named::Member(of) | Named::Element(of) | Named::Step(of), _) => {
            let mut parts = BinaryViewBuilder::with_capacity(rows);
            let mut room = Room { left: MAX_BYTES };
            for row in 0..rows {
                let part = match (at(row), of) {
                    (None, _) => None,
                    (Some((bytes, part)), Document::Jsonb) => jsonb::part(bytes, part)?.map(|value| value.document()),
                    (Some((bytes, part)), Document::Json) => {
                        json::part(bytes, part)?.map(|part| part.as_bytes().to_vec())
                    }
                };
                room.take(part.as_ref().map_or(0, Vec::len))?;
                parts.append_option(part);
            }
            Ok(Arc::new(parts.finish()))
        }
        (Named::MemberText(of) | Named::ElementText(of) | Named::StepText(of) | Named::WholeText(of), _) => {
            texts(rows, |row| match (at(row), of) {
                (None, _) => Ok(None),
                (Some((bytes, part)), Document::Jsonb) => {
                    let part = jsonb::part(bytes, part)?;
                    part.filter(|value| !matches!(value, Value::Null)).map(|value| value.text()).transpose()
                }
                (Some((bytes, part)), Document::Json) => match json::part(bytes, part)? {
                    Some(part) => json::as_text(part),
                    None => Ok(None),
                },
            })
        }
        (Named::Shown, _) => texts(rows, |row| match at(row) {
            Some((bytes, _)) => jsonb::shown(bytes).map(Some),
            None => Ok(None),
        }),
        (Named::TypeOf(of), _) => texts(rows, |row| match (at(row), of) {
            (None, _) => Ok(None),
            (Some((bytes, _)), Document::Jsonb) => Ok(Some(jsonb::whole(bytes)?.kind()?.to_owned())),
            (Some((bytes, _)), Document::Json) => Ok(Some(json::kind(bytes)?.to_owned())),
        }),
        (Named::ArrayLength(of), _) => {
            let mut lengths = Int32Builder::with_capacity(rows);
            for row in 0..rows {
                let length = match (at(row), of) {
                    (None, _) => None,
                    (Some((bytes, _)), Document::Jsonb) => Some(jsonb::length(bytes)?),
                    (Some((bytes, _)), Document::Json) => Some(json::length(bytes)?),
                };
                let no_array = QueryError(FailureKind::NoArray);
                let known = |length: Option<usize>| length.and_then(|n| i32::try_from(n).ok()).ok_or(no_array);
                lengths.append_option(length.map(known).transpose()?);
            }
            Ok(Arc::new(lengths.finish()))
        }
        (Named::HasKey, _) => {
            let mut found = BooleanBuilder::with_capacity(rows);
            for row in 0..rows {
                found.append_option(match at(row) {
                    Some((bytes, Part::Member(key))) => Some(jsonb::has(bytes, key)?),
                    _ => None,
                });
            }
            Ok(Arc::new(found.finish()))
        }
        (Named::NumberOf, _) => {
            let mut numbers = Collected::with_capacity(rows);
            for row in 0..rows {
                let number =
                    at(row).map(|(bytes, _)| jsonb::whole(bytes)?.number().ok_or(QueryError(FailureKind::TextUnread)));
                numbers.push(number.transpose()?.as_ref());
            }
            Ok(numbers.finish())
        }
        _ => Err(wrong()),
    }
}

fn texts(rows: usize, text: impl Fn(usize) -> Outcome<Option<String>>) -> Result<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(rows);
    let mut room = Room { left: MAX_BYTES };
    for row in 0..rows {
        let text = text(row)?;
        room.take(text.as_ref().map_or(0, String::len))?;
        texts.append_option(text);
    }
    Ok(Arc::new(texts.finish()))
}

/// The elements of an array, as documents or as texts; `None` if the document is no array.
pub fn elements(bytes: &[u8], of: Document, as_texts: bool) -> Outcome<Option<Vec<Option<Vec<u8>>>>> {
    match of {
        Document::Jsonb => {
            let Some(length) = jsonb::length(bytes)? else { return Ok(None) };
            let element = |at: usize| {
                let number = i32::try_from(at).map_err(|_| BROKEN)?;
                let value = jsonb::part(bytes, Part::Element(number))?.ok_or(BROKEN)?;
                Ok(match (as_texts, value) {
                    (false, value) => Some(value.document()),
                    (true, Value::Null) => None,
                    (true, value) => Some(value.text()?.into_bytes()),
                })
            };
            (0..length).map(element).collect::<Outcome<Vec<_>>>().map(Some)
        }
        Document::Json => {
            let Some(all) = json::elements(bytes)? else { return Ok(None) };
            let element = |part: &str| {
                Ok(match as_texts {
                    false => Some(part.as_bytes().to_vec()),
                    true => json::as_text(part)?.map(String::into_bytes),
                })
            };
            all.into_iter().map(element).collect::<Outcome<Vec<_>>>().map(Some)
        }
    }
}

/// The number of bytes that results may still take.
struct Room {
    left: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> Outcome<()> {
        self.left = self.left.checked_sub(bytes).ok_or(QueryError(FailureKind::OutOfMemory))?;
        Ok(())
    }
}
