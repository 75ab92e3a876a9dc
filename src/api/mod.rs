//! SQL functions.
