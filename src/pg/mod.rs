//! The ground floor: PostgreSQL's own things, wrapped in small safe types. It knows nothing of the rooms above it. It
//! knows three of our crates: the plan's types and literals, the change stream's values, and the wire format.
//!
//! - `session`, `catalog`, `collation`: this process, and facts from the catalog
//! - `attempt`: calls that may raise an error, which then becomes a reason to use the heap
//! - `transaction`, `snapshot`, `wal`: transactions, snapshots, and positions in the WAL
//! - `relation`, `primary_key`, `descriptor`, `rows`, `rights`: tables, their rows, and who may read them
//! - `types`, `tuple`: conversion of values of all types, and of rows for the change stream
//! - `zone`: time zones and intervals
//! - `tree`, `walk`, `make`, `tag`: nodes of parser and planner
//! - `statement`, `planning`: statements of our own, and plans made through all planner hooks
//! - `place`, `child`, `scan_node`, `explain`, `tuple_store`: custom scans
//! - `delivery`, `run`: rows on their way to the client
//! - `decoding`, `record`: following the WAL
//! - `process`, `wait`: background workers, and sleeping in them
//! - `memory`, `error`, `hooks`, `utility`: memory contexts, errors with code and hint, hooks
//! - `changes`: tells caches about changes of the catalog
//! - `compat`: differences between PostgreSQL's versions, all of them
//! - `symbols`: functions of the server that pgrx offers not at all or in an unsuitable form; `plain`: macros for
//!   them, and for variables
//!
//! Functions here that are not `unsafe` are sound for every caller on the main thread of a server process. Some say
//! that they need a transaction. An error of the server becomes a panic of pgrx, unless the function documents
//! otherwise.

pub mod address;
pub mod attempt;
pub mod blocks;
pub mod catalog;
pub mod changed_row;
mod changes;
pub mod child;
pub mod collation;
pub mod compat;
pub mod decoding;
pub mod delivery;
pub mod descriptor;
pub mod error;
pub mod explain;
pub mod hooks;
pub mod make;
pub mod memory;
mod owner;
mod pages;
pub mod place;
mod plain;
pub mod planning;
pub mod primary_key;
pub mod process;
mod record;
pub mod relation;
pub mod rights;
pub mod rows;
pub mod run;
pub mod scan_node;
pub mod sequence;
pub mod session;
pub mod snapshot;
pub mod statement;
pub mod symbols;
mod tag;
pub mod transaction;
pub mod tree;
pub mod tuple;
pub mod tuple_store;
pub mod types;
pub mod utility;
pub mod wait;
pub mod wal;
pub mod walk;
pub mod zone;
