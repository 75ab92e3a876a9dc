//! Aggregates and window functions.
//!
//! - `call`: what the engine computes for an aggregate, and how it becomes PostgreSQL's result
//! - `listed`: aggregates over a group's values in an order
//! - `window_function`: what a window function is in the engine; `range_frame`: frames of a range of values

mod call;
pub mod listed;
pub mod range_frame;
pub mod window_function;

pub use call::{Translated, check_row_order, may_show_row_order};
