//! Queries in another form, before they are translated.
//!
//! - `flag`: `anker.olap()`, looked for and taken out; `own`: the extension's functions, remembered
//! - `inlined`: functions in FROM whose body is a query
//! - `insert`: the rows of INSERT … SELECT as a query of their own
//! - `pull_up`: simple views and subqueries, merged into the query around them
//! - `unwrap`: a query that only reads a subquery
//! - `nested`: DISTINCT and window functions of the query itself, as a subquery

pub mod flag;
pub mod inlined;
pub mod insert;
pub mod nested;
pub mod own;
mod pull_up;
pub mod unwrap;
