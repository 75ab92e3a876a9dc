//! From a Query to an analytic plan, or to the reason why not: see docs/internals/routing.md.
//!
//! The rooms, from top to bottom; each knows those below it only:
//!
//! - `hook`: what happens when PostgreSQL plans a query
//! - `route`: whether the engine or the heap answers it, where `anker.route = auto` leaves that open
//! - `tree`: the plan tree that comes out, with what PostgreSQL computes above the engine
//! - `translate`: the query as an analytic plan
//! - `rewrite`: queries in a form that is easier to translate
//! - `words`: the operators and functions that the engine knows, questions about a Query, reasons

mod hook;
mod rewrite;
mod route;
mod translate;
mod tree;
mod words;

pub use hook::{init, plan_for_heap};
