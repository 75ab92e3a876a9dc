//! The operator for window functions, and the columns that it adds.

mod bytes;
pub mod edges;
pub mod exec;
pub mod frames;
mod numbers;
pub mod totals;
pub mod tree;
pub mod windowed;
