//! From a Query to an analytic plan, or to the reason why not: see "A flagged query" in docs/internals.md.
//!
//! - `hook`: what happens when PostgreSQL plans a query
//! - `flag`: `anker.olap()`
//! - `pull_up`: simple views and subqueries
//! - `split`: what the engine computes and what stays above; with `level` for FROM and WHERE, `translate` for
//!   expressions and `operators` for the whitelist
//! - `nodes`: the plan tree that comes out

mod flag;
mod hook;
mod level;
mod nodes;
mod operators;
mod pull_up;
mod split;
mod translate;

pub use hook::init;
