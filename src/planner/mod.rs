//! Translates a Query into an analytic plan, or finds the reason why not: see docs/internals/routing.md.
//!
//! The rooms, from top to bottom; each knows only those below it:
//!
//! - `hook`: planning of a query
//! - `route`: the choice between engine and heap, if `anker.route = auto` leaves it open
//! - `tree`: the plan tree that results, with PostgreSQL's part above the engine
//! - `translate`: the query as an analytic plan
//! - `rewrite`: queries in a form that is easier to translate
//! - `words`: the operators and functions that the engine knows, questions about a Query, reasons

mod hook;
mod rewrite;
mod route;
mod translate;
mod tree;
mod words;

pub use hook::init;
