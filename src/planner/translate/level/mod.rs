//! Translates SELECT levels. A level is the query itself, or a subquery.
//!
//! - `select`: one level: its rows, its groups, and the expressions that are computed from them
//! - `from`: FROM and WHERE; `values`: VALUES; `unfolded`: functions in FROM that read other rows
//! - `security`: rows that the user may not see; `sent`: rows that PostgreSQL computes for the engine
//! - `subquery`: subqueries, which become joins; `set_operation`: UNION and its kin
//! - `grouping_sets`: GROUPING SETS, ROLLUP, CUBE, GROUPING()
//! - `window`: window functions
//! - `ordered`: ORDER BY with LIMIT and OFFSET, in subqueries, and in the query itself as far as the engine can do it;
//!   `arrival`: the order that rows have without ORDER BY

pub mod arrival;
pub mod from;
pub mod grouping_sets;
pub mod ordered;
pub mod security;
pub mod select;
pub mod sent;
pub mod set_operation;
pub mod subquery;
pub mod unfolded;
pub mod values;
pub mod window;
