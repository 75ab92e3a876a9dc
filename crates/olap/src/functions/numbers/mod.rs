//! PostgreSQL's arithmetic on single values. Each function returns the result, and whether it is an error.
//!
//! The functions accept every input, because null slots hold arbitrary values. If a function fails, its result is
//! arbitrary.

pub mod averages;
#[doc(hidden)]
pub mod c_library;
pub mod dates;
pub mod decimals;
pub mod floats;
mod integers;
pub mod maths;

pub use self::integers::{Divisor, Integer};
