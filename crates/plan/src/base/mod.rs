//! The ground: types, operators, kinds of failures.

pub mod failure;
pub mod ops;
pub mod types;
