//! Memory of queries: they take no more than they may, and what they free returns to the system soon.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plan::{Agg, Plan, WindowFunction};
use protocol::control::Settings;
use protocol::request::{Failure, FailureKind};

use crate::accounts::{self, ID, NAME, account, column};
use crate::client::{Answer, Client, request};
use crate::worker::{PATIENCE, Worker};

#[test]
fn memory_that_queries_leave_is_given_back() {
    const ROWS: i64 = 400_000;
    /// The greatest memory that the process may hold beside the mirror when it is idle. `BUSY` is the least memory that
    /// it must have held before, because otherwise the test would prove nothing.
    const AT_REST: u64 = 32 << 20;
    const BUSY: u64 = 48 << 20;
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..ROWS).map(account));
    // Queries with a group for every row, from clients that come and go, and from one that stays.
    let groups = accounts::aggregate(1, Vec::new(), vec![column(NAME)], vec![Agg::CountStar]);
    let groups = request(groups, worker.now());
    let mut stays = worker.client();
    for _ in 0..3 {
        assert_eq!(worker.client().rows(&groups).count(), ROWS as u64);
        assert_eq!(stays.rows(&groups).count(), ROWS as u64);
    }
    let beside = |client: &mut Client| worker.private_bytes().saturating_sub(client.status().memory_bytes);
    let busy = beside(&mut stays);
    assert!(busy > BUSY, "{busy} bytes beside the mirror: this tries nothing");
    let start = Instant::now();
    while beside(&mut stays) > AT_REST {
        assert!(start.elapsed() < PATIENCE, "{} bytes beside the mirror, {busy} before", beside(&mut stays));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The answer of the engine, and by how much its memory grows meanwhile.
fn growth(worker: &mut Worker, plan: Plan) -> (Option<i64>, u64) {
    let question = request(plan, worker.now());
    let (mut client, ended) = (worker.client(), AtomicBool::new(false));
    let before = worker.private_bytes();
    thread::scope(|scope| {
        let sampling = scope.spawn(|| {
            let mut most = before;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(worker.private_bytes());
                thread::sleep(Duration::from_millis(1));
            }
            most - before
        });
        let answer = client.query(&question);
        ended.store(true, Ordering::Relaxed);
        let told = match answer {
            Answer::Rows(rows) => Some(rows.ints(0)[0]),
            Answer::Failed(Failure { kind: FailureKind::OutOfMemory, .. }) => None,
            other => panic!("{other:?}"),
        };
        (told, sampling.join().unwrap())
    })
}

/// `SELECT count(*) FROM (SELECT column, count(*) FROM accounts GROUP BY column) s`
fn groups_of(col: u16) -> Plan {
    let groups = accounts::aggregate(1, Vec::new(), vec![column(col)], vec![Agg::CountStar]);
    accounts::group(groups, Vec::new(), vec![Agg::CountStar])
}

#[test]
fn no_query_takes_more_than_its_memory() {
    const ROWS: i64 = 1_200_000;
    const LIMIT: u64 = 64 << 20;
    /// Memory that is not counted against the limit: chunks on their way, stacks, and pages that the allocator keeps.
    const BESIDE: u64 = 24 << 20;
    let mut worker = Worker::start(&Settings { query_memory_bytes: LIMIT, ..Settings::default() });
    worker.mirror(1, 1, (0..ROWS).map(account));
    for (what, plan, answer) in [
        ("groups of texts", groups_of(NAME), Some(ROWS)),
        ("groups of texts again", groups_of(NAME), Some(ROWS)),
        ("distinct numbers", accounts::distinct(1, ID), Some(ROWS)),
        ("distinct texts", accounts::distinct(1, NAME), None),
        ("numbers of rows", accounts::windowed(1, WindowFunction::RowNumber), Some(ROWS)),
        ("ranks", accounts::windowed(1, WindowFunction::Rank), Some(ROWS)),
    ] {
        let (told, grown) = growth(&mut worker, plan);
        assert_eq!(told, answer, "{what}");
        assert!(grown < LIMIT + BESIDE, "{what} take {} MB", grown >> 20);
        // The allocator keeps pages for some seconds.
        thread::sleep(Duration::from_secs(6));
    }
}
