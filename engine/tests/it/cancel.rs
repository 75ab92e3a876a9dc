//! A query can be cancelled at any time by closing its connection, and leaves nothing behind.

use std::time::{Duration, Instant};

use plan::CmpOp;
use protocol::control::Settings;
use protocol::frame::Kind;
use protocol::request::Status;

use crate::accounts::{self, ID, account, compare};
use crate::client::{Client, request};
use crate::worker::{PATIENCE, Worker};

/// Waits until no query is running and no snapshot is held.
fn settled(client: &mut Client) -> Status {
    let start = Instant::now();
    loop {
        let status = client.status();
        if status.queries_running == 0 && status.live_snapshots == 0 {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "still there: {status:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn nothing_stays_of_five_hundred_cancelled_queries() {
    const ROWS: i64 = 200_000;
    /// The additional memory for texts that frequent reads have unpacked.
    const UNPACKED: u64 = 16 * ROWS as u64;
    let mut worker = Worker::start(&Settings { max_queries: 3, ..Settings::default() });
    worker.mirror(1, 1, (0..ROWS).map(account));
    let mut watcher = worker.client();
    let all = request(accounts::select(1, Vec::new()), worker.now());
    let few = request(accounts::select(1, vec![compare(CmpOp::Lt, ID, 10)]), worker.now());
    let threads = || std::fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap().count();
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", worker.pid())).unwrap().count();
    watcher.rows(&all);
    let (before, threads_before, descriptors_before) = (settled(&mut watcher), threads(), descriptors());

    let resident_before = resident();
    let mut whole = 0;
    for round in 0..500 {
        let mut client = worker.client();
        client.ask(if round % 5 == 4 { &few } else { &all });
        let mut payload = Vec::new();
        match round % 5 {
            // Cancels before reading anything.
            0 => {}
            // Cancels when the query is ready, when the first rows have come, and after more rows.
            stage @ 1..=3 => {
                assert_eq!(client.receive(&mut payload), Some(Kind::Ready));
                for _ in 1..stage {
                    assert_eq!(client.receive(&mut payload), Some(Kind::Arrow));
                }
            }
            // Reads a short result completely, so that other queries are answered between the cancelled ones.
            _ => {
                assert!(matches!(client.answer(), crate::client::Answer::Rows(rows) if rows.count() == 10));
                whole += 1;
            }
        }
    }
    let start = Instant::now();
    let mut after = settled(&mut watcher);
    // The last queries may not have begun yet. Memory that a snapshot kept is folded back only when the engine is idle.
    let most = before.memory_bytes + UNPACKED;
    let is_over = |status: &Status| status.queries_cancelled >= 500 - whole && status.memory_bytes <= most;
    while !is_over(&after) && start.elapsed() < PATIENCE {
        after = settled(&mut watcher);
    }
    assert_eq!(after.queries_served, before.queries_served + whole);
    assert_eq!(after.queries_cancelled, 500 - whole);
    assert!(resident() < resident_before + 50, "{} MB, {resident_before} before", resident());
    assert!(after.memory_bytes <= most, "{} bytes, {} before", after.memory_bytes, before.memory_bytes);
    let start = Instant::now();
    while threads() > threads_before || descriptors() > descriptors_before {
        assert!(start.elapsed() < PATIENCE, "threads or descriptors stay");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_query_that_waits_for_its_position_can_be_cancelled() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..10).map(account));
    let (snapshot, lsn) = worker.now();
    let mut client = worker.client();
    client.ask(&request(accounts::totals(1, false), (snapshot, lsn + 1_000_000)));
    let mut watcher = worker.client();
    let start = Instant::now();
    while watcher.status().queries_running == 0 {
        assert!(start.elapsed() < PATIENCE);
    }
    drop(client);
    assert_eq!(settled(&mut watcher).queries_cancelled, 1);
}

#[test]
fn a_queued_query_can_be_cancelled() {
    let mut worker = Worker::start(&Settings { max_queries: 1, ..Settings::default() });
    worker.mirror(1, 1, (0..300_000).map(account));
    let all = request(accounts::select(1, Vec::new()), worker.now());
    let mut clients: Vec<Client> = (0..20).map(|_| worker.client()).collect();
    clients.iter_mut().for_each(|client| client.ask(&all));
    drop(clients);
    let mut watcher = worker.client();
    let start = Instant::now();
    while watcher.status().queries_cancelled < 20 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(2));
    }
    settled(&mut watcher);
    assert_eq!(watcher.rows(&all).count(), 300_000);
}
