//! The demonstration: TPC-C clients alone, then with the eight queries on the heap beside them, then on the mirror.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::analyst::{Analyst, Latencies, Side};
use crate::cluster::{self, Cluster};
use crate::report::median;
use crate::server::Server;
use crate::tpcc::{self, Clients, Scale, Totals, Workload};
use crate::{Result, anker, queries};

pub struct Options {
    pub warehouses: u32,
    /// For all three phases together.
    pub seconds: u32,
    pub clients: u32,
    pub keep: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { warehouses: 2, seconds: 45, clients: 2, keep: false }
    }
}

const LOADING: Duration = Duration::from_secs(600);

pub fn run(server: &Arc<Server>, options: &Options) -> Result<()> {
    let cluster = Cluster::start(server, &cluster::Options::default().set("anker.memory", "4GB"))?;
    let scale = Scale::standard(options.warehouses);
    step(&format!("Loading TPC-C, {} warehouse(s)", options.warehouses), || tpcc::create(&cluster, scale))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    tpcc::identify_history(&mut client)?;
    step("Mirroring its nine tables", || anker::mirror(&mut client, &tpcc::TABLES, LOADING))?;
    sizes(&mut client)?;
    println!("\nLook for yourself meanwhile:\n  psql \"{}\"\n", cluster.conninfo("postgres"));

    let workload = Workload { scale, clients: options.clients, synchronous_commit: false };
    let clients = Clients::start(&cluster, workload)?;
    let phase = Duration::from_secs(u64::from(options.seconds.div_ceil(3)));
    let alone = watch(&mut client, &clients, None, "transactions alone", phase)?;
    let (with_heap, heap) = beside(&cluster, &mut client, &clients, Side::Heap, "queries on the heap", phase)?;
    let (with_mirror, mirror) = beside(&cluster, &mut client, &clients, Side::Mirror, "queries on the mirror", phase)?;
    let answers = compare_all(&mut client)?;
    let totals = clients.stop();

    latencies(&heap, &mirror, &answers);
    println!("\nNew orders a minute, and queries answered beside them");
    let count = |latencies: &Latencies| latencies.iter().map(Vec::len).sum();
    for (name, totals, queries) in [
        ("alone", &alone, 0),
        ("with queries on the heap", &with_heap, count(&heap)),
        ("with queries on the mirror", &with_mirror, count(&mirror)),
    ] {
        println!("  {name:<28}{:>9.0}{queries:>7}", totals.new_orders_per_minute());
    }
    for error in totals.errors.iter().take(5) {
        println!("  client error: {error}");
    }
    by_hand(&cluster);
    if options.keep {
        println!("\nThe server goes on. Stop it and remove everything:\n  {}", cluster.leave_running());
    } else if std::io::stdin().is_terminal() {
        println!("\nEnter stops the server and removes everything.");
        std::io::stdin().read_line(&mut String::new())?;
    }
    Ok(())
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

fn beside(
    cluster: &Cluster,
    client: &mut Client,
    clients: &Clients,
    side: Side,
    name: &str,
    phase: Duration,
) -> Result<(Totals, Latencies)> {
    let analyst = Analyst::start(cluster, side, Duration::ZERO)?;
    let totals = watch(client, clients, Some(&analyst), name, phase)?;
    Ok((totals, analyst.finish()?))
}

/// Shows a live line until the phase is over, and returns what the clients did in it.
fn watch(
    client: &mut Client,
    clients: &Clients,
    analyst: Option<&Analyst>,
    name: &str,
    phase: Duration,
) -> Result<Totals> {
    let live = std::io::stdout().is_terminal();
    let (start, first) = (Instant::now(), clients.totals());
    let mut last = first.clone();
    while start.elapsed() < phase {
        std::thread::sleep(Duration::from_secs(1).min(phase.saturating_sub(start.elapsed())));
        let now = clients.totals();
        if live {
            let rate = now.since(&last).new_orders_per_minute();
            let asked = analyst.map_or(0, |a| a.latencies().iter().map(Vec::len).sum());
            let seconds = start.elapsed().as_secs();
            print!("\r{name}: {seconds:>3} s, {rate:>7.0} new orders/min, {asked:>5} queries{}\x1b[K", engine(client)?);
            std::io::stdout().flush()?;
        }
        last = now;
    }
    let totals = clients.totals().since(&first);
    let asked: usize = analyst.map_or(0, |a| a.latencies().iter().map(Vec::len).sum());
    let (start, end) = if live { ("\r", "\x1b[K") } else { ("", "") };
    println!("{start}{name}: {:.0} new orders/min, {asked} queries{end}", totals.new_orders_per_minute());
    Ok(totals)
}

fn engine(client: &mut Client) -> Result<String> {
    let row = client.query_opt(
        "SELECT memory_bytes, lag_bytes, transactions_applied FROM anker.engine
         WHERE database::text = current_database() AND memory_bytes IS NOT NULL",
        &[],
    )?;
    Ok(row.map_or(String::new(), |row| {
        let value = |i| row.get::<_, Option<i64>>(i).unwrap_or(0);
        format!(", mirror {} MB, {} kB of WAL behind, {} transactions", value(0) >> 20, value(1) >> 10, value(2))
    }))
}

/// For each query who answers it and whether heap and mirror agree, while the clients go on.
fn compare_all(client: &mut Client) -> Result<Vec<String>> {
    queries::ANKER
        .iter()
        .map(|query| {
            let by = anker::explained(client, &query.flagged())?.unwrap_or("heap, not flagged".into());
            let same = queries::compare(client, query)?.same();
            let verdict = if same { "same answer" } else { "DIFFERENT ANSWER" };
            Ok(if by == "engine" { verdict.into() } else { format!("{verdict} (by the {by})") })
        })
        .collect()
}

fn latencies(heap: &Latencies, mirror: &Latencies, answers: &[String]) {
    println!("\nMedian latency in ms, to the last row at the client, beside the transactions");
    println!("       heap    mirror   times");
    for (i, query) in queries::ANKER.iter().enumerate() {
        let (slow, fast) = (median(&heap[i]), median(&mirror[i]));
        let times = if fast > 0.0 { slow / fast } else { 0.0 };
        println!("  {}{slow:>8.1}{fast:>10.1}{times:>8.1}   {}", query.name, answers[i]);
    }
}

fn by_hand(cluster: &Cluster) {
    println!(
        "\nTry it:\n  psql \"{}\"\n  \
         EXPLAIN (ANALYZE) SELECT ol_d_id, avg(ol_amount) FROM order_line WHERE anker.olap() GROUP BY ol_d_id;\n  \
         SELECT * FROM anker.tables;  SELECT * FROM anker.engine;  SELECT * FROM anker.verify('order_line');",
        cluster.conninfo("postgres")
    );
}
