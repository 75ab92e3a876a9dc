//! Measures what the benchmark HATtrick measures: the freshness of answers, and the throughputs that transactions and
//! queries reach at the same time.
//!
//! Each transaction that writes also writes its client's next number to the database. Each query also reads these
//! numbers, under its own snapshot. An answer is too old if the query did not see a transaction that had committed
//! before the query began. The answer's score is the time from the first such commit to the begin of the query; without
//! such a commit, the score is 0.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::found::Found;
use anker_report::page::{Grid, Page, Plot, Scale as AxisScale, Section, Series};
use anker_report::{Report, median, percentile, rounded};
use postgres::NoTls;
use serde_json::{Value, json};

use crate::arguments::{Arguments, Parsed};
use crate::cluster;
use crate::experiments::must::{self, Bound, Must};
use crate::queries::{self, ANKER};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::Route;
use crate::stage::{Database, Place, Stage};
use crate::streams::{Asked, Explain, Order, Plan};
use crate::tpcc::{self, Isolation, Scale, Workload};
use crate::trial::{Checked, Outcome, Trial};
use crate::{Output, Result};

pub const USAGE: &str =
    "freshness [--quick] [--warehouses N] [--seconds N] [--rounds N] [--clients N,N...] [--streams N,N...]
            [--dsn DSN] [OUTPUT]";

const NAME: &str = "freshness";
const HEAP: &str = "heap";
const MIRROR: &str = "mirror";

pub struct Options {
    quick: bool,
    warehouses: u32,
    /// Duration of each point.
    seconds: u32,
    rounds: u32,
    /// The numbers of clients, and the numbers of streams of queries, to be measured. Zero is always measured, too.
    clients: Vec<u32>,
    streams: Vec<u32>,
    /// The connection string of a given server, instead of a private one.
    dsn: Option<String>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut dsn, mut output) = (false, None, Output::default());
        let (mut warehouses, mut seconds, mut rounds, mut clients, mut streams) = (None, None, None, None, None);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--warehouses" => warehouses = Some(arguments.number()?),
                "--seconds" => seconds = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--clients" => clients = Some(arguments.numbers()?),
                "--streams" => streams = Some(arguments.numbers()?),
                "--dsn" => dsn = Some(arguments.value()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let usual = |given: Option<u32>, short, long| given.unwrap_or(if quick { short } else { long });
        let counts = |given: Option<Vec<u32>>| given.unwrap_or(if quick { vec![1, 2] } else { vec![1, 2, 4, 8] });
        let (warehouses, seconds) = (usual(warehouses, 1, 2), usual(seconds, 1, 20));
        let (clients, streams) = (counts(clients), counts(streams));
        Ok(Options { quick, warehouses, seconds, rounds: usual(rounds, 1, 3), clients, streams, dsn, output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let mut findings = Findings::new(NAME);
    for (key, value) in [("warehouses", options.warehouses), ("seconds", options.seconds), ("rounds", options.rounds)] {
        findings.report.set_meta(key, value);
    }
    let standard = Scale::standard(options.warehouses);
    let scale = if options.quick { Scale::small(options.warehouses) } else { standard };
    let place = Place::new(server, options.dsn.as_deref());
    findings.report.set_meta("settings", place.described("synchronous_commit off, fsync off, shared_buffers 1 GB"));
    eprintln!("loading TPC-C, {} warehouse(s)", options.warehouses);
    let stage = Stage::load(place, cluster::Options::default().set("shared_buffers", "1GB"), |config| {
        tpcc::create(config, scale)?;
        tpcc::numbers(&mut config.connect(NoTls)?)
    })?;
    let mut tables = tpcc::TABLES.to_vec();
    tables.push("tpcc_numbers");
    for round in 1..=options.rounds {
        let (heap, mirror) = (stage.bare()?, stage.mirrored(&tables)?);
        for (turn, (clients, streams)) in points(options).into_iter().enumerate() {
            eprintln!("round {round} of {}: {clients} clients, {streams} streams of queries", options.rounds);
            let mut sides = [(HEAP, &heap), (MIRROR, &mirror)];
            sides.rotate_left((turn + round as usize) % 2);
            for (side, database) in sides {
                let workload = Workload { numbered: true, ..Workload::of(scale, clients) };
                let params = json!({ "round": round, "clients": clients, "streams": streams });
                let outcome = one(database, workload, streams, side == MIRROR, options)?;
                rows(&outcome, side, &params, &mut findings);
                outcome.checked.refuse()?;
                findings.keep()?;
            }
        }
        heap.discard()?;
        mirror.discard()?;
    }
    Ok(findings.report)
}

/// All combinations of a number of clients and a number of streams, including zero.
fn points(options: &Options) -> Vec<(u32, u32)> {
    let with_none = |counts: &[u32]| [&[0], counts].concat();
    let streams = with_none(&options.streams);
    let all = with_none(&options.clients).into_iter().flat_map(|clients| streams.iter().map(move |s| (clients, *s)));
    all.filter(|point| *point != (0, 0)).collect()
}

fn one(database: &Database, workload: Workload, streams: u32, mirrored: bool, options: &Options) -> Result<Outcome> {
    let plan = Plan {
        queries: ANKER.iter().map(|query| numbered(&query.heap(), workload.clients)).collect(),
        order: Order::InTurn,
        seed: 0,
        sessions: streams,
        every: Duration::ZERO,
        isolation: Isolation::ReadCommitted,
        route: if mirrored { Route::Prefer.setting() } else { "" },
        explain: Explain::Never,
        numbers: workload.clients as usize,
    };
    let trial = Trial {
        database,
        workload,
        queries: (streams > 0).then_some(plan),
        quiet: Duration::from_millis(200),
        measured: Duration::from_secs(options.seconds.into()),
        mirrored,
    };
    trial.run(|client| {
        let mut checked = Checked::default();
        for query in ANKER.iter().filter(|_| mirrored && streams > 0) {
            checked.note(query.name, &queries::compare(client, query)?);
        }
        Ok(checked)
    })
}

/// The query, changed so that each row begins with the last number of each client. If the original query returns no
/// rows, the changed one returns one row with the numbers.
pub(crate) fn numbered(query: &str, clients: u32) -> String {
    if clients == 0 {
        return query.to_owned();
    }
    let last = |client| format!("max(number) FILTER (WHERE client = {client}) AS number_{client}");
    let last: Vec<String> = (0..clients).map(last).collect();
    format!(
        "SELECT seen.*, answer.* FROM (SELECT {} FROM tpcc_numbers) AS seen LEFT JOIN ({query}) AS answer ON true",
        last.join(", ")
    )
}

/// The score of an answer: the time by which its rows were too old when the query began.
pub(crate) fn age(asked: &Asked, committed: &[Vec<Instant>]) -> Duration {
    let first_unseen = |(seen, committed): (&i64, &Vec<Instant>)| committed.get(*seen as usize).copied();
    let earliest = asked.seen.iter().zip(committed).filter_map(first_unseen).min();
    earliest.map_or(Duration::ZERO, |committed| asked.begun.saturating_duration_since(committed))
}

fn rows(outcome: &Outcome, side: &str, params: &Value, findings: &mut Findings) {
    let seconds = outcome.beside.elapsed.as_secs_f64();
    let mut row = |figure: &str, value: Value, unit: &str| findings.row(figure, side, params, value, unit);
    row("transactions", json!(outcome.beside.transactions as f64 / seconds), "1/s");
    row("queries", json!(outcome.asked.len() as f64 / seconds), "1/s");
    if let Some(cpu) = &outcome.cpu {
        row("cpu, server", json!(cpu.server / seconds), "CPU s/s");
    }
    if let Some(share) = outcome.engine_share.filter(|_| !outcome.asked.is_empty()) {
        row("answered by the engine", json!(share), "of the queries");
        row("compared", json!(outcome.checked.compared), "answers on both routes");
    }
    for asked in outcome.asked.iter().filter(|asked| !asked.seen.is_empty()) {
        row("score", json!(age(asked, &outcome.committed).as_secs_f64() * 1e3), "ms");
    }
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "TPC-C, {} warehouse(s), and AnKer's eight queries in turn, without pauses; {} s for each number of clients and of \
         streams of queries, {} round(s), heap and mirror in turns. PostgreSQL: {}.",
        meta["warehouses"],
        meta["seconds"],
        meta["rounds"],
        meta["settings"].as_str().unwrap_or_default(),
    );
    Page {
        title: "Freshness and throughput frontier (HATtrick)".into(),
        about: vec![report.machine(), about],
        overview: vec![("What must be shown".into(), musts(&found))],
        sections: vec![scores(&found), frontier(&found)],
        ..Page::default()
    }
}

fn musts(found: &Found) -> Grid {
    let values = |figure: &str| found.figure(figure).subject(MIRROR).values();
    must::grid(vec![
        Must::new("freshness score on the mirror, ms: largest", Bound::AtMost(0.0), must::alone(&values("score"), 1.0)),
        Must::new(
            "queries answered by the engine: least share",
            Bound::AtLeast(0.99),
            must::alone(&values("answered by the engine"), 0.0),
        ),
    ])
}

fn scores(found: &Found) -> Section {
    let mut grid = Grid::new("Milliseconds");
    ["queries", "score 0", "p50", "p99", "max", "by the engine"].iter().for_each(|heading| grid.column(heading));
    let mut here = String::new();
    for side in found.subjects() {
        let scores = found.figure("score").subject(&side).values();
        let zero = scores.iter().filter(|score| **score == 0.0).count() as f64 / (scores.len() as f64).max(1.0);
        let at = |share| Some(rounded(percentile(&scores, share)));
        let shares = found.figure("answered by the engine").subject(&side).values();
        let by_engine = (!shares.is_empty()).then(|| format!("{:.1} %", 100.0 * percentile(&shares, 0.0)));
        let zero = format!("{:.1} %", 100.0 * zero);
        if side == MIRROR {
            here = format!(
                "{} queries on the mirror: score 0 for {zero} of them, at most {} ms",
                scores.len(),
                rounded(percentile(&scores, 1.0))
            );
        }
        grid.row(&side, vec![Some(scores.len().to_string()), Some(zero), at(0.5), at(0.99), at(1.0), by_engine]);
    }
    let compared: f64 = found.figure("compared").values().iter().sum();
    Section {
        id: "scores",
        title: "Freshness of each query".into(),
        claim: "HATtrick: from when the first transaction committed that a query does not see until the query began; 0 if there \
                is none."
            .into(),
        here,
        notes: vec![
            "A commit counts from when its client was told. Every query reads the numbers of the clients' last transactions \
             beside its own rows, in one statement. By the engine: the least share of any run."
                .into(),
            format!("{compared} answers were asked for on both routes under one snapshot while transactions ran: none differed."),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

/// The section about the throughput frontier: transactions a second against queries a second.
fn frontier(found: &Found) -> Section {
    let mut plot = Plot::lines("Queries/s over transactions/s", "transactions/s", AxisScale::Linear, AxisScale::Linear);
    let mut grid = Grid::new("Transactions/s and queries/s, medians of the rounds");
    let mut summary = Grid::new("");
    ["most transactions/s", "most queries/s", "under the frontier, of the rectangle", "of the heap's"]
        .iter()
        .for_each(|h| summary.column(h));
    let sorted = |found: &Found, param| {
        let mut values = found.params(param);
        values.sort_by_key(Value::as_u64);
        values
    };
    let streams = sorted(found, "streams");
    let mut cpu = Grid::new("CPU seconds of the server in a second, medians of the rounds");
    for grid in [&mut grid, &mut cpu] {
        streams.iter().for_each(|streams| grid.column(&format!("{streams} streams")));
    }
    let (mut here, mut heap_area) = (Vec::new(), None);
    for side in [HEAP, MIRROR] {
        let of = found.subject(side);
        let mut points = Vec::new();
        for clients in sorted(&of, "clients") {
            let of = of.with("clients", &clients);
            let cells = streams.iter().map(|streams| {
                let of = of.with("streams", streams);
                of.row()?;
                let typical = |figure| median(&of.figure(figure).values());
                let point = (typical("transactions"), typical("queries"));
                points.push(point);
                Some(format!("{}, {}", rounded(point.0), rounded(point.1)))
            });
            let (cells, name) = (cells.collect(), format!("{side}, {clients} clients"));
            grid.row(&name, cells);
            let used = |streams| of.with("streams", streams).figure("cpu, server").values();
            let used = streams.iter().map(used);
            cpu.row(&name, used.map(|used| (!used.is_empty()).then(|| rounded(median(&used)))).collect());
        }
        let edge = not_exceeded(&points);
        let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let (transactions, queries) = (most(|point| point.0), most(|point| point.1));
        let area = under(&edge);
        let times = area / heap_area.get_or_insert(area).max(f64::MIN_POSITIVE);
        let share = area / (transactions * queries).max(f64::MIN_POSITIVE);
        let shown = [rounded(transactions), rounded(queries), format!("{share:.2}"), format!("{times:.2}")];
        here.push(format!(
            "{side}: up to {} transactions/s and {} queries/s, {} of the heap's area",
            shown[0], shown[1], shown[3]
        ));
        summary.row(side, shown.map(Some).into());
        plot.add(Series::new(side, edge));
        plot.add(Series::dots(&format!("{side}, all"), points));
    }
    Section {
        id: "frontier",
        title: "Throughput frontier".into(),
        claim: "HATtrick: the closer the frontier comes to the rectangle of what either alone can reach, the less the two disturb \
                each other; on the straight line between the ends (0.5) they share one resource."
            .into(),
        here: here.join("; "),
        notes: vec![
            "On few cores both sides share them: a frontier near 0.5 says that the cores were busy, not that one side blocked \
             the other. The area under the heap's frontier counts as 1."
                .into(),
        ],
        grids: vec![summary, grid, cpu],
        plots: vec![plot.named("freshness-frontier")],
    }
}

/// The points of the frontier, ordered by the throughput of transactions. A point is on the frontier if no other point
/// is at least equal in both throughputs.
fn not_exceeded(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let exceeded = |(x, y): (f64, f64)| points.iter().any(|&(a, b)| a >= x && b >= y && (a > x || b > y));
    let mut edge: Vec<_> = points.iter().copied().filter(|point| !exceeded(*point)).collect();
    edge.sort_by(|a, b| a.0.total_cmp(&b.0));
    edge.dedup();
    edge
}

/// The area below the line through the points. Left of the first point, the line is continued horizontally.
fn under(edge: &[(f64, f64)]) -> f64 {
    let first = edge.first().map_or(0.0, |(x, y)| x * y);
    first + edge.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_old_as_the_first_transaction_that_it_lacks() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let committed = vec![vec![at(10), at(20), at(30)], vec![at(25)]];
        let asked = |seen: [i64; 2]| Asked {
            query: 0,
            due: at(40),
            begun: at(40),
            ended: at(50),
            explained: false,
            snapshot: None,
            seen: seen.into(),
        };
        assert_eq!(age(&asked([3, 1]), &committed), Duration::ZERO);
        assert_eq!(age(&asked([1, 1]), &committed), Duration::from_millis(20));
        assert_eq!(age(&asked([2, 0]), &committed), Duration::from_millis(15));
    }

    #[test]
    fn what_commits_after_a_query_has_begun_need_not_be_seen() {
        let start = Instant::now();
        let asked =
            Asked { query: 0, due: start, begun: start, ended: start, explained: false, snapshot: None, seen: vec![0] };
        assert_eq!(age(&asked, &[vec![start + Duration::from_millis(5)]]), Duration::ZERO);
    }

    #[test]
    fn the_frontier_is_what_nothing_exceeds() {
        let points = [(0.0, 10.0), (4.0, 5.0), (5.0, 8.0), (10.0, 0.0), (10.0, 0.0)];
        assert_eq!(not_exceeded(&points), [(0.0, 10.0), (5.0, 8.0), (10.0, 0.0)]);
        assert_eq!(under(&[(0.0, 10.0), (10.0, 0.0)]), 50.0);
        assert_eq!(under(&[(10.0, 10.0)]), 100.0);
    }
}
