//! PostgreSQL's values in the form that clients read, byte for byte as the server's own output functions write them.
//!
//! Each function writes to the beginning of `out`, and returns the number of bytes written. Next to it, a constant
//! `ROOM` or a method such as `text_room` tells how many bytes a value may need. A shorter `out` causes a panic.

#![forbid(unsafe_code)]

mod days;
pub mod integer;
pub mod moment;
pub mod numeric;
pub mod uuid;
