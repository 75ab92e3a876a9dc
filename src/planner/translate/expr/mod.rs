//! The kinds of expressions.
//!
//! - `compare`: comparisons; `lists`: those with the elements of an array; `matching`: patterns and regular expressions
//! - `conditional`: CASE, COALESCE and their kin
//! - `functions`: functions that the plan calls by their name
//! - `conversions`: to text, and from it; `char_length`: how long a char(n) is
//! - `origins`: where an expression's values come from
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
