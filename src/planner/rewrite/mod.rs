//! Rewrites queries before they are translated.
//!
//! - `flag`: finds and removes `anker.olap()`; `own`: a cache of the extension's functions
//! - `generated`: computes virtual generated columns
//! - `inlined`: replaces functions in FROM whose body is a query
//! - `insert`: makes a query of the rows of INSERT … SELECT
//! - `pull_up`: merges simple views and subqueries into the query around them
//! - `unwrap`: merges a query that only reads one subquery into that subquery
//! - `nested`: moves DISTINCT and window functions of the query itself into a subquery

pub mod flag;
pub mod generated;
pub mod inlined;
pub mod insert;
pub mod nested;
pub mod own;
mod pull_up;
pub mod unwrap;
