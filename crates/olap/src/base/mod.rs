//! Foundations that all other modules of this crate may use.

pub mod arrow_form;
pub mod bytes;
pub mod cancellation;
pub mod compact;
pub mod error;
pub mod keys;
pub mod operand;
pub mod pieces;
pub mod unordered;
pub mod visit;
