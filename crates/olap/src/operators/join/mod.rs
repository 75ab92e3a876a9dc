//! Joins by equal keys, or by limits of values, on disk if the build side does not fit into memory.
//!
//! ```text
//!   build side, all partitions -> rows laid out -> one table     a word of 64 bits for the keys of a row -> rows
//!                                                   ^   ^
//!   probe side, a partition ------------------------+   |        each batch: words -> pairs -> output columns
//!   probe side, another one ----------------------------+
//!
//!   no memory for the table: both sides -> parts on disk, by hash of the keys -> each part as above
//! ```
//!
//! With limits, such as a value that lies between two others, rows without keys, or with the same key as many others,
//! are sorted instead. Without keys they have to fit into memory.
//!
//! No rows are exchanged between threads. A join fails before its first row comes out, or not at all.
//!
//! | file | job |
//! |---|---|
//! | `shape` | what is joined, and what comes out |
//! | `layout` | the columns of a side |
//! | `words`, `equal` | keys as words; keys whose words are hashes |
//! | `table` | the rows that have a word |
//! | `ranks`, `ordering`, `ordered` | values as ranks; rows put in their order; those that lie between some |
//! | `gather`, `building`, `built` | the build side: read, put together, in memory |
//! | `probe`, `pairs`, `output` | the rows of the probe side looked up; pairs of partners; batches of what comes out |
//! | `streaming` | a partition of the probe side, when the build side is in memory |
//! | `parts`, `apart`, `partwise` | rows on disk, divided into parts; the parts joined (a grace hash join) |
//! | `plan`, `exec` | from the plan's terms to the operator; the operator |

mod apart;
mod building;
mod built;
mod equal;
mod exec;
mod gather;
mod layout;
mod ordered;
mod ordering;
mod output;
mod pairs;
mod parts;
mod partwise;
mod plan;
mod probe;
mod ranks;
mod shape;
mod spent;
mod streaming;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub use self::exec::JoinExec;
pub use self::plan::{Join, Limit};
pub use self::ranks::{Ranked, Ranking};
pub use self::shape::{Bound, First, Given, Key};
