//! Transactions beside checkpoints and without, in turns. The same clients run all the time.

use std::time::{Duration, Instant};

use postgres::Client;
use serde_json::json;

use super::{Data, Options, checkpoint};
use crate::report::{Findings, median};
use crate::tpcc::Clients;
use crate::{Result, anker, os};

pub const WITHOUT: &str = "without checkpoints";
pub const WITH: &str = "beside checkpoints";
/// The number of checkpoints of one turn.
const CHECKPOINTS: u32 = 3;

pub fn run(data: &Data, options: &Options, findings: &mut Findings) -> Result<()> {
    let mut client = data.cluster.connect()?;
    let mut clients = data.start_clients()?.ok_or("no transactions")?;
    for round in 1..=options.rounds {
        eprintln!("transactions beside checkpoints, round {round} of {}", options.rounds);
        let mut configs = [WITHOUT, WITH];
        configs.rotate_left(round as usize % 2);
        for config in configs {
            turn(&clients, &mut client, config, options, round, findings)?;
        }
        findings.keep()?;
    }
    clients.halt();
    if let Some(error) = clients.totals().errors.first() {
        return Err(format!("a client failed: {error}").into());
    }
    data.verify()
}

/// One turn. A checkpoint before it writes everything that has changed before.
fn turn(
    clients: &Clients,
    client: &mut Client,
    config: &str,
    options: &Options,
    round: u32,
    findings: &mut Findings,
) -> Result<()> {
    checkpoint(client)?;
    let engine = anker::engine_pid(client)?;
    let cpu = || os::precise_cpu_time(engine).unwrap_or_default().as_secs_f64();
    let (start, first) = (Instant::now(), clients.totals());
    let (cpu_before, changed_before) = (cpu(), Changed::until_now(client)?);
    let mut written = Vec::new();
    for number in 1..=CHECKPOINTS {
        let due = start + Duration::from_secs((number * options.every).into());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if config == WITH {
            written.push(checkpoint(client)?);
        }
    }
    let totals = clients.totals().since(&first);
    let (cpu, changed) = (cpu() - cpu_before, Changed::until_now(client)?.since(&changed_before));
    let params = json!({ "round": round });
    let mut row = |figure: &str, value: f64, unit: &str| findings.row(figure, config, &params, value, unit);
    row("throughput", totals.per_second(), "transactions/s");
    for (figure, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
        row(figure, totals.latency().percentile(share) / 1e3, "ms");
    }
    row("engine's CPU a second", cpu / totals.elapsed.as_secs_f64(), "CPU s/s");
    row("engine's CPU a transaction", cpu * 1e6 / (totals.transactions as f64).max(1.0), "us");
    row("WAL", changed.wal / 1e6, "MB");
    row("rows changed", changed.rows / 1e6, "MB");
    if !written.is_empty() {
        let bytes: f64 = written.iter().map(|(bytes, _)| bytes).sum();
        let seconds: Vec<f64> = written.iter().map(|(_, seconds)| *seconds).collect();
        row("written", bytes / 1e6, "MB");
        row("written, of WAL", bytes / changed.wal, "bytes for each byte of WAL");
        row("written, of rows", bytes / changed.rows, "bytes for each byte of changed rows");
        row("a checkpoint", median(&seconds), "s");
    }
    Ok(())
}

/// The bytes that transactions have changed so far.
struct Changed {
    wal: f64,
    /// The lengths of all rows that were inserted or updated, without headers.
    rows: f64,
}

impl Changed {
    fn until_now(client: &mut Client) -> Result<Changed> {
        let row = client.query_one(
            "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8, (SELECT sum((n_tup_ins + n_tup_upd) * width)
                FROM pg_stat_user_tables JOIN (SELECT tablename, sum(avg_width * (1 - null_frac)) AS width FROM pg_stats
                    WHERE schemaname = 'public' GROUP BY 1) AS widths ON relname = tablename)",
            &[],
        )?;
        Ok(Changed { wal: row.get(0), rows: row.get(1) })
    }

    fn since(&self, earlier: &Changed) -> Changed {
        Changed { wal: self.wal - earlier.wal, rows: self.rows - earlier.rows }
    }
}
