//! The demonstration runs TPC-C clients in three phases: alone, while the eight queries run on the heap, and while they
//! run on the mirror.

mod live;
mod page;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::Report;
use anker_report::page::stacked;
use postgres::Client;
use serde_json::json;

pub use page::page;

use crate::arguments::{Arguments, Parsed};
use crate::cluster::{self, Cluster};
use crate::experiments::freshness::{age, numbered};
use crate::queries::{self, ANKER, Side};
use crate::report::{Findings, median};
use crate::server::Server;
use crate::sets::Route;
use crate::streams::{Asked, Explain, Order, Plan, Streams};
use crate::tpcc::{self, Clients, Isolation, Scale, Workload};
use crate::{Output, Result, anker};

use live::View;

pub const NAME: &str = "demo";
/// The phases: transactions alone, with queries on the heap, and with queries on the mirror.
const PHASES: [&str; 3] = ["no queries", "heap", "mirror"];
const LOADING: Duration = Duration::from_secs(600);

pub struct Options {
    pub warehouses: u32,
    /// The duration of all three phases together.
    pub seconds: u32,
    pub clients: u32,
    pub keep: bool,
    /// Whether the tables have few rows.
    pub quick: bool,
    /// The file for a plot of throughput and latencies.
    pub svg: Option<PathBuf>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let page = std::env::temp_dir().join("pg_anker-demo.html");
        let output = Output { html: Some(page), ..Output::default() };
        let (warehouses, seconds, clients, svg) = (2, 45, 2, None);
        let mut options = Options { warehouses, seconds, clients, keep: false, quick: false, svg, output };
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--warehouses" => options.warehouses = arguments.number()?,
                "--seconds" => options.seconds = arguments.number()?,
                "--clients" => options.clients = arguments.number()?,
                "--keep" => options.keep = true,
                "--quick" => options.quick = true,
                "--svg" => options.svg = Some(arguments.value()?.into()),
                _ if arguments.output(&mut options.output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        Ok(options)
    }

    /// Returns an error if a file cannot be written, so that it is reported before the demonstration begins.
    pub fn check(&self) -> Result<()> {
        self.output.check()?;
        let svg = Output { html: self.svg.clone(), ..Output::default() };
        svg.check()
    }
}

/// Runs the demonstration. Then, if the options ask for it, writes the files and leaves the server running.
pub fn run(server: &Arc<Server>, options: &Options) -> Result<()> {
    let (cluster, same) = show(server, options)?;
    if options.keep {
        println!("\nThe server goes on. Stop it and remove everything:\n  {}", cluster.leave_running());
    } else if std::io::stdin().is_terminal() {
        println!("\nEnter stops the server and removes everything.");
        std::io::stdin().read_line(&mut String::new())?;
    }
    if same { Ok(()) } else { Err("heap and mirror gave different answers".into()) }
}

/// Runs the demonstration. Returns its server, and whether heap and mirror gave the same answers.
pub fn show(server: &Arc<Server>, options: &Options) -> Result<(Cluster, bool)> {
    let settings = cluster::Options::default().set("anker.memory", "4GB");
    let cluster = Cluster::start(server, &settings)?;
    let scale = if options.quick { Scale::small(options.warehouses) } else { Scale::standard(options.warehouses) };
    step(&format!("Loading TPC-C, {} warehouse(s)", options.warehouses), || {
        tpcc::create(&cluster.config(), scale)?;
        tpcc::numbers(&mut cluster.connect()?)
    })?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    let tables: Vec<&str> = tpcc::TABLES.into_iter().chain(["tpcc_numbers"]).collect();
    step("Mirroring its tables", || anker::mirror(&mut client, &tables, LOADING))?;
    sizes(&mut client)?;
    println!("\nLook for yourself meanwhile:\n  psql \"{}\"\n", cluster.conninfo("postgres"));

    let workload = Workload { numbered: true, ..Workload::of(scale, options.clients) };
    let mut phases = Phases::start(&cluster, client, workload, options)?;
    for phase in PHASES {
        phases.phase(phase)?;
    }
    let (mut report, same) = phases.end()?;

    let page = page(&report);
    print!("\n{}", page.text());
    if let Some(path) = &options.svg {
        let plots: Vec<_> = page.sections.iter().flat_map(|section| &section.plots).take(2).collect();
        std::fs::write(path, stacked(&plots)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    options.output.write(&page, &mut report)?;
    by_hand(&cluster);
    if let Some(path) = &options.output.html {
        println!("\nThe same as a page with plots:\n  {}", absolute(path).display());
    }
    Ok((cluster, same))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn step(what: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    print!("{what} … ");
    std::io::stdout().flush()?;
    let start = Instant::now();
    work()?;
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn sizes(client: &mut Client) -> Result<()> {
    let row = client.query_one(
        "SELECT sum(rows)::bigint, sum(bytes)::bigint, sum(pg_table_size(relation))::bigint FROM anker.tables",
        &[],
    )?;
    let (rows, mirror, heap): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let mb = |bytes: i64| bytes >> 20;
    println!("{rows} rows, {} MB on the heap, {} MB in the mirror", mb(heap), mb(mirror));
    Ok(())
}

/// The demonstration while it runs. The clients run transactions in all phases.
struct Phases<'a> {
    cluster: &'a Cluster,
    client: Client,
    clients: Clients,
    workload: Workload,
    /// Seconds of each phase.
    phase: u32,
    view: View,
    findings: Findings,
}

impl Phases<'_> {
    fn start<'a>(cluster: &'a Cluster, client: Client, workload: Workload, options: &Options) -> Result<Phases<'a>> {
        let mut findings = Findings::new(NAME);
        for (key, value) in
            [("warehouses", options.warehouses), ("clients", options.clients), ("seconds", options.seconds)]
        {
            findings.report.set_meta(key, value);
        }
        let phase = options.seconds.div_ceil(PHASES.len() as u32);
        let clients = Clients::start(&cluster.config(), workload)?;
        let view = View::new(phase * PHASES.len() as u32);
        Ok(Phases { cluster, client, clients, workload, phase, view, findings })
    }

    fn phase(&mut self, name: &'static str) -> Result<()> {
        let streams = match name {
            "heap" => Some(self.ask(Side::Heap)?),
            "mirror" => Some(self.ask(Side::Mirror)?),
            _ => None,
        };
        self.view.begin(name);
        let (start, first) = (Instant::now(), self.clients.totals());
        let (mut last, mut answered) = (first.clone(), 0);
        for second in 1..=self.phase {
            let next = start + Duration::from_secs(second.into());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let (now, asked) = (self.clients.totals(), streams.as_ref().map_or(0, Streams::answered));
            let rate = now.since(&last).new_orders_per_minute();
            self.view.second(rate, (asked - answered) as f64, engine(&mut self.client)?)?;
            let at = json!({ "at": (self.clients.started().elapsed().as_secs_f64() * 10.0).round() / 10.0 });
            self.findings.row("second", name, &at, rate, "new orders/min");
            (last, answered) = (now, asked);
        }
        let totals = self.clients.totals().since(&first);
        let asked = streams.map_or(Ok(Vec::new()), Streams::finish)?;
        self.view.end(totals.new_orders_per_minute(), asked.len())?;
        let (none, rate) = (json!(null), totals.new_orders_per_minute());
        self.findings.row("new_orders", name, &none, rate, "1/min");
        self.findings.row("queries", name, &none, asked.len(), "");
        let committed = self.clients.committed();
        for one in &asked {
            let of = json!({ "query": ANKER[one.query].name });
            self.findings.row("query", name, &of, one.ms(), "ms");
            self.findings.row("score", name, &of, age(one, &committed).as_secs_f64() * 1e3, "ms");
        }
        self.typical(name, &asked)
    }

    /// Adds the median latency of each query to the view.
    fn typical(&mut self, side: &str, asked: &[Asked]) -> Result<()> {
        let times = |query: usize| asked.iter().filter(|one| one.query == query).map(Asked::ms).collect::<Vec<_>>();
        let medians = (0..ANKER.len()).map(times).filter(|times| !times.is_empty()).map(|times| median(&times));
        self.view.answered(side, medians.collect())
    }

    /// Starts sessions that run the eight queries in turn. Each answer also contains, for each client, the number of
    /// the last transaction that the query sees. From these numbers the age of the answer is computed.
    fn ask(&self, side: Side) -> Result<Streams> {
        let route = if side == Side::Mirror { Route::Prefer } else { Route::Off };
        let plan = Plan {
            queries: ANKER.iter().map(|query| numbered(&query.heap(), self.workload.clients)).collect(),
            order: Order::InTurn,
            sessions: 1,
            every: Duration::ZERO,
            isolation: Isolation::ReadCommitted,
            route: route.setting(),
            seed: 0,
            explain: Explain::Never,
            numbers: self.workload.clients as usize,
        };
        Streams::start(&self.cluster.config(), &plan, Instant::now())
    }

    /// Compares all answers while the clients go on, and ends the demonstration. Returns the report, and whether all
    /// answers were the same.
    fn end(mut self) -> Result<(Report, bool)> {
        let mut all_same = true;
        for query in &ANKER {
            let by = anker::explained(&mut self.client, &query.flagged())?.unwrap_or("heap, not flagged".into());
            let same = queries::compare(&mut self.client, query)?.same();
            all_same &= same;
            self.findings.query("by", query.name, &json!(null), by, "");
            self.findings.query("same_answer", query.name, &json!(null), same, "");
        }
        let totals = self.clients.stop();
        let errors: Vec<_> = totals.errors.iter().take(5).map(|error| format!("a client failed: {error}")).collect();
        self.findings.report.set_meta("errors", errors);
        Ok((self.findings.report, all_same))
    }
}

/// The mirror's state, in words.
fn engine(client: &mut Client) -> Result<String> {
    let row = client.query_opt(
        "SELECT memory_bytes, lag_bytes, transactions_applied FROM anker.engine
         WHERE database::text = current_database() AND memory_bytes IS NOT NULL",
        &[],
    )?;
    Ok(row.map_or("starts".into(), |row| {
        let value = |i| row.get::<_, Option<i64>>(i).unwrap_or(0);
        format!("{} kB of WAL behind, {} MB, {} transactions applied", value(1) >> 10, value(0) >> 20, value(2))
    }))
}

fn by_hand(cluster: &Cluster) {
    println!(
        "\nTry it:\n  psql \"{}\"\n  \
         EXPLAIN (ANALYZE) SELECT ol_d_id, avg(ol_amount) FROM order_line WHERE anker.olap() GROUP BY ol_d_id;\n  \
         SELECT * FROM anker.tables;  SELECT * FROM anker.engine;  SELECT * FROM anker.verify('order_line');",
        cluster.conninfo("postgres")
    );
}
