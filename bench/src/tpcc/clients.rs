//! TPC-C clients without think time. Each thread has one session and runs transaction after transaction, as fast as
//! possible or at a rate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anker_report::Histogram;
use postgres::Config;
use postgres::error::SqlState;

use super::session::Session;
use super::workload::{KINDS, Kind, Pace, Workload};
use crate::Result;

#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub new_orders: u64,
    /// All transactions that committed, including new orders.
    pub transactions: u64,
    /// New orders that were rolled back because of an item that does not exist. The specification requires one in a
    /// hundred.
    pub rollbacks: u64,
    /// Deadlocks and serialization failures, after which the transaction was repeated.
    pub retries: u64,
    pub errors: Vec<String>,
    pub elapsed: Duration,
    /// Microseconds of committed transactions, including their repetitions, by kind.
    latencies: [Histogram; KINDS],
}

impl Totals {
    pub fn new_orders_per_minute(&self) -> f64 {
        self.new_orders as f64 * 60.0 / self.elapsed.as_secs_f64()
    }

    pub fn per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64()
    }

    /// Latencies of all transactions.
    pub fn latency(&self) -> Histogram {
        self.latencies.iter().fold(Histogram::default(), |mut all, one| {
            all += one;
            all
        })
    }

    pub fn latency_of(&self, kind: Kind) -> &Histogram {
        &self.latencies[kind as usize]
    }

    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals {
            new_orders: self.new_orders - earlier.new_orders,
            transactions: self.transactions - earlier.transactions,
            rollbacks: self.rollbacks - earlier.rollbacks,
            retries: self.retries - earlier.retries,
            errors: self.errors[earlier.errors.len()..].to_vec(),
            elapsed: self.elapsed - earlier.elapsed,
            latencies: std::array::from_fn(|kind| &self.latencies[kind] - &earlier.latencies[kind]),
        }
    }
}

#[derive(Default)]
struct Counters {
    rollbacks: AtomicU64,
    retries: AtomicU64,
    errors: Mutex<Vec<String>>,
}

/// One client's results.
#[derive(Default)]
struct Record {
    latencies: [Histogram; KINDS],
    /// For each numbered transaction, the time at which the client was told of its commit. The first one has index 0.
    committed: Vec<Instant>,
}

pub struct Clients {
    counters: Arc<Counters>,
    records: Vec<Arc<Mutex<Record>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    backends: Vec<u32>,
    started: Instant,
}

impl Clients {
    pub fn start(config: &Config, workload: Workload) -> Result<Clients> {
        let mut sessions = Vec::new();
        let mut backends = Vec::new();
        for number in 0..workload.clients {
            let mut session = Session::open(config, workload, number)?;
            backends.push(session.client.query_one("SELECT pg_backend_pid()", &[])?.get::<_, i32>(0) as u32);
            sessions.push(session);
        }
        let (counters, stop) = (Arc::new(Counters::default()), Arc::new(AtomicBool::new(false)));
        let (started, mut records) = (Instant::now(), Vec::new());
        let start_one = |(number, session)| {
            let record = Arc::new(Mutex::new(Record::default()));
            records.push(record.clone());
            let turns = Turns { pace: workload.pace, clients: workload.clients, number: number as u32, started };
            let thread = Thread { session, counters: counters.clone(), record, stop: stop.clone() };
            std::thread::spawn(move || thread.run(turns))
        };
        let threads = sessions.into_iter().enumerate().map(start_one).collect();
        Ok(Clients { counters, records, stop, threads, backends, started })
    }

    /// Process ids of the sessions' backends.
    pub fn backends(&self) -> &[u32] {
        &self.backends
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn totals(&self) -> Totals {
        let mut latencies: [Histogram; KINDS] = Default::default();
        for record in &self.records {
            let record = locked(record);
            latencies.iter_mut().zip(&record.latencies).for_each(|(all, one)| *all += one);
        }
        Totals {
            new_orders: latencies[Kind::NewOrder as usize].count(),
            transactions: latencies.iter().map(Histogram::count).sum(),
            rollbacks: self.counters.rollbacks.load(Ordering::Relaxed),
            retries: self.counters.retries.load(Ordering::Relaxed),
            errors: locked(&self.counters.errors).clone(),
            elapsed: self.started.elapsed(),
            latencies,
        }
    }

    /// For each client, the times at which it was told of the commits of its numbered transactions.
    pub fn committed(&self) -> Vec<Vec<Instant>> {
        self.records.iter().map(|record| locked(record).committed.clone()).collect()
    }

    /// Makes the clients stop after their current transactions, and waits for them.
    pub fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                locked(&self.counters.errors).push("a client panicked".into());
            }
        }
    }

    pub fn stop(mut self) -> Totals {
        self.halt();
        self.totals()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Locks a mutex. If a thread has panicked with the lock, its data can still be used.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs `count` transactions in one session. For the same scale they are always the same.
pub fn run_transactions(config: &Config, workload: Workload, count: u32) -> Result<()> {
    let session = Session::open(config, workload, 0)?;
    let mut thread = Thread { session, counters: Arc::default(), record: Arc::default(), stop: Arc::default() };
    (0..count).for_each(|_| thread.transaction(Instant::now()));
    let errors = locked(&thread.counters.errors).clone();
    errors.first().map_or(Ok(()), |error| Err(format!("a transaction failed: {error}").into()))
}

/// A schedule: the times at which a client's transactions begin.
struct Turns {
    pace: Pace,
    clients: u32,
    number: u32,
    started: Instant,
}

impl Turns {
    fn due(&self, turn: u64) -> Instant {
        match self.pace {
            Pace::Closed => Instant::now(),
            Pace::Rate(rate) => {
                let before = turn * u64::from(self.clients) + u64::from(self.number);
                self.started + Duration::from_secs_f64(before as f64 / rate)
            }
        }
    }
}

struct Thread {
    session: Session,
    counters: Arc<Counters>,
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
}

impl Thread {
    fn run(mut self, turns: Turns) {
        const NAP: Duration = Duration::from_millis(50);
        for turn in 0.. {
            let due = turns.due(turn);
            while let Some(early) = due.checked_duration_since(Instant::now()).filter(|early| !early.is_zero()) {
                if self.stopped() {
                    return;
                }
                std::thread::sleep(early.min(NAP));
            }
            if self.stopped() {
                return;
            }
            self.transaction(due);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs one transaction of the mix. After a conflict it is repeated with the same parameters, until it commits or
    /// fails for another reason.
    fn transaction(&mut self, due: Instant) {
        let kind = self.session.draw();
        let randomness = self.session.randomness();
        let numbered = self.session.numbered;
        loop {
            let Err(error) = self.session.run(kind) else {
                let now = Instant::now();
                let mut record = locked(&self.record);
                record.latencies[kind as usize].add(now.duration_since(due).as_micros() as u64);
                if self.session.numbered > numbered {
                    record.committed.push(now);
                }
                return;
            };
            match error.code() {
                Some(code) if code.code() == "TPCC1" => {
                    self.counters.rollbacks.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Some(code) if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code) => {
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                    if self.stopped() {
                        return;
                    }
                    self.session.repeat(randomness.clone());
                }
                _ => {
                    let message = error.as_db_error().map_or(error.to_string(), |e| e.to_string());
                    locked(&self.counters.errors).push(message);
                    // If the session is lost, each transaction fails at once. The pause keeps the client from retrying
                    // too fast.
                    std::thread::sleep(Duration::from_millis(100));
                    return;
                }
            }
        }
    }
}
