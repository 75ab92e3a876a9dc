//! One run of the benchmark: its options, its results, and its messages about the progress.

use std::time::{Duration, Instant};

use anker_report::{Report, Row, Subject as ReportSubject};
use serde_json::{Value, json};

use crate::Result;
use crate::noise::{self, Watch};
use crate::options::Options;
use crate::proc;
use crate::table::Subject;
use crate::worker::Job;

/// The share of a run's time limit that is kept for finishing measurements that have begun.
const RESERVE: f64 = 0.15;
/// Available memory that is left to other processes.
const LEFT_FREE: u64 = 1 << 30;

pub struct Session {
    pub options: Options,
    pub report: Report,
    subjects: Vec<Subject>,
    skipped: Vec<Value>,
    noise: Vec<Value>,
    begun: Instant,
    watch: Watch,
}

impl Session {
    /// Begins a run. Mechanisms that do not work on this machine are left out, and reported as missing.
    pub fn new(options: Options) -> Session {
        let mut report = Report::new();
        for (key, value) in [
            ("effort", json!(options.effort.name())),
            ("columns", json!(options.columns)),
            ("column_mb", json!(options.column_bytes() >> 20)),
            ("run_kb", json!(options.run_kb)),
            ("max_map_count", json!(proc::max_map_count())),
            ("transparent_huge_pages", json!(proc::huge_page_policy())),
        ] {
            report.set_meta(key, value);
        }
        let (available, refused): (Vec<_>, Vec<_>) =
            options.subjects().into_iter().partition(|subject| subject.probe().is_ok());
        let mut session = Session {
            options,
            report,
            subjects: available,
            skipped: Vec::new(),
            noise: Vec::new(),
            begun: Instant::now(),
            watch: Watch::start(),
        };
        for subject in refused {
            if let Err(reason) = subject.probe() {
                session.skip("all", subject.name(), json!({}), &reason.to_string());
            }
        }
        session
    }

    pub fn subjects(&self) -> Vec<Subject> {
        self.subjects.clone()
    }

    pub fn progress(&self, text: &str) {
        eprintln!("[{:>4.0} s] {text}", self.begun.elapsed().as_secs_f64());
    }

    pub fn row(
        &mut self,
        (experiment, figure): (&str, &str),
        mechanism: &str,
        params: Value,
        value: impl Into<Value>,
        unit: &str,
    ) {
        self.report.push(Row {
            experiment: experiment.to_owned(),
            figure: figure.to_owned(),
            subject: ReportSubject::Mechanism(mechanism.to_owned()),
            params,
            value: value.into(),
            unit: unit.to_owned(),
        });
    }

    /// Notes that something is not measured, for this reason.
    pub fn skip(&mut self, experiment: &str, mechanism: &str, params: Value, reason: &str) {
        let shown = if params.as_object().is_some_and(|params| params.is_empty()) {
            String::new()
        } else {
            format!(" {params}")
        };
        self.progress(&format!("{experiment}: no {mechanism}{shown}: {reason}"));
        self.skipped
            .push(json!({ "experiment": experiment, "mechanism": mechanism, "params": params, "reason": reason }));
    }

    /// The value of a result. If the result is an error, notes the error as the reason for a missing measurement, and
    /// returns `None`.
    pub fn or_skip<T>(&mut self, experiment: &str, mechanism: &str, params: Value, result: Result<T>) -> Option<T> {
        result.map_err(|reason| self.skip(experiment, mechanism, params, &reason.to_string())).ok()
    }

    /// Returns an error if the run's time limit leaves no time for another measurement.
    pub fn time_left(&self) -> Result<()> {
        let over = |limit: Duration| self.begun.elapsed() > limit.mul_f64(1.0 - RESERVE);
        if self.options.time_limit().is_some_and(over) { Err("the time is over".into()) } else { Ok(()) }
    }

    /// A worker's job for a table with columns of these lengths. Fails if there is no time left, or no memory for the
    /// columns and `more` bytes.
    pub fn job(&self, subject: Subject, columns: Vec<usize>, more: usize) -> Result<Job> {
        self.time_left()?;
        let bytes = (columns.iter().sum::<usize>() + more) as u64;
        let room = self.room();
        if bytes > room {
            return Err(format!("would need {} MB, of which {} can be had", bytes >> 20, room >> 20).into());
        }
        Ok(Job { subject, columns, run_bytes: self.options.run_bytes(), memory: room })
    }

    /// The number of bytes that a worker may allocate now.
    pub fn room(&self) -> u64 {
        proc::available_memory().saturating_sub(LEFT_FREE).min(self.options.memory_cap())
    }

    /// Measures how steady the machine's speed is, and adds the result to the report.
    pub fn note_noise(&mut self, experiment: &str) {
        self.noise.push(json!({ "experiment": experiment, "spread": noise::spread() }));
    }

    pub fn finish(mut self) -> Report {
        self.report.set_meta("seconds", self.begun.elapsed().as_secs_f64().round());
        self.report.set_meta("load_at_end", proc::load());
        self.report.set_meta("others_cpu_share", self.watch.others_share());
        self.report.set_meta("noise", self.noise);
        self.report.set_meta("skipped", self.skipped);
        self.report
    }
}
