//! Builds the plan tree.
//!
//! - `split`: divides a query into the engine's part and PostgreSQL's part above it; `placeholder`: the function in
//!   FROM that stands for the engine's result while PostgreSQL's part is planned
//! - `nodes`: builds the nodes of both sides, and the node that chooses; `above`: counts PostgreSQL's nodes over our
//!   scan
//! - `unplanned`: a statement whose heap plan has not been made yet; `modifiers`: the type modifiers of its columns

pub mod above;
mod modifiers;
pub mod nodes;
mod placeholder;
pub mod split;
pub mod unplanned;
