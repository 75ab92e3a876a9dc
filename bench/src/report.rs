//! What the benchmarks report: figures of queries and of configurations.

use anker_report::{Report, Row, Subject};
pub use anker_report::{median, percentile, rounded};
use serde_json::Value;

/// The figures of one experiment, shown when all are there.
pub struct Findings {
    pub report: Report,
    experiment: &'static str,
}

impl Findings {
    pub fn new(experiment: &'static str) -> Findings {
        Findings { report: Report::new(), experiment }
    }

    /// Of a configuration.
    pub fn row(&mut self, figure: &str, config: &str, params: &Value, value: impl Into<Value>, unit: &str) {
        self.push(figure, Subject::Config(config.to_owned()), params, value.into(), unit);
    }

    /// Of a query.
    pub fn query(&mut self, figure: &str, query: &str, params: &Value, value: impl Into<Value>, unit: &str) {
        self.push(figure, Subject::Query(query.to_owned()), params, value.into(), unit);
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
