//! Reports of the benchmarks: figures of queries and of configurations.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anker_report::{Report, Row, Subject};
pub use anker_report::{median, percentile, rounded};
use serde_json::Value;

use crate::Result;

/// The file in which a run keeps the figures measured so far, so that they are not lost if the run breaks off.
static UNFINISHED: OnceLock<PathBuf> = OnceLock::new();

/// Makes this process keep its figures in a file beside its future report. Deletes figures that an earlier process left
/// there.
pub fn keep_unfinished_beside(report: &Path) {
    let path = UNFINISHED.get_or_init(|| report.with_extension("unfinished.json"));
    let _ = std::fs::remove_file(path);
}

/// The file with the kept figures, if there are any.
pub fn unfinished() -> Option<&'static Path> {
    UNFINISHED.get().map(PathBuf::as_path).filter(|path| path.exists())
}

/// The figures of one experiment.
pub struct Findings {
    pub report: Report,
    experiment: &'static str,
}

impl Findings {
    pub fn new(experiment: &'static str) -> Findings {
        Findings { report: Report::new(), experiment }
    }

    /// Adds a figure of a configuration.
    pub fn row(&mut self, figure: &str, config: &str, params: &Value, value: impl Into<Value>, unit: &str) {
        self.push(figure, Subject::Config(config.to_owned()), params, value.into(), unit);
    }

    /// Adds a figure of a query.
    pub fn query(&mut self, figure: &str, query: &str, params: &Value, value: impl Into<Value>, unit: &str) {
        self.push(figure, Subject::Query(query.to_owned()), params, value.into(), unit);
    }

    /// Writes the figures measured so far to [`UNFINISHED`], if the run is to write a report.
    pub fn keep(&self) -> Result<()> {
        let Some(path) = UNFINISHED.get() else { return Ok(()) };
        let mut report = self.report.clone();
        report.set_meta("unfinished", true);
        Ok(report.write(path)?)
    }

    fn push(&mut self, figure: &str, subject: Subject, params: &Value, value: Value, unit: &str) {
        self.report.push(Row {
            experiment: self.experiment.to_owned(),
            figure: figure.to_owned(),
            subject,
            params: params.clone(),
            value,
            unit: unit.to_owned(),
        });
    }
}
