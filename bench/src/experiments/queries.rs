//! AnKer's eight queries on the heap and on the mirror, quiet, and the mirror's size.

use std::sync::Arc;
use std::time::Duration;

use postgres::Client;
use serde_json::json;

use crate::analyst::Side;
use crate::cluster::{Cluster, Options};
use crate::report::{Report, percentile};
use crate::server::Server;
use crate::tpcc::{self, Clients, Scale, Workload};
use crate::{Result, anker, os, queries as anker_queries};

/// `quick` asks for a run of a minute or two.
pub fn queries(server: &Arc<Server>, quick: bool, runs: Option<u32>) -> Result<Report> {
    // The full size has 6 million order lines, half a million of stock.
    let scale = if quick { Scale::standard(1) } else { Scale { orders: 12_000, ..Scale::standard(5) } };
    let runs = runs.unwrap_or(if quick { 5 } else { 9 });
    let params = json!({
        "set": "anker", "warehouses": scale.warehouses, "orders_per_district": scale.orders, "runs": runs,
    });
    let mut report = Report::new("queries", params);
    let cluster = Cluster::start(server, &Options::default().set("anker.memory", "6GB").set("shared_buffers", "2GB"))?;
    tpcc::create(&cluster, scale)?;
    let mut client = cluster.connect()?;
    report.meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, &anker_queries::TABLES, Duration::from_secs(600))?;

    for query in &anker_queries::ANKER {
        let answered = anker::explained(&mut client, &query.flagged())?.unwrap_or_default();
        let engine = fastest(&mut client, Side::Mirror, query, runs)?;
        let parallel = fastest(&mut client, Side::Heap, query, runs)?;
        client.batch_execute("SET max_parallel_workers_per_gather = 0")?;
        let serial = fastest(&mut client, Side::Heap, query, runs)?;
        client.batch_execute("RESET max_parallel_workers_per_gather")?;
        report.query("heap_serial_ms", query.name, serial, "ms");
        report.query("heap_ms", query.name, parallel, "ms");
        report.query("mirror_ms", query.name, engine, "ms");
        // Against the better of the two: on a busy machine starting workers can cost more than they bring.
        report.query("speedup_vs_heap", query.name, parallel.min(serial) / engine, "");
        report.query("answered_by", query.name, answered, "");
    }
    same_answers(&cluster, &mut client, scale, &mut report)?;
    memory(&mut client, &mut report)?;
    Ok(report)
}

/// The least of several runs in ms, as the published tables give it.
fn fastest(client: &mut Client, side: Side, query: &anker_queries::Query, runs: u32) -> Result<f64> {
    let times: Result<Vec<f64>> =
        (0..runs).map(|_| Ok(anker_queries::timed(client, &side.sql(query))?.0.as_secs_f64() * 1e3)).collect();
    Ok(percentile(&times?, 0.0))
}

/// Compared while clients change the tables.
fn same_answers(cluster: &Cluster, client: &mut Client, scale: Scale, report: &mut Report) -> Result<()> {
    let clients = Clients::start(cluster, Workload { scale, clients: 2, synchronous_commit: false })?;
    for query in &anker_queries::ANKER {
        let compared = anker_queries::compare(client, query)?;
        if !compared.same() {
            println!("  {}: {}", query.name, compared.difference());
        }
        report.query("same_answer", query.name, compared.same(), "");
    }
    clients.stop();
    Ok(())
}

fn memory(client: &mut Client, report: &mut Report) -> Result<()> {
    let row = client.query_one(
        "SELECT sum(bytes)::bigint, sum(pg_table_size(relation))::bigint,
                sum(pg_total_relation_size(relation))::bigint FROM anker.tables",
        &[],
    )?;
    let [mirror, heap, with_indexes] = [0, 1, 2].map(|i| row.get::<_, i64>(i) as f64);
    report.config("memory_share", "six tables", mirror / heap, "of the heap");
    report.config("memory_share_with_indexes", "six tables", mirror / with_indexes, "of heap and indexes");
    let resident = os::resident_bytes(anker::engine_pid(client)?).unwrap_or(0) as f64;
    report.config("engine_resident_share", "six tables", resident / heap, "of the heap");
    Ok(())
}
