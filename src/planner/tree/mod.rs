//! The plan tree that comes out.
//!
//! - `split`: what the engine computes of a query and what stays above it; `placeholder`: the function in FROM that
//!   stands for the engine's result while PostgreSQL plans what stays above
//! - `nodes`: PostgreSQL's nodes over our scan, both sides under the node that chooses; `above`: those between
//! - `unplanned`: what is said of a heap that is not planned yet; `modifiers`: those of its columns

pub mod above;
mod modifiers;
pub mod nodes;
mod placeholder;
pub mod split;
pub mod unplanned;
