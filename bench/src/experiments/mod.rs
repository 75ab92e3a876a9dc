//! The benchmarks: each makes a cluster, measures, and returns its figures.

mod capture;
mod orders;
mod queries;
mod sets;

pub use capture::capture;
pub use orders::orders;
pub use queries::queries;
pub use sets::sets;
