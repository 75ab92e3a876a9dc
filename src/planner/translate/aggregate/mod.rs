//! Translates aggregates and window functions.
//!
//! - `call`: the engine's computation for an aggregate, and the conversion of its result
//! - `listed`: aggregates over an ordered list of a group's values
//! - `value`: computes an aggregate's value from its columns
//! - `window_function`: window functions in the engine's plan; `range_frame`: frames of a range of values

mod call;
pub mod listed;
pub mod range_frame;
pub mod value;
pub mod window_function;

pub use call::{Translated, check_row_order, may_show_row_order};
