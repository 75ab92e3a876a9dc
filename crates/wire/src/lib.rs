//! PostgreSQL's values in the form that clients read, byte for byte as the server's own output functions write them.
//!
//! Each function writes to the beginning of `out`, and returns the number of bytes. The room that a value needs is
//! stated beside its function; a shorter `out` causes a panic.

#![forbid(unsafe_code)]

mod days;
pub mod integer;
pub mod moment;
pub mod numeric;
pub mod uuid;
