//! The experiments of chapter 5 of the ScooterDB thesis, on a real server. A client runs small transactions one after
//! the other, and an analytic query is injected at intervals. The effect on the following transactions is measured at
//! the client, and in the engine, which applies them.
//!
//! | file | holds |
//! |---|---|
//! | `workload` | YCSB's mixes, and TPC-H with nine updating transactions |
//! | `stream` | one run |
//! | `course` | latencies around the injections |
//! | `page` | the results of all runs |

mod course;
mod page;
mod stream;
mod workload;

use std::sync::Arc;

use anker_report::{Report, percentile};
use serde_json::{Value, json};

pub use page::page;

use crate::arguments::{Arguments, Parsed};
use crate::experiments::mechanisms::{self, Mechanisms, Wanted};
use crate::report::Findings;
use crate::server::Server;
use crate::sets;
use crate::stage::{Place, Stage};
use crate::trial::Checked;
use crate::{Output, Result};

use course::Course;
use stream::{Outcome, Stream};
use workload::{Mix, Rows, Workload};

pub const USAGE: &str =
    "thesis [--quick] [--mixes A,B,C,F,SHARE...] [--records N,N...] [--scales N,N...] [--query Q1|Q4|Q6|Q17]
            [--transactions N] [--every N] [--clients N] [--rounds N] [--mechanisms all|NAME,...] [--dsn DSN] [OUTPUT]";

const NAME: &str = "thesis";
const HEAP: &str = "heap";

pub struct Options {
    /// Mixes of YCSB.
    mixes: Vec<Mix>,
    records: Vec<u32>,
    /// Scale factors of TPC-H.
    scales: Vec<f64>,
    query: String,
    transactions: u64,
    every: u64,
    clients: u32,
    rounds: u32,
    mechanisms: Wanted,
    /// The connection string of a given server, instead of a private one.
    dsn: Option<String>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut dsn, mut output) = (false, None, Output::default());
        let (mut mixes, mut records, mut scales, mut query) = (None, None, None, "Q1".to_owned());
        let (mut transactions, mut every, mut clients, mut rounds) = (None, None, 1, None);
        let mut mechanisms = Wanted::usual();
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--mixes" => mixes = Some(arguments.value()?),
                "--records" => records = Some(arguments.numbers()?),
                "--scales" => scales = Some(arguments.numbers()?),
                "--query" => query = arguments.value()?,
                "--transactions" => transactions = Some(arguments.number()?),
                "--every" => every = Some(arguments.number()?),
                "--clients" => clients = arguments.number()?,
                "--rounds" => rounds = Some(arguments.number()?),
                "--mechanisms" => mechanisms = Wanted::parse(&arguments.value()?)?,
                "--dsn" => dsn = Some(arguments.value()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        if !["Q1", "Q4", "Q6", "Q17"].contains(&query.as_str()) {
            return Err(format!("--query: {query} is not Q1, Q4, Q6 or Q17"));
        }
        if dsn.is_some() && mechanisms != Wanted::usual() {
            return Err(mechanisms::NOT_GIVEN.into());
        }
        let mixes = mixes.unwrap_or(if quick { "A,C" } else { "A,B,C,F" }.to_owned());
        let (transactions, every) = (transactions.unwrap_or(if quick { 3000 } else { 60_000 }), every);
        let every = every.unwrap_or(transactions / 6).max(1);
        if every >= transactions {
            return Err(format!("--every: after {every} of {transactions} transactions nothing is left to see"));
        }
        Ok(Options {
            mixes: mixes.split(',').map(Mix::parse).collect::<Parsed<_>>()?,
            records: records.unwrap_or(if quick { vec![2000] } else { vec![50_000, 200_000] }),
            scales: scales.unwrap_or(if quick { vec![0.01] } else { vec![0.1, 0.5] }),
            query,
            transactions,
            every,
            clients,
            rounds: rounds.unwrap_or(if quick { 1 } else { 3 }),
            mechanisms,
            dsn,
            output,
        })
    }

    fn workloads(&self) -> Vec<(Workload, Vec<Mix>)> {
        let ycsb = self.records.iter().map(|records| (Workload::Ycsb { records: *records }, self.mixes.clone()));
        let tpch = self
            .scales
            .iter()
            .map(|scale| (Workload::Tpch { scale: *scale, query: self.query.clone() }, vec![Mix::Nine]));
        ycsb.chain(tpch).collect()
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let place = Place::new(server, options.dsn.as_deref());
    let mechanisms = match options.dsn {
        None => options.mechanisms.find(server)?,
        Some(_) => Mechanisms::given(),
    };
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("transactions", json!(options.transactions)),
        ("every", json!(options.every)),
        ("clients", json!(options.clients)),
        ("rounds", json!(options.rounds)),
        ("query", json!(options.query)),
        ("settings", json!(place.described("synchronous_commit on, fsync off, shared_buffers 2 GB"))),
        ("not_measured", json!(mechanisms.left_out())),
    ] {
        findings.report.set_meta(key, value);
    }
    let configurations: Vec<String> = [HEAP.to_owned()].into_iter().chain(mechanisms.there).collect();
    for (workload, mixes) in options.workloads() {
        eprintln!("loading {}, {}", workload.name(), workload.size());
        let stage = Stage::load(place, sets::cluster_options(), |config| workload.load(config))?;
        for round in 0..options.rounds as usize {
            for mix in &mixes {
                for at in 0..configurations.len() {
                    let config = &configurations[(at + round) % configurations.len()];
                    let (name, size, mix_name) = (workload.name(), workload.size(), mix.name());
                    eprintln!("{name}, {size}, {mix_name}, round {} of {}: {config}", round + 1, options.rounds);
                    let run = Run { stage: &stage, workload: &workload, mix, options };
                    run.measure(config, round + 1, &mut findings)?;
                    findings.keep()?;
                }
            }
        }
    }
    Ok(findings.report)
}

struct Run<'a> {
    stage: &'a Stage,
    workload: &'a Workload,
    mix: &'a Mix,
    options: &'a Options,
}

impl Run<'_> {
    fn measure(&self, config: &str, round: usize, findings: &mut Findings) -> Result<()> {
        let mirrored = config != HEAP;
        let database =
            if mirrored { self.stage.mirrored_by(config, self.workload.tables())? } else { self.stage.bare()? };
        let (query, mut checked) = (self.workload.query()?, Checked::default());
        let rows: Rows = self.workload.rows(&mut database.connect()?)?;
        let outcome = Stream {
            database: &database,
            mix: self.mix,
            rows: &rows,
            query: &query,
            clients: self.options.clients,
            transactions: self.options.transactions,
            every: self.options.every,
            mirrored,
        }
        .run(|client| {
            if mirrored {
                checked.ask(client, &query)?;
            }
            Ok(())
        })?;
        database.discard()?;
        let params = json!({
            "workload": self.workload.name(), "size": self.workload.size(), "mix": self.mix.name(), "round": round,
        });
        rows_of(&outcome, config, &params, findings);
        if mirrored {
            findings.row("compared", config, &params, checked.compared, "answers on both routes");
        }
        checked.refuse()
    }
}

fn rows_of(outcome: &Outcome, config: &str, params: &Value, findings: &mut Findings) {
    let mut row = |figure: &str, value: f64, unit: &str| findings.row(figure, config, params, value, unit);
    let transactions = outcome.done.len() as f64;
    row("throughput", transactions / outcome.seconds, "transactions/s");
    if let Some((server, engine)) = outcome.cpu {
        row("cpu per transaction", server * 1e6 / transactions, "us, of the whole server");
        row("engine's cpu per transaction", engine * 1e6 / transactions, "us");
    }
    if let Some((served, fallbacks)) = outcome.served {
        row("answered by the engine", served as f64 / ((served + fallbacks) as f64).max(1.0), "of the queries");
        row("applied, not seen", outcome.applied_missing as f64, "transactions");
    }
    for asked in &outcome.injected {
        row("response", asked.response_ms(), "ms from the injection");
        match &asked.snapshot {
            Some(snapshot) => {
                row("snapshot", snapshot.taken, "ms");
                row("wait", snapshot.wait, "ms");
            }
            None => row("query", asked.ms(), "ms"),
        }
    }
    let injections: Vec<_> = outcome.injected.iter().map(|asked| asked.due).collect();
    let clients = outcome.done.iter().map(|one| (one.begun, (one.ended - one.begun).as_secs_f64() * 1e6));
    course_of("client", &injections, &clients.collect::<Vec<_>>(), config, params, findings);
    course_of("apply", &injections, &outcome.applied, config, params, findings);
}

/// Adds the course of latencies in the first round to the report. The latencies are those at the client, or the times
/// until the engine has applied a transaction.
fn course_of(
    of: &str,
    injections: &[std::time::Instant],
    measured: &[(std::time::Instant, f64)],
    config: &str,
    params: &Value,
    findings: &mut Findings,
) {
    if measured.is_empty() {
        return;
    }
    let mut row = |figure: &str, value: f64| findings.row(&format!("{of} {figure}"), config, params, value, "us");
    let all: Vec<f64> = measured.iter().map(|(_, took)| *took).collect();
    for (figure, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
        row(figure, percentile(&all, share));
    }
    let Some(course) = Course::around(injections, measured.iter().copied()) else { return };
    let (before, after) = course.before_and_after();
    for (figure, value) in [("before", before), ("after", after), ("worst", course.worst())] {
        value.into_iter().for_each(|value| row(figure, value));
    }
    if params["round"] != json!(1) {
        return;
    }
    for piece in course.pieces() {
        let mut params = params.clone();
        params["at_ms"] = json!(piece.at * 1e3);
        findings.row(&format!("{of} mean"), config, &params, piece.mean, "us");
        findings.row(&format!("{of} piece p99"), config, &params, piece.p99, "us");
        for (bucket, count) in piece.counts {
            params["latency_us"] = json!(bucket);
            findings.row(&format!("{of} density"), config, &params, count, "transactions");
        }
    }
}
