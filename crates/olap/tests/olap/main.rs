//! The engine's answers against the documented semantics.

mod generator;
mod interpreter;
mod random;
mod table;
