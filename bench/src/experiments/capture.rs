//! Measures the cost of following TPC-C, and the mirror's delay.
//!
//! The CPU time of capture worker and engine is divided by that of the clients' backends in the same seconds, so that a
//! busy machine does not change the ratio.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::found::Found;
use anker_report::page::{Grid, Page, Section};
use anker_report::{Report, percentile, rounded};
use postgres::Client;
use serde_json::json;

use super::memory;
use crate::arguments::{Arguments, Parsed};
use crate::cluster::{self, wait_until};
use crate::experiments::side_by_side::{self, answers, latencies, processors, typical};
use crate::queries::{self, ANKER};
use crate::report::Findings;
use crate::server::Server;
use crate::stage::{Database, Place, Stage};
use crate::streams::{Explain, Order, Plan};
use crate::tpcc::{self, Isolation, Scale, Workload};
use crate::trial::{Checked, Trial};
use crate::{Output, Result, anker};

pub const USAGE: &str =
    "capture [--quick] [--warehouses N] [--seconds N] [--rounds N] [--clients N] [--durable] [--dsn DSN] [OUTPUT]";

const NAME: &str = "capture";
const NOT_MIRRORED: &str = "not mirrored";
const MIRRORED: &str = "mirrored";
const WITH_QUERIES: &str = "mirrored, with queries";
/// The suffix in the names of figures that were measured after the load and before any transaction.
const LOADED: &str = ", loaded";

pub struct Options {
    quick: bool,
    warehouses: u32,
    seconds: u32,
    rounds: u32,
    clients: u32,
    /// Whether commits wait until WAL is flushed, as they usually do (`synchronous_commit`).
    durable: bool,
    /// The connection string of a given server, instead of a private one.
    dsn: Option<String>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut durable, mut dsn, mut output) = (false, false, None, Output::default());
        let (mut warehouses, mut seconds, mut rounds, mut clients) = (None, None, None, 2);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--warehouses" => warehouses = Some(arguments.number()?),
                "--seconds" => seconds = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--clients" => clients = arguments.number()?,
                "--durable" => durable = true,
                "--dsn" => dsn = Some(arguments.value()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let usual = |given: Option<u32>, short, long| given.unwrap_or(if quick { short } else { long });
        let (warehouses, seconds, rounds) = (usual(warehouses, 1, 5), usual(seconds, 3, 60), usual(rounds, 1, 3));
        Ok(Options { quick, warehouses, seconds, rounds, clients, durable, dsn, output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let place = Place::new(server, options.dsn.as_deref());
    let mut findings = Findings::new(NAME);
    let commits = if options.durable { "on" } else { "off" };
    for (key, value) in [
        ("warehouses", json!(options.warehouses)),
        ("clients", json!(options.clients)),
        ("seconds", json!(options.seconds)),
        ("rounds", json!(options.rounds)),
        ("settings", json!(place.described(&format!("synchronous_commit {commits}, fsync off, shared_buffers 1 GB")))),
    ] {
        findings.report.set_meta(key, value);
    }
    let standard = Scale::standard(options.warehouses);
    let scale = if options.quick { Scale::small(options.warehouses) } else { standard };
    eprintln!("loading TPC-C, {} warehouse(s)", options.warehouses);
    let settings = cluster::Options::default().set("shared_buffers", "1GB");
    let stage = Stage::load(place, settings, |config| tpcc::create(config, scale))?;
    let configurations = [NOT_MIRRORED, MIRRORED, WITH_QUERIES];
    for round in 0..options.rounds as usize {
        for at in 0..configurations.len() {
            let config = configurations[(at + round) % configurations.len()];
            eprintln!("round {} of {}: {config}", round + 1, options.rounds);
            let usual = Workload::of(scale, options.clients);
            let workload = Workload { synchronous_commit: options.durable, ..usual };
            one(&stage, config, workload, options, round + 1, &mut findings)?;
            findings.keep()?;
        }
    }
    Ok(findings.report)
}

fn one(
    stage: &Stage,
    config: &str,
    workload: Workload,
    options: &Options,
    round: usize,
    findings: &mut Findings,
) -> Result<()> {
    let params = json!({ "round": round, "access": "uniform" });
    let mirrored = config != NOT_MIRRORED;
    let database = if mirrored {
        let database = stage.with_extension("auto")?;
        let start = Instant::now();
        anker::mirror(&mut database.connect()?, &tpcc::TABLES, Duration::from_secs(600))?;
        findings.row("load", config, &params, start.elapsed().as_secs_f64(), "s, nine tables");
        memory::rows(&mut database.connect()?, config, LOADED, &params, findings)?;
        database
    } else {
        stage.bare()?
    };
    let mut delays = Delays::default();
    let outcome = Trial {
        database: &database,
        workload,
        queries: (config == WITH_QUERIES).then(plan),
        quiet: Duration::from_secs(1),
        measured: Duration::from_secs(options.seconds.into()),
        mirrored,
    }
    .run(|client| {
        let mut checked = Checked::default();
        if mirrored {
            delays = Delays::now(client)?;
            for query in &ANKER {
                checked.note(query.name, &queries::compare(client, query)?);
            }
        }
        Ok(checked)
    })?;
    let Some(cpu) = outcome.cpu else {
        return Err(
            "the server of --dsn has to be on this machine and reached by its socket: CPU times are what is measured"
                .into(),
        );
    };
    if mirrored {
        memory::rows(&mut database.connect()?, config, "", &params, findings)?;
    }
    side_by_side::rows(&outcome, config, &ANKER.map(|query| query.name), &params, findings);
    let mut row = |figure: &str, value: f64, unit: &str| findings.row(figure, config, &params, value, unit);
    let new_orders = outcome.beside.new_orders.max(1) as f64;
    row("backend cpu per new order", cpu.transactions * 1e6 / new_orders, "us");
    if mirrored {
        row("worker's share", cpu.worker / cpu.transactions, "of the backends' CPU");
        row("engine's share", cpu.engine / cpu.transactions, "of the backends' CPU");
        row("catch-up", catch_up(&database)?.as_secs_f64() * 1e3, "ms");
        for (figure, share) in [("applied, p50", 0.5), ("applied, p99", 0.99)] {
            row(figure, percentile(&delays.applied, share), "ms from commit");
        }
    }
    if config == WITH_QUERIES {
        for (figure, share) in [("ready, p50", 0.5), ("ready, p99", 0.99)] {
            row(figure, percentile(&delays.ready, share), "ms from the request");
        }
    }
    database.discard()?;
    outcome.checked.refuse()
}

/// The plan of queries: a query is due every 20 ms, but starts only when the previous one is answered.
fn plan() -> Plan {
    Plan {
        queries: ANKER.map(|query| query.flagged()).into(),
        order: Order::InTurn,
        seed: 0,
        sessions: 1,
        every: Duration::from_millis(20),
        isolation: Isolation::ReadCommitted,
        route: "",
        explain: Explain::Never,
        numbers: 0,
    }
}

/// The delays of the last transactions, in milliseconds.
#[derive(Default)]
struct Delays {
    applied: Vec<f64>,
    ready: Vec<f64>,
}

impl Delays {
    fn now(client: &mut Client) -> Result<Delays> {
        let sql = "SELECT commit_to_applied_us, request_to_ready_us FROM anker.latest_delays()";
        let row = client.query_one(sql, &[])?;
        let milliseconds = |column| {
            let values: Vec<i64> = row.get::<_, Option<Vec<i64>>>(column).unwrap_or_default();
            values.into_iter().map(|us| us as f64 / 1e3).collect()
        };
        Ok(Delays { applied: milliseconds(0), ready: milliseconds(1) })
    }
}

/// Waits until the engine has read all WAL that exists now. Returns the time that this took.
fn catch_up(database: &Database) -> Result<Duration> {
    let mut client = database.connect()?;
    let start = Instant::now();
    let end: String = client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[])?.get(0);
    let sql = "SELECT lsn >= $1::text::pg_lsn FROM anker.engine WHERE database::text = current_database()";
    let reached = wait_until(Duration::from_secs(60), || {
        Ok(client.query_opt(sql, &[&end])?.and_then(|row| row.get::<_, Option<bool>>(0)).unwrap_or(false))
    })?;
    if reached { Ok(start.elapsed()) } else { Err("the engine does not catch up".into()) }
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "TPC-C, {} warehouse(s), {} clients as fast as they can, all nine tables mirrored; runs of {} s in {} round(s), in which \
         configurations take turns, each with a copy of the same rows. Not mirrored: a server without pg_anker, unless it was \
         given. PostgreSQL: {}.",
        meta["warehouses"],
        meta["clients"],
        meta["seconds"],
        meta["rounds"],
        meta["settings"].as_str().unwrap_or_default(),
    );
    Page {
        title: "What following TPC-C costs".into(),
        about: vec![report.machine(), about],
        sections: vec![
            costs(&found),
            delays(&found),
            latencies(NAME, &found, "uniform", NOT_MIRRORED),
            processors(&found),
        ],
        ..Page::default()
    }
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn costs(found: &Found) -> Section {
    let (orders, backends) = (found.figure("new_orders"), found.figure("backend cpu per new order"));
    let mut grid = Grid::new("");
    for heading in [
        "new orders/min",
        "of not mirrored",
        "a backend's CPU per new order, µs",
        "of not mirrored",
        "worker, of the backends' CPU",
        "engine, of the backends' CPU",
    ] {
        grid.column(heading);
    }
    for config in found.subjects() {
        let of = |figure: &str| typical(found, figure, &config);
        grid.row(
            &config,
            vec![
                of("new_orders").map(rounded),
                orders.ratio(&config, NOT_MIRRORED).map(|ratio| ratio.to_string()),
                of("backend cpu per new order").map(rounded),
                backends.ratio(&config, NOT_MIRRORED).map(|ratio| ratio.to_string()),
                of("worker's share").map(percent),
                of("engine's share").map(percent),
            ],
        );
    }
    let shares = ["worker's share", "engine's share"].map(|figure| typical(found, figure, MIRRORED).map(percent));
    let here = match (shares, orders.ratio(MIRRORED, NOT_MIRRORED)) {
        ([Some(worker), Some(engine)], Some(ratio)) => format!(
            "Following costs {worker} (capture worker) and {engine} (engine) of the backends' CPU; new orders: {ratio} of those \
             without"
        ),
        _ => String::new(),
    };
    Section {
        id: "costs",
        title: "What it costs".into(),
        claim: "Clients wait for nothing of ours; what follows them takes processors, and where none is idle it takes them from \
                the clients."
            .into(),
        here,
        notes: vec![
            "Medians of the rounds; ratios are of runs of the same round, with the least and the largest.".into(),
            answers(found),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

fn delays(found: &Found) -> Section {
    const FIGURES: [(&str, &str); 8] = [
        ("applied, p50", "commit to applied, p50"),
        ("applied, p99", "p99"),
        ("ready, p50", "request to snapshot ready, p50"),
        ("ready, p99", "p99"),
        ("catch-up", "catching up in the end"),
        ("load", "loading nine tables, s"),
        ("memory_share, loaded", "memory then, of the heap without indexes"),
        ("memory_share", "memory in the end"),
    ];
    let mut grid = Grid::new("Milliseconds, medians of the rounds");
    FIGURES.iter().for_each(|(_, heading)| grid.column(heading));
    for config in found.figure("load").subjects() {
        let cells = FIGURES.iter().map(|(figure, _)| typical(found, figure, &config).map(rounded));
        grid.row(&config, cells.collect());
    }
    let of = |figure: &str| typical(found, figure, MIRRORED).map_or("–".into(), rounded);
    Section {
        id: "delays",
        title: "How far behind the mirror is".into(),
        claim: "A query waits until the mirror has what its snapshot sees, and flushes the log itself for that.".into(),
        here: format!("From commit to applied {} ms, p99 {}", of("applied, p50"), of("applied, p99")),
        notes: vec![
            "Of the last 4096 transactions and requests. With synchronous_commit off the log is flushed by PostgreSQL's WAL \
             writer, every 200 ms: that is most of the time from commit to applied."
                .into(),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_are_said_as_shares_and_ratios() {
        let mut findings = Findings::new(NAME);
        let params = json!({ "round": 1, "access": "uniform" });
        for (config, orders) in [(NOT_MIRRORED, 1000.0), (MIRRORED, 900.0)] {
            findings.row("new_orders", config, &params, orders, "");
        }
        findings.row("worker's share", MIRRORED, &params, 0.04, "");
        findings.row("engine's share", MIRRORED, &params, 0.111, "");
        let page = page(&findings.report);
        assert!(
            page.sections[0].here.contains("4.0 % (capture worker) and 11.1 % (engine)"),
            "{}",
            page.sections[0].here
        );
        assert!(page.sections[0].here.ends_with("0.90 of those without"), "{}", page.sections[0].here);
        assert!(!page.html().contains("NaN"));
    }
}
