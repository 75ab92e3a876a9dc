//! SQL functions.

mod mirror;
mod query;
mod verify;
mod views;
