//! The columnar mirror: columns, key index, undo, apply, and serving a snapshot exactly. See docs/internals.md.
//!
//! ```text
//!   stream --> backlog --apply--> rows (columns, index) + undo          one of each per table
//!                                   |                      |
//!                                   +-- snapshot, with changes after S undone --> view
//! ```
//!
//! | room, the upper ones first | job |
//! |---|---|
//! | `store` | all mirrored tables of a database; forked children |
//! | `table` | one table's life, from its first change to its removal; serving it as S sees it |
//! | `rows` | slots, key index, undo; transactions that wait to be applied |
//! | `read` | a snapshot as Arrow arrays, or as bytes for a file; statistics about columns |
//! | `cells` | the cells of a column, overwritten in place while snapshots keep the old values |
//! | `base` | the ground floor, which serves all other rooms |
//!
//! A room knows only those below it. `rows` and `read` are on the same floor, above `cells`.

mod base;
mod cells;
mod read;
mod rows;
mod store;
mod table;

#[cfg(test)]
mod tests;

pub use base::chunk::CHUNK_ROWS;
pub use base::clock::ApplyDelays;
pub use base::fastest;
pub use base::leases::Lease;
pub use cells::codes::coded::{Coded, LONG_TEXT, SHORT_TEXT, number_of_text, text_of_number};
pub use cells::codes::integers::Integers;
pub use cells::codes::select::Distinct;
pub use read::image::TableImage;
pub use read::survey::Survey;
pub use read::view::{Chunk, ChunkRows, TableView};
pub use rows::load::ChunkImage;
pub use snapmem::{Errand, Mechanism, OutOfMemory};
pub use store::{Forked, Limits, NoAnswer, Served, Sink, Store, StoreStatus};
pub use table::request::{TableChanges, TableRequest};
pub use table::serve::{TableSnapshot, Undone};
