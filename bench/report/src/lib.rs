//! The report of a benchmark run, in the one form that all benchmarks write: `{"meta": {...}, "rows": [{"experiment",
//! "figure", "mechanism" or "config" or "query", "params", "value", "unit"}]}`.

pub mod found;
mod histogram;
pub mod page;

use std::io;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use histogram::Histogram;

/// One measured figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub experiment: String,
    pub figure: String,
    #[serde(flatten)]
    pub subject: Subject,
    pub params: Value,
    pub value: Value,
    pub unit: String,
}

impl Row {
    pub fn number(&self) -> Option<f64> {
        self.value.as_f64()
    }
}

/// The subject that a figure belongs to: a mechanism, a configuration or a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Mechanism(String),
    Config(String),
    Query(String),
}

impl Subject {
    pub fn name(&self) -> &str {
        match self {
            Subject::Mechanism(name) | Subject::Config(name) | Subject::Query(name) => name,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    meta: Value,
    rows: Vec<Row>,
}

impl Report {
    /// A report with a description of the machine and no rows.
    pub fn new() -> Report {
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
            "started": std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs()),
        });
        Report { meta, rows: Vec::new() }
    }

    pub fn meta(&self) -> &Value {
        &self.meta
    }

    pub fn set_meta(&mut self, key: &str, value: impl Into<Value>) {
        self.meta[key] = value.into();
    }

    /// A line of text about the machine.
    pub fn machine(&self) -> String {
        let words = |key: &str| self.meta[key].as_str().map_or(self.meta[key].to_string(), str::to_owned);
        let load = words("load_at_start");
        let unfinished = if self.meta["unfinished"] == true { " This run broke off." } else { "" };
        format!(
            "{}, {} cores, Linux {}, load {load} at the start.{unfinished}",
            words("cpu"),
            words("cores"),
            words("kernel")
        )
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Writes the report as JSON, with each row on a line of its own.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let meta = serde_json::to_string_pretty(&self.meta)?;
        let rows = self.rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?.join(",\n");
        std::fs::write(path, format!("{{\n\"meta\": {meta},\n\"rows\": [\n{rows}\n]}}\n")).map_err(named)
    }

    /// Reads a report, which may be compressed by gzip, as kept ones are.
    pub fn read(path: &Path) -> io::Result<Report> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let text = if is_compressed { decompressed(path) } else { std::fs::read(path) };
        text.and_then(|text| Ok(serde_json::from_slice(&text)?)).map_err(named)
    }
}

impl Default for Report {
    fn default() -> Report {
        Report::new()
    }
}

fn decompressed(path: &Path) -> io::Result<Vec<u8>> {
    let gzip = Command::new("gzip").arg("-dc").arg(path).output()?;
    if gzip.status.success() { Ok(gzip.stdout) } else { Err(io::Error::other(String::from_utf8_lossy(&gzip.stderr))) }
}

/// The smallest value that at least `share` of all values do not exceed; 0 for an empty list.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The middle value, or the mean of the two middle ones; 0 for an empty list.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// The value as text, with two significant digits.
pub fn rounded(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v.abs() >= 10.0 => format!("{v:.0}"),
        v if v.abs() >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.*}", (1.0 - v.abs().log10().floor()) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert_eq!(percentile(&values, 1.0), 100.0);
        assert_eq!([median(&[3.0]), median(&[9.0, 1.0, 4.0]), median(&[9.0, 2.0])], [3.0, 4.0, 5.5]);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn two_digits_count() {
        assert_eq!([123.4, 12.34, 1.234, 0.1234, 0.001234].map(rounded), ["123", "12", "1.2", "0.12", "0.0012"]);
    }

    #[test]
    fn a_row_names_what_it_is_about() {
        let row = Row {
            experiment: "table1".into(),
            figure: "create_1_of_n".into(),
            subject: Subject::Mechanism("frames".into()),
            params: json!({}),
            value: json!(1.5),
            unit: "ms".into(),
        };
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.contains(r#""mechanism":"frames""#), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap().subject, row.subject);
    }
}
