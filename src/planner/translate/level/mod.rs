//! SELECT levels: the query itself, or a subquery.
//!
//! - `select`: a level with its groups, and the rest of its expressions above them
//! - `from`: FROM and WHERE; `values`: VALUES; `unfolded`: functions in FROM
//! - `security`: rows that the user may not see; `sent`: rows that PostgreSQL computes for the engine
//! - `subquery`: subqueries, which become joins; `set_operation`: UNION and its kin
//! - `grouping_sets`: GROUPING SETS, ROLLUP, CUBE, GROUPING()
//! - `window`: window functions
//! - `ordered`: ORDER BY with LIMIT and OFFSET, for subqueries, and for the query itself as far as the engine can do
//!   it; `arrival`: the order that rows have without ORDER BY

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
