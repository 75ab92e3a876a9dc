//! CH-benCHmark: TPC-C beside its 22 queries, on the heap and on the mirror.

use std::sync::Arc;
use std::time::Duration;

use anker_report::found::Found;
use anker_report::page::{Grid, Groups, Page, Plot, Scale as AxisScale, Section};
use anker_report::{Report, median, percentile, rounded};
use postgres::NoTls;
use serde_json::json;

use super::side_by_side::{self, ALONE, answers, latencies, processors, typical};
use crate::arguments::{Arguments, Parsed};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::{self, Query, Route, Set};
use crate::stage::{Place, Stage};
use crate::streams::{Explain, Order, Plan};
use crate::tpcc::{self, Isolation, Scale, Workload};
use crate::trial::{Checked, Trial};
use crate::{Output, Result};

pub const USAGE: &str =
    "ch [--quick] [--warehouses N] [--seconds N] [--rounds N] [--clients N] [--streams N] [--dsn DSN] [OUTPUT]";

const NAME: &str = "ch";
const HEAP: &str = "heap";
const MIRROR: &str = "mirror";

pub struct Options {
    quick: bool,
    warehouses: u32,
    seconds: u32,
    rounds: u32,
    clients: u32,
    streams: u32,
    /// The connection string of a given server, instead of a private one.
    dsn: Option<String>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let (mut quick, mut dsn, mut output) = (false, None, Output::default());
        let (mut warehouses, mut seconds, mut rounds, mut clients, mut streams) = (None, None, None, cores, 1);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--warehouses" => warehouses = Some(arguments.number()?),
                "--seconds" => seconds = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--clients" => clients = arguments.number()?,
                "--streams" => streams = arguments.number()?,
                "--dsn" => dsn = Some(arguments.value()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let usual = |given: Option<u32>, short, long| given.unwrap_or(if quick { short } else { long });
        let (warehouses, seconds) = (usual(warehouses, 1, 5), usual(seconds, 4, 120));
        Ok(Options { quick, warehouses, seconds, rounds: usual(rounds, 1, 3), clients, streams, dsn, output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let set = Set::named(NAME).ok_or("no CH-benCHmark")?;
    let queries = set.queries(options.warehouses.into());
    let Options { warehouses, clients, streams, .. } = *options;
    let scale = if options.quick { Scale::small(warehouses) } else { Scale::standard(warehouses) };
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("warehouses", warehouses),
        ("clients", clients),
        ("streams", streams),
        ("seconds", options.seconds),
        ("rounds", options.rounds),
    ] {
        findings.report.set_meta(key, value);
    }
    let place = Place::new(server, options.dsn.as_deref());
    findings.report.set_meta("settings", place.described("synchronous_commit off, fsync off, shared_buffers 2 GB"));
    eprintln!("loading CH-benCHmark, {warehouses} warehouse(s)");
    let stage = Stage::load(place, sets::cluster_options(), |config| {
        sets::populate_ch(config, scale)?;
        Ok(config.connect(NoTls)?.batch_execute("VACUUM ANALYZE")?)
    })?;
    let mut tables = tpcc::TABLES.to_vec();
    tables.extend(set.tables.iter().filter(|table| !tpcc::TABLES.contains(table)));
    let bench = Bench { stage, tables, queries, scale, options };

    let configurations = [ALONE, HEAP, MIRROR];
    for round in 0..options.rounds as usize {
        for at in 0..configurations.len() {
            let config = configurations[(at + round) % configurations.len()];
            eprintln!("round {} of {}: {config}", round + 1, options.rounds);
            bench.one(config, round + 1, &mut findings)?;
            findings.keep()?;
        }
    }
    Ok(findings.report)
}

/// State that all runs share.
struct Bench<'a> {
    stage: Stage,
    /// The tables that are mirrored.
    tables: Vec<&'a str>,
    queries: Vec<Query>,
    scale: Scale,
    options: &'a Options,
}

impl Bench<'_> {
    fn one(&self, config: &str, round: usize, findings: &mut Findings) -> Result<()> {
        let mirrored = config == MIRROR;
        let database = if mirrored { self.stage.mirrored(&self.tables)? } else { self.stage.bare()? };
        let trial = Trial {
            database: &database,
            workload: Workload::of(self.scale, self.options.clients),
            queries: (config != ALONE).then(|| self.plan(mirrored)),
            quiet: Duration::from_secs(1),
            measured: Duration::from_secs(self.options.seconds.into()),
            mirrored,
        };
        let outcome = trial.run(|client| {
            let mut checked = Checked::default();
            for query in self.queries.iter().filter(|_| mirrored) {
                checked.ask(client, query)?;
            }
            Ok(checked)
        })?;
        database.discard()?;
        let names: Vec<&str> = self.queries.iter().map(|query| query.name.as_str()).collect();
        let params = json!({ "round": round, "access": "uniform" });
        side_by_side::rows(&outcome, config, &names, &params, findings);
        let (minutes, transactions) = (outcome.beside.elapsed.as_secs_f64() / 60.0, outcome.beside.transactions);
        findings.row("tpm", config, &params, transactions as f64 / minutes, "1/min");
        if config != ALONE {
            findings.row("queries per hour", config, &params, outcome.asked.len() as f64 * 60.0 / minutes, "1/h");
        }
        outcome.checked.refuse()
    }

    fn plan(&self, mirrored: bool) -> Plan {
        Plan {
            queries: self.queries.iter().map(|query| query.sql.clone()).collect(),
            order: Order::InTurn,
            seed: 0,
            sessions: self.options.streams,
            every: Duration::ZERO,
            isolation: Isolation::ReadCommitted,
            route: if mirrored { Route::Prefer.setting() } else { "" },
            explain: Explain::Never,
            numbers: 0,
        }
    }
}

pub fn page(report: &Report) -> Page {
    let found = Found::new(report, NAME);
    let meta = report.meta();
    let about = format!(
        "{} warehouse(s), {} clients, {} stream(s) of the 22 queries in turn, without pauses. Runs of {} s in {} round(s), in \
         which configurations take turns, each with a copy of the same rows. Heap: a server without pg_anker, unless it was given. \
         PostgreSQL: {}.",
        meta["warehouses"],
        meta["clients"],
        meta["streams"],
        meta["seconds"],
        meta["rounds"],
        meta["settings"].as_str().unwrap_or_default(),
    );
    Page {
        title: "CH-benCHmark: transactions beside 22 queries".into(),
        about: vec![report.machine(), about],
        sections: vec![summary(&found), times(&found), latencies(NAME, &found, "uniform", ALONE), processors(&found)],
        ..Page::default()
    }
}

fn summary(found: &Found) -> Section {
    let mut grid = Grid::new("");
    for heading in [
        "new orders/min",
        "of those without queries",
        "transactions/min",
        "queries/h",
        "of the heap's",
        "by the engine",
    ] {
        grid.column(heading);
    }
    let (orders, hourly) = (found.figure("new_orders"), found.figure("queries per hour"));
    for config in found.subjects() {
        let shown = |figure: &str| typical(found, figure, &config).map(|value| format!("{value:.0}"));
        grid.row(
            &config,
            vec![
                shown("new_orders"),
                orders.ratio(&config, ALONE).map(|ratio| ratio.to_string()),
                shown("tpm"),
                shown("queries per hour"),
                hourly.ratio(&config, HEAP).map(|ratio| ratio.to_string()),
                typical(found, "answered by the engine", &config).map(|share| format!("{:.1} %", 100.0 * share)),
            ],
        );
    }
    let here = orders.ratio(MIRROR, HEAP).zip(hourly.ratio(MIRROR, HEAP)).map(|(orders, queries)| {
        format!("With the queries on the mirror: {orders} of the heap's new orders, {queries} of its queries an hour")
    });
    Section {
        id: "summary",
        title: "New orders and queries".into(),
        claim: "CH-benCHmark's two figures: new orders a minute, and queries answered an hour beside them.".into(),
        here: here.unwrap_or_default(),
        notes: vec![
            "Medians of the rounds; ratios are of runs of the same round, with the least and the largest. Queries that had not \
             ended with the run are not counted."
                .into(),
            "The streams ask without pauses: whoever answers faster is asked more, and takes the processors from the \
             transactions more often. Both figures belong together."
                .into(),
            answers(found),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

fn times(found: &Found) -> Section {
    let of = found.figure("query");
    let mut grid = Grid::new("Milliseconds beside the transactions, p50 / max");
    for heading in [HEAP, MIRROR, "times"] {
        grid.column(heading);
    }
    let mut groups = Vec::new();
    for query in of.params("query") {
        let name = query.as_str().unwrap_or_default().to_owned();
        let times = |config: &str| of.with("query", &query).subject(config).values();
        let (heap, mirror) = (times(HEAP), times(MIRROR));
        let shown = |times: &[f64]| {
            (!times.is_empty()).then(|| format!("{} / {}", rounded(median(times)), rounded(percentile(times, 1.0))))
        };
        let ratio = (!heap.is_empty() && !mirror.is_empty())
            .then(|| rounded(median(&heap) / median(&mirror).max(f64::MIN_POSITIVE)));
        grid.row(&name, vec![shown(&heap), shown(&mirror), ratio]);
        let bars = [(HEAP, heap), (MIRROR, mirror)].into_iter().filter(|(_, times)| !times.is_empty());
        groups.push((name, bars.map(|(config, times)| (config.to_owned(), median(&times))).collect()));
    }
    let groups = Groups { scale: AxisScale::Log, groups };
    let plot = Plot::groups("Median time beside the transactions", "ms", groups);
    Section {
        id: "queries",
        title: "Each query".into(),
        claim: "What the queries ask is in bench/src/sets/ch.sql.".into(),
        here: String::new(),
        notes: vec!["– : no run of the query ended in time.".into()],
        grids: vec![grid],
        plots: vec![plot.named("ch-queries")],
    }
}
