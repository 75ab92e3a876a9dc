//! What makes a plan fast without a look at how its operators work: free of PostgreSQL and Arrow.
//!
//! Rewrites keep the multiset of rows, and never add an error.
//!
//! - `simplify`: outer joins that are none, conditions to where their columns come from
//! - `join_order`: which of the relations of an inner join come first

pub mod join_order;
mod simplify;

pub use simplify::simplified;
