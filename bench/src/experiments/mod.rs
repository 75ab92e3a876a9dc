//! The benchmarks: each makes a cluster, measures, and returns its figures.

mod capture;
mod lookups;
mod orders;
mod queries;
mod sets;

pub use capture::capture;
pub use lookups::lookups;
pub use orders::orders;
pub use queries::queries;
pub use sets::sets;
