//! The ground floor: types, operators, and kinds of failures.

pub mod failure;
pub mod ops;
pub mod types;
