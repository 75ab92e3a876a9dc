//! The accumulators of the aggregates. They do not depend on any operator.

pub mod bits;
pub mod count;
pub mod distinct;
pub mod exact_spread;
pub mod extreme;
pub mod float_pairs;
mod float_parts;
pub mod float_spread;
pub mod float_sum;
pub mod fold;
pub mod interval_sum;
pub mod listed;
pub mod numeric_sum;
mod seen;
pub mod sum;
