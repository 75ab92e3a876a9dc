//! Translates a query into an analytic plan ([`plan::Plan`]), or finds the reason why not.
//!
//! SQL is recursive: levels contain expressions, and these contain subqueries, which are levels. So the rooms call each
//! other, like PostgreSQL's own parse_expr.c and parse_clause.c. All are methods of [`Translator`].
//!
//! - `translator`: the state of a translation, and expressions of every kind
//! - `scope`: the names that the expressions of a level may use
//! - `columns`: the engine's result as PostgreSQL sees it
//! - `level`: SELECT levels: the query or a subquery
//! - `expr`: the kinds of expressions
//! - `aggregate`: aggregates and window functions

pub mod aggregate;
pub mod columns;
pub mod expr;
pub mod level;
pub mod scope;
mod translator;

pub use translator::{Ask, Asked, Finished, Pending, Scale, Translator, Typed, boolean, cast, constant_literal, exact};
