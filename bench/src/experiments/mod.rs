//! The benchmarks: each makes a cluster, measures, and returns its figures.

mod capture;
mod queries;

use std::sync::Arc;

pub use capture::capture;
pub use queries::queries;

use crate::Result;
use crate::report::Report;
use crate::server::Server;

/// The flag asks for a run of a minute or two.
pub type Experiment = fn(&Arc<Server>, quick: bool) -> Result<Report>;
