//! TPC-C clients without think time: each thread has one session and runs transaction after transaction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, Statement};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Scale, load::last_name};
use crate::Result;
use crate::cluster::Cluster;

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub scale: Scale,
    pub clients: u32,
    pub synchronous_commit: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub new_orders: u64,
    /// All that committed, new orders among them.
    pub transactions: u64,
    /// New orders of an item that does not exist, as the specification asks for in one of a hundred.
    pub rollbacks: u64,
    /// Deadlocks and serialization failures, which a client of any database repeats.
    pub retries: u64,
    pub errors: Vec<String>,
    pub elapsed: Duration,
}

impl Totals {
    pub fn new_orders_per_minute(&self) -> f64 {
        self.new_orders as f64 * 60.0 / self.elapsed.as_secs_f64()
    }

    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals {
            new_orders: self.new_orders - earlier.new_orders,
            transactions: self.transactions - earlier.transactions,
            rollbacks: self.rollbacks - earlier.rollbacks,
            retries: self.retries - earlier.retries,
            errors: self.errors[earlier.errors.len()..].to_vec(),
            elapsed: self.elapsed - earlier.elapsed,
        }
    }
}

#[derive(Default)]
struct Counters {
    new_orders: AtomicU64,
    transactions: AtomicU64,
    rollbacks: AtomicU64,
    retries: AtomicU64,
    errors: Mutex<Vec<String>>,
}

pub struct Clients {
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    backends: Vec<u32>,
    started: Instant,
}

impl Clients {
    pub fn start(cluster: &Cluster, workload: Workload) -> Result<Clients> {
        let counters = Arc::new(Counters::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients =
            Clients { counters, stop, threads: Vec::new(), backends: Vec::new(), started: Instant::now() };
        for number in 0..workload.clients {
            let mut session = Session::open(cluster, workload, number)?;
            clients.backends.push(session.client.query_one("SELECT pg_backend_pid()", &[])?.get::<_, i32>(0) as u32);
            let (counters, stop) = (clients.counters.clone(), clients.stop.clone());
            clients.threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    session.transaction(&counters);
                }
            }));
        }
        clients.started = Instant::now();
        Ok(clients)
    }

    /// Process ids of the sessions' backends.
    pub fn backends(&self) -> &[u32] {
        &self.backends
    }

    pub fn totals(&self) -> Totals {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            new_orders: count(&self.counters.new_orders),
            transactions: count(&self.counters.transactions),
            rollbacks: count(&self.counters.rollbacks),
            retries: count(&self.counters.retries),
            errors: self.counters.errors.lock().expect("no client panics with the lock").clone(),
            elapsed: self.started.elapsed(),
        }
    }

    pub fn stop(mut self) -> Totals {
        self.halt();
        self.totals()
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.counters.errors.lock().expect("poisoned by a client").push("a client panicked".into());
            }
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.halt();
    }
}

/// So many transactions of one session, the same ones for the same scale.
pub fn run_transactions(cluster: &Cluster, workload: Workload, count: u32) -> Result<()> {
    let counters = Counters::default();
    let mut session = Session::open(cluster, workload, 0)?;
    (0..count).for_each(|_| session.transaction(&counters));
    let errors = counters.errors.into_inner().expect("no client panics with the lock");
    errors.first().map_or(Ok(()), |error| Err(format!("a transaction failed: {error}").into()))
}

struct Session {
    client: Client,
    random: StdRng,
    scale: Scale,
    new_order: Statement,
    payment: Statement,
    order_status: Statement,
    delivery: Statement,
}

impl Session {
    fn open(cluster: &Cluster, workload: Workload, number: u32) -> Result<Session> {
        let mut client = cluster.config().application_name("tpcc").connect(postgres::NoTls)?;
        let mode = if workload.synchronous_commit { "on" } else { "off" };
        // Errors are counted here; one new order in a hundred is one.
        client.batch_execute(&format!("SET synchronous_commit = {mode}; SET log_min_messages = fatal"))?;
        Ok(Session {
            random: StdRng::seed_from_u64(u64::from(number) + 1),
            scale: workload.scale,
            new_order: client.prepare("SELECT tpcc_new_order($1, $2, $3, $4, $5, $6)")?,
            payment: client.prepare("SELECT tpcc_payment($1, $2, $3, $4, $5, $6, $7::text::numeric)")?,
            order_status: client.prepare("SELECT item, quantity FROM tpcc_order_status($1, $2, $3, $4)")?,
            delivery: client.prepare("SELECT tpcc_delivery($1, $2)")?,
            client,
        })
    }

    /// One transaction of the mix: 45 % new orders, 43 % payments, 8 % order status, 4 % delivery.
    fn transaction(&mut self, counters: &Counters) {
        let kind = self.random.random_range(0..100);
        let outcome = match kind {
            0..45 => self.new_order(),
            45..88 => self.payment(),
            88..96 => self.order_status(),
            _ => self.delivery(),
        };
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                count(&counters.transactions);
                if kind < 45 {
                    count(&counters.new_orders);
                }
            }
            Err(error) => match error.code() {
                Some(code) if code.code() == "TPCC1" => {
                    count(&counters.rollbacks);
                }
                Some(code) if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code) => {
                    count(&counters.retries);
                }
                _ => {
                    let message = error.as_db_error().map_or(error.to_string(), |e| e.to_string());
                    counters.errors.lock().expect("no client panics with the lock").push(message);
                    // A dead session would fail as fast as it can be asked.
                    std::thread::sleep(Duration::from_millis(100));
                }
            },
        }
    }

    fn new_order(&mut self) -> std::result::Result<(), postgres::Error> {
        let (w, d, c) = (self.warehouse(), self.district(), self.customer());
        let mut items: Vec<i32> = (0..self.between(5, 15)).map(|_| self.item()).collect();
        items.sort_unstable();
        if self.between(1, 100) == 1 {
            items.push(self.scale.items as i32 + 1);
        }
        let supplies: Vec<i32> =
            items.iter().map(|_| if self.between(1, 100) == 1 { self.warehouse() } else { w }).collect();
        let quantities: Vec<i32> = items.iter().map(|_| self.between(1, 10)).collect();
        self.client.execute(&self.new_order, &[&w, &d, &c, &items, &supplies, &quantities]).map(drop)
    }

    fn payment(&mut self) -> std::result::Result<(), postgres::Error> {
        let (w, d, c) = (self.warehouse(), self.district(), self.customer());
        let (c_w, c_d) = if self.between(1, 100) <= 85 { (w, d) } else { (self.warehouse(), self.district()) };
        let (name, amount) = (self.name(), format!("{:.2}", self.random.random_range(1.0..5000.0)));
        self.client.execute(&self.payment, &[&w, &d, &c_w, &c_d, &c, &name, &amount]).map(drop)
    }

    fn order_status(&mut self) -> std::result::Result<(), postgres::Error> {
        let (w, d, c, name) = (self.warehouse(), self.district(), self.customer(), self.name());
        self.client.query(&self.order_status, &[&w, &d, &c, &name]).map(drop)
    }

    fn delivery(&mut self) -> std::result::Result<(), postgres::Error> {
        let (w, carrier) = (self.warehouse(), self.between(1, 10));
        self.client.execute(&self.delivery, &[&w, &carrier]).map(drop)
    }

    fn between(&mut self, low: i32, high: i32) -> i32 {
        self.random.random_range(low..=high)
    }

    fn warehouse(&mut self) -> i32 {
        self.between(1, self.scale.warehouses as i32)
    }

    fn district(&mut self) -> i32 {
        self.between(1, self.scale.districts as i32)
    }

    fn customer(&mut self) -> i32 {
        self.skewed(1023, self.scale.customers as i32)
    }

    fn item(&mut self) -> i32 {
        self.skewed(8191, self.scale.items as i32)
    }

    /// In six of ten cases a customer is named, not numbered. Only the first thousand names are sure to exist, fewer
    /// where there are fewer customers.
    fn name(&mut self) -> Option<String> {
        let names = self.scale.customers.min(1000) as i32;
        (self.between(1, 100) <= 60).then(|| last_name((self.skewed(255, names) - 1) as u32))
    }

    /// The specification's non-uniform choice from 1 to `high`: NURand(a, 1, high) with a constant of 0.
    fn skewed(&mut self, a: i32, high: i32) -> i32 {
        (self.between(0, a) | self.between(1, high)) % high + 1
    }
}
