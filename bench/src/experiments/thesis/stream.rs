//! One run: a stream of transactions into which a query is injected at regular intervals, and the time of each
//! transaction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

use super::workload::{Mix, Rows, Transactions};
use crate::sets::{Query, Route};
use crate::stage::Database;
use crate::streams::{Asked, Asker, Explain};
use crate::tpcc::Isolation;
use crate::{Result, anker, os};

pub struct Stream<'a> {
    pub database: &'a Database,
    pub mix: &'a Mix,
    pub rows: &'a Rows,
    pub query: &'a Query,
    pub clients: u32,
    /// The number of transactions that are measured.
    pub transactions: u64,
    /// The number of transactions from one injection to the next.
    pub every: u64,
    pub mirrored: bool,
}

/// A transaction, as its client saw it.
#[derive(Clone, Copy)]
pub struct Done {
    pub begun: Instant,
    pub ended: Instant,
    pub wrote: bool,
}

pub struct Outcome {
    /// All transactions in the order in which they ended.
    pub done: Vec<Done>,
    pub injected: Vec<Asked>,
    /// For each commit: when the client was told of it, and the microseconds from the commit until the engine had
    /// applied it.
    pub applied: Vec<(Instant, f64)>,
    /// The number of transactions for which the engine has reported no time of applying.
    pub applied_missing: usize,
    pub seconds: f64,
    /// Seconds of CPU time: of the whole server, and of the engine. `None` for a server elsewhere.
    pub cpu: Option<(f64, f64)>,
    /// The numbers of injected queries that the engine has answered, and that ran on the heap instead.
    pub served: Option<(i64, i64)>,
}

/// State that all threads share.
struct Shared {
    /// Transactions that have ended.
    ended: AtomicU64,
    stop: AtomicBool,
    transactions: u64,
    every: u64,
}

impl Stream<'_> {
    /// Runs the stream. Calls `check` after the measurement, while further transactions run.
    pub fn run(&self, check: impl FnOnce(&mut Client) -> Result<()>) -> Result<Outcome> {
        let (config, mut client) = (self.database.config(), self.database.connect()?);
        let postmaster = self.database.postmaster()?;
        let engine = if self.mirrored { anker::processes(&mut client)?.map(|(_, engine)| engine) } else { None };
        let cpu = || {
            let of = |pid: u32| os::cpu_time(pid).unwrap_or_default().as_secs_f64();
            Some((os::cpu_time_of_tree(postmaster?).as_secs_f64(), engine.map_or(0.0, of)))
        };
        let shared = Shared {
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            transactions: self.transactions,
            every: self.every,
        };
        let mut sessions = (0..self.clients).map(|n| self.session(&config, n)).collect::<Result<Vec<_>>>()?;
        let route = if self.mirrored { Route::Prefer.setting() } else { "" };
        let asker = Asker::connect(&config, Isolation::ReadCommitted, route, 0)?;
        let follower = if self.mirrored { Some(Follower::start(&config)?) } else { None };
        let (before, served) = (cpu(), served(&mut client, self.mirrored)?);
        let began = Instant::now();

        let (inject, injections) = channel();
        let outcome = std::thread::scope(|scope| -> Result<_> {
            let (sql, stop) = (&self.query.sql, &shared.stop);
            let explain = if self.mirrored { Explain::Snapshots } else { Explain::Alike };
            let analyst = scope.spawn(move || answer(asker, sql, explain, injections, stop));
            let clients: Vec<_> = sessions
                .drain(..)
                .map(|session| {
                    let (shared, inject) = (&shared, inject.clone());
                    scope.spawn(move || session.run(shared, &inject))
                })
                .collect();
            drop(inject);
            // Even an error is returned only after the clients were told to stop.
            let checked = wait_for(&shared, &clients).and_then(|()| {
                let (ended, after) = (Instant::now(), cpu());
                check(&mut client).map(|()| (ended, after))
            });
            shared.stop.store(true, Ordering::Relaxed);
            let mut done = Vec::new();
            for client in clients {
                done.extend(client.join().map_err(|_| "a client panicked")??);
            }
            let injected = analyst.join().map_err(|_| "the analytic session panicked")??;
            let (ended, after) = checked?;
            Ok((done, injected, ended, after))
        });
        let (mut done, injected, ended, after) = outcome?;
        done.sort_by_key(|one| one.ended);
        let written: Vec<Instant> = done.iter().filter(|one| one.wrote).map(|one| one.ended).collect();
        let delays = follower.map_or(Ok(Vec::new()), |follower| follower.finish(written.len()))?;
        let applied: Vec<_> = delays.iter().filter_map(|(at, us)| Some((*written.get(*at as usize)?, *us))).collect();
        let answered = served.zip(self::served(&mut client, self.mirrored)?);
        Ok(Outcome {
            applied_missing: if self.mirrored { written.len() - applied.len() } else { 0 },
            applied,
            seconds: (ended - began).as_secs_f64(),
            cpu: before.zip(after).map(|(before, after)| (after.0 - before.0, after.1 - before.1)),
            served: answered.map(|(before, after)| (after.0 - before.0, after.1 - before.1)),
            done,
            injected,
        })
    }

    fn session(&self, config: &Config, number: u32) -> Result<Session> {
        let mut client = config.clone().application_name("thesis").connect(NoTls)?;
        // The log is flushed with each commit, so that the engine does not wait for PostgreSQL's WAL writer.
        client.batch_execute("SET synchronous_commit = on; SET log_min_messages = fatal")?;
        let transactions = self.mix.begin(&mut client, self.rows, u64::from(number) + 1)?;
        let room = (self.transactions / u64::from(self.clients)) as usize * 2;
        Ok(Session { client, transactions, done: Vec::with_capacity(room) })
    }
}

/// Runs a query for each injection. Every second query is run by EXPLAIN ANALYZE, which reports the time of the
/// snapshot. The heap also runs EXPLAIN ANALYZE, so that both sides do the same work.
fn answer(
    mut asker: Asker,
    sql: &str,
    explain: Explain,
    injections: Receiver<Instant>,
    stop: &AtomicBool,
) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for due in injections {
        let explain = if asked.len() % 2 == 1 { explain } else { Explain::Never };
        asked.push(asker.ask(0, sql, due, explain, stop)?);
    }
    Ok(asked)
}

/// Waits until all transactions to be measured have ended, or a client has ended early.
fn wait_for<T>(shared: &Shared, clients: &[std::thread::ScopedJoinHandle<'_, T>]) -> Result<()> {
    while shared.ended.load(Ordering::Relaxed) < shared.transactions {
        if clients.iter().any(|client| client.is_finished()) {
            return Err("a client has ended".into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn served(client: &mut Client, mirrored: bool) -> Result<Option<(i64, i64)>> {
    if !mirrored {
        return Ok(None);
    }
    Ok(Some((anker::counter(client, "queries_served")?, anker::counter(client, "fallbacks")?)))
}

struct Session {
    client: Client,
    transactions: Box<dyn Transactions>,
    done: Vec<Done>,
}

impl Session {
    fn run(mut self, shared: &Shared, inject: &Sender<Instant>) -> Result<Vec<Done>> {
        while !shared.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let wrote = self.one()?;
            let ended = Instant::now();
            let number = shared.ended.fetch_add(1, Ordering::Relaxed) + 1;
            if number <= shared.transactions {
                self.done.push(Done { begun, ended, wrote });
            }
            if number.is_multiple_of(shared.every) && number < shared.transactions {
                // Sending fails only if the analytic session has failed, which reports that itself.
                let _ = inject.send(ended);
            }
        }
        Ok(self.done)
    }

    /// Runs a transaction. It is repeated if a deadlock aborts it.
    fn one(&mut self) -> Result<bool> {
        loop {
            match self.transactions.one(&mut self.client) {
                Ok(wrote) => return Ok(wrote),
                Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A thread that regularly reads the delays of the transactions that the engine has applied last. The engine applies
/// transactions in the order of their commits, so delays and transactions are matched by their position.
struct Follower {
    stop: std::sync::Arc<AtomicU64>,
    thread: JoinHandle<Result<Vec<(u64, f64)>>>,
}

/// The interval between two readings. The engine remembers delays for longer than that.
const PERIOD: Duration = Duration::from_millis(100);
/// The time to wait, after the run, for transactions that the engine has not applied yet.
const LIMIT: Duration = Duration::from_secs(10);

impl Follower {
    fn start(config: &Config) -> Result<Follower> {
        let mut client = config.connect(NoTls)?;
        let (first, _) = delays(&mut client)?;
        // The number of transactions after which the thread stops. It is set only at the end of the run.
        let stop = std::sync::Arc::new(AtomicU64::new(u64::MAX));
        let wanted = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut all, mut known, mut deadline) = (Vec::new(), 0, None);
            loop {
                let (total, last) = delays(&mut client)?;
                let seen = (total - first) as u64;
                let fresh = (seen - known).min(last.len() as u64);
                let from = last.len() - fresh as usize;
                all.extend((seen - fresh..seen).zip(last[from..].iter().map(|us| *us as f64)));
                known = seen;
                let wanted = wanted.load(Ordering::Relaxed);
                if wanted != u64::MAX {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + LIMIT);
                    if known >= wanted || Instant::now() >= deadline {
                        return Ok(all);
                    }
                }
                std::thread::sleep(PERIOD);
            }
        });
        Ok(Follower { stop, thread })
    }

    /// Stops the thread. Returns the apply times of the first `written` transactions, each with the transaction's
    /// position.
    fn finish(self, written: usize) -> Result<Vec<(u64, f64)>> {
        self.stop.store(written as u64, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the follower panicked")?
    }
}

/// The number of transactions that were applied so far, and the delays of the last ones.
fn delays(client: &mut Client) -> Result<(i64, Vec<i64>)> {
    let sql = "SELECT transactions_applied, commit_to_applied_us FROM anker.latest_delays()";
    let row = client.query_one(sql, &[])?;
    Ok((row.get::<_, Option<i64>>(0).unwrap_or(0), row.get::<_, Option<Vec<i64>>>(1).unwrap_or_default()))
}
