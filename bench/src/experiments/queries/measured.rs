//! Measures one query: which side answers it, how long each side takes, and whether the answers agree.

use std::time::Duration;

use anker_report::{percentile, rounded};
use postgres::{Client, Config};
use serde_json::Value;

use crate::report::Findings;
use crate::sets::peers::{Outcome, Running};
use crate::sets::{self, Answered, Query, Route};
use crate::wire::Wire;
use crate::{Result, anker};

/// The time limit for a query on the heap.
pub const LIMIT: Duration = Duration::from_secs(120);
/// The time in milliseconds after which a side does not repeat a query any more. So long queries run less often.
const ENOUGH_MS: f64 = 20e3;
/// The greatest number of rows of a result for which peers are measured. They return rows to Python one by one, which
/// would take most of the time of a longer result.
const FEW_ROWS: usize = 20_000;
/// The parameters of figures that have none.
pub const NONE: Value = Value::Null;

/// Sessions of PostgreSQL, each with other settings for running a query.
pub struct Sides {
    mirror: Wire,
    parallel: Wire,
    serial: Wire,
}

impl Sides {
    pub fn connect(config: &Config) -> Result<Sides> {
        let session = |route: Route, more: &str| -> Result<Wire> {
            let mut wire = Wire::connect(config)?;
            wire.run(route.setting())?;
            wire.run(&format!("SET statement_timeout = '{} s'{more}", LIMIT.as_secs()))?;
            Ok(wire)
        };
        Ok(Sides {
            mirror: session(Route::Prefer, "")?,
            parallel: session(Route::Off, "")?,
            serial: session(Route::Off, "; SET max_parallel_workers_per_gather = 0")?,
        })
    }
}

/// The runs of one side.
#[derive(Default)]
struct Runs {
    ms: Vec<f64>,
    stopped: bool,
    rows: usize,
}

impl Runs {
    fn ask(&mut self, wire: &mut Wire, query: &Query) -> Result<()> {
        if self.stopped || self.ms.iter().sum::<f64>() > ENOUGH_MS {
            return Ok(());
        }
        match wire.timed(&query.sql)? {
            Some((elapsed, rows)) => {
                self.ms.push(elapsed.as_secs_f64() * 1e3);
                self.rows = rows;
            }
            None => self.stopped = true,
        }
        Ok(())
    }

    /// The least of the measured times.
    fn time(&self) -> Time {
        let ms = if self.ms.is_empty() { LIMIT.as_secs_f64() * 1e3 } else { percentile(&self.ms, 0.0) };
        Time { ms, stopped: self.ms.is_empty(), rows: self.rows }
    }
}

#[derive(Clone, Copy)]
struct Time {
    ms: f64,
    /// Whether the query was cancelled. If so, it would have taken longer than `ms`.
    stopped: bool,
    rows: usize,
}

/// Measures a query. If a peer gives a wrong answer or none, that is noted in the report.
pub fn query(
    client: &mut Client,
    sides: &mut Sides,
    peers: &mut [Running],
    query: &Query,
    runs: u32,
    findings: &mut Findings,
) -> Result<()> {
    let name = &query.name;
    let mut remarks = Vec::new();
    let mut row = |figure: &str, value: Value, unit: &str| findings.query(figure, name, &NONE, value, unit);
    client.batch_execute(Route::Prefer.setting())?;
    let by = match sets::unless_timed_out(sets::answered(client, &query.sql))? {
        Some(by) => by,
        None => Answered::Otherwise(format!("nobody within {} s", LIMIT.as_secs())),
    };
    let is_answered = matches!(by, Answered::ByTheEngine);
    match by {
        Answered::ByTheEngine => row("engine", 1.into(), ""),
        Answered::Otherwise(reason) => {
            row("engine", 0.into(), "");
            row("reason", reason.as_str().into(), "");
            remarks.push(reason);
        }
    }
    let planning = planning_ms(client, query)?;
    client.batch_execute(Route::Off.setting())?;
    row("heap_planning_ms", planning_ms(client, query)?.into(), "ms");
    row("planning_ms", planning.into(), "ms");

    let [mut mirror, mut parallel, mut serial] = [const { Runs { ms: Vec::new(), stopped: false, rows: 0 } }; 3];
    let mut theirs: Vec<Vec<f64>> = vec![Vec::new(); peers.len()];
    for _ in 0..runs {
        mirror.ask(&mut sides.mirror, query)?;
        for (peer, times) in peers.iter_mut().zip(&mut theirs) {
            match peer.ask(&query.sql)? {
                Outcome::Done { ms, rows } if rows == mirror.rows => times.push(ms),
                Outcome::Done { rows, .. } => {
                    remarks.push(format!("{} has {rows} rows, the mirror {}", peer.peer.name, mirror.rows))
                }
                Outcome::Failed(error) => remarks.push(format!("{}: {error}", peer.peer.name)),
            }
        }
        parallel.ask(&mut sides.parallel, query)?;
        serial.ask(&mut sides.serial, query)?;
    }
    remarks.dedup();
    let [mirror, parallel, serial] = [mirror, parallel, serial].map(|runs| runs.time());
    // The better time of the two: on a busy machine, starting parallel workers can cost more than they save.
    let heap = if serial.ms < parallel.ms { serial } else { parallel };
    let few = mirror.rows <= FEW_ROWS;
    let beside = |times: &Vec<f64>| (few && !times.is_empty()).then(|| percentile(times, 0.0));
    let theirs: Vec<Option<f64>> = theirs.iter().map(beside).collect();
    for (peer, ms) in peers.iter().zip(&theirs) {
        if let Some(ms) = ms {
            row(&format!("{}_time_ms", peer.peer.figure), (*ms).into(), "ms");
        }
    }

    client.batch_execute(Route::Auto.setting())?;
    let is_engine = anker::explained(client, &query.sql)?.as_deref() == Some("engine");
    let auto = if is_engine { mirror } else { heap };
    row("auto", if is_engine { "engine" } else { "heap" }.into(), "");
    // A regret of 1 means that it chose the faster side.
    row("auto_regret", (auto.ms / heap.ms.min(mirror.ms)).into(), "times the faster side");

    client.batch_execute(Route::Prefer.setting())?;
    if let Some(ms) = engine_ms(client, &query.sql, runs)? {
        row("engine_time_ms", ms.into(), "ms");
    }
    let unit = |time: Time| if time.stopped { "ms, stopped then" } else { "ms" };
    row("heap_ms", heap.ms.into(), unit(heap));
    row("time_ms", mirror.ms.into(), unit(mirror));
    row("speedup_vs_heap", (heap.ms / mirror.ms).into(), if heap.stopped { "or more" } else { "" });
    row("rows", mirror.rows.into(), "");
    if heap.stopped {
        remarks.push(format!("the heap was stopped after {} s", LIMIT.as_secs()));
    }
    match if heap.stopped || !is_answered { None } else { sets::compare(client, query)? } {
        Some(compared) => {
            row("same_answer", compared.same().into(), "");
            if !compared.same() {
                eprintln!("{name}: {}", compared.difference());
            }
        }
        None => row("same_answer", Value::Null, "not compared: a side was stopped, or is not the engine"),
    }
    eprintln!("{name}: heap {} ms, mirror {} ms", rounded(heap.ms), rounded(mirror.ms));
    if !remarks.is_empty() {
        row("remarks", remarks.join("; ").into(), "");
    }
    Ok(())
}

/// The least of several planning times, in milliseconds. EXPLAIN does not ask the engine for its plan.
fn planning_ms(client: &mut Client, query: &Query) -> Result<f64> {
    client.batch_execute("SET anker.explain_wait = 0")?;
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let text = anker::text_rows(client, &format!("EXPLAIN (SUMMARY, FORMAT json) {}", query.sql))?.concat();
        let explained: Value = serde_json::from_str(&text)?;
        least = least.min(explained[0]["Planning Time"].as_f64().ok_or("EXPLAIN without a planning time")?);
    }
    client.batch_execute("RESET anker.explain_wait")?;
    Ok(least)
}

/// The engine's own time, the least of several runs; `None` if it does not answer.
pub fn engine_ms(client: &mut Client, sql: &str, runs: u32) -> Result<Option<f64>> {
    let mut least: Option<f64> = None;
    for _ in 0..runs {
        let explain = format!("EXPLAIN (ANALYZE, FORMAT json) {sql}");
        let Some(text) = sets::unless_timed_out(anker::text_rows(client, &explain))? else { return Ok(None) };
        let explained: Value = serde_json::from_str(&text.concat())?;
        let mut node = &explained[0]["Plan"];
        while node["Engine Time"].is_null() && !node["Plans"][0].is_null() {
            node = &node["Plans"][0];
        }
        let Some(ms) = node["Engine Time"].as_f64() else { return Ok(None) };
        least = Some(least.map_or(ms, |least| least.min(ms)));
    }
    Ok(least)
}
