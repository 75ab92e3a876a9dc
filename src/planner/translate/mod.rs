//! A query as an analytic plan ([`plan::Plan`]), or the reason why not.
//!
//! SQL is recursive: levels hold expressions, these hold subqueries, which are levels. So the rooms call each other,
//! like PostgreSQL's own parse_expr.c and parse_clause.c; all are methods of [`Translator`].
//!
//! - `translator`: what a translation has come to so far, and expressions of every kind
//! - `scope`: what the expressions of a level may refer to
//! - `columns`: the engine's result as PostgreSQL sees it
//! - `level`: SELECT levels, be they the query or a subquery
//! - `expr`: the kinds of expressions
//! - `aggregate`: aggregates and window functions

pub mod aggregate;
pub mod columns;
pub mod expr;
pub mod level;
pub mod scope;
mod translator;

pub use translator::{Ask, Asked, Finished, Pending, Scale, Translator, Typed, boolean, cast, constant_literal, exact};
