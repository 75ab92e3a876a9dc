//! Groups of rows: the operators.

pub mod dense;
pub mod fused;
pub mod groups;
