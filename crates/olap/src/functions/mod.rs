//! The functions of the catalogue: their values, and loops over columns.

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
