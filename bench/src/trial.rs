//! One run. Transactions run from the beginning, and analytic queries from some second on. The CPU time of both is
//! measured.

use std::time::{Duration, Instant};

use postgres::Client;

use crate::queries::Compared;
use crate::sets::{self, Answered, Route};
use crate::stage::Database;
use crate::streams::{Asked, Plan, Streams};
use crate::tpcc::{Clients, Totals, Workload};
use crate::{Result, anker, os};

pub struct Trial<'a> {
    pub database: &'a Database,
    /// The clients and their transactions. With 0 clients, only queries run.
    pub workload: Workload,
    pub queries: Option<Plan>,
    /// The time of transactions alone, at the beginning.
    pub quiet: Duration,
    pub measured: Duration,
    /// Whether pg_anker mirrors the tables.
    pub mirrored: bool,
}

pub struct Outcome {
    /// Transactions of each second, from the first one.
    pub seconds: Vec<f64>,
    /// The clients' totals for the time in which queries ran, or would have run.
    pub beside: Totals,
    pub asked: Vec<Asked>,
    pub began: Instant,
    /// CPU times, if the server's processes can be observed.
    pub cpu: Option<Cpu>,
    /// The share of queries that the engine has answered, of those that were meant for it.
    pub engine_share: Option<f64>,
    /// For each client, the times at which it was told of the commits of its numbered transactions.
    pub committed: Vec<Vec<Instant>>,
    pub checked: Checked,
}

/// CPU seconds of the time with queries.
#[derive(Clone, Copy)]
pub struct Cpu {
    pub transactions: f64,
    pub analytics: f64,
    pub worker: f64,
    pub engine: f64,
    /// CPU time of the whole server, including parallel workers, vacuum and writers.
    pub server: f64,
    /// Processor time that the host of a virtual machine has given to others.
    pub stolen: f64,
}

/// The result of a check: queries whose answers on both routes were compared under one snapshot while transactions ran.
#[derive(Default)]
pub struct Checked {
    pub compared: usize,
    pub differences: Vec<String>,
}

impl Checked {
    pub fn note(&mut self, query: &str, compared: &Compared) {
        self.compared += 1;
        if !compared.same() {
            self.differences.push(format!("{query}: {}", compared.difference()));
        }
    }

    /// Compares the answers of both routes to a query, if the engine answers the whole query.
    pub fn ask(&mut self, client: &mut Client, query: &sets::Query) -> Result<()> {
        client.batch_execute(Route::Prefer.setting())?;
        if let Answered::ByTheEngine = sets::answered(client, &query.sql)? {
            self.note(&query.name, &sets::compare(client, query)?.ok_or("a query was cancelled")?);
        }
        Ok(())
    }

    /// Returns an error if any answers differ, because the run has failed then.
    pub fn refuse(&self) -> Result<()> {
        if self.differences.is_empty() {
            return Ok(());
        }
        Err(format!("heap and mirror differ: {}", self.differences.join("\n")).into())
    }
}

impl Trial<'_> {
    /// Runs the trial. `check` runs at the end, beside the transactions, after the measured time.
    pub fn run(&self, check: impl FnOnce(&mut Client) -> Result<Checked>) -> Result<Outcome> {
        let (config, mut client) = (self.database.config(), self.database.connect()?);
        let watched = Watched {
            postmaster: self.database.postmaster()?,
            mirror: if self.mirrored { anker::processes(&mut client)? } else { None },
        };
        let mut clients = Clients::start(&config, self.workload)?;
        let began = clients.started() + self.quiet;
        let streams = self.queries.as_ref().map(|plan| Streams::start(&config, plan, began)).transpose()?;
        let mut seconds = Seconds::default();
        seconds.watch(&clients, began);

        let (first, before, served) = (clients.totals(), watched.cpu(&clients, &streams), self.served(&mut client)?);
        let ended = began + self.measured;
        seconds.watch(&clients, ended);
        let (beside, after) = (clients.totals().since(&first), watched.cpu(&clients, &streams));
        let cpu = before.zip(after).map(|(before, after)| after.since(before));
        let mut asked = streams.map_or(Ok(Vec::new()), Streams::finish)?;
        asked.retain(|asked| asked.ended <= ended);
        let engine_share = served.zip(self.served(&mut client)?).map(|(before, after)| {
            let (served, fallbacks) = (after.0 - before.0, after.1 - before.1);
            served as f64 / ((served + fallbacks) as f64).max(1.0)
        });
        let checked = check(&mut client)?;
        clients.halt();
        if let Some(error) = clients.totals().errors.first() {
            return Err(format!("a client failed: {error}").into());
        }
        let committed = clients.committed();
        Ok(Outcome { seconds: seconds.rates, beside, asked, began, cpu, engine_share, committed, checked })
    }

    /// The numbers of queries that the engine has answered, and of those that were meant for it but ran on the heap.
    fn served(&self, client: &mut Client) -> Result<Option<(i64, i64)>> {
        if !self.mirrored || self.queries.is_none() {
            return Ok(None);
        }
        Ok(Some((anker::counter(client, "queries_served")?, anker::counter(client, "fallbacks")?)))
    }
}

/// The processes whose CPU time is measured.
struct Watched {
    postmaster: Option<u32>,
    /// Capture worker and engine.
    mirror: Option<(u32, u32)>,
}

impl Watched {
    fn cpu(&self, clients: &Clients, streams: &Option<Streams>) -> Option<Cpu> {
        let server = os::cpu_time_of_tree(self.postmaster?).as_secs_f64();
        let of = |pid: u32| os::cpu_time(pid).unwrap_or_default().as_secs_f64();
        let all = |pids: &[u32]| pids.iter().map(|pid| of(*pid)).sum();
        Some(Cpu {
            transactions: all(clients.backends()),
            analytics: streams.as_ref().map_or(0.0, |streams| all(streams.backends())),
            worker: self.mirror.map_or(0.0, |(worker, _)| of(worker)),
            engine: self.mirror.map_or(0.0, |(_, engine)| of(engine)),
            server,
            stolen: os::stolen().as_secs_f64(),
        })
    }
}

impl Cpu {
    fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            transactions: self.transactions - earlier.transactions,
            analytics: self.analytics - earlier.analytics,
            worker: self.worker - earlier.worker,
            engine: self.engine - earlier.engine,
            server: self.server - earlier.server,
            stolen: self.stolen - earlier.stolen,
        }
    }
}

/// Transactions of each second.
#[derive(Default)]
struct Seconds {
    rates: Vec<f64>,
    done: u64,
}

impl Seconds {
    /// Records the number of transactions in each second, until `until`.
    fn watch(&mut self, clients: &Clients, until: Instant) {
        loop {
            let next = clients.started() + Duration::from_secs(self.rates.len() as u64 + 1);
            std::thread::sleep(next.min(until).saturating_duration_since(Instant::now()));
            if next > until {
                return;
            }
            let done = clients.totals().transactions;
            self.rates.push((done - self.done) as f64);
            self.done = done;
        }
    }
}
