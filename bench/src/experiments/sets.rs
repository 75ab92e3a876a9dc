//! A set of queries on the heap with its indexes, on the mirror, and where it is there in DuckDB.

use std::sync::Arc;
use std::time::Duration;

use postgres::Client;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::queries::timed;
use crate::report::{Report, percentile, rounded};
use crate::server::Server;
use crate::sets::{self, Answered, Query, Route, Set, duckdb};
use crate::{Result, anker, os};

/// What the heap gets for a query.
const LIMIT: Duration = Duration::from_secs(120);

pub fn sets(server: &Arc<Server>, set: &Set, scale: f64, runs: u32) -> Result<Report> {
    let params = json!({"set": set.name, set.scale_is: scale, "runs": runs, "duckdb_threads": duckdb::THREADS});
    let mut report = Report::new("queries", params);
    let cluster = Cluster::start(server, &sets::cluster_options())?;
    set.create(&cluster, scale)?;
    let mut client = cluster.connect()?;
    report.meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, set.tables, Duration::from_secs(600))?;
    memory(&mut client, set.name, &mut report)?;
    client.batch_execute(&format!("SET statement_timeout = '{} s'", LIMIT.as_secs()))?;

    let queries = set.queries(scale);
    let mut lines = Vec::new();
    for query in &queries {
        lines.push(measured(&mut client, query, runs, &mut report)?);
    }
    client.batch_execute("RESET anker.route; RESET statement_timeout")?;
    if duckdb::is_there() {
        let found = duckdb::measure(&mut client, set, &queries, runs, &server.home().join("duckdb"))?;
        beside(&found, &mut lines, &mut report);
        report.config(
            "duckdb_times",
            set.name,
            geometric_mean(lines.iter().filter_map(Line::duckdb_times)),
            "DuckDB's time",
        );
    } else {
        report.meta("duckdb", Value::Null);
        println!("  no DuckDB: python3 has no module of that name (pip install duckdb)");
    }
    report.config("geomean", set.name, geometric_mean(lines.iter().map(Line::speedup)), "times");
    table(&lines);
    Ok(report)
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
}

/// What the mirror's tables take, key index and undo included, and the engine's process with all that it has.
fn memory(client: &mut Client, set: &str, report: &mut Report) -> Result<()> {
    let row = client.query_one(
        "SELECT sum(bytes)::float8, sum(pg_table_size(relation))::float8, (SELECT engine_pid FROM anker.engine
            WHERE database::text = current_database()) FROM anker.tables",
        &[],
    )?;
    let (mirror, heap): (f64, f64) = (row.get(0), row.get(1));
    report.config("memory_share", set, mirror / heap, "of the heap without indexes");
    if let Some(resident) = row.get::<_, Option<i32>>(2).and_then(|pid| os::private_bytes(pid as u32)) {
        report.config("resident_share", set, resident as f64 / heap, "of the heap without indexes");
    }
    Ok(())
}

/// What was found of one query.
struct Line {
    query: String,
    heap: Time,
    mirror: Time,
    /// Of the side that `anker.route = auto` takes.
    auto: Time,
    duckdb: Option<f64>,
    rows: usize,
    remarks: Vec<String>,
}

impl Line {
    fn speedup(&self) -> f64 {
        self.heap.ms / self.mirror.ms
    }

    fn duckdb_times(&self) -> Option<f64> {
        self.duckdb.map(|ms| self.mirror.ms / ms)
    }
}

#[derive(Clone, Copy)]
struct Time {
    ms: f64,
    /// It would have taken longer than this.
    stopped: bool,
    rows: usize,
}

fn measured(client: &mut Client, query: &Query, runs: u32, report: &mut Report) -> Result<Line> {
    let name = &query.name;
    let mut remarks = Vec::new();
    client.batch_execute(Route::Prefer.setting())?;
    let by = match sets::unless_timed_out(sets::answered(client, &query.sql))? {
        Some(by) => by,
        None => Answered::Otherwise(format!("nobody within {} s", LIMIT.as_secs())),
    };
    match by {
        Answered::ByTheEngine => report.query("engine", name, 1, ""),
        Answered::Otherwise(reason) => {
            report.query("engine", name, 0, "");
            report.query("reason", name, reason.as_str(), "");
            remarks.push(reason);
        }
    }
    let mirror = fastest(client, query, runs)?;
    let planning = planning_ms(client, query)?;
    client.batch_execute(Route::Off.setting())?;
    let parallel = fastest(client, query, runs)?;
    report.query("heap_planning_ms", name, planning_ms(client, query)?, "ms");
    report.query("planning_ms", name, planning, "ms");
    client.batch_execute("SET max_parallel_workers_per_gather = 0")?;
    let serial = fastest(client, query, runs)?;
    client.batch_execute("RESET max_parallel_workers_per_gather")?;
    // The better of the two: on a busy machine starting workers can cost more than they bring.
    let heap = if serial.ms < parallel.ms { serial } else { parallel };

    client.batch_execute(Route::Auto.setting())?;
    let is_engine = anker::explained(client, &query.sql)?.as_deref() == Some("engine");
    let auto = if is_engine { mirror } else { heap };
    report.query("auto", name, if is_engine { "engine" } else { "heap" }, "");
    // 1: it chose the faster side.
    report.query("auto_regret", name, auto.ms / heap.ms.min(mirror.ms), "times the faster side");

    let unit = |time: Time| if time.stopped { "ms, stopped then" } else { "ms" };
    report.query("heap_ms", name, heap.ms, unit(heap));
    report.query("time_ms", name, mirror.ms, unit(mirror));
    report.query("speedup_vs_heap", name, heap.ms / mirror.ms, if heap.stopped { "or more" } else { "" });
    if heap.stopped {
        remarks.push(format!("the heap was stopped after {} s", LIMIT.as_secs()));
    }
    match if heap.stopped { None } else { sets::compare(client, query)? } {
        Some(compared) => {
            report.query("same_answer", name, compared.same(), "");
            if !compared.same() {
                remarks.push(format!("DIFFERENT ANSWER: {}", compared.difference()));
            }
        }
        None => report.query("same_answer", name, Value::Null, "not compared, a side was stopped"),
    }
    Ok(Line { query: name.clone(), heap, mirror, auto, duckdb: None, rows: heap.rows, remarks })
}

/// The least of several: the engine is not asked for its plan.
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

/// The least of several runs; a query that takes long is not run as often.
fn fastest(client: &mut Client, query: &Query, runs: u32) -> Result<Time> {
    let (mut times, mut rows) = (Vec::new(), 0);
    while times.len() < runs as usize && times.iter().sum::<f64>() < 20e3 {
        let Some((elapsed, count)) = sets::unless_timed_out(timed(client, &query.sql))? else {
            return Ok(Time { ms: LIMIT.as_secs_f64() * 1e3, stopped: true, rows });
        };
        rows = count;
        times.push(elapsed.as_secs_f64() * 1e3);
    }
    Ok(Time { ms: percentile(&times, 0.0), stopped: false, rows })
}

/// DuckDB's figures beside ours.
fn beside(found: &duckdb::Found, lines: &mut [Line], report: &mut Report) {
    report.meta("duckdb", found.version.as_str());
    for line in lines {
        match found.outcome(&line.query) {
            duckdb::Outcome::Done { ms, rows } => {
                report.query("duckdb_ms", &line.query, ms, "ms");
                line.duckdb = Some(ms);
                if rows != line.rows {
                    line.remarks.push(format!("DuckDB has {rows} rows, the heap {}", line.rows));
                }
            }
            duckdb::Outcome::Failed(error) => line.remarks.push(format!("DuckDB: {error}")),
        }
    }
}

/// The same once more, a line for each query.
fn table(lines: &[Line]) {
    println!("\n  {:<6}{:>10}{:>10}{:>10}{:>8}{:>9}", "ms", "heap", "mirror", "DuckDB", "times", "rows");
    for line in lines {
        let shown = |time: Time| format!("{}{:.1}", if time.stopped { ">" } else { "" }, time.ms);
        let duckdb = line.duckdb.map_or(String::new(), |ms| format!("{ms:.1}"));
        println!(
            "  {:<6}{:>10}{:>10}{duckdb:>10}{:>8}{:>9}   {}",
            line.query,
            shown(line.heap),
            shown(line.mirror),
            rounded(line.speedup()),
            line.rows,
            line.remarks.join("; ")
        );
    }
    let sum = |time: fn(&Line) -> f64| lines.iter().map(time).sum::<f64>();
    let (auto, best) = (sum(|line| line.auto.ms), sum(|line| line.heap.ms.min(line.mirror.ms)));
    let slower = lines.iter().filter(|line| line.auto.ms > line.heap.ms.min(line.mirror.ms));
    let slower: Vec<&str> = slower.map(|line| line.query.as_str()).collect();
    let (auto, best, slower) = (rounded(auto), rounded(best), slower.join(" "));
    println!(
        "  route = auto: {auto} ms for all, the faster side each time {best}; it takes the slower one for: {slower}"
    );
}
