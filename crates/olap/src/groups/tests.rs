//! Groups with little memory against those with plenty.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::SortOptions;
use colstore::{CHUNK_ROWS, Chunk, OutOfMemory, TableView};
use datafusion_common::arrow::row::{RowConverter, SortField};
use futures::TryStreamExt;
use plan::catalogue::FloatAgg;
use plan::{Agg, Aggregation, ColumnId, Computed, Expr, FailureKind, Plan, Rel, Relation, RelationColumn, Type};
use protocol::request::Failure;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::spill::tests::path;
use crate::{Cancellation, DiskOptions, Runtime, RuntimeOptions};

const COLUMNS: [Type; 4] = [Type::Int64, Type::Float64, Type::Text, Type::Int64];

/// Rows by chance, the same for the same seed: a number, a float, a text, and a number again, each null at times.
#[derive(Debug)]
struct Made {
    seed: u64,
    chunks: usize,
    /// About so many different values.
    values: i64,
    types: Vec<Type>,
}

impl TableView for Made {
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
        let mut rng = StdRng::seed_from_u64(self.seed << 20 | index as u64);
        let mut numbers = || -> Vec<Option<i64>> {
            (0..CHUNK_ROWS).map(|_| rng.random_bool(0.99).then(|| rng.random_range(0..self.values))).collect()
        };
        let (keys, floats, texts, values) = (numbers(), numbers(), numbers(), numbers());
        let float = |i: i64| match i % 5 {
            0 => 0.0,
            1 => -0.0,
            2 => f64::NAN,
            _ => i as f64 / 8.0,
        };
        let text = |i: i64| format!("{}{i}", "ü".repeat(i as usize % 20));
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(keys)),
            Arc::new(Float64Array::from_iter(floats.into_iter().map(|i| i.map(float)))),
            Arc::new(StringViewArray::from_iter(texts.into_iter().map(|i| i.map(text)))),
            Arc::new(Int64Array::from(values)),
        ];
        Ok(Chunk { rows: CHUNK_ROWS, arrays, live: None })
    }
}

fn view(seed: u64, chunks: usize, values: i64) -> Arc<dyn TableView> {
    Arc::new(Made { seed, chunks, values, types: COLUMNS.to_vec() })
}

fn column(id: u16) -> Expr {
    Expr::column(ColumnId(id))
}

/// Groups by these columns; of aggregates all kinds, or one over distinct values.
fn plan(keys: &[u16], distinct: bool) -> Plan {
    let text = Expr::column(ColumnId(2));
    let (number, value) = (Expr::column(ColumnId(0)), Expr::column(ColumnId(3)));
    let numeric = Expr::Cast { to: Type::Numeric, arg: value.clone().into() };
    let aggs = match distinct {
        true => vec![(Agg::Count(text), true), (Agg::Sum(value), false)],
        false => vec![
            (Agg::CountStar, false),
            (Agg::Sum(value.clone()), false),
            (Agg::Min(text.clone()), false),
            (Agg::Max(text), false),
            (Agg::Sum(numeric), false),
            (Agg::Float(FloatAgg::Sum, Expr::Cast { to: Type::Float64, arg: number.into() }), false),
        ],
    };
    let mut columns = COLUMNS.to_vec();
    let mut next = |ty| {
        columns.push(ty);
        ColumnId(columns.len() as u16 - 1)
    };
    let computed: Vec<Computed> =
        keys.iter().map(|key| Computed { column: next(COLUMNS[*key as usize]), expr: column(*key) }).collect();
    let aggregates: Vec<Aggregation> = aggs
        .into_iter()
        .map(|(agg, distinct)| {
            let argument = match agg.arguments().first() {
                Some(Expr::Cast { to, .. }) => *to,
                Some(Expr::Column { id }) => COLUMNS[id.0 as usize],
                _ => Type::Int64,
            };
            let columns = agg.aggregate().row().output_types(argument).map(&mut next).collect();
            Aggregation { columns, agg, distinct }
        })
        .collect();
    let made = COLUMNS.len() as u16..columns.len() as u16;
    let relation: Vec<RelationColumn> =
        COLUMNS.iter().zip(1..).map(|(ty, attnum)| RelationColumn { attnum, ty: *ty }).collect();
    let scan = Rel::Scan { relation: 0, columns: (0..4).map(ColumnId).collect() };
    Plan {
        relations: vec![Relation::of_table(1, &relation)],
        root: Rel::Aggregate { input: Box::new(scan), keys: computed, aggregates },
        output: made.map(column).collect(),
        columns,
        params: vec![],
    }
}

fn runtime(threads: u32, memory_bytes: u64, disk: Option<(u64, u64, u64)>) -> Runtime {
    let disk = disk.map(|(limit_bytes, share_bytes, least_bytes)| DiskOptions {
        path: path(),
        limit_bytes,
        share_bytes,
        least_bytes,
    });
    Runtime::new(RuntimeOptions { memory_bytes, disk, threads })
}

async fn run(runtime: &Runtime, plan: &Plan, view: Arc<dyn TableView>) -> Result<Vec<RecordBatch>, Failure> {
    let running = runtime.start(plan, &[], vec![view], &Cancellation::default()).await?;
    running.batches.try_collect().await.map_err(|e| Runtime::failure(&e))
}

/// The rows' bytes, in their own order; which zero a group shows may differ.
fn rows(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let Some(first) = batches.first() else { return vec![] };
    let field = |array: &ArrayRef| SortField::new_with_options(array.data_type().clone(), SortOptions::default());
    let converter = RowConverter::new(first.columns().iter().map(field).collect()).unwrap();
    let zero = |array: &ArrayRef| -> ArrayRef {
        match array.as_any().downcast_ref::<Float64Array>() {
            Some(floats) => Arc::new(floats.iter().map(|f| f.map(|f| f + 0.0)).collect::<Float64Array>()),
            None => array.clone(),
        }
    };
    let mut all = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(zero).collect();
        all.extend(converter.convert_columns(&columns).unwrap().iter().map(|row| row.as_ref().to_vec()));
    }
    all.sort();
    all
}

fn nothing_is_left(runtime: &Runtime) {
    assert_eq!(runtime.disk.as_ref().unwrap().pages_in_use(), 0);
    assert_eq!(runtime.environment.memory_pool.reserved(), 0);
}

const PLENTY: u64 = 4 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_gives_the_same_groups() {
    let keys: [&[u16]; 6] = [&[0], &[2], &[0, 2], &[1, 0], &[1, 2, 3], &[3]];
    for (seed, keys) in (1..).zip(keys) {
        for (distinct, values) in [(false, 60_000), (true, 60_000), (false, 500)] {
            let plan = plan(keys, distinct);
            let expected = rows(&run(&runtime(2, PLENTY, None), &plan, view(seed, 24, values)).await.unwrap());
            for (threads, share) in [(1, 0), (2, 0), (3, 8 << 20)] {
                let little = runtime(threads, PLENTY, Some((1 << 30, share, 0)));
                let told = run(&little, &plan, view(seed, 24, values)).await.unwrap();
                assert!(told.iter().all(|batch| batch.num_rows() <= CHUNK_ROWS));
                assert!(rows(&told) == expected, "{keys:?} distinct={distinct} {values} {threads} {share}");
                let many = expected.len() > 50_000;
                assert!(little.spilled_bytes() > 0 || !many, "{keys:?} distinct={distinct} {values} {threads} {share}");
                nothing_is_left(&little);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_kept_to_over_several_levels() {
    // Some 700,000 groups of some hundred bytes.
    let plan = plan(&[0, 2], false);
    let expected = rows(&run(&runtime(2, PLENTY, None), &plan, view(7, 90, 1 << 40)).await.unwrap());
    assert!(expected.len() > 700_000);
    let little = runtime(2, 40 << 20, Some((1 << 30, 8 << 20, 2 << 20)));
    let told = rows(&run(&little, &plan, view(7, 90, 1 << 40)).await.unwrap());
    assert!(told == expected);
    // Each row goes to disk more than once, which takes more than one level.
    let once = 90 * CHUNK_ROWS as u64 * 100;
    assert!(little.spilled_bytes() > once, "{}", little.spilled_bytes());
    nothing_is_left(&little);
    let none = run(&runtime(2, 40 << 20, None), &plan, view(7, 90, 1 << 40)).await;
    assert_eq!(none.unwrap_err().kind, FailureKind::OutOfMemory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_the_disk_is_out_of_memory_before_the_first_row() {
    let plan = plan(&[0, 2], false);
    for limit in [0, 100 << 10, 5 << 20] {
        let little = runtime(2, PLENTY, Some((limit, 0, 0)));
        let running = little.start(&plan, &[], vec![view(8, 60, 1 << 40)], &Cancellation::default()).await.unwrap();
        let mut batches = running.batches;
        let failure = Runtime::failure(&batches.try_next().await.unwrap_err());
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        assert!(failure.message.contains("anker.query_disk"), "{failure:?}");
        drop(batches);
        // The other partition's task may take a moment to end.
        tokio::time::sleep(Duration::from_millis(200)).await;
        nothing_is_left(&little);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_of_one_group_need_memory() {
    // One group, whose values are all different.
    let grouped = plan(&[0], true);
    let little = runtime(2, 12 << 20, Some((1 << 30, 4 << 20, 1 << 20)));
    let one = run(&little, &grouped, Arc::new(Keyless(Made { seed: 9, chunks: 90, values: 1 << 40, types: COLUMNS.into() })));
    assert_eq!(one.await.unwrap_err().kind, FailureKind::OutOfMemory);
    tokio::time::sleep(Duration::from_millis(200)).await;
    nothing_is_left(&little);
}

/// The same, with one key.
#[derive(Debug)]
struct Keyless(Made);

impl TableView for Keyless {
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
        chunk.arrays[0] = Arc::new(Int64Array::from_value(1, CHUNK_ROWS));
        Ok(chunk)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_nobody_waits_for_leaves_nothing() {
    let plan = plan(&[0, 2], false);
    let mut ends = BTreeMap::new();
    for milliseconds in (0..400).step_by(40) {
        let little = runtime(2, PLENTY, Some((1 << 30, 0, 0)));
        let running = little.start(&plan, &[], vec![view(10, 200, 1 << 40)], &Cancellation::default()).await.unwrap();
        let query = tokio::spawn(running.batches.try_collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        query.abort();
        *ends.entry(query.await.is_err()).or_insert(0) += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
        nothing_is_left(&little);
    }
    assert!(ends[&true] >= 5, "{ends:?}");
}
