//! Translates a Query into an analytic plan, or finds the reason why that is impossible: see docs/internals/routing.md.
//!
//! The rooms within, from top to bottom. Each knows only the rooms below it:
//!
//! - `explained`: what EXPLAIN (ANKER) tells about a query
//! - `hook`: planning of a query
//! - `route`: the choice between engine and heap by cost, under `anker.route = auto`
//! - `tree`: the resulting plan tree, with PostgreSQL's part above the engine
//! - `translate`: translates a query into an analytic plan
//! - `rewrite`: rewrites queries into a form that is easier to translate
//! - `words`: the operators and functions that the engine knows, questions about a Query, and reasons

mod explained;
mod hook;
mod rewrite;
mod route;
mod translate;
mod tree;
mod words;

/// Installs the planner hook, and the option of EXPLAIN. To be called once, while the library is preloaded.
pub fn init() {
    hook::init();
    explained::init();
}
