//! Streams: sessions that run analytic queries, at given times or one after the other, and record each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, NoTls};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::tpcc::Isolation;
use crate::wire::{ServerError, Unsuited, Wire};
use crate::{Result, anker};

#[derive(Clone)]
pub struct Plan {
    pub queries: Vec<String>,
    pub order: Order,
    pub sessions: u32,
    /// The time from the beginning of one query to the beginning of the next. The next query runs in any free session.
    /// If the time is zero, each session runs queries without a pause.
    pub every: Duration,
    pub isolation: Isolation,
    /// A statement that sets the route of each session.
    pub route: &'static str,
    /// The seed of the random order of queries.
    pub seed: u64,
    pub explain: Explain,
    /// The number of leading columns whose values go into [`Asked::seen`].
    pub numbers: usize,
}

/// Whether one query in four is run by EXPLAIN ANALYZE. This sends no rows, and so is less work.
#[derive(Clone, Copy, PartialEq)]
pub enum Explain {
    Never,
    /// For queries on the heap. As many are run by EXPLAIN ANALYZE as in the engine, so that both sides do the same
    /// work. TIMING is OFF, because taking the time of each row would slow the heap down.
    Alike,
    /// For queries in the engine. EXPLAIN ANALYZE reports the time of the snapshot.
    Snapshots,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    Random,
    InTurn,
}

/// A query that was answered.
pub struct Asked {
    pub query: usize,
    pub due: Instant,
    pub begun: Instant,
    pub ended: Instant,
    /// Whether EXPLAIN ANALYZE ran the query, so that no rows were sent.
    pub explained: bool,
    pub snapshot: Option<Snapshot>,
    pub seen: Vec<i64>,
}

/// A query's snapshot; times in milliseconds.
pub struct Snapshot {
    pub mechanism: String,
    pub taken: f64,
    /// The wait before the snapshot could be taken.
    pub wait: f64,
}

impl Asked {
    pub fn ms(&self) -> f64 {
        self.ended.duration_since(self.begun).as_secs_f64() * 1e3
    }

    /// The milliseconds from the time when the query was due to its answer.
    pub fn response_ms(&self) -> f64 {
        self.ended.duration_since(self.due).as_secs_f64() * 1e3
    }
}

pub struct Streams {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// The backends of all sessions.
    backends: Vec<u32>,
    config: postgres::Config,
    threads: Vec<JoinHandle<Result<Vec<Asked>>>>,
}

/// The number of the next query. All sessions take their queries from this counter.
type Ticket = Arc<AtomicU64>;

impl Streams {
    /// Starts the sessions. The first query is due at `from`.
    pub fn start(config: &postgres::Config, plan: &Plan, from: Instant) -> Result<Streams> {
        let (stop, ticket) = (Arc::new(AtomicBool::new(false)), Ticket::default());
        let (backends, threads) = (Vec::new(), Vec::new());
        let mut streams = Streams { stop, answered: Arc::default(), backends, config: config.clone(), threads };
        for _ in 0..plan.sessions {
            let mut asker = Asker::connect(config, plan.isolation, plan.route, plan.numbers)?;
            streams.backends.extend(asker.backends()?);
            let (stop, answered) = (streams.stop.clone(), streams.answered.clone());
            let stream = Stream { asker, plan: plan.clone(), from, stop, answered };
            let ticket = ticket.clone();
            streams.threads.push(std::thread::spawn(move || stream.run(&ticket)));
        }
        Ok(streams)
    }

    pub fn backends(&self) -> &[u32] {
        &self.backends
    }

    /// The number of queries that all sessions have answered so far.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends the streams, and returns the queries that were answered. Queries that still run are cancelled and left out.
    pub fn finish(mut self) -> Result<Vec<Asked>> {
        let mut asked = Vec::new();
        for thread in self.end() {
            asked.extend(thread.join().map_err(|_| "an analytic session panicked")??);
        }
        asked.sort_by_key(|asked| asked.begun);
        Ok(asked)
    }

    fn end(&mut self) -> Vec<JoinHandle<Result<Vec<Asked>>>> {
        self.stop.store(true, Ordering::Relaxed);
        if self.threads.is_empty() {
            return Vec::new();
        }
        // A session may have ended just now. Then there is no query to cancel, which does not matter.
        if let Ok(mut client) = self.config.connect(NoTls) {
            let backends: Vec<i32> = self.backends.iter().map(|backend| *backend as i32).collect();
            let _ = client.execute("SELECT pg_cancel_backend(backend) FROM unnest($1::int[]) backend", &[&backends]);
        }
        self.threads.drain(..).collect()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.end();
    }
}

struct Stream {
    asker: Asker,
    plan: Plan,
    from: Instant,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Stream {
    fn run(mut self, ticket: &Ticket) -> Result<Vec<Asked>> {
        let mut asked = Vec::new();
        loop {
            let number = ticket.fetch_add(1, Ordering::Relaxed);
            let due = self.from + self.plan.every.mul_f64(number as f64);
            while !self.stopped() && Instant::now() < due {
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
            }
            if self.stopped() {
                return Ok(asked);
            }
            let mut random = StdRng::seed_from_u64(self.plan.seed ^ number);
            let query = match self.plan.order {
                Order::InTurn => number as usize % self.plan.queries.len(),
                Order::Random => random.random_range(0..self.plan.queries.len()),
            };
            let explained = random.random_ratio(1, 4);
            let explain = if explained { self.plan.explain } else { Explain::Never };
            // Without a pause, a query is due when it begins.
            let due = if self.plan.every.is_zero() { Instant::now() } else { due };
            match self.asker.ask(query, &self.plan.queries[query], due, explain, &self.stop) {
                Ok(one) => {
                    asked.push(one);
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) if self.stopped() => return Ok(asked),
                Err(error) => return Err(error),
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// An analytic session.
pub struct Asker {
    client: Client,
    /// A connection that skips rows without decoding them, for queries whose rows are not needed. Decoding the rows of
    /// a large answer would use more processor time than the server. `None` if rows are needed, or if this client
    /// cannot log in.
    reader: Option<Wire>,
    /// Like [`Plan::numbers`].
    numbers: usize,
}

impl Asker {
    pub fn connect(config: &postgres::Config, isolation: Isolation, route: &str, numbers: usize) -> Result<Asker> {
        let config = config.clone().application_name("analyst").to_owned();
        let settings = format!(
            "SET default_transaction_isolation = '{}'; {route}; SET log_min_messages = fatal",
            isolation.name()
        );
        let mut client = config.connect(NoTls)?;
        client.batch_execute(&settings)?;
        let reader = match (numbers == 0).then(|| Wire::connect(&config)) {
            None => None,
            Some(Ok(mut reader)) => {
                reader.run(&settings)?;
                Some(reader)
            }
            Some(Err(error)) if error.is::<Unsuited>() => None,
            Some(Err(error)) => return Err(error),
        };
        Ok(Asker { client, reader, numbers })
    }

    /// Runs a query. `query` is its index, which is only recorded. If a conflict aborts the query, runs it again,
    /// unless `stop` is set.
    pub fn ask(&mut self, query: usize, sql: &str, due: Instant, explain: Explain, stop: &AtomicBool) -> Result<Asked> {
        let begun = Instant::now();
        let (mut snapshot, mut seen) = (None, Vec::new());
        loop {
            let answered = match explain {
                Explain::Never => self.read(sql).map(|numbers| seen = numbers),
                Explain::Alike => anker::analyzed(&mut self.client, sql).map(drop),
                Explain::Snapshots => explained(&mut self.client, sql).map(|told| snapshot = told),
            };
            match answered {
                Ok(()) => break,
                Err(error) if is_serialization_failure(&error) && !stop.load(Ordering::Relaxed) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Asked { query, due, begun, ended: Instant::now(), explained: explain != Explain::Never, snapshot, seen })
    }

    /// Reads the whole answer in binary form, but decodes only the leading numbers.
    fn read(&mut self, sql: &str) -> Result<Vec<i64>> {
        use postgres::fallible_iterator::FallibleIterator;
        if let Some(reader) = &mut self.reader {
            reader.timed(sql)?.ok_or("the query was cancelled")?;
            return Ok(Vec::new());
        }
        let mut rows = self.client.query_raw(sql, std::iter::empty::<i32>())?;
        let mut seen = Vec::new();
        while let Some(row) = rows.next()? {
            if seen.is_empty() {
                seen = (0..self.numbers).map(|i| row.get::<_, Option<i64>>(i).unwrap_or(0)).collect();
            }
        }
        Ok(seen)
    }

    fn backends(&mut self) -> Result<Vec<u32>> {
        let own = self.client.query_one("SELECT pg_backend_pid()", &[])?.get::<_, i32>(0) as u32;
        let reader = self.reader.as_mut().map(Wire::backend).transpose()?;
        Ok([own].into_iter().chain(reader).collect())
    }
}

/// Runs a query by EXPLAIN ANALYZE, and returns its snapshot; `None` if the heap has answered.
pub fn explained(client: &mut Client, sql: &str) -> Result<Option<Snapshot>> {
    let explain = format!("EXPLAIN (ANALYZE, COSTS off, FORMAT json) {sql}");
    let text = anker::text_rows(client, &explain)?.concat();
    Ok(snapshot(&serde_json::from_str::<Value>(&text)?[0]["Plan"]))
}

fn snapshot(plan: &Value) -> Option<Snapshot> {
    let ms = |name: &str| plan[name].as_f64();
    if let (Some(taken), Some(wait)) = (ms("Snapshot Time"), ms("Wait")) {
        let mechanism = plan["Mechanism"].as_str().unwrap_or_default().to_owned();
        return Some(Snapshot { mechanism, taken, wait });
    }
    plan["Plans"].as_array()?.iter().find_map(snapshot)
}

fn is_serialization_failure(error: &crate::Error) -> bool {
    let state = &SqlState::T_R_SERIALIZATION_FAILURE;
    let code = error.downcast_ref::<postgres::Error>().and_then(postgres::Error::code);
    code == Some(state) || error.downcast_ref::<ServerError>().is_some_and(|error| error.is(state))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_snapshot_is_found_below_other_nodes() {
        let scan = json!({"Node Type": "Custom Scan", "Mechanism": "scoot", "Snapshot Time": 0.25, "Wait": 1.5});
        let found = snapshot(&json!({"Plans": [{"Plans": [scan]}]})).unwrap();
        assert_eq!((found.mechanism.as_str(), found.taken, found.wait), ("scoot", 0.25, 1.5));
        assert!(snapshot(&json!({"Plans": [{"Node Type": "Seq Scan"}]})).is_none());
    }
}
