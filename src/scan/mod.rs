//! The two custom scan nodes: see docs/internals/routing.md.
//!
//! - `chooser`: "Anker", on top: engine or heap, decided once, before the first row
//! - `engine_node`: "Anker Engine", the scan of the engine's result; `result` holds it
//! - `checks`: reasons against asking the engine at all
//! - `conversation`: messages to and from the engine; `trouble`: its failures
//! - `foretell`, `outline`: the engine's plan in EXPLAIN, asked for and shown
//! - `batch`: Arrow to PostgreSQL's values

mod batch;
mod checks;
mod chooser;
mod conversation;
mod engine_node;
mod foretell;
mod outline;
mod result;
mod sent;
mod spread;
mod trouble;

use crate::pg::run::deliver_rows_of;

/// While the library is loaded.
pub fn init() {
    chooser::METHODS.register();
    engine_node::METHODS.register();
    deliver_rows_of::<chooser::Chooser>();
}
