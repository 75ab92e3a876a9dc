//! Points in time, and intervals.

pub mod calendar;
pub mod differences;
pub mod interval_values;
pub mod intervals;
pub mod to_char;
