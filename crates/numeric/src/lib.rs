//! The type numeric of PostgreSQL 15, digit for digit: values of any length with their display scale, NaN, and the
//! infinities. Results of arithmetic have PostgreSQL's value and display scale.
//!
//! Almost all values fit an `i128` and a scale, and are computed in this form. Longer values use base-10000 digits, as
//! in PostgreSQL; up to 20 digits need no heap allocation. Both forms are exact, and give the same results. Functions
//! that cannot be exact (`exp`, `ln`, most powers) repeat PostgreSQL's approximation step by step.

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
