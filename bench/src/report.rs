//! What the benchmarks report: rows of JSON and a table for people.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;

#[derive(Serialize)]
struct Row {
    experiment: String,
    figure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    params: Value,
    value: Value,
    unit: String,
}

pub struct Report {
    experiment: &'static str,
    params: Value,
    meta: Value,
    rows: Vec<Row>,
}

impl Report {
    pub fn new(experiment: &'static str, params: Value) -> Report {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu =
            cpu.lines().find_map(|l| l.strip_prefix("model name")).map(|l| l.trim_start_matches([' ', '\t', ':']));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let meta = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "cpu": cpu,
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "kernel": kernel.trim(),
            "load_at_start": load.split_whitespace().next(),
            "started": unix_seconds(),
        });
        Report { experiment, params, meta, rows: Vec::new() }
    }

    pub fn meta(&mut self, key: &str, value: impl Into<Value>) {
        self.meta[key] = value.into();
    }

    /// A figure of one query.
    pub fn query(&mut self, figure: &str, query: &str, value: impl Into<Value>, unit: &str) {
        self.push(figure, Some(query), None, value.into(), unit);
    }

    /// A figure of a configuration.
    pub fn config(&mut self, figure: &str, config: &str, value: impl Into<Value>, unit: &str) {
        self.push(figure, None, Some(config), value.into(), unit);
    }

    fn push(&mut self, figure: &str, query: Option<&str>, config: Option<&str>, value: Value, unit: &str) {
        let label = query.or(config).unwrap_or_default();
        let shown = value.as_f64().map_or(value.to_string(), |v| format!("{v:.3}"));
        println!("  {figure:<28} {label:<14} {shown:>14} {unit}");
        self.rows.push(Row {
            experiment: self.experiment.into(),
            figure: figure.into(),
            query: query.map(Into::into),
            config: config.map(Into::into),
            params: self.params.clone(),
            value,
            unit: unit.into(),
        });
    }

    pub fn value(&self, figure: &str, query: &str) -> Option<f64> {
        let row = self.rows.iter().find(|r| r.figure == figure && r.query.as_deref() == Some(query));
        row.and_then(|r| r.value.as_f64())
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&json!({ "meta": self.meta, "rows": self.rows }))?;
        std::fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()).into())
    }
}

fn unix_seconds() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs())
}

/// The smallest value that at least `share` of all values do not exceed; 0 of an empty list.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

pub fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert_eq!(percentile(&values, 1.0), 100.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[]), 0.0);
    }
}
