//! Measures the time of a query's snapshot by each mechanism, inside the engine and while transactions run. The time
//! comes from EXPLAIN ANALYZE for a query of one column of a wide table. It is compared with the time of a fork of the
//! whole engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anker_report::found::Found;
use anker_report::page::{Grid, Page, Plot, Section};
use anker_report::{Report, median, percentile, rounded};
use postgres::{Client, NoTls};
use protocol::mechanism::{self, Name};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::arguments::{Arguments, Parsed};
use crate::cluster::Options as Settings;
use crate::queries::COMPARING;
use crate::report::Findings;
use crate::server::Server;
use crate::stage::{Database, Place, Stage};
use crate::streams::{Snapshot, explained};
use crate::{Output, Result, anker, os};

pub const USAGE: &str = "phases [--quick] [--rows N] [--columns N] [--queries N] [--rounds N] [OUTPUT]";

const NAME: &str = "phases";
const FORK: &str = mechanism::FORK.text();
const TABLE: &str = "wide";
const QUESTION: &str = "SELECT count(*), sum(c1), max(c1) FROM wide WHERE anker.olap()";
/// Mechanisms that need system calls of kernel-patch/, which other kernels lack.
const PATCHED: [Name; 2] = [mechanism::VM_SNAPSHOT, mechanism::MREMAP_COW];
/// The pause between two transactions.
const PAUSE: Duration = Duration::from_millis(5);

/// The amount of work to measure.
pub struct Options {
    rows: u32,
    columns: u32,
    /// The number of queries by each mechanism in each round.
    queries: u32,
    /// Rounds in which the mechanisms take turns.
    rounds: u32,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut output) = (false, Output::default());
        let (mut rows, mut columns, mut queries, mut rounds) = (None, None, None, None);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--rows" => rows = Some(arguments.number()?),
                "--columns" => columns = Some(arguments.number()?),
                "--queries" => queries = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let usual = |quick_one: u32, full: u32| if quick { quick_one } else { full };
        Ok(Options {
            rows: rows.unwrap_or(usual(20_000, 1_000_000)),
            // There are at least two columns: the one that the query reads, and another one.
            columns: columns.unwrap_or(usual(20, 50)).max(2),
            queries: queries.unwrap_or(usual(10, 50)),
            rounds: rounds.unwrap_or(usual(1, 3)),
            output,
        })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let mut findings = Findings::new(NAME);
    for (key, value) in [("rows", options.rows), ("columns", options.columns), ("rounds", options.rounds)] {
        findings.report.set_meta(key, json!(value));
    }
    let place = Place::new(server, None);
    let stage = Stage::load(place, Settings::default(), |config| create(&mut config.connect(NoTls)?, options))?;
    let there = |name: &Name| *name != mechanism::AUTO && (os::has_vm_snapshot() || !PATCHED.contains(name));
    let names: Vec<&str> = mechanism::NAMES.into_iter().filter(there).map(Name::text).collect();
    for round in 0..options.rounds as usize {
        for at in 0..names.len() {
            let name = names[(at + round) % names.len()];
            eprintln!("round {} of {}: {name}", round + 1, options.rounds);
            let database = stage.mirrored_by(name, &[TABLE])?;
            let params = json!({ "round": round + 1 });
            for snapshot in one(&database, name, options)? {
                findings.row("snapshot", name, &params, snapshot.taken, "ms");
                findings.row("wait", name, &params, snapshot.wait, "ms");
            }
            let engine = anker::engine_pid(&mut database.connect()?)?;
            let resident = os::resident_bytes(engine).unwrap_or(0) as f64 / f64::from(1 << 20);
            findings.row("resident", name, &params, resident, "MB");
            database.discard()?;
        }
    }
    Ok(findings.report)
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let typical = |figure: &str, of: &str| {
        let values = found.figure(figure).subject(of).values();
        (!values.is_empty()).then(|| median(&values))
    };
    let fork = typical("snapshot", FORK);
    let mut grid = Grid::new("Medians");
    ["taken, ms", "p95, ms", "wait before it, ms", "times shorter than fork", "engine, MB resident"]
        .iter()
        .for_each(|heading| grid.column(heading));
    let (mut here, mut bars) = (Vec::new(), Vec::new());
    for name in found.subjects() {
        let taken = found.figure("snapshot").subject(&name).values();
        let by_fork = fork.zip(typical("snapshot", &name)).map(|(fork, taken)| rounded(fork / taken));
        bars.extend(typical("snapshot", &name).map(|taken| (name.clone(), taken)));
        if let Some(times) = by_fork.as_ref().filter(|_| name != FORK) {
            here.push(format!("{name} {times}"));
        }
        grid.row(
            &name,
            vec![
                typical("snapshot", &name).map(rounded),
                (!taken.is_empty()).then(|| rounded(percentile(&taken, 0.95))),
                typical("wait", &name).map(rounded),
                by_fork,
                typical("resident", &name).map(rounded),
            ],
        );
    }
    let section = Section {
        id: "phases",
        title: "The snapshot phase of a query".into(),
        claim: "AnKer: vm_snapshot of the touched columns takes a small part of a fork of the whole process.".into(),
        here: format!("Times shorter than a fork of the whole engine: {}", here.join(", ")),
        notes: vec![
            "The phase that EXPLAIN ANALYZE shows: applying what the query's snapshot sees, the snapshot of the columns that it \
             reads, and taking back what it does not see. Answers were compared with the heap's in between."
                .into(),
        ],
        grids: vec![grid],
        plots: vec![Plot::bars("Median of the snapshot phase, ms", bars)],
    };
    Page {
        title: "What a query's snapshot costs, by mechanism".into(),
        about: vec![
            report.machine(),
            format!(
                "One column of a table of {} rows and {} columns, beside a session that writes; {} round(s), in which the \
                 mechanisms take turns.",
                meta["rows"], meta["columns"], meta["rounds"]
            ),
        ],
        sections: vec![section],
        ..Page::default()
    }
}

/// Creates the table. Its numbers need all of their bytes, so that the engine cannot store them in shorter codes.
fn create(client: &mut Client, Options { rows, columns, .. }: &Options) -> Result<()> {
    let all = |each: &dyn Fn(u32) -> String| (1..=*columns).map(each).collect::<Vec<_>>().join(", ");
    let value = |i: u32| format!("hashint8extended(i, {i})");
    client.batch_execute(&format!(
        "CREATE TABLE {TABLE} (id integer PRIMARY KEY, {});
         INSERT INTO {TABLE} SELECT i, {} FROM generate_series(1, {rows}) i",
        all(&|i| format!("c{i} bigint")),
        all(&value),
    ))?;
    Ok(client.batch_execute(&format!("VACUUM ANALYZE {TABLE}"))?)
}

/// Runs queries with one mechanism while a session writes. Returns their snapshots.
fn one(database: &Database, mechanism: &str, options: &Options) -> Result<Vec<Snapshot>> {
    let mut client = database.connect()?;
    client.batch_execute("SET anker.fallback = off; SET anker.max_wait = '60s'")?;
    let writer = Writer::start(database, options)?;
    let mut found = Vec::new();
    for number in 0..options.queries {
        let told = explained(&mut client, QUESTION)?.ok_or("the engine did not answer")?;
        if told.mechanism != mechanism {
            return Err(format!("the engine's snapshots are by {}, not {mechanism}", told.mechanism).into());
        }
        found.push(told);
        if number % 5 == 0 {
            compare(&mut client)?;
        }
    }
    writer.stop()?;
    compare(&mut client)?;
    Ok(found)
}

/// Compares heap and engine under one snapshot.
fn compare(client: &mut Client) -> Result<()> {
    client.batch_execute(COMPARING)?;
    let heap = anker::text_rows(client, &QUESTION.replace("anker.olap()", "true"))?;
    let engine = anker::text_rows(client, QUESTION)?;
    client.batch_execute("ROLLBACK")?;
    if heap == engine { Ok(()) } else { Err(format!("heap and mirror differ: {heap:?}, {engine:?}").into()) }
}

/// A session that changes rows, both in the column that the query reads and in others.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    fn start(database: &Database, Options { rows, columns, .. }: &Options) -> Result<Writer> {
        let mut client = database.connect()?;
        let (rows, columns) = (*rows, *columns);
        client.batch_execute("SET synchronous_commit = off")?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut random = StdRng::seed_from_u64(1);
            while !stopped.load(Ordering::Relaxed) {
                let (id, column) = (random.random_range(1..=rows), random.random_range(2..=columns));
                client.batch_execute(&format!(
                    "UPDATE {TABLE} SET c1 = c1 # {id}, c{column} = c{column} # 1 WHERE id = {id}"
                ))?;
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        Ok(Writer { stop, thread: Some(thread) })
    }

    fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(|_| "the writer panicked")?)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // If this is dropped without `stop`, another error is being reported already.
        let _ = self.end();
    }
}
