//! SQL functions.

mod mirror;
