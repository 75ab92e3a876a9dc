//! From a Query to an analytic plan, or to the reason why not: see docs/internals/routing.md.
//!
//! - `hook`: what happens when PostgreSQL plans a query
//! - `flag`: `anker.olap()`, one of the extension's `own` functions; `inlined`: functions in FROM whose body is a query; `by_key` and `cost`: what `anker.route = auto` goes by
//! - `pull_up`: simple views and subqueries; `unwrap`: a query that only reads one
//! - `split`: what the engine computes and what stays above, which sees `columns` of a `placeholder`; `nested`: for what of a
//!   query itself the engine reads it as a subquery
//! - `level`: a SELECT level, be it the query or a subquery: `from` reads FROM and WHERE, whose columns are its `scope`, and
//!   `security` leaves out what the user may not see
//! - `subquery`: subqueries, which become joins; `set_operation`: UNION and its kin; `values`: VALUES; `unfolded`: functions
//!   in FROM
//! - `grouping_sets`: GROUPING SETS, ROLLUP, CUBE, GROUPING()
//! - `ordered`: LIMIT and OFFSET of subqueries, and of the query itself as far as the engine can see to it; `window`:
//!   window functions, `window_function` which they are
//! - `translate`: expressions, with `compare` for comparisons, `lists` for those with the elements of an array, `conditional`
//!   for CASE and its kin, `aggregate` for aggregates; `operators`, `functions`, `matching` (patterns), `conversions` (to text
//!   and from it), `documents` (jsonb), `enums` and `times` for the whitelist
//! - `numeric`: numbers that show their own digits
//! - `reason`: what EXPLAIN says otherwise
//! - `nodes`: the plan tree that comes out, `unplanned` what it says of a heap that is not planned yet

mod aggregate;
mod arrival;
mod by_key;
mod char_length;
mod columns;
mod compare;
mod conditional;
mod conversions;
mod cost;
mod documents;
mod enums;
mod flag;
mod from;
mod functions;
mod grouping_sets;
mod hook;
mod inlined;
mod insert;
mod level;
mod listed;
mod lists;
mod matching;
mod nested;
mod nodes;
mod numeric;
mod operators;
mod ordered;
mod own;
mod partners;
mod placeholder;
mod pull_up;
mod range_frame;
mod reason;
mod scope;
mod security;
mod sent;
mod set_operation;
mod split;
mod subquery;
mod times;
mod translate;
mod unfolded;
mod unplanned;
mod unwrap;
mod values;
mod window;
mod window_function;

pub use hook::{init, plan_for_heap};
