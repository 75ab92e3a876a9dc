//! The ground floor: PostgreSQL's own things in small safe types. Knows nothing of mirrors, engines or plans of ours.
//!
//! - `tree`, `walk`, `value`: what parser and planner hand around
//! - `relation`, `tuple`: tables and their rows
//! - `memory`, `error`: memory contexts, errors with code and hint
//! - `process`, `wait`: background workers, and sleeping in them
//! - `snapshot`, `wal`: transactions, positions
//! - `compat`: what differs between PostgreSQL's versions
//! - `symbols`: functions of the server that pgrx does not offer as they are needed

pub mod compat;
pub mod error;
pub mod memory;
pub mod process;
pub mod relation;
pub mod snapshot;
pub mod symbols;
pub mod tree;
pub mod tuple;
pub mod value;
pub mod wait;
pub mod wal;
pub mod walk;
