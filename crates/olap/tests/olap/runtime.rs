//! Tests of whole queries: the choice of operators, several threads, cancellation, and limits of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anker_olap::{Cancellation, Runtime, RuntimeOptions};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int16Array, Int64Array, StringViewArray};
use arrow_schema::DataType;
use colstore::{CHUNK_ROWS, Chunk, ChunkRows, OutOfMemory, TableView};
use futures::{StreamExt, TryStreamExt};
use plan::{Agg, CmpOp, Expr, JoinKind, Rel, Type};
use protocol::request::FailureKind;

use crate::build::{cmp, column, decimal, equal, float, int};
use crate::level::{AsPlan, Level};
use crate::table::{TestView, engine, grouping, plan_over, rows, tokio_runtime};

const BIG: Type = Type::Int64;

/// A table whose chunks are computed when they are read.
struct Made<F> {
    types: Vec<Type>,
    chunks: usize,
    read: Arc<AtomicUsize>,
    make: F,
}

impl<F> std::fmt::Debug for Made<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl<F: Fn(usize) -> Vec<ArrayRef> + Send + Sync> TableView for Made<F> {
    fn types(&self) -> &[Type] {
        &self.types
    }

    fn row_count(&self) -> u64 {
        (self.chunks * CHUNK_ROWS) as u64
    }

    fn chunk_count(&self) -> usize {
        self.chunks
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(Chunk { rows: CHUNK_ROWS, arrays: (self.make)(index), live: None })
    }

    fn rows(&self, _: usize) -> Result<ChunkRows, OutOfMemory> {
        Ok(ChunkRows { count: CHUNK_ROWS, live: None })
    }
}

/// A table with one column that numbers the rows, and a counter of the chunks that are read.
pub fn numbers(chunks: usize) -> (Arc<dyn TableView>, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let make = |index: usize| -> Vec<ArrayRef> {
        let first = (index * CHUNK_ROWS) as i64;
        vec![Arc::new(Int64Array::from_iter_values(first..first + CHUNK_ROWS as i64))]
    };
    (Arc::new(Made { types: vec![BIG], chunks, read: read.clone(), make }), read)
}

/// Waits until no more chunks are read. A reader that is in the middle of a chunk first finishes that chunk.
pub async fn stands_still(read: &AtomicUsize) {
    for _ in 0..200 {
        let before = read.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
        if read.load(Ordering::Relaxed) == before {
            return;
        }
    }
    panic!("the work goes on");
}

fn sum_plan() -> Level {
    let mut plan = plan_over(&[&[BIG]]);
    plan.grouping = grouping(vec![], vec![Agg::Sum(column(0, 0))]);
    plan
}

#[test]
fn equalities_become_hash_joins_that_the_largest_relation_streams_through() {
    let mut plan = plan_over(&[&[BIG], &[BIG], &[BIG]]);
    plan.filters = vec![equal(column(0, 0), column(1, 0)), equal(column(2, 0), column(1, 0))];
    plan.output = vec![column(0, 0)];
    let views: Vec<_> = [1, 50, 3].map(|chunks| numbers(chunks).0).into();
    let text = engine(2).explain(&plan.plan(), &[], views.clone()).unwrap();
    assert_eq!(text.matches("HashJoin").count(), 2, "{text}");
    assert!(!text.contains("CrossJoinExec"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.contains(&format!("rows={}", 50 * CHUNK_ROWS)), "{text}");
    let told = tokio_runtime().block_on(rows(&engine(2), &plan, &[], &views)).unwrap();
    assert_eq!(told.len(), CHUNK_ROWS);

    plan.filters.pop();
    let text = engine(2).explain(&plan.plan(), &[], views).unwrap();
    assert_eq!((text.matches("HashJoin").count(), text.matches("CrossJoinExec").count()), (1, 1), "{text}");
}

#[test]
fn small_relations_are_joined_among_themselves_first() {
    // Order lines, their orders, and the customers of the orders. Only one customer passes the filter.
    let mut plan = plan_over(&[&[BIG], &[BIG], &[BIG]]);
    let wanted = equal(column(2, 0), crate::build::integer(BIG, 3));
    plan.filters = vec![equal(column(0, 0), column(1, 0)), equal(column(1, 0), column(2, 0)), wanted];
    plan.output = vec![column(0, 0)];
    let views: Vec<_> = [50, 10, 5].map(|chunks| numbers(chunks).0).into();
    let text = engine(2).explain(&plan.plan(), &[], views.clone()).unwrap();
    let depth = |rows: usize| {
        let scan = text.lines().find(|line| line.contains(&format!("rows={}", rows * CHUNK_ROWS))).unwrap();
        scan.len() - scan.trim_start().len()
    };
    assert!(depth(50) < depth(10).min(depth(5)), "{text}");
    let told = tokio_runtime().block_on(rows(&engine(2), &plan, &[], &views)).unwrap();
    assert_eq!(told, vec![vec![int(3)]]);
}

#[test]
fn filters_run_where_the_rows_are_scanned() {
    let mut plan = plan_over(&[&[BIG, BIG], &[BIG]]);
    let selective = equal(column(0, 1), crate::build::integer(BIG, 3));
    plan.filters = vec![selective, equal(column(0, 0), column(1, 0))];
    plan.output = vec![column(1, 0)];
    let chunk = |i: usize| -> Vec<ArrayRef> {
        let array: ArrayRef = Arc::new(Int64Array::from_value(i as i64, CHUNK_ROWS));
        vec![array.clone(), array]
    };
    let pairs = Made { types: vec![BIG, BIG], chunks: 8, read: Arc::default(), make: chunk };
    let text = engine(2).explain(&plan.plan(), &[], vec![Arc::new(pairs), numbers(8).0]).unwrap();
    let (join, filter) = (text.find("HashJoin").unwrap(), text.find("filter=x1@0 = 3").unwrap());
    assert!(join < filter && !text.contains("FilterExec"), "{text}");
}

#[test]
fn large_builds_are_one_table_of_all_threads() {
    let mut plan = plan_over(&[&[BIG], &[BIG]]);
    plan.filters = vec![equal(column(0, 0), column(1, 0))];
    plan.grouping = grouping(vec![], vec![Agg::CountStar, Agg::Sum(column(1, 0))]);
    let views = vec![numbers(60).0, numbers(40).0];
    let text = engine(2).explain(&plan.plan(), &[], views.clone()).unwrap();
    assert!(!text.contains("Repartition"), "{text}");
    let count = (40 * CHUNK_ROWS) as i64;
    let sum = (count as i128) * (count as i128 - 1) / 2;
    for threads in [1, 2, 3] {
        let told = tokio_runtime().block_on(rows(&engine(threads), &plan, &[], &views)).unwrap();
        assert_eq!(told, vec![vec![int(count), decimal(sum)]]);
    }
}

#[test]
fn groups_of_one_row_each_skip_the_partial_phase() {
    let mut plan = plan_over(&[&[BIG, Type::Float64, Type::Int16]]);
    let aggregates = [1, 2].map(|c| Agg::Max(column(0, c))).into_iter();
    plan.grouping =
        grouping(vec![column(0, 0)], aggregates.chain([Agg::Avg(column(0, 0)), Agg::Sum(column(0, 2))]).collect());
    let make = |index: usize| -> Vec<ArrayRef> {
        let first = index * CHUNK_ROWS;
        let rows = first as i64..(first + CHUNK_ROWS) as i64;
        let odd = |row: &i64| row % 2 == 1;
        vec![
            Arc::new(Int64Array::from_iter_values(rows.clone())),
            Arc::new(rows.clone().map(|row| odd(&row).then_some(-0.0)).collect::<Float64Array>()),
            Arc::new(rows.map(|row| odd(&row).then_some(5)).collect::<Int16Array>()),
        ]
    };
    let types = vec![BIG, Type::Float64, Type::Int16];
    let view: Arc<dyn TableView> = Arc::new(Made { types, chunks: 40, read: Arc::default(), make });
    let mut told = tokio_runtime().block_on(rows(&engine(2), &plan, &[], &[view])).unwrap();
    told.sort_by_key(|row| row[0].as_ref().map(crate::table::int));
    assert_eq!(told.len(), 40 * CHUNK_ROWS);
    for (i, row) in told.into_iter().enumerate() {
        let if_odd = |value| if i % 2 == 1 { value } else { None };
        let (float, small, sum) = (if_odd(float(-0.0)), if_odd(int(5)), if_odd(int(5)));
        assert_eq!(row, vec![int(i as i64), float, small, decimal(i as i128), int(1), sum]);
    }
}

#[test]
fn a_table_joins_itself() {
    let mut plan = plan_over(&[&[BIG], &[BIG]]);
    let next = Expr::Arith {
        op: plan::ArithOp::Add,
        ty: BIG,
        left: column(0, 0).into(),
        right: crate::build::integer(BIG, 1).into(),
    };
    plan.filters = vec![equal(next, column(1, 0))];
    plan.grouping = grouping(vec![], vec![Agg::CountStar]);
    let (view, _) = numbers(3);
    let told = tokio_runtime().block_on(rows(&engine(2), &plan, &[], &[view.clone(), view])).unwrap();
    assert_eq!(told, vec![vec![int(3 * CHUNK_ROWS as i64 - 1)]]);
}

#[test]
fn dropping_the_stream_stops_the_work() {
    for threads in [1, 2] {
        let (view, read) = numbers(1 << 30);
        tokio_runtime().block_on(async {
            let running =
                engine(threads).start(&sum_plan().plan(), &[], vec![view], &Cancellation::default()).await.unwrap();
            let mut batches = running.batches;
            let pending = tokio::time::timeout(Duration::from_millis(50), batches.next()).await;
            assert!(pending.is_err(), "a sum over 10^13 rows was ready");
            while read.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            drop(batches);
            stands_still(&read).await;
        });
    }
}

#[test]
fn a_join_that_explodes_can_be_dropped() {
    // Two joins that make many pairs: one finds partners by a key, the other in sorted rows. And a join that tests many
    // pairs, of which none is a result.
    for (shape, op) in [("HashJoin", CmpOp::Eq), ("RangeJoin", CmpOp::Ge), ("CrossJoin", CmpOp::Ne)] {
        let mut plan = plan_over(&[&[BIG, BIG], &[BIG, BIG]]);
        plan.grouping = grouping(vec![], vec![Agg::Sum(column(0, 0))]);
        plan.filters = vec![cmp(op, column(0, 1), column(1, 1))];
        let view = || -> Arc<dyn TableView> {
            let constant = |_: usize| -> Vec<ArrayRef> {
                let array: ArrayRef = Arc::new(Int64Array::from_value(1, CHUNK_ROWS));
                vec![array.clone(), array]
            };
            Arc::new(Made { types: vec![BIG, BIG], chunks: 40, read: Arc::default(), make: constant })
        };
        let shown = engine(1).explain(&plan.plan(), &[], vec![view(), view()]).unwrap();
        assert!(shown.contains(shape), "{shown}");
        // There is only one thread. So the timer can fire only if the query yields the thread.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let start = std::time::Instant::now();
        runtime.block_on(async {
            let running =
                engine(1).start(&plan.plan(), &[], vec![view(), view()], &Cancellation::default()).await.unwrap();
            let pending = tokio::time::timeout(Duration::from_millis(100), running.batches.try_collect::<Vec<_>>());
            assert!(pending.await.is_err(), "{shape} was ready");
        });
        assert!(start.elapsed() < Duration::from_secs(5), "{shape} held its thread for {:?}", start.elapsed());
    }
}

#[test]
fn a_join_of_all_pairs_ends_when_it_is_cancelled() {
    let different = cmp(CmpOp::Ne, column(0, 0), column(1, 0));
    for kind in [JoinKind::Left, JoinKind::Anti] {
        let mut plan = plan_over(&[&[BIG, BIG], &[BIG, BIG]]).plan().into_owned();
        if let Rel::Join { kind: joined, conditions, .. } = &mut plan.root {
            (*joined, *conditions) = (kind, vec![different.clone()]);
        }
        plan.output.clear();
        let view = || -> Arc<dyn TableView> {
            let constant = |_: usize| -> Vec<ArrayRef> {
                let array: ArrayRef = Arc::new(Int64Array::from_value(1, CHUNK_ROWS));
                vec![array.clone(), array]
            };
            Arc::new(Made { types: vec![BIG, BIG], chunks: 60, read: Arc::default(), make: constant })
        };
        tokio_runtime().block_on(async {
            let cancellation = Cancellation::default();
            let running = engine(2).start(&plan, &[], vec![view(), view()], &cancellation).await.unwrap();
            let query = tokio::spawn(running.batches.try_collect::<Vec<_>>());
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!query.is_finished());
            cancellation.cancel();
            let ended = tokio::time::timeout(Duration::from_secs(10), query).await;
            assert!(ended.expect("it goes on").unwrap().is_err());
        });
    }
}

#[test]
fn a_long_query_leaves_its_thread_to_others() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (view, _) = numbers(1 << 30);
        let running = engine(1).start(&sum_plan().plan(), &[], vec![view], &Cancellation::default()).await.unwrap();
        let query = tokio::spawn(running.batches.try_collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(20)).await;
        query.abort();
        assert!(query.await.unwrap_err().is_cancelled());
    });
}

fn failure_of(threads: u32, memory_bytes: u64, plan: &Level, views: Vec<Arc<dyn TableView>>) -> FailureKind {
    let engine = Runtime::new(RuntimeOptions { memory_bytes, disk: None, threads });
    let told = tokio_runtime().block_on(crate::table::batches(&engine, plan, &[], &views));
    told.map(|batches| batches.len()).unwrap_err().kind
}

#[test]
fn groups_beyond_the_memory_limit_are_an_error() {
    let mut plan = plan_over(&[&[BIG]]);
    plan.grouping = grouping(vec![column(0, 0)], vec![Agg::Sum(column(0, 0)), Agg::Max(column(0, 0))]);
    for threads in [1, 2] {
        assert_eq!(failure_of(threads, 1 << 20, &plan, vec![numbers(200).0]), FailureKind::OutOfMemory);
    }
}

#[test]
fn text_groups_beyond_the_memory_limit_are_an_error() {
    let mut plan = plan_over(&[&[Type::Text]]);
    plan.grouping = grouping(vec![column(0, 0)], vec![Agg::CountStar]);
    let make = |index: usize| -> Vec<ArrayRef> {
        let texts = (0..CHUNK_ROWS).map(|i| format!("a text with the number {index} and {i}"));
        vec![Arc::new(StringViewArray::from_iter_values(texts))]
    };
    let view = Made { types: vec![Type::Text], chunks: 50, read: Arc::default(), make };
    assert_eq!(failure_of(2, 1 << 20, &plan, vec![Arc::new(view)]), FailureKind::OutOfMemory);
}

#[test]
fn a_build_side_beyond_the_memory_limit_is_an_error() {
    let mut plan = plan_over(&[&[BIG], &[BIG]]);
    plan.filters = vec![equal(column(0, 0), column(1, 0))];
    plan.grouping = grouping(vec![], vec![Agg::CountStar]);
    for chunks in [10, 100] {
        let views = vec![numbers(200).0, numbers(chunks).0];
        assert_eq!(failure_of(2, 1 << 17, &plan, views), FailureKind::OutOfMemory);
    }
    // A cross join also keeps one side in memory, but only the columns that the query reads.
    plan.filters.clear();
    let views = || vec![numbers(1).0, numbers(2).0];
    let little = Runtime::new(RuntimeOptions { memory_bytes: 1 << 15, disk: None, threads: 2 });
    let counted = tokio_runtime().block_on(rows(&little, &plan, &[], &views())).unwrap();
    assert_eq!(counted, [[int((2 * CHUNK_ROWS * CHUNK_ROWS) as i64)]]);
    plan.grouping = grouping(vec![], vec![Agg::Max(column(0, 0)), Agg::Max(column(1, 0))]);
    assert_eq!(failure_of(2, 1 << 15, &plan, views()), FailureKind::OutOfMemory);
}

#[test]
fn memory_is_given_back() {
    let engine = Runtime::new(RuntimeOptions { memory_bytes: 4 << 20, disk: None, threads: 2 });
    let mut plan = plan_over(&[&[BIG]]);
    plan.grouping = grouping(vec![column(0, 0)], vec![Agg::CountStar]);
    let runtime = tokio_runtime();
    for _ in 0..30 {
        let told = runtime.block_on(rows(&engine, &plan, &[], &[numbers(4).0])).unwrap();
        assert_eq!(told.len(), 4 * CHUNK_ROWS);
    }
}

#[test]
fn a_panic_below_is_an_internal_failure() {
    for threads in [1, 2] {
        let make = |index: usize| -> Vec<ArrayRef> {
            assert!(index < 7, "there is no chunk {index}");
            vec![Arc::new(Int64Array::from(vec![1; CHUNK_ROWS]))]
        };
        let view: Arc<dyn TableView> = Arc::new(Made { types: vec![BIG], chunks: 12, read: Arc::default(), make });
        let told = tokio_runtime().block_on(rows(&engine(threads), &sum_plan(), &[], &[view]));
        let failure = told.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Internal);
        assert!(failure.message.contains("there is no chunk"), "{failure:?}");
    }
}

#[test]
fn a_grouped_query_fails_before_its_first_batch_or_not_at_all() {
    // One of many groups has a sum that is too large. Only one partition of the last phase meets the error.
    let wide = Type::Decimal128 { scale: 0 };
    let mut plan = plan_over(&[&[BIG, wide]]);
    plan.grouping = grouping(vec![column(0, 0)], vec![Agg::Sum(column(0, 1))]);
    let make = |index: usize| -> Vec<ArrayRef> {
        let keys = (0..CHUNK_ROWS as i64).map(|i| i * 1_000_003);
        let values = (0..CHUNK_ROWS).map(|i| if i == 4711 { i128::MAX / 8 } else { index as i128 });
        let values = Decimal128Array::from_iter_values(values).with_data_type(DataType::Decimal128(38, 0));
        vec![Arc::new(Int64Array::from_iter_values(keys)), Arc::new(values)]
    };
    for attempt in 0..20 {
        let view: Arc<dyn TableView> =
            Arc::new(Made { types: vec![BIG, wide], chunks: 12, read: Arc::default(), make });
        tokio_runtime().block_on(async {
            let mut running =
                engine(2 + attempt % 3).start(&plan.plan(), &[], vec![view], &Cancellation::default()).await.unwrap();
            let first = running.batches.next().await.unwrap();
            assert_eq!(Runtime::failure(&first.unwrap_err()).kind, FailureKind::DecimalTooWide);
        });
    }
}

#[test]
fn many_queries_at_once() {
    let engine = Arc::new(engine(2));
    tokio_runtime().block_on(async {
        let queries: Vec<_> = (0..32)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { rows(&engine, &sum_plan(), &[], &[numbers(10).0]).await })
            })
            .collect();
        let n = 10 * CHUNK_ROWS as i128;
        for query in queries {
            assert_eq!(query.await.unwrap().unwrap(), vec![vec![decimal(n * (n - 1) / 2)]]);
        }
    });
}

#[test]
fn masked_rows_are_not_there() {
    let live = |i: usize| i.is_multiple_of(3);
    let types = [BIG];
    let rows_of = |i: i64| (0..5).map(|j| vec![int(i * 5 + j)]).collect::<Vec<_>>();
    let chunks = (0..10).map(|i| crate::table::chunk(&types, &rows_of(i), Some((0..5).map(live).collect())));
    let view = TestView::of_chunks(types.to_vec(), chunks.collect());
    let told = tokio_runtime().block_on(rows(&engine(2), &sum_plan(), &[], &[view])).unwrap();
    let expected: i128 = (0..10).flat_map(|i| [i * 5, i * 5 + 3]).sum();
    assert_eq!(told, vec![vec![decimal(expected)]]);
}
