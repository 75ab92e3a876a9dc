//! What `anker.route = auto` goes by.
//!
//! - `by_key`: queries for one row, which are never the engine's
//! - `cost`: what a query costs in the engine and on the heap; `partners`: how the engine finds the partners of a nested loop

pub mod by_key;
pub mod cost;
mod partners;
