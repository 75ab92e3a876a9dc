//! A part of a document that is asked for, and the result.

use protocol::request::FailureKind;

use crate::base::error::QueryError;

pub type Outcome<T> = Result<T, QueryError>;

/// A document that is not one: the mirror has it as the table does.
pub const BROKEN: QueryError = QueryError(FailureKind::Internal);

/// A part of a document.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    Member(&'a str),
    Element(i32),
    /// A member of an object, or the element of an array that a text is the number of.
    Step(&'a str),
    Whole,
}

/// The place of an element that is counted from the front, or from the end if the number is negative.
pub fn place(number: i64, length: usize) -> Option<usize> {
    let at = if number < 0 { number.checked_add(length as i64)? } else { number };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// The element number that a step of a path gives, as C's `strtol` reads it.
pub fn number_of(step: &str) -> Option<i64> {
    let step = step.trim_start_matches(|c| matches!(c, ' ' | '\t'..='\r'));
    let digits = step.strip_prefix(['+', '-']).unwrap_or(step);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = all_digits.then(|| step.parse::<i32>().ok()).flatten()?;
    Some(number.into())
}
