//! Translates the various kinds of expressions.
//!
//! - `compare`: comparisons; `lists`: comparisons with the elements of an array; `matching`: patterns and regular
//!   expressions
//! - `conditional`: CASE, COALESCE and similar expressions
//! - `functions`: functions that the plan calls by their name
//! - `conversions`: conversions to and from text; `char_length`: the n of a char(n)
//! - `origins`: finds the sources of an expression's values
//! - `numeric`: numbers that show their own digits; `times`: points in time; `enums`; `documents`: jsonb and json

pub mod char_length;
pub mod compare;
pub mod conditional;
pub mod conversions;
pub mod documents;
pub mod enums;
pub mod functions;
pub mod lists;
pub mod matching;
pub mod numeric;
pub mod origins;
pub mod times;
