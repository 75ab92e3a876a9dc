//! The parts of documents that functions ask for, and the result type of these functions.

use protocol::request::FailureKind;

use crate::base::error::QueryError;

pub type Outcome<T> = Result<T, QueryError>;

/// The error for bytes that are no document. Such bytes may occur, because the mirror copies a table's values without
/// checking them.
pub const BROKEN: QueryError = QueryError(FailureKind::Internal);

/// A part of a document.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    Member(&'a str),
    Element(i32),
    /// A member of an object by its name, or an element of an array by its number as text.
    Step(&'a str),
    Whole,
}

/// The position of an element, if it exists. A negative number counts from the end.
pub fn place(number: i64, length: usize) -> Option<usize> {
    let at = if number < 0 { number.checked_add(length as i64)? } else { number };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// The number of an element in a step of a path, read as by C's `strtol`.
pub fn number_of(step: &str) -> Option<i64> {
    let step = step.trim_start_matches(|c| matches!(c, ' ' | '\t'..='\r'));
    let digits = step.strip_prefix(['+', '-']).unwrap_or(step);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = all_digits.then(|| step.parse::<i32>().ok()).flatten()?;
    Some(number.into())
}
