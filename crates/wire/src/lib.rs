//! PostgreSQL's values as its clients read them, byte for byte what the server's own output functions write.
//!
//! Each function writes to the beginning of `out` and returns how many bytes it wrote. What a value's room is, is said
//! beside it; a shorter `out` is a panic.

#![forbid(unsafe_code)]

mod days;
pub mod integer;
pub mod moment;
pub mod numeric;
pub mod uuid;
