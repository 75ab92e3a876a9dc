//! The ground floor of the planner.
//!
//! - `operators`: the whitelist of operators, functions and aggregates
//! - `query`: tests of a Query's form
//! - `reason`: the reasons why a query, or a part of it, stays on the heap

pub mod operators;
pub mod query;
pub mod reason;
