//! Subplans that occur twice in a plan are computed once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anker_olap::{Cancellation, Runtime, RuntimeOptions};
use colstore::CHUNK_ROWS;
use futures::{StreamExt, TryStreamExt};
use plan::{
    Agg, Aggregation, ArithOp, ColumnId, Computed, Expr, GroupingSets, JoinKind, Part, Plan, Rel, Relation,
    RelationColumn, Type,
};
use protocol::request::FailureKind;

use crate::build::{int, integer};
use crate::runtime::{numbers, stands_still};
use crate::table::{engine, rows, spilling_engine, tokio_runtime};

const BIG: Type = Type::Int64;
const CHUNKS: usize = 6;

fn column(id: u16) -> Expr {
    Expr::column(ColumnId(id))
}

/// The plan of: select n % modulus, count(*) group by 1. It has three columns, numbered from `first` on.
fn counted(modulus: i64, first: u16) -> Rel {
    let rest =
        Expr::Arith { op: ArithOp::Mod, ty: BIG, left: column(first).into(), right: integer(BIG, modulus).into() };
    Rel::Aggregate {
        input: Box::new(Rel::Scan { relation: 0, columns: vec![ColumnId(first)] }),
        keys: vec![Computed { column: ColumnId(first + 1), expr: rest }],
        aggregates: vec![Aggregation { columns: vec![ColumnId(first + 2)], agg: Agg::CountStar, distinct: false }],
    }
}

fn plan(root: Rel, output: &[u16]) -> Plan {
    let relations = vec![Relation::of_table(1, &[RelationColumn { attnum: 1, ty: BIG }])];
    let output = output.iter().map(|id| column(*id)).collect();
    Plan { relations, columns: vec![BIG; 16], params: vec![], root, output }
}

/// Groups, joined with the same groups once more. So they are read twice.
fn joined(modulus: i64) -> Plan {
    let same = vec![Expr::equal(column(1), column(5))];
    plan(counted(modulus, 0).join(JoinKind::Left, counted(modulus, 4), same), &[1, 2, 6])
}

#[test]
fn equal_groups_are_computed_once() {
    let plan = joined(100);
    let (view, read) = numbers(CHUNKS);
    let text = engine(2).explain(&plan, &[], vec![view.clone()]).unwrap();
    assert_eq!(text.matches("SharedRows: again").count(), 1, "{text}");
    assert_eq!(text.matches("ViewScan").count(), 1, "{text}");
    for threads in [1, 2, 3] {
        // Planning reads chunks for its statistics. Those reads are counted first, so that they can be subtracted.
        let before = read.load(Ordering::Relaxed);
        engine(threads).explain(&plan, &[], vec![view.clone()]).unwrap();
        let looked_at = read.load(Ordering::Relaxed) - before;
        let mut told =
            tokio_runtime().block_on(rows(&engine(threads), &plan, &[], std::slice::from_ref(&view))).unwrap();
        assert_eq!(read.load(Ordering::Relaxed) - before - 2 * looked_at, CHUNKS);
        told.sort_by_key(|row| row[0].as_ref().map(crate::table::int));
        let total: i64 = told.iter().map(|row| crate::table::int(row[1].as_ref().unwrap())).sum();
        assert_eq!((told.len(), total), (100, (CHUNKS * CHUNK_ROWS) as i64));
        for (i, row) in told.iter().enumerate() {
            assert_eq!(row[0], int(i as i64));
            assert_eq!(row[1], row[2]);
        }
    }
}

#[test]
fn other_groups_are_not_taken_for_the_same() {
    let same = vec![Expr::equal(column(1), column(5))];
    let plan = plan(counted(100, 0).join(JoinKind::Left, counted(50, 4), same), &[1, 2, 6]);
    let (view, _) = numbers(CHUNKS);
    let text = engine(2).explain(&plan, &[], vec![view]).unwrap();
    assert!(!text.contains("SharedRows"), "{text}");
}

/// The inputs of a union share a subplan. A union that reads one input to its end before it starts the next must not
/// wait for ever for the other readers of that subplan.
#[test]
fn readers_come_one_after_the_other() {
    let columns = vec![ColumnId(12), ColumnId(13)];
    let part = |first: u16| Part { rel: counted(7, first), exprs: vec![column(first + 1), column(first + 2)] };
    let inputs = vec![part(0), part(4), part(8)];
    let plan = plan(Rel::Union { columns, inputs }, &[12, 13]);
    for threads in [1, 2] {
        let (view, _) = numbers(CHUNKS);
        let told = tokio_runtime().block_on(rows(&engine(threads), &plan, &[], &[view])).unwrap();
        assert_eq!(told.len(), 3 * 7);
    }
}

#[test]
fn grouping_sets_join_once() {
    let scan = |id: u16| Rel::Scan { relation: 0, columns: vec![ColumnId(id)] };
    let key = |id: u16, of: u16| Computed { column: ColumnId(id), expr: column(of) };
    let grouping = GroupingSets {
        keys: vec![key(2, 0), key(3, 1)],
        sets: vec![vec![0], vec![1], vec![]],
        number: ColumnId(4),
        aggregates: vec![Aggregation { columns: vec![ColumnId(5)], agg: Agg::CountStar, distinct: false }],
    };
    let input = scan(0).join(JoinKind::Inner, scan(1), vec![Expr::equal(column(0), column(1))]);
    let root = Rel::GroupingSets { input: Box::new(input), grouping: Box::new(grouping) };
    let mut plan = plan(root, &[2, 3, 5]);
    plan.columns[4] = Type::Int32;
    let (view, _) = numbers(1);
    let text = engine(2).explain(&plan, &[], vec![view.clone()]).unwrap();
    assert_eq!(text.matches("HashJoin").count(), 1, "{text}");
    assert_eq!(text.matches("SharedRows: again").count(), 2, "{text}");
    let told = tokio_runtime().block_on(rows(&engine(2), &plan, &[], &[view])).unwrap();
    assert_eq!(told.len(), 2 * CHUNK_ROWS + 1);
    assert!(told.contains(&vec![None, None, int(CHUNK_ROWS as i64)]));
}

#[test]
fn memory_is_counted_and_given_back() {
    let plan = joined(20_000);
    let (view, _) = numbers(CHUNKS);
    let small = Runtime::new(RuntimeOptions { memory_bytes: 256 << 10, disk: None, threads: 2 });
    let failure = tokio_runtime().block_on(rows(&small, &plan, &[], std::slice::from_ref(&view))).unwrap_err();
    assert_eq!(failure.kind, FailureKind::OutOfMemory, "{failure:?}");
    assert_eq!(tokio_runtime().block_on(rows(&small, &joined(10), &[], &[view])).unwrap().len(), 10);
}

/// The same groups are read by three readers, one after the other, so they must be kept on disk.
#[test]
fn what_finds_no_memory_is_read_from_disk() {
    let columns = vec![ColumnId(12), ColumnId(13)];
    let part = |first: u16| Part { rel: counted(20_000, first), exprs: vec![column(first + 1), column(first + 2)] };
    let plan = plan(Rel::Union { columns, inputs: vec![part(0), part(4), part(8)] }, &[12, 13]);
    let (view, _) = numbers(CHUNKS);
    let sorted = |engine: &Runtime| {
        let mut told = tokio_runtime().block_on(rows(engine, &plan, &[], std::slice::from_ref(&view))).unwrap();
        told.sort_by_key(|row| row[0].as_ref().map(crate::table::int));
        told
    };
    let spilling = spilling_engine(2);
    assert_eq!(sorted(&spilling), sorted(&engine(2)));
    // Even computing the groups writes to disk. The query must write more, because it also keeps the finished groups
    // there.
    let once = spilling_engine(2);
    let alone = Plan { root: counted(20_000, 0), output: vec![column(1), column(2)], ..plan.clone() };
    assert_eq!(tokio_runtime().block_on(rows(&once, &alone, &[], &[view])).unwrap().len(), 20_000);
    assert!(spilling.spilled_bytes() > once.spilled_bytes(), "{} {}", spilling.spilled_bytes(), once.spilled_bytes());
}

#[test]
fn dropping_the_stream_stops_the_work() {
    let plan = joined(10);
    let (view, read) = numbers(1 << 30);
    tokio_runtime().block_on(async {
        let running = engine(2).start(&plan, &[], vec![view], &Cancellation::default()).await.unwrap();
        let mut batches = running.batches;
        assert!(tokio::time::timeout(Duration::from_millis(50), batches.next()).await.is_err());
        drop(batches);
        stands_still(&read).await;
    });
}

/// An error in a shared subplan reaches every reader.
#[test]
fn errors_are_told() {
    let plan = joined(0);
    let (view, _) = numbers(CHUNKS);
    let told = tokio_runtime().block_on(async {
        let running = engine(2).start(&plan, &[], vec![view], &Cancellation::default()).await?;
        running.batches.try_collect::<Vec<_>>().await.map_err(|e| Runtime::failure(&e))
    });
    assert_eq!(told.unwrap_err().kind, FailureKind::DivisionByZero);
}
