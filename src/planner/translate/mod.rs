//! Translates a query into an analytic plan ([`plan::Plan`]), or finds the reason why that is not possible.
//!
//! SQL is recursive: levels contain expressions, and expressions contain subqueries, which are levels. So the rooms
//! here call each other, as PostgreSQL's own parse_expr.c and parse_clause.c do. Their functions are methods of
//! [`Translator`].
//!
//! - `translator`: the state of a translation, and the entry for expressions of every kind
//! - `scope`: the names that the expressions of a level may use
//! - `columns`: the columns of the engine's result
//! - `copies`: copies of translated rows
//! - `level`: SELECT levels, which are the query itself or its subqueries
//! - `expr`: the various kinds of expressions
//! - `aggregate`: aggregates and window functions

pub mod aggregate;
pub mod columns;
mod copies;
pub mod expr;
pub mod level;
pub mod scope;
mod translator;

pub use translator::{Ask, Asked, Finished, Pending, Scale, Translator, Typed, boolean, cast, constant_literal, exact};
