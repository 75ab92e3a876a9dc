//! Many clients query while the stream goes on. Every answer must belong to its own snapshot.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use protocol::Snapshot;
use protocol::control::{Settings, ToWorker};

use crate::accounts::{self, Account, account};
use crate::client::{Client, Load, request};
use crate::worker::Worker;

const ACCOUNTS: i64 = 20_000;
const CLIENTS: u64 = 6;
const TIME: Duration = Duration::from_secs(4);
/// The undo limit, so large that no snapshot gets too old, however fast the stream is.
const UNDO_BYTES: u64 = 4 << 30;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Transfers between accounts do not change the sum of all balances. The sum leaves out account 0, whose balance is the
/// number of the last transaction.
#[test]
fn every_answer_is_that_of_its_snapshot() {
    let mut worker = Worker::start(&Settings { max_queries: 4, undo_bytes: UNDO_BYTES, ..Settings::default() });
    worker.mirror(1, 1, (0..ACCOUNTS).map(account));
    let (first, _) = worker.now();
    let moment = Arc::new(Mutex::new(worker.now()));
    let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let socket = worker.socket();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|seed| {
            let (moment, stop, answers, socket) = (moment.clone(), stop.clone(), answers.clone(), socket.clone());
            let first = first.clone();
            std::thread::spawn(move || {
                let mut random = Random(seed);
                let mut client = Client::connect(&socket);
                let mut old: Option<(Snapshot, u64)> = None;
                while !stop.load(Ordering::Relaxed) {
                    // Each second client keeps a snapshot, and queries with this snapshot again later.
                    let now = moment.lock().unwrap().clone();
                    let at = match &old {
                        Some(old) if seed % 2 == 1 => (old.0.clone(), now.1),
                        _ => now.clone(),
                    };
                    if random.below(8) == 0 {
                        client = Client::connect(&socket);
                        old = Some(now);
                    }
                    let rows = client.rows(&request(accounts::totals(1, false), at.clone()));
                    assert_eq!((rows.sum(0), rows.ints(1)[0]), (1000 * (ACCOUNTS - 1) as i128, ACCOUNTS - 1));
                    let last = client.rows(&request(accounts::totals(1, true), at.clone())).sum(0);
                    let expected = if at.0 == first { 1000 } else { at.0.xmax as i128 - 1 };
                    assert_eq!(last, expected, "account 0 tells another transaction");
                    answers.fetch_add(2, Ordering::Relaxed);
                }
            })
        })
        .collect();

    let mut balances = vec![1000i64; ACCOUNTS as usize];
    let mut random = Random(99);
    let (start, mut transactions) = (Instant::now(), 0u64);
    while start.elapsed() < TIME {
        let (xid, mut changes) = (worker.now().0.xmax, Vec::new());
        Account { balance: xid as i64, ..account(0) }.update(1, &mut changes);
        for _ in 0..random.below(5) + 1 {
            let [from, to] = [(); 2].map(|()| 1 + random.below(ACCOUNTS as u64 - 1) as usize);
            let amount = random.below(100) as i64;
            balances[from] -= amount;
            balances[to] += amount;
            for id in [from, to] {
                let name = format!("account {id} after {xid}");
                Account { balance: balances[id], name, ..account(id as i64) }.update(1, &mut changes);
            }
        }
        worker.transaction(&changes);
        transactions += 1;
        if random.below(50) == 0 {
            worker.gate();
        }
        *moment.lock().unwrap() = worker.now();
        if clients.iter().any(|c| c.is_finished()) {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let status = worker.client().status();
    println!("{transactions} transactions, {} answers", answers.load(Ordering::Relaxed));
    assert!(answers.load(Ordering::Relaxed) > 100 && transactions > 1000);
    assert_eq!((status.queries_failed, status.queries_refused, status.live_snapshots), (0, 0, 0));
}

#[test]
fn loads_and_a_backlog_do_not_hold_up_queries() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..1000).map(account));
    worker.watch(2, 2);
    let (snapshot, _) = worker.now();
    let (mut loader, mut client) = (worker.client(), worker.client());
    loader.status();
    let loader = std::thread::spawn(move || {
        let mut load = Load::begin(loader, 2, 2, snapshot).unwrap();
        (0..1_000_000).for_each(|id| load.row(&account(id)));
        load.end().unwrap();
    });
    let at = worker.now();
    let asker = std::thread::spawn(move || {
        let mut waits = Vec::new();
        while !loader.is_finished() {
            let rows = client.rows(&request(accounts::totals(1, false), at.clone()));
            assert_eq!(rows.sum(0), 999_000);
            waits.push(rows.ready.waited_us);
        }
        loader.join().unwrap();
        waits
    });
    // Changes of a table that nobody watches, far ahead of the positions that the queries need.
    let mut changes = Vec::new();
    (0..1000).for_each(|id| account(id).insert(3, &mut changes));
    let mut sent = 0;
    while !asker.is_finished() {
        worker.transaction(&changes);
        sent += changes.len();
    }
    let mut waits = asker.join().unwrap();
    waits.sort_unstable();
    let [median, longest] = [waits[waits.len() / 2], waits[waits.len() - 1]];
    println!("{} MB beside the load; waits: median {median} us, longest {longest} us", sent >> 20);
    // Loading the whole table, or working off the whole backlog, would take far longer than this.
    assert!(median < 500_000);
    assert_eq!(worker.event(), ToWorker::Live { relid: 2, generation: 2, rows: 1_000_000 });
}

/// The loader is faster than the stream: when it begins, the Watch of its table is still in the ring.
#[test]
fn a_load_waits_for_its_watch() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..10).map(account));
    for relid in 2..40 {
        let mut changes = Vec::new();
        (0..2000).for_each(|_| account(5).update(1, &mut changes));
        worker.transaction(&changes);
        worker.gate();
        worker.mirror(relid, relid as u64, (0..10).map(account));
    }
}
