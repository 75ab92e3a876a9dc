//! The ground floor of the planner: what the engine knows, and how reasons are named.
//!
//! - `operators`: the whitelist of operators, functions and aggregates
//! - `query`: tests of the form of a Query
//! - `reason`: the reasons why a query, or a part of it, runs on the heap

pub mod operators;
pub mod query;
pub mod reason;
