//! SQL functions, and what DROP does to the list of mirrored tables.

mod calibrate;
mod columns;
mod dropped;
mod mirror;
mod partitions;
mod query;
mod verify;
mod views;

/// Called while the library is preloaded.
pub fn init() {
    dropped::install();
    partitions::install();
}
