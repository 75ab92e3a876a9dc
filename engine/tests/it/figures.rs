//! Measures the engine's speed. It is run by hand: `cargo test --release --workspace --test it -- --ignored
//! --nocapture`.

use std::time::{Duration, Instant};

use protocol::control::Settings;

use crate::accounts::{self, Account, account};
use crate::client::{Load, request};
use crate::worker::{PATIENCE, Worker};

fn percentile(values: &mut [u64], p: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() - 1) * p / 100]
}

#[test]
#[ignore = "figures, not a check"]
fn figures() {
    let mut worker = Worker::start(&Settings { memory_bytes: 4 << 30, ..Settings::default() });
    const ROWS: i64 = 2_000_000;
    worker.watch(1, 1);
    let (snapshot, _) = worker.now();
    let start = Instant::now();
    let mut load = Load::begin(worker.client(), 1, 1, snapshot).unwrap();
    (0..ROWS).for_each(|id| load.row(&account(id)));
    load.end().unwrap();
    worker.event();
    println!("load: {:.2} M rows/s", ROWS as f64 / start.elapsed().as_secs_f64() / 1e6);

    let mut client = worker.client();
    let plan = accounts::totals(1, true);
    for (name, fresh) in [("one connection", false), ("a connection each", true)] {
        let (mut ready, mut done) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            std::thread::sleep(Duration::from_micros(500));
            let start = Instant::now();
            if fresh {
                client = worker.client();
            }
            client.ask(&request(plan.clone(), worker.now()));
            let mut payload = Vec::new();
            client.receive(&mut payload);
            ready.push(start.elapsed().as_micros() as u64);
            while client.receive(&mut payload) != Some(protocol::frame::Kind::Done) {}
            done.push(start.elapsed().as_micros() as u64);
        }
        let [r50, r99, d50, d99] = [
            percentile(&mut ready, 50),
            percentile(&mut ready, 99),
            percentile(&mut done, 50),
            percentile(&mut done, 99),
        ];
        println!("request to ready at idle, {name}: p50 {r50} us, p99 {r99} us; to done: p50 {d50} us, p99 {d99} us");
    }

    // Transactions that change one row each, with a gate after every hundred of them.
    const TRANSACTIONS: u64 = 300_000;
    let start = Instant::now();
    for i in 0..TRANSACTIONS {
        let mut changes = Vec::new();
        let id = (i * 7919) as i64 % ROWS;
        Account { balance: i as i64, ..account(id) }.update(1, &mut changes);
        worker.transaction(&changes);
        if i % 100 == 99 {
            worker.gate();
        }
    }
    worker.gate();
    let lsn = worker.now().1;
    while client.status().lsn < lsn {
        assert!(start.elapsed() < 4 * PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let rate = TRANSACTIONS as f64 / start.elapsed().as_secs_f64();
    let mut status = client.status();
    let [p50, p99] = [50, 99].map(|p| percentile(&mut status.commit_to_applied_us, p));
    println!("stream: {:.0} k one-row transactions/s; commit to applied p50 {p50} us, p99 {p99} us", rate / 1e3);

    // The same at a tenth of the measured rate, in bursts of a millisecond, with a query now and then.
    let (asker, mut random) = (worker.client(), 1u64);
    let moment = std::sync::Arc::new(std::sync::Mutex::new(worker.now()));
    let now = moment.clone();
    let asker = std::thread::spawn(move || {
        let (mut client, mut ready, mut undone) = (asker, Vec::new(), 0);
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_millis(5));
            let at = now.lock().unwrap().clone();
            let start = Instant::now();
            client.ask(&request(plan.clone(), at));
            let mut payload = Vec::new();
            client.receive(&mut payload);
            ready.push(start.elapsed().as_micros() as u64);
            undone += protocol::frame::parse::<protocol::request::Ready>(&payload).unwrap().undone_changes;
            while client.receive(&mut payload) != Some(protocol::frame::Kind::Done) {}
        }
        (ready, undone)
    });
    let (start, mut sent) = (Instant::now(), 0u64);
    while !asker.is_finished() {
        for _ in 0..(rate / 10_000.0) as u64 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let mut changes = Vec::new();
            Account { balance: sent as i64, ..account((random >> 33) as i64 % ROWS) }.update(1, &mut changes);
            worker.transaction(&changes);
            sent += 1;
        }
        worker.gate();
        *moment.lock().unwrap() = worker.now();
        std::thread::sleep(Duration::from_millis(1));
    }
    let per_second = sent as f64 / start.elapsed().as_secs_f64();
    let (mut ready, undone) = asker.join().unwrap();
    let mut status = client.status();
    let [p50, p99] = [50, 99].map(|p| percentile(&mut ready, p));
    println!("request to ready at {:.0} k/s: p50 {p50} us, p99 {p99} us ({undone} undone changes)", per_second / 1e3);
    let [p50, p99] = [50, 99].map(|p| percentile(&mut status.commit_to_applied_us, p));
    println!("commit to applied at {:.0} k/s: p50 {p50} us, p99 {p99} us", per_second / 1e3);

    let start = Instant::now();
    let rows = client.rows(&request(accounts::select(1, Vec::new()), worker.now()));
    println!("select *: {:.2} M rows/s", rows.count() as f64 / start.elapsed().as_secs_f64() / 1e6);
}
