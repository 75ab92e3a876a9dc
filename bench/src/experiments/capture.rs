//! What following TPC-C costs, and how far behind the mirror is.
//!
//! CPU time of capture worker and engine is set against that of the clients' backends over the same seconds, so that
//! a busy machine does not change the figure. Then an analyst asks the eight queries, for the latencies of snapshots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::Client;
use serde_json::json;

use crate::analyst::{Analyst, Side};
use crate::cluster::{Cluster, Options, wait_until};
use crate::report::{Report, percentile};
use crate::server::Server;
use crate::tpcc::{self, Clients, Scale, Workload};
use crate::{Result, anker, os};

const SESSIONS: u32 = 2;

/// `quick` asks for a run of a minute or two.
pub fn capture(server: &Arc<Server>, quick: bool) -> Result<Report> {
    let (warehouses, seconds) = if quick { (1, 10) } else { (5, 60) };
    let phase = Duration::from_secs(seconds);
    let params = json!({
        "warehouses": warehouses, "clients": SESSIONS, "seconds": seconds, "synchronous_commit": "off", "fsync": "off",
    });
    let mut report = Report::new("capture", params);
    let cluster = Cluster::start(server, &Options::default().set("anker.memory", "6GB"))?;
    let scale = Scale::standard(warehouses);
    tpcc::create(&cluster, scale)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    tpcc::identify_history(&mut client)?;
    report.meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));

    let workload = Workload { scale, clients: SESSIONS, synchronous_commit: false };
    let plain = follow(&cluster, workload, phase, None)?;
    report.config("oltp_nopm", "not mirrored", plain.new_orders_per_minute, "1/min");

    let start = Instant::now();
    anker::mirror(&mut client, &tpcc::TABLES, Duration::from_secs(600))?;
    report.config("load_s", "nine tables", start.elapsed().as_secs_f64(), "s");

    let processes = anker::processes(&mut client)?.ok_or("no engine is running")?;
    let mirrored = follow(&cluster, workload, phase, Some(processes))?;
    report.config("oltp_nopm", "mirrored", mirrored.new_orders_per_minute, "1/min");
    let behind = catch_up(&mut client)?;
    report.config("catch_up_ms", "mirrored", behind.as_secs_f64() * 1e3, "ms");
    let share = |part: Duration| part.as_secs_f64() / mirrored.backends.as_secs_f64();
    report.config("engine_cpu_share", "mirrored", share(mirrored.worker + mirrored.engine), "of the backends' CPU");
    report.config("worker_cpu_share", "mirrored", share(mirrored.worker), "of the backends' CPU");
    report.config(
        "backend_cpu_per_new_order",
        "mirrored",
        mirrored.backend_us_per_new_order() / plain.backend_us_per_new_order(),
        "of not mirrored",
    );
    let applied = milliseconds(&mut client, "commit_to_applied_us")?;
    report.config("commit_to_applied_p50_ms", "mirrored", percentile(&applied, 0.5), "ms");
    report.config("commit_to_applied_p99_ms", "mirrored", percentile(&applied, 0.99), "ms");

    let clients = Clients::start(&cluster, workload)?;
    let analyst = Analyst::start(&cluster, Side::Mirror, Duration::from_millis(20))?;
    std::thread::sleep(phase);
    analyst.finish()?;
    let errors = clients.stop().errors;
    let ready = milliseconds(&mut client, "request_to_ready_us")?;
    report.config("ready_p50_ms", "with queries", percentile(&ready, 0.5), "ms");
    report.config("ready_p99_ms", "with queries", percentile(&ready, 0.99), "ms");
    report.config("queries_served", "with queries", anker::counter(&mut client, "queries_served")?, "");
    report.config("client_errors", "with queries", errors.len(), "");
    Ok(report)
}

struct Followed {
    new_orders_per_minute: f64,
    new_orders: u64,
    backends: Duration,
    worker: Duration,
    engine: Duration,
}

impl Followed {
    fn backend_us_per_new_order(&self) -> f64 {
        self.backends.as_secs_f64() * 1e6 / self.new_orders.max(1) as f64
    }
}

/// Runs clients for a while; CPU times of their backends and of (worker, engine) over the same time.
fn follow(cluster: &Cluster, workload: Workload, phase: Duration, processes: Option<(u32, u32)>) -> Result<Followed> {
    let clients = Clients::start(cluster, workload)?;
    std::thread::sleep(phase / 10);
    let cpu = || -> Result<[Duration; 3]> {
        let of = |pid: u32| os::cpu_time(pid).ok_or_else(|| format!("process {pid} is gone"));
        let backends = clients.backends().iter().map(|pid| of(*pid)).sum::<std::result::Result<Duration, String>>()?;
        Ok(match processes {
            Some((worker, engine)) => [backends, of(worker)?, of(engine)?],
            None => [backends, Duration::ZERO, Duration::ZERO],
        })
    };
    let (first, before) = (clients.totals(), cpu()?);
    std::thread::sleep(phase);
    let (after, done) = (cpu()?, clients.totals().since(&first));
    if let Some(error) = done.errors.first() {
        return Err(format!("a client failed: {error}").into());
    }
    Ok(Followed {
        new_orders_per_minute: done.new_orders_per_minute(),
        new_orders: done.new_orders,
        backends: after[0] - before[0],
        worker: after[1] - before[1],
        engine: after[2] - before[2],
    })
}

/// Time until the engine has read all WAL that is there now.
fn catch_up(client: &mut Client) -> Result<Duration> {
    let start = Instant::now();
    let end: String = client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[])?.get(0);
    let sql = "SELECT lsn >= $1::text::pg_lsn FROM anker.engine WHERE database::text = current_database()";
    let reached = wait_until(Duration::from_secs(60), || {
        Ok(client.query_opt(sql, &[&end])?.and_then(|row| row.get::<_, Option<bool>>(0)).unwrap_or(false))
    })?;
    if reached { Ok(start.elapsed()) } else { Err("the engine does not catch up".into()) }
}

fn milliseconds(client: &mut Client, column: &str) -> Result<Vec<f64>> {
    let sql = format!("SELECT {column} FROM anker.engine WHERE database::text = current_database()");
    let values: Vec<i64> = client.query_one(&sql, &[])?.get::<_, Option<Vec<i64>>>(0).unwrap_or_default();
    Ok(values.iter().map(|us| *us as f64 / 1e3).collect())
}
