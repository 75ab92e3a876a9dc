//! The plan tree that results from planning.
//!
//! - `split`: divides a query into the engine's part and PostgreSQL's part above it; `placeholder`: the function in
//!   FROM that stands for the engine's result while PostgreSQL plans its part
//! - `nodes`: PostgreSQL's nodes over our scan, both sides under the node that chooses; `above`: the nodes between
//! - `unplanned`: a statement whose heap plan is not made yet; `modifiers`: the modifiers of its columns

pub mod above;
mod modifiers;
pub mod nodes;
mod placeholder;
pub mod split;
pub mod unplanned;
