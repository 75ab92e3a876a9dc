//! PostgreSQL's values as its clients read them, byte for byte what the server's own output functions write.
//!
//! Each function writes to the beginning of `out` and returns how many bytes it wrote. The room that a value needs is
//! stated beside its function; a shorter `out` is a panic.

#![forbid(unsafe_code)]

mod days;
pub mod integer;
pub mod moment;
pub mod numeric;
pub mod uuid;
