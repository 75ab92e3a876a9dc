//! SQL functions.

mod mirror;
mod query;
