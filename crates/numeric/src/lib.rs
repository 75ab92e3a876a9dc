//! PostgreSQL 15's type numeric, digit for digit: values with their display scale, any number of digits, NaN and the
//! infinities, and arithmetic whose results are PostgreSQL's in value and in display scale.
//!
//! Almost all values fit an `i128` and a scale, and are computed with as such; what does not fit is computed with base-10000
//! digits as PostgreSQL does, in place up to 20 of them. Both ways are exact, so it does not show which was taken. What
//! cannot be exact (`exp`, `ln`, most powers) is approximated step by step as PostgreSQL does it.

mod add;
mod compare;
mod decimal;
mod digits;
mod div;
mod exponential;
mod float;
mod key;
mod long;
mod mul;
mod parse;
mod power;
mod root;
mod round;
mod sqrt;
mod stored;
mod text;
mod total;
mod value;
mod var;

pub use parse::ParseError;
pub use total::Total;
pub use value::{Error, Numeric};
