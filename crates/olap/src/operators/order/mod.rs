//! The operators that sort rows, or return the first rows of an order.

pub mod first_of_groups;
pub mod runs;
pub mod section;
pub mod sort;
pub mod sorter;
pub mod thinned;
