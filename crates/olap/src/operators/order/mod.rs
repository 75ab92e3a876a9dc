//! Rows in an order, and the first ones: the operators.

pub mod first_of_groups;
pub mod runs;
pub mod section;
pub mod sort;
pub mod sorter;
pub mod thinned;
