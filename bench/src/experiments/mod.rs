//! The benchmarks. Each starts a cluster or uses an existing server, measures, and returns its figures. Another
//! function makes a page of them.

pub mod capture;
pub mod ch;
pub mod freshness;
pub mod hammerdb;
pub mod htap;
pub mod load;
pub mod lookups;
mod mechanisms;
mod memory;
mod must;
pub mod orders;
pub mod pairs;
pub mod phases;
pub mod planning;
pub mod queries;
pub mod restart;
mod side_by_side;
pub mod thesis;

use std::sync::Arc;

use anker_report::Report;
use anker_report::page::Page;

use crate::arguments::Parsed;
use crate::server::Server;
use crate::{Output, Result};

/// One of the benchmarks, with everything that the command line needs.
pub struct Experiment {
    pub name: &'static str,
    pub usage: &'static str,
    pub page: fn(&Report) -> Page,
    pub plan: fn(std::vec::IntoIter<String>) -> Parsed<Planned>,
}

/// A run of an experiment whose options were read.
pub struct Planned {
    pub output: Output,
    pub run: Box<Run>,
}

/// Runs the experiment and returns its report.
pub type Run = dyn FnOnce(&Arc<Server>) -> Result<Report>;

macro_rules! experiments {
    ($($module:ident),* $(,)?) => {
        /// Modules with `USAGE`, `Options`, `run` and `page`.
        pub const ALL: &[Experiment] = &[$(Experiment {
            name: stringify!($module),
            usage: $module::USAGE,
            page: $module::page,
            plan: |given| {
                let mut options = $module::Options::parse(given)?;
                let output = std::mem::take(&mut options.output);
                Ok(Planned { output, run: Box::new(move |server| $module::run(server, &options)) })
            },
        }),*];
    };
}

experiments![
    htap, ch, freshness, thesis, hammerdb, capture, load, lookups, planning, queries, pairs, orders, phases, restart
];

impl Experiment {
    pub fn named(name: &str) -> Option<&'static Experiment> {
        ALL.iter().find(|experiment| experiment.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_quick_if_asked_and_says_what_it_does_not_know() {
        for experiment in ALL {
            let plan = |words: &[&str]| {
                (experiment.plan)(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>().into_iter())
            };
            let quick = plan(&["--quick", "--json", "a.json", "--svg-dir", "docs"]);
            let output = quick.map(|planned| planned.output).unwrap_or_default();
            assert!(output.json.is_some() && output.svg_dir.is_some(), "{}", experiment.name);
            assert!(plan(&["--nonsense"]).is_err() && plan(&["--json"]).is_err(), "{}", experiment.name);
            assert!(experiment.usage.starts_with(experiment.name) && experiment.usage.contains("[OUTPUT]"));
        }
    }
}
