//! Limits of memory and of places. Exceeding a limit costs a table or a wait, but never the engine.

use std::time::{Duration, Instant};

use plan::{Agg, Literal};
use protocol::control::{Settings, ToWorker};
use protocol::frame::{self, Kind};
use protocol::request::{Done, Failure, FailureKind, QueryRequest, Refusal, SentRows};

use crate::accounts::{self, Account, account};
use crate::client::{Answer, Client, Load, request};
use crate::worker::{PATIENCE, Worker};

fn small() -> Settings {
    Settings { memory_bytes: 24 << 20, undo_bytes: 4 << 20, ..Settings::default() }
}

#[test]
fn a_table_beyond_the_memory_limit_is_given_up_and_the_others_stay() {
    let mut worker = Worker::start(&small());
    worker.mirror(1, 1, (0..1000).map(account));
    worker.watch(2, 2);
    let (snapshot, _) = worker.now();
    let mut load = Load::begin(worker.client(), 2, 2, snapshot).unwrap();
    (0..4_000_000).for_each(|id| load.row(&account(id)));
    assert!(load.end().is_err());
    match worker.event() {
        ToWorker::Broken { relid: 2, generation: 2, error: false, .. } => {}
        other => panic!("{other:?}"),
    }
    let mut client = worker.client();
    assert_eq!(client.rows(&request(accounts::totals(1, false), worker.now())).ints(1), [999]);
    let refused = client.query(&request(accounts::totals(2, false), worker.now()));
    assert!(matches!(refused, Answer::Refused(_)));
    assert!(client.status().memory_bytes <= small().memory_bytes);
    // A smaller load of the same table is accepted under a new generation.
    worker.mirror(2, 3, (0..1000).map(account));
}

#[test]
fn growth_beyond_the_memory_limit_is_told() {
    let mut worker = Worker::start(&small());
    worker.mirror(1, 1, (0..10).map(account));
    worker.mirror(2, 2, (0..10).map(account));
    for first in (10..).step_by(1000) {
        let mut changes = Vec::new();
        (first..first + 1000).for_each(|id| Account { name: "n".repeat(100), ..account(id) }.insert(1, &mut changes));
        worker.transaction(&changes);
        worker.gate();
        if first % 50_000 == 10 && !worker.client().status().tables.iter().any(|t| t.relid == 1 && t.live) {
            break;
        }
        assert!(first < 10_000_000, "no limit is felt");
    }
    match worker.event() {
        ToWorker::Broken { relid: 1, generation: 1, error: false, .. } => {}
        other => panic!("{other:?}"),
    }
    let mut client = worker.client();
    assert_eq!(client.rows(&request(accounts::totals(2, false), worker.now())).ints(1), [9]);
}

#[test]
fn a_transaction_that_does_not_fit_costs_its_table_only() {
    let mut worker = Worker::start(&small());
    worker.mirror(1, 1, (0..10).map(account));
    worker.mirror(2, 2, (0..10).map(account));
    let mut changes = Vec::new();
    Account { name: "n".repeat(1000), ..account(1) }.update(1, &mut changes);
    let mut changes = changes.repeat((64 << 20) / changes.len());
    accounts::delete(2, 5, &mut changes);
    worker.transaction(&changes);
    worker.gate();
    match worker.event() {
        ToWorker::Broken { relid: 1, generation: 1, error: false, .. } => {}
        other => panic!("{other:?}"),
    }
    let mut client = worker.client();
    assert_eq!(client.rows(&request(accounts::totals(2, false), worker.now())).ints(1), [8]);
    let refused = client.query(&request(accounts::totals(1, false), worker.now()));
    assert!(matches!(refused, Answer::Refused(Refusal::NotMirrored { relid: 1 })));
    assert!(client.status().memory_bytes <= small().memory_bytes);
}

#[test]
fn a_client_that_does_not_read_loses_its_place() {
    let mut worker = Worker::start(&Settings { max_queries: 1, ..Settings::default() });
    worker.mirror(1, 1, (0..300_000).map(account));
    // Opens cursors and does not read them. There are more cursors than places.
    let mut cursors: Vec<_> = (0..5).map(|_| worker.client()).collect();
    for cursor in &mut cursors {
        cursor.ask(&request(accounts::select(1, Vec::new()), worker.now()));
    }
    let mut client = worker.client();
    let rows = client.rows(&request(accounts::totals(1, false), worker.now()));
    assert_eq!(rows.ints(1), [299_999]);
    assert!(rows.done.queued_us > 0 && rows.done.queued_us <= rows.done.engine_us);
    // The cursors still return all rows, as of their own snapshots.
    let mut changes = Vec::new();
    accounts::delete(1, 17, &mut changes);
    worker.transaction(&changes);
    worker.gate();
    for cursor in &mut cursors {
        match cursor.answer() {
            Answer::Rows(rows) => assert_eq!(rows.count(), 300_000),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.status().queries_served, 6);
}

#[test]
fn queries_queue_with_their_snapshot_bound() {
    let mut worker = Worker::start(&Settings { max_queries: 2, ..Settings::default() });
    worker.mirror(1, 1, (0..200_000).map(account));
    let plan = accounts::aggregate(1, Vec::new(), vec![accounts::column(accounts::ID)], vec![Agg::CountStar]);
    let mut clients: Vec<_> = (0..10).map(|_| worker.client()).collect();
    for client in &mut clients {
        client.ask(&request(plan.clone(), worker.now()));
    }
    let start = Instant::now();
    while worker.client().status().request_to_ready_us.len() < clients.len() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    for client in clients.iter_mut() {
        match client.answer() {
            Answer::Rows(rows) => assert_eq!(rows.count(), 200_000),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn idle_cursors_are_given_up_before_the_table() {
    const ROWS: i64 = 100_000;
    let mut worker = Worker::start(&small());
    worker.mirror(1, 1, (0..ROWS).map(account));
    let mut cursors = Vec::new();
    for round in 0..20 {
        let mut cursor = worker.client();
        assert!(begins(&mut cursor, &request(accounts::select(1, Vec::new()), worker.now())));
        cursors.push(cursor);
        for part in 0..10 {
            let mut changes = Vec::new();
            for id in (part..ROWS).step_by(10) {
                Account { balance: round, name: format!("{round} of account {id}"), ..account(id) }
                    .update(1, &mut changes);
            }
            worker.transaction(&changes);
            worker.gate();
        }
    }
    let mut client = worker.client();
    let rows = client.rows(&request(accounts::totals(1, false), worker.now()));
    assert_eq!((rows.ints(1), rows.sum(0)), (vec![ROWS - 1], 19 * i128::from(ROWS - 1)));
    let status = client.status();
    assert!(status.tables[0].live && status.memory_bytes <= small().memory_bytes, "{status:?}");
    // The queries with the oldest snapshots were given up, and those with the youngest are complete.
    let ends: Vec<_> = cursors.iter_mut().map(end).collect();
    let gone = ends.iter().take_while(|end| **end == Err(FailureKind::SnapshotGivenUp)).count();
    assert!(gone > 0 && gone < ends.len(), "{ends:?}");
    assert!(ends[gone..].iter().all(|end| *end == Ok(ROWS as u64)), "{ends:?}");
}

#[test]
fn queries_that_run_or_wait_are_given_up_before_the_table() {
    const ROWS: i64 = 60_000;
    let mut worker = Worker::start(&Settings { max_queries: 1, ..small() });
    worker.mirror(1, 1, (0..ROWS).map(account));
    let mut running = worker.client();
    running.ask(&request(accounts::pairs(1), worker.now()));
    let mut payload = Vec::new();
    assert_eq!(running.receive(&mut payload), Some(Kind::Ready));
    let mut queued = Vec::new();
    for round in 0..20 {
        let mut client = worker.client();
        client.ask(&QueryRequest { max_wait_ms: 60_000, ..request(accounts::totals(1, false), worker.now()) });
        assert_eq!(client.receive(&mut payload), Some(Kind::Ready));
        queued.push(client);
        let mut changes = Vec::new();
        for id in 0..ROWS {
            Account { balance: round, name: format!("{round} of account {id}"), ..account(id) }.update(1, &mut changes);
        }
        worker.transaction(&changes);
        worker.gate();
    }
    assert!(worker.client().status().tables[0].live);
    // The running query has the oldest snapshot. The waiting queries run after the running query was given up, unless
    // they are given up, too.
    let ends: Vec<_> = std::iter::once(&mut running).chain(&mut queued).map(end).collect();
    assert!(ends.contains(&Err(FailureKind::SnapshotGivenUp)), "{ends:?}");
    assert!(ends.iter().all(|end| matches!(end, Ok(1) | Err(FailureKind::SnapshotGivenUp))), "{ends:?}");
}

/// Opens a cursor. Returns true if rows come, and false if the query fails in time for the heap to answer it.
fn begins(cursor: &mut Client, request: &QueryRequest) -> bool {
    cursor.ask(request);
    let mut payload = Vec::new();
    assert_eq!(cursor.receive(&mut payload), Some(Kind::Ready));
    match cursor.receive(&mut payload) {
        Some(Kind::Arrow) => true,
        Some(Kind::Failed) => {
            assert_eq!(frame::parse::<Failure>(&payload).unwrap().kind, FailureKind::OutOfMemory);
            false
        }
        other => panic!("{other:?}"),
    }
}

/// Reads a result, of which some pieces were read already, to its end.
fn end(cursor: &mut Client) -> Result<u64, FailureKind> {
    let mut payload = Vec::new();
    loop {
        match cursor.receive(&mut payload) {
            Some(Kind::Arrow) => {}
            Some(Kind::Done) => return Ok(frame::parse::<Done>(&payload).unwrap().rows),
            Some(Kind::Failed) => return Err(frame::parse::<Failure>(&payload).unwrap().kind),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_result_that_has_begun_does_not_fail_when_others_take_the_memory() {
    let mut worker = Worker::start(&Settings { query_memory_bytes: 4 << 20, ..Settings::default() });
    worker.mirror(1, 1, (0..300_000).map(account));
    let all = request(accounts::select(1, Vec::new()), worker.now());
    let cursors: Vec<_> = (0..30).map(|_| worker.client()).collect();
    let mut open: Vec<_> = cursors.into_iter().filter_map(|mut c| begins(&mut c, &all).then_some(c)).collect();
    assert!((2..30).contains(&open.len()), "{} cursors are open", open.len());
    for cursor in &mut open {
        assert_eq!(end(cursor), Ok(300_000));
    }
    assert_eq!(worker.client().rows(&all).count(), 300_000);
}

#[test]
fn a_row_longer_than_a_message_waits_for_memory() {
    let mut worker = Worker::start(&Settings { query_memory_bytes: 5 << 20, ..Settings::default() });
    // Rows of 1 MB follow rows that need almost no memory.
    let name = |id: i64, megabytes: usize| Account { name: "n".repeat(megabytes << 20), ..account(id) };
    let rows =
        |last: usize| (0..5000).map(account).chain((5000..5010).map(move |id| name(id, 1))).chain([name(5010, last)]);
    worker.mirror(1, 1, rows(1));
    let all = request(accounts::select(1, Vec::new()), worker.now());
    let mut cursors: Vec<_> = (0..4).map(|_| worker.client()).collect();
    // A cursor that is opened while other cursors hold memory for their long rows finds no memory to begin.
    cursors.retain_mut(|cursor| begins(cursor, &all));
    assert!(cursors.len() >= 2, "{} queries began", cursors.len());
    // A client that reads its result releases memory for the other queries.
    std::thread::scope(|scope| {
        for cursor in &mut cursors {
            scope.spawn(|| assert_eq!(end(cursor), Ok(5011)));
        }
    });
    // A query does not wait for memory for a row that exceeds the limit.
    worker.mirror(2, 2, rows(2));
    let mut cursor = worker.client();
    assert!(begins(&mut cursor, &request(accounts::select(2, Vec::new()), worker.now())));
    assert_eq!(end(&mut cursor), Err(FailureKind::OutOfMemory));
    // A query whose client reads gives up after too long a wait, because the holder of the memory may wait for that
    // client. An open cursor, whose client does not read, may wait without limit.
    let [idle, reading] = &mut cursors[..2] else { unreachable!() };
    assert!(begins(idle, &all));
    // The idle cursor's query gets as far as it can while its client does not read.
    std::thread::sleep(Duration::from_secs(2));
    assert!(begins(reading, &all));
    assert_eq!(end(reading), Err(FailureKind::OutOfMemory));
    assert_eq!(end(idle), Ok(5011));
}

#[test]
fn rows_that_are_sent_along_count_as_query_memory() {
    const LIMIT: u64 = 64 << 20;
    let mut worker = Worker::start(&Settings { query_memory_bytes: LIMIT, ..Settings::default() });
    worker.gate();
    let numbers = |rows: i64| SentRows {
        rows: rows as u32,
        columns: vec![(1..=rows).map(|number| Some(Literal::Int(number))).collect()],
    };
    let (few, many) = ([numbers(100_000)], [numbers(2_000_000)]);
    let question = request(accounts::of_sent(), worker.now());
    let mut clients: Vec<_> = (0..5).map(|_| worker.client()).collect();
    clients[0].ask_with(&few, &question);
    let rows = clients[0].whole();
    assert_eq!([rows.ints(0), rows.ints(1), rows.ints(2)], [[100_000], [1], [100_000]]);
    let before = worker.private_bytes();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                client.ask_with(&many, &question);
                match client.answer() {
                    Answer::Failed(Failure { kind: FailureKind::OutOfMemory, message }) => {
                        assert!(message.contains("sent along"), "{message}");
                    }
                    other => panic!("{other:?}"),
                }
                // The connection can still be used.
                client.ask_with(&few, &question);
                client.whole();
            });
        }
    });
    let grown = worker.private_bytes().saturating_sub(before);
    assert!(grown < LIMIT, "by {} MB", grown >> 20);
}

#[test]
fn a_long_request_counts_as_query_memory() {
    let mut worker = Worker::start(&Settings { query_memory_bytes: 8 << 20, ..Settings::default() });
    worker.gate();
    let mut question = request(accounts::of_sent(), worker.now());
    let mut client = worker.client();
    question.plan.params = vec![plan::Type::Text];
    question.params = vec![Some(Literal::Text("x".repeat(2 << 20)))];
    let answer = client.query(&question);
    assert!(matches!(answer, Answer::Failed(Failure { kind: FailureKind::OutOfMemory, .. })), "{answer:?}");
    question.params = vec![Some(Literal::Text("x".repeat(2 << 10)))];
    client.ask_with(&[SentRows { rows: 0, columns: vec![Vec::new()] }], &question);
    assert_eq!(client.whole().ints(0), [0]);
}
