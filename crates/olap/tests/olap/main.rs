//! The engine's answers against the documented semantics.

mod build;
mod dense;
mod directed;
mod generator;
mod interpreter;
mod measure;
mod random;
mod runtime;
mod table;
