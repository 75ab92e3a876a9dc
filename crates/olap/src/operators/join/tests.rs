//! Joins that use the disk are compared with joins in memory, and joins by limits with joins that compare all pairs.
//! The interpreter's tests show that joins which compare all pairs are right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use colstore::{CHUNK_ROWS, Chunk, OutOfMemory, TableView};
use futures::TryStreamExt;
use plan::{Agg, Aggregation, CmpOp, ColumnId, Expr, JoinKind, Plan, Rel, Relation, RelationColumn, Type};
use protocol::request::{Failure, FailureKind};

use crate::spill::testing::{COLUMNS, Made, PLENTY, nothing_is_left, rows, runtime, view};
use crate::{Cancellation, Runtime};

const KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Full, JoinKind::Semi, JoinKind::Anti, JoinKind::Mark(ColumnId(8))];

fn column(id: u16) -> Expr {
    Expr::column(ColumnId(id))
}

/// A join of two tables of four columns, whose columns `keys` must be equal. With `less`, the last column of the first
/// table must also be less than the last column of the second table.
fn plan(kind: JoinKind, keys: &[u16], less: bool) -> Plan {
    let relation: Vec<RelationColumn> =
        COLUMNS.iter().zip(1..).map(|(ty, attnum)| RelationColumn { attnum, ty: *ty }).collect();
    let scan =
        |number: u16| Rel::Scan { relation: number, columns: (number * 4..number * 4 + 4).map(ColumnId).collect() };
    let mut conditions: Vec<Expr> = keys.iter().map(|key| Expr::equal(column(*key), column(key + 4))).collect();
    if less {
        conditions.push(Expr::Cmp { op: CmpOp::Lt, left: Box::new(column(3)), right: Box::new(column(7)) });
    }
    let root = scan(0).join(kind, scan(1), conditions);
    Plan {
        relations: vec![Relation::of_table(1, &relation), Relation::of_table(2, &relation)],
        columns: [&COLUMNS[..], &COLUMNS[..], &[Type::Bool]].concat(),
        params: vec![],
        output: root.columns().into_iter().map(Expr::column).collect(),
        root,
    }
}

async fn run(runtime: &Runtime, plan: &Plan, views: &[Arc<dyn TableView>; 2]) -> Result<Vec<RecordBatch>, Failure> {
    let running = runtime.start(plan, &[], views.to_vec(), &Cancellation::default()).await?;
    running.batches.try_collect().await.map_err(|e| Runtime::failure(&e))
}

async fn in_memory(plan: &Plan, views: &[Arc<dyn TableView>; 2]) -> Vec<Vec<u8>> {
    rows(&run(&runtime(1, PLENTY, None), plan, views).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_gives_the_same_rows() {
    let keys: [(&[u16], i64); 4] = [(&[0], 20_000), (&[2], 20_000), (&[0, 3], 150), (&[1, 2], 2000)];
    for (seed, kind) in (1..).zip(KINDS) {
        for (at, (keys, values)) in keys.into_iter().enumerate() {
            for (left, right, other) in [(4, 9, 0), (9, 3, 1)] {
                let less = (seed as usize + at + other).is_multiple_of(2);
                let plan = plan(kind, keys, less);
                let views = [view(seed, left, values), view(seed + 100, right, values)];
                let expected = in_memory(&plan, &views).await;
                let little = runtime(2, PLENTY, Some((1 << 30, 0, 0)));
                let told = run(&little, &plan, &views).await.unwrap();
                assert!(rows(&told) == expected, "{kind:?} {keys:?} {less} {left} {right}");
                assert!(little.spilled_bytes() > 0);
                nothing_is_left(&little).await;
            }
        }
    }
}

/// Random rows with other keys: one row in this many has the key 7, and every other row has a key of its own.
#[derive(Debug)]
struct Skewed(Made, usize);

impl TableView for Skewed {
    fn types(&self) -> &[Type] {
        self.0.types()
    }

    fn row_count(&self) -> u64 {
        self.0.row_count()
    }

    fn chunk_count(&self) -> usize {
        self.0.chunk_count()
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        let mut chunk = self.0.chunk(index)?;
        let key = |row: usize| {
            if row.is_multiple_of(self.1) { Some(7) } else { Some(((index * CHUNK_ROWS + row) * 1000) as i64) }
        };
        let keys: ArrayRef = Arc::new(Int64Array::from_iter((0..CHUNK_ROWS).map(key)));
        chunk.arrays[0] = keys;
        Ok(chunk)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_more_rows_than_memory_is_joined_in_passes() {
    let skewed = |seed, chunks, every| -> Arc<dyn TableView> {
        Arc::new(Skewed(Made { seed, chunks, values: 1000, types: COLUMNS.to_vec() }, every))
    };
    for (seed, kind) in (20..).zip(KINDS) {
        for less in [false, true] {
            let plan = plan(kind, &[0], less);
            // About 20,000 rows have the key on the smaller side, and 10 on the other side.
            for views in
                [[skewed(seed, 5, 2), skewed(seed + 100, 6, 5000)], [skewed(seed, 6, 5000), skewed(seed + 100, 5, 2)]]
            {
                let expected = in_memory(&plan, &views).await;
                let little = runtime(2, PLENTY, Some((1 << 30, 0, 0)));
                let told = run(&little, &plan, &views).await.unwrap();
                assert!(rows(&told) == expected, "{kind:?} {less}");
                nothing_is_left(&little).await;
            }
        }
    }
}

/// `SELECT count(*), sum(number) FROM a JOIN b`.
fn totals(keys: &[u16]) -> Plan {
    let mut plan = plan(JoinKind::Inner, keys, false);
    plan.columns.extend([Type::Int64, Type::Decimal128 { scale: 0 }]);
    let aggregation = |id, agg| Aggregation { columns: vec![ColumnId(id)], agg, distinct: false };
    let aggregates = vec![aggregation(9, Agg::CountStar), aggregation(10, Agg::Sum(column(3)))];
    plan.root = Rel::Aggregate { input: Box::new(plan.root), keys: vec![], aggregates };
    plan.output = vec![column(9), column(10)];
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_kept_to() {
    let plan = totals(&[0, 2]);
    let views = [view(40, 60, 1 << 40), view(40, 60, 1 << 40)];
    let expected = in_memory(&plan, &views).await;
    // Each side has about 30 MB.
    let little = runtime(2, 24 << 20, Some((1 << 30, 8 << 20, 1 << 20)));
    assert!(rows(&run(&little, &plan, &views).await.unwrap()) == expected);
    assert!(little.spilled_bytes() > 40 << 20, "{}", little.spilled_bytes());
    nothing_is_left(&little).await;
    let none = run(&runtime(2, 24 << 20, None), &plan, &views).await;
    assert_eq!(none.unwrap_err().kind, FailureKind::OutOfMemory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_the_disk_is_out_of_memory_before_the_first_row() {
    for kind in KINDS {
        let plan = plan(kind, &[0, 2], false);
        for limit in [0, 100 << 10, 5 << 20] {
            let little = runtime(2, PLENTY, Some((limit, 0, 0)));
            let views = vec![view(8, 30, 1 << 40), view(8, 40, 1 << 40)];
            let running = little.start(&plan, &[], views, &Cancellation::default()).await.unwrap();
            let mut batches = running.batches;
            let failure = Runtime::failure(&batches.try_next().await.unwrap_err());
            assert_eq!(failure.kind, FailureKind::OutOfMemory);
            assert!(failure.message.contains("anker.query_disk"), "{failure:?}");
            drop(batches);
            nothing_is_left(&little).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_nobody_waits_for_leaves_nothing() {
    let mut ends = BTreeMap::new();
    for (milliseconds, kind) in (0..480).step_by(40).zip(KINDS.into_iter().cycle()) {
        let little = runtime(2, PLENTY, Some((1 << 30, 0, 0)));
        let views = vec![view(10, 90, 1 << 40), view(11, 100, 1 << 40)];
        let plan = plan(kind, &[0], false);
        let running = little.start(&plan, &[], views, &Cancellation::default()).await.unwrap();
        let query = tokio::spawn(running.batches.try_collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        query.abort();
        *ends.entry(query.await.is_err()).or_insert(0) += 1;
        nothing_is_left(&little).await;
    }
    assert!(ends[&true] >= 1, "{ends:?}");
}

/// Nested joins that all put rows on disk, with groups above them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_within_joins_put_rows_on_disk() {
    let mut plan = plan(JoinKind::Left, &[0], false);
    plan.relations.push(plan.relations[0].clone());
    plan.columns.extend(COLUMNS);
    let third = Rel::Scan { relation: 2, columns: (9..13).map(ColumnId).collect() };
    plan.root = plan.root.join(JoinKind::Full, third, vec![Expr::equal(column(6), column(11))]);
    plan.output = plan.root.columns().into_iter().map(Expr::column).collect();
    let views = vec![view(50, 4, 30_000), view(51, 5, 30_000), view(52, 6, 30_000)];
    let all = |runtime: Runtime| {
        let (plan, views) = (plan.clone(), views.clone());
        async move {
            let running = runtime.start(&plan, &[], views, &Cancellation::default()).await.unwrap();
            (rows(&running.batches.try_collect::<Vec<_>>().await.unwrap()), runtime)
        }
    };
    let (expected, _) = all(runtime(1, PLENTY, None)).await;
    for threads in [1, 2, 3] {
        let (told, little) = all(runtime(threads, PLENTY, Some((1 << 30, 0, 0)))).await;
        assert!(told == expected, "{threads}");
        nothing_is_left(&little).await;
    }
}

/// Two columns, and the comparison between them.
type Compared = (u16, u16, CmpOp);

/// `a op b`; with `all_pairs`, in a negated form by which no partner can be looked up.
fn below(a: Expr, b: Expr, op: CmpOp, all_pairs: bool) -> Expr {
    let op = match (op, all_pairs) {
        (CmpOp::Lt, true) => CmpOp::Ge,
        (CmpOp::Le, true) => CmpOp::Gt,
        (CmpOp::Eq, true) => CmpOp::Ne,
        (op, _) => op,
    };
    let compared = Expr::Cmp { op, left: Box::new(a), right: Box::new(b) };
    if all_pairs { Expr::Not(Box::new(compared)) } else { compared }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_give_the_rows_that_all_pairs_give() {
    // Comparisons of numbers, floats, texts, and numbers again.
    let limits: [&[Compared]; 6] = [
        &[(3, 7, CmpOp::Lt)],
        &[(3, 7, CmpOp::Eq), (4, 0, CmpOp::Le), (2, 6, CmpOp::Lt)],
        &[(0, 4, CmpOp::Le), (7, 3, CmpOp::Lt)],
        &[(1, 5, CmpOp::Lt), (4, 0, CmpOp::Le)],
        &[(2, 6, CmpOp::Le), (7, 3, CmpOp::Le), (4, 0, CmpOp::Lt)],
        &[(5, 1, CmpOp::Le)],
    ];
    for (seed, kind) in (60..).zip(KINDS).filter(|(_, kind)| *kind != JoinKind::Full) {
        for limits in limits {
            for (left, right) in [(1, 2), (2, 1), (0, 1), (1, 0)] {
                // Where there is an equality, many rows share their key.
                let values = if limits.iter().any(|(.., op)| *op == CmpOp::Eq) { 100 } else { 3000 };
                let views = [view(seed, left, values), view(seed + 100, right, values)];
                let told = async |all_pairs, runtime: Runtime| {
                    let mut plan = plan(kind, &[], false);
                    let conditions = limits.iter().map(|(a, b, op)| below(column(*a), column(*b), *op, all_pairs));
                    // The rows are few enough for all pairs to be compared.
                    let few = Expr::Cmp {
                        op: CmpOp::Lt,
                        left: Box::new(Expr::Arith {
                            op: plan::ArithOp::Mod,
                            ty: COLUMNS[3],
                            left: Box::new(column(3)),
                            right: Box::new(Expr::Literal { ty: COLUMNS[3], value: Some(plan::Literal::Int(499)) }),
                        }),
                        right: Box::new(Expr::Literal { ty: COLUMNS[3], value: Some(plan::Literal::Int(1)) }),
                    };
                    if let Rel::Join { conditions: all, left, .. } = &mut plan.root {
                        all.extend(conditions);
                        let input = std::mem::replace(left, Box::new(Rel::Row));
                        **left = Rel::Filter { input, conditions: vec![few] };
                    }
                    run(&runtime, &plan, &views).await.map(|told| rows(&told))
                };
                let expected = told(true, runtime(1, PLENTY, None)).await.unwrap();
                for threads in [1, 2] {
                    let found = told(false, runtime(threads, PLENTY, None)).await.unwrap();
                    assert!(found == expected, "{kind:?} {limits:?} {left} {right}");
                }
            }
        }
    }
}

/// For each row of the first table, its first partners in the second table, in the order of column `by`. One of the
/// conditions compares this column.
fn nearest(
    conditions: &[(u16, u16, CmpOp)],
    by: u16,
    descending: bool,
    count: i64,
    ties: bool,
    all_pairs: bool,
) -> Plan {
    let mut plan = plan(JoinKind::Inner, &[], false);
    if let Rel::Join { conditions: all, .. } = &mut plan.root {
        all.extend(conditions.iter().map(|(a, b, op)| below(column(*a), column(*b), *op, all_pairs)));
    }
    let key = |id: u16, descending| plan::SortKey { descending, ..plan::SortKey::ascending(column(id)) };
    // Without ties, the order must decide between equal values, so that the result is unique.
    let others = (4..8).map(|id| key(id, false));
    let order = [key(by, descending)].into_iter().chain(others.filter(|_| !ties)).collect();
    let count = Some(Expr::Literal { ty: Type::Int64, value: Some(plan::Literal::Int(count)) });
    let range = Box::new(plan::Range { offset: None, count, ties });
    plan.root = Rel::Top { input: Box::new(plan.root), keys: (0..4).map(column).collect(), order, range };
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nearest_partners_are_those_of_all_pairs() {
    let conditions: [(&[Compared], u16); 4] = [
        (&[(4, 0, CmpOp::Le), (3, 7, CmpOp::Eq)], 4),
        (&[(0, 4, CmpOp::Lt), (3, 7, CmpOp::Eq), (2, 6, CmpOp::Le)], 4),
        (&[(1, 5, CmpOp::Lt), (3, 7, CmpOp::Eq), (4, 0, CmpOp::Lt)], 5),
        (&[(6, 2, CmpOp::Le), (3, 7, CmpOp::Eq)], 6),
    ];
    for (seed, (conditions, by)) in (80..).zip(conditions) {
        for (values, count, ties) in [(100, 1, false), (300, 3, true), (3000, 2, false)] {
            let views = [view(seed, 1, values), view(seed + 100, 1, values)];
            for descending in [false, true] {
                let plan = |all_pairs| nearest(conditions, by, descending, count, ties, all_pairs);
                let expected = in_memory(&plan(true), &views).await;
                assert!(!expected.is_empty());
                for threads in [1, 2] {
                    let told = run(&runtime(threads, PLENTY, None), &plan(false), &views).await.unwrap();
                    assert!(rows(&told) == expected, "{conditions:?} {values} {count} {ties} {descending}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sorted_has_to_fit_into_memory() {
    let plan = totals(&[]);
    let Plan { root: Rel::Aggregate { input, .. }, .. } = &plan else { panic!("{plan:?}") };
    let mut joined = (**input).clone();
    if let Rel::Join { conditions, .. } = &mut joined {
        conditions.push(below(column(3), column(7), CmpOp::Lt, false));
    }
    let plan = Plan { output: vec![column(0)], root: joined, ..plan };
    let little = runtime(2, 4 << 20, Some((1 << 30, 1 << 20, 1 << 20)));
    let failure = run(&little, &plan, &[view(70, 60, 1 << 40), view(71, 60, 1 << 40)]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    nothing_is_left(&little).await;
}
