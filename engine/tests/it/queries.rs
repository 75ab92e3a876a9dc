//! Answers of queries: the rows exactly as S sees them, or the reason why there are none.

use arrow_array::cast::AsArray;
use plan::{Agg, ArithOp, CmpOp, ColumnId, Expr, JoinKind, Literal, Plan, Rel, Relation, RelationColumn, Source, Type};
use protocol::Snapshot;
use protocol::change::StreamMessage;
use protocol::control::Settings;
use protocol::frame::Kind;
use protocol::request::{FailureKind, LoadRequest, Refusal, Request};

use crate::accounts::{self, Account, BALANCE, BRANCH, ID, account, column, compare};
use crate::client::{Answer, Load, request};
use crate::worker::Worker;

#[test]
fn a_table_is_loaded_followed_and_queried() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (1..=10_000).map(account));
    let mut client = worker.client();
    let all = accounts::totals(1, false);
    let rows = client.rows(&request(all.clone(), worker.now()));
    assert_eq!((rows.sum(0), rows.ints(1)[0]), (10_000_000, 10_000));
    assert_eq!((rows.done.rows, rows.done.scanned_rows), (1, 10_000));

    let mut changes = Vec::new();
    Account { balance: 5, name: "x".repeat(500), ..account(7) }.update(1, &mut changes);
    account(10_001).insert(1, &mut changes);
    accounts::delete(1, 8, &mut changes);
    worker.transaction(&changes);

    let groups = accounts::aggregate(
        1,
        vec![compare(CmpOp::Le, BRANCH, 8)],
        vec![column(BRANCH)],
        vec![Agg::CountStar, Agg::Min(column(BALANCE))],
    );
    let rows = client.rows(&request(groups, worker.now()));
    let mut groups: Vec<(i64, i64, i64)> = std::iter::zip(rows.ints(0), std::iter::zip(rows.ints(1), rows.ints(2)))
        .map(|(key, (count, min))| (key, count, min))
        .collect();
    groups.sort_unstable();
    let expected: Vec<_> = (0..=8)
        .map(|branch| match branch {
            1 => (1, 1001, 1000),
            7 => (7, 1000, 5),
            8 => (8, 999, 1000),
            _ => (branch, 1000, 1000),
        })
        .collect();
    assert_eq!(groups, expected);

    let rows = client.rows(&request(accounts::select(1, Vec::new()), worker.now()));
    assert_eq!(rows.count(), 10_000);
    assert_eq!(rows.done.rows, 10_000);
    let mut seen: Vec<Account> = Vec::new();
    for batch in &rows.batches {
        let ints = |c: usize| batch.column(c).as_primitive::<arrow_array::types::Int64Type>();
        let names = batch.column(3).as_string_view();
        seen.extend((0..batch.num_rows()).map(|i| Account {
            id: ints(0).value(i),
            branch: ints(1).value(i),
            balance: ints(2).value(i),
            name: names.value(i).into(),
        }));
    }
    seen.sort_by_key(|a| a.id);
    let mut expected: Vec<Account> = (1..=10_001).filter(|&id| id != 8).map(account).collect();
    expected[6] = Account { balance: 5, name: "x".repeat(500), ..account(7) };
    assert_eq!(seen, expected);
}

#[test]
fn rows_without_columns_are_counted() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..20_000).map(account));
    let mut plan = accounts::select(1, vec![compare(CmpOp::Lt, ID, 12_345)]);
    plan.output.clear();
    let rows = worker.client().rows(&request(plan, worker.now()));
    assert_eq!((rows.count(), rows.done.rows), (12_345, 12_345));
}

#[test]
fn an_empty_result_is_a_whole_stream() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, std::iter::empty());
    let rows = worker.client().rows(&request(accounts::select(1, Vec::new()), worker.now()));
    assert_eq!((rows.count(), rows.done.rows, rows.pieces), (0, 0, 1));
}

#[test]
fn tables_are_joined_under_one_snapshot() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..1000).map(account));
    worker.mirror(2, 2, (500..2000).map(account));
    let relation = |relid| Relation::of_table(relid, &[RelationColumn { attnum: 1, ty: Type::Int64 }]);
    let scan = |relation| Rel::Scan { relation, columns: vec![ColumnId(relation)] };
    let same = Expr::equal(Expr::column(ColumnId(0)), Expr::column(ColumnId(1)));
    let joined = Plan {
        relations: vec![relation(1), relation(2)],
        columns: vec![Type::Int64; 2],
        params: Vec::new(),
        root: scan(0).join(JoinKind::Inner, scan(1), vec![same]),
        output: Vec::new(),
    };
    let plan = accounts::group(joined, Vec::new(), vec![Agg::CountStar]);
    let before = worker.now();
    let mut changes = Vec::new();
    accounts::delete(1, 600, &mut changes);
    accounts::delete(2, 700, &mut changes);
    worker.transaction(&changes);
    worker.gate();
    let mut client = worker.client();
    assert_eq!(client.rows(&request(plan.clone(), worker.now())).ints(0), [498]);
    assert_eq!(client.rows(&request(plan, before)).ints(0), [500]);
}

#[test]
fn parameters_travel_with_the_request() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..100).map(account));
    let param = Box::new(Expr::Param { index: 0 });
    let below = Expr::Cmp { op: CmpOp::Lt, left: Box::new(column(ID)), right: param };
    let mut plan = accounts::aggregate(1, vec![below], Vec::new(), vec![Agg::CountStar]);
    plan.params = vec![Type::Int64];
    let mut query = request(plan, worker.now());
    let mut client = worker.client();
    for (value, count) in [(Some(Literal::Int(30)), 30), (None, 0)] {
        query.params = vec![value];
        assert_eq!(client.rows(&query).ints(0), [count]);
    }
    query.params.clear();
    assert!(matches!(client.query(&query), Answer::Refused(Refusal::Protocol { .. })));
}

#[test]
fn a_request_waits_for_its_position() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..10).map(account));
    let (_, lsn) = worker.now();
    let mut client = worker.client();
    let plan = accounts::aggregate(1, Vec::new(), Vec::new(), vec![Agg::CountStar]);
    // The backend took its snapshot after a commit that the stream has not brought yet.
    client.ask(&request(plan, (Snapshot::new(101, Vec::new()), lsn + 1)));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut changes = Vec::new();
    account(10).insert(1, &mut changes);
    assert_eq!(worker.transaction(&changes), 100);
    match client.answer() {
        Answer::Rows(rows) => {
            assert_eq!(rows.ints(0), [11]);
            assert!(rows.ready.waited_us > 0);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn old_snapshots_get_old_rows() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..1000).map(account));
    let mut moments = Vec::new();
    for id in 1..=50 {
        moments.push((worker.now(), 999 * 1000 + (id as i128 - 1) * 7));
        let mut changes = Vec::new();
        Account { balance: 1007, ..account(id) }.update(1, &mut changes);
        worker.transaction(&changes);
        worker.gate();
    }
    let mut client = worker.client();
    for (moment, sum) in moments.iter().rev().chain(&moments) {
        let (snapshot, _) = moment.clone();
        let rows = client.rows(&request(accounts::totals(1, false), (snapshot, worker.now().1)));
        assert_eq!(rows.sum(0), *sum);
        assert!(rows.ready.undone_transactions > 0);
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_its_reason() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..10).map(account));
    worker.watch(2, 2);
    let plan = |relid| accounts::totals(relid, false);
    let now = worker.now();
    let refused = |query| match worker.client().query(&query) {
        Answer::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(request(plan(9), now.clone())), Refusal::NotMirrored { relid: 9 });
    assert_eq!(refused(request(plan(2), now.clone())), Refusal::Loading { relid: 2 });
    let mut query = request(plan(1), now.clone());
    query.fingerprints = vec![1];
    assert_eq!(refused(query.clone()), Refusal::FingerprintDiffers { relid: 1 });
    query.fingerprints.clear();
    assert!(matches!(refused(query), Refusal::Protocol { .. }));
    let old = Snapshot::new(50, Vec::new());
    assert_eq!(refused(request(plan(1), (old, now.1))), Refusal::SnapshotTooOld { relid: 1 });
    let mut query = request(plan(1), now.clone());
    if let Source::Tables { tables, .. } = &mut query.plan.relations[0].source {
        tables[0].attnums[3] = 5;
    }
    assert_eq!(refused(query), Refusal::ColumnMissing { relid: 1, attnum: 5 });
    let mut query = request(plan(1), (now.0.clone(), now.1 + 1000));
    query.max_wait_ms = 30;
    assert_eq!(refused(query), Refusal::TimedOut { reached: now.1, wanted: now.1 + 1000 });
    let mut query = request(plan(1), now.clone());
    let nested = (0..5000).fold(compare(CmpOp::Gt, ID, 0), |e, _| Expr::Not(Box::new(e)));
    query.plan.root = query.plan.root.filter(vec![nested]);
    assert!(matches!(refused(query), Refusal::Protocol { .. }));
    worker.send(&[StreamMessage::Retire { relid: 1 }]);
    worker.gate();
    let mut query = request(plan(1), worker.now());
    query.lsn = worker.now().1;
    assert!(matches!(worker.client().query(&query), Answer::Refused(Refusal::NotMirrored { relid: 1 })));
    let status = worker.client().status();
    assert_eq!((status.queries_refused, status.queries_running, status.queries_served), (9, 0, 0));
}

#[test]
fn a_failure_is_told_and_the_connection_goes_on() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..10).map(account));
    let mut plan = accounts::select(1, Vec::new());
    let divide = |by: Expr| Expr::Arith {
        op: ArithOp::Div,
        ty: Type::Int64,
        left: Box::new(column(BALANCE)),
        right: Box::new(by),
    };
    plan.output = vec![divide(column(ID))];
    let mut client = worker.client();
    match client.query(&request(plan, worker.now())) {
        Answer::Failed(failure) => assert_eq!(failure.kind, FailureKind::DivisionByZero),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.rows(&request(accounts::totals(1, false), worker.now())).ints(1), [9]);
    let status = client.status();
    assert_eq!((status.queries_failed, status.queries_served, status.live_snapshots), (1, 1, 0));
}

/// A plan that is not well-formed stands for any defect.
#[test]
fn a_client_is_not_told_the_details_of_a_defect() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (1..10).map(account));
    let mut plan = accounts::select(1, Vec::new());
    plan.output = vec![Expr::column(ColumnId(1000))];
    match worker.client().query(&request(plan, worker.now())) {
        Answer::Failed(failure) => {
            assert_eq!((failure.kind, &failure.message[..]), (FailureKind::Internal, "a defect of pg_anker"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_load_that_ends_early_can_be_begun_again() {
    let mut worker = Worker::start(&Settings::default());
    worker.watch(1, 1);
    let (snapshot, _) = worker.now();
    let mut load = Load::begin(worker.client(), 1, 1, snapshot.clone()).unwrap();
    (0..1000).for_each(|id| load.row(&account(id)));
    load.flush();
    drop(load);
    // The engine notices only after a while that the connection has ended.
    let start = std::time::Instant::now();
    let mut load = loop {
        match Load::begin(worker.client(), 1, 1, snapshot.clone()) {
            Ok(load) => break load,
            Err(refusal) => assert!(start.elapsed() < crate::worker::PATIENCE, "{refusal:?}"),
        }
    };
    (0..10).for_each(|id| load.row(&account(id)));
    load.end().unwrap();
    worker.event();
    assert_eq!(worker.client().rows(&request(accounts::totals(1, false), worker.now())).ints(1), [9]);
}

#[test]
fn a_load_whose_loader_is_gone_before_the_answer_can_be_begun_again() {
    let mut worker = Worker::start(&Settings::default());
    worker.watch(1, 1);
    let (snapshot, _) = worker.now();
    for _ in 0..20 {
        // The engine is stopped meanwhile, so that it finds both the request and the end of the connection when it
        // looks.
        worker.signal(libc::SIGSTOP);
        let request = LoadRequest {
            relid: 1,
            generation: 1,
            fingerprint: accounts::FINGERPRINT,
            snapshot: snapshot.clone(),
            anchor: None,
        };
        worker.client().send(Kind::Request, &Request::Load(request));
        worker.signal(libc::SIGCONT);
        let start = std::time::Instant::now();
        while let Err(refusal) = Load::begin(worker.client(), 1, 1, snapshot.clone()) {
            assert!(start.elapsed() < crate::worker::PATIENCE, "{refusal:?}");
        }
    }
}

#[test]
fn changes_during_a_load_are_not_lost() {
    let mut worker = Worker::start(&Settings::default());
    worker.watch(1, 1);
    let (snapshot, _) = worker.now();
    let mut load = Load::begin(worker.client(), 1, 1, snapshot).unwrap();
    (0..500).for_each(|id| load.row(&account(id)));
    load.flush();
    let mut changes = Vec::new();
    accounts::delete(1, 900, &mut changes);
    Account { balance: 0, ..account(10) }.update(1, &mut changes);
    account(1000).insert(1, &mut changes);
    worker.transaction(&changes);
    worker.gate();
    (500..1000).for_each(|id| load.row(&account(id)));
    load.end().unwrap();
    worker.event();
    let rows = worker.client().rows(&request(accounts::totals(1, false), worker.now()));
    assert_eq!((rows.sum(0), rows.ints(1)[0]), (998_000, 999));
}

#[test]
fn a_refused_load_says_so() {
    let mut worker = Worker::start(&Settings::default());
    worker.watch(1, 7);
    worker.gate();
    let (snapshot, _) = worker.now();
    assert!(Load::begin(worker.client(), 2, 7, snapshot.clone()).is_err());
    assert!(Load::begin(worker.client(), 1, 6, snapshot.clone()).is_err());
    // Bytes that cannot be decoded as rows are refused, at the end of the load at the latest. The table can be loaded
    // properly afterwards.
    let mut load = Load::begin(worker.client(), 1, 7, snapshot.clone()).unwrap();
    load.garbage(&[9; 1000]);
    (0..100_000).for_each(|id| load.row(&account(id)));
    assert!(load.end().is_err());
    let mut client = worker.client();
    assert!(!client.status().tables.iter().any(|t| t.live));
}
