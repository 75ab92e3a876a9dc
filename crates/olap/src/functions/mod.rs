//! Loops over columns, and the single values in them: what functions return.

pub mod arrays;
pub mod convert;
pub mod documents;
pub mod enums;
pub mod greatest;
pub mod numbers;
pub mod numerics;
pub mod order;
pub mod text;
pub mod time;
