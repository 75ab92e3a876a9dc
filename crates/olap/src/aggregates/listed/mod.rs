//! Aggregates over a group's values in an order: concatenated texts, arrays, percentiles, the most frequent value.
//!
//! Rows are kept, column by column, until all are there. Then they are divided by group, and the rows of each group are
//! sorted:
//!
//! ```text
//!   value  delimiter  order | group          group 0: rows 1 4        -> 'b, a'
//!   array  array      array | numbers  ->    group 1: rows 3 0 2      -> ...
//! ```
//!
//! All rows of a group must be in one partition, so there are no partial states.

mod arrays;
mod collecting;
mod joined;
mod list_of;
mod order;
mod ranked;
mod rows;

pub use self::list_of::ListOf;
