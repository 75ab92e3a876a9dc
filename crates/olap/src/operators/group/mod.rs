//! The operators that group rows.

pub mod dense;
pub mod fused;
pub mod groups;
