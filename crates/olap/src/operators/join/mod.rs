//! Joins by equal keys, or by limits of values. If the build side does not fit into memory, they use the disk.
//!
//! ```text
//!   build side, all partitions -> rows laid out -> one table     a row's keys, as a word of 64 bits -> rows
//!                                                   ^   ^
//!   probe side, a partition ------------------------+   |        each batch: words -> pairs -> output columns
//!   probe side, another one ----------------------------+
//!
//!   no memory for the table: both sides -> parts on disk, by hash of the keys -> each part as above
//! ```
//!
//! With limits, such as a value that lies between two others, the build side is sorted if there are no keys, or if many
//! of its rows share their key. Without keys, the build side has to fit into memory.
//!
//! No rows are exchanged between threads. A join can fail only before its first row is returned.
//!
//! | file | job |
//! |---|---|
//! | `shape` | the kind, conditions and output of a join |
//! | `layout` | the columns of a side |
//! | `words`, `equal` | keys packed into words; comparing keys whose words are only hashes |
//! | `table` | the hash table, from words to rows |
//! | `ranks`, `ordering`, `ordered` | values as ranks; sorting the build side by them; ranges of sorted rows |
//! | `gather`, `building`, `built` | the build side: reading it, building it, the result in memory |
//! | `probe`, `pairs`, `output` | looking up rows of the probe side; pairs of partners; output batches |
//! | `streaming` | a partition of the probe side, when the build side is in memory |
//! | `parts`, `apart`, `partwise` | rows on disk, divided into parts; the parts joined (a grace hash join) |
//! | `plan`, `exec` | from a join of the plan to the operator; the operator |

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
pub use self::shape::{First, Given, Inequality, Key};
