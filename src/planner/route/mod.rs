//! Decides between engine and heap under `anker.route = auto`.
//!
//! - `by_key`: queries for one row, which never run in the engine
//! - `cost`: the cost of a query in the engine and on the heap; `partners`: the way in which the engine finds the
//!   partners of a nested loop

pub mod by_key;
pub mod cost;
mod partners;
