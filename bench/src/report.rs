//! What the benchmarks report: one set of parameters, figures of queries and of configurations, shown as they come.

use std::path::Path;

use anker_report::{Row, Subject};
pub use anker_report::{median, percentile, rounded};
use serde_json::Value;

use crate::Result;

pub struct Report {
    experiment: &'static str,
    params: Value,
    found: anker_report::Report,
}

impl Report {
    pub fn new(experiment: &'static str, params: Value) -> Report {
        Report { experiment, params, found: anker_report::Report::new() }
    }

    pub fn meta(&mut self, key: &str, value: impl Into<Value>) {
        self.found.set_meta(key, value);
    }

    /// A figure of one query.
    pub fn query(&mut self, figure: &str, query: &str, value: impl Into<Value>, unit: &str) {
        self.push(figure, Subject::Query(query.to_owned()), value.into(), unit);
    }

    /// A figure of a configuration.
    pub fn config(&mut self, figure: &str, config: &str, value: impl Into<Value>, unit: &str) {
        self.push(figure, Subject::Config(config.to_owned()), value.into(), unit);
    }

    fn push(&mut self, figure: &str, subject: Subject, value: Value, unit: &str) {
        let shown = value.as_f64().map_or(value.to_string(), |v| format!("{v:.3}"));
        println!("  {figure:<28} {:<14} {shown:>14} {unit}", subject.name());
        self.found.push(Row {
            experiment: self.experiment.to_owned(),
            figure: figure.to_owned(),
            subject,
            params: self.params.clone(),
            value,
            unit: unit.to_owned(),
        });
    }

    pub fn value(&self, figure: &str, query: &str) -> Option<f64> {
        let wanted = Subject::Query(query.to_owned());
        self.found.rows().iter().find(|row| row.figure == figure && row.subject == wanted)?.number()
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(self.found.write(path)?)
    }
}
