//! The ground floor: PostgreSQL's own things in small safe types. Knows nothing of mirrors, engines or plans of ours.
//!
//! - `session`, `catalog`: this process, and what the catalog says
//! - `tree`, `walk`, `value`: what parser and planner hand around
//! - `relation`, `tuple`: tables and their rows
//! - `scan_node`, `explain`, `tuple_store`: custom scans
//! - `memory`, `error`: memory contexts, errors with code and hint
//! - `process`, `wait`: background workers, and sleeping in them
//! - `snapshot`, `wal`: transactions, positions
//! - `compat`: what differs between PostgreSQL's versions
//! - `symbols`: functions of the server that pgrx does not offer as they are needed

pub mod catalog;
pub mod compat;
pub mod decoding;
pub mod error;
pub mod explain;
pub mod hooks;
pub mod memory;
pub mod process;
pub mod relation;
pub mod rows;
pub mod scan_node;
pub mod session;
pub mod snapshot;
pub mod symbols;
pub mod transaction;
pub mod tree;
pub mod tuple;
pub mod tuple_store;
pub mod value;
pub mod wait;
pub mod wal;
pub mod walk;
