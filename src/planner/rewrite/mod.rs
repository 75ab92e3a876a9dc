//! Changes the form of queries before they are translated.
//!
//! - `flag`: finds and removes `anker.olap()`; `own`: a cache of the extension's functions
//! - `inlined`: functions in FROM with a query as their body
//! - `insert`: the rows of INSERT … SELECT as a query of their own
//! - `pull_up`: merges simple views and subqueries into the query around them
//! - `unwrap`: replaces a query that only reads a subquery
//! - `nested`: moves DISTINCT and window functions of the query itself into a subquery

pub mod flag;
pub mod inlined;
pub mod insert;
pub mod nested;
pub mod own;
mod pull_up;
pub mod unwrap;
