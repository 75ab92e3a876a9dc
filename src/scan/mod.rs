//! The two custom scan nodes: see docs/internals/routing.md.
//!
//! - `chooser`: "Anker", the top node, which chooses between engine and heap once, before the first row
//! - `engine_node`: "Anker Engine", the scan of the engine's result, which `result` holds
//! - `checks`: decides whether the engine may be asked
//! - `conversation`: messages to and from the engine; `trouble`: its failures
//! - `foretell`, `outline`: request and show the engine's plan in EXPLAIN
//! - `tally`: the figures of an execution for `anker.statements`
//! - `batch`: converts Arrow batches to PostgreSQL's values

mod batch;
mod checks;
mod chooser;
mod conversation;
mod engine_node;
mod foretell;
mod outline;
mod result;
mod sent;
mod tally;
mod trouble;

use crate::pg::run::deliver_rows_of;

/// Registers the nodes; called while the library is loaded.
pub fn init() {
    chooser::METHODS.register();
    engine_node::METHODS.register();
    deliver_rows_of::<chooser::Chooser>();
}
