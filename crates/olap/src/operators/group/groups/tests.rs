//! Compares the groups that are made with little memory with those that are made with plenty.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::Int64Array;
use colstore::{CHUNK_ROWS, Chunk, OutOfMemory, TableView};
use futures::TryStreamExt;
use plan::catalogue::FloatAgg;
use plan::{
    Agg, Aggregation, ColumnId, Computed, Element, Expr, FailureKind, Listed, Listing, Literal, Plan, Rel, Relation,
    RelationColumn, SortKey, Type,
};

use crate::spill::testing::{COLUMNS, Made, PLENTY, nothing_is_left, rows, run, runtime, view};
use crate::{Cancellation, Runtime};

fn column(id: u16) -> Expr {
    Expr::column(ColumnId(id))
}

/// The aggregates of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Totals,
    Distinct,
    Lists,
}

/// A list aggregate whose order leaves only the order among equal values open.
fn list(of: Listing, arguments: Vec<Expr>, element: Option<Element>) -> Agg {
    let order = vec![SortKey { descending: true, ..SortKey::ascending(arguments[0].clone()) }];
    Agg::Listed(Box::new(Listed::new(of, arguments, order, element)))
}

/// Groups by these columns.
fn plan(keys: &[u16], asked: Asked) -> Plan {
    let text = Expr::column(ColumnId(2));
    let (number, value) = (Expr::column(ColumnId(0)), Expr::column(ColumnId(3)));
    let numeric = Expr::Cast { to: Type::Numeric, arg: value.clone().into() };
    let constant = |ty, value| Expr::Literal { ty, value: Some(value) };
    let aggs = match asked {
        Asked::Distinct => vec![(Agg::Count(text), true), (Agg::Sum(value), false)],
        Asked::Lists => {
            let element = Element { oid: 20, align: 8, length: Some(8), padded: 0 };
            let comma = constant(Type::Text, Literal::Text(",".into()));
            let half = constant(Type::Float64, Literal::Float(0.5));
            vec![
                (list(Listing::Joined, vec![text.clone(), comma], None), true),
                (
                    list(Listing::Array, vec![value.clone(), constant(Type::Bool, Literal::Bool(true))], Some(element)),
                    false,
                ),
                (list(Listing::Discrete, vec![text, half], None), false),
                (list(Listing::Mode, vec![value], None), false),
                (Agg::CountStar, false),
            ]
        }
        Asked::Totals => vec![
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_gives_the_same_groups() {
    let keys: [&[u16]; 6] = [&[0], &[2], &[0, 2], &[1, 0], &[1, 2, 3], &[3]];
    for (seed, keys) in (1..).zip(keys) {
        for (asked, values) in
            [(Asked::Totals, 60_000), (Asked::Distinct, 60_000), (Asked::Lists, 60_000), (Asked::Totals, 500)]
        {
            let plan = plan(keys, asked);
            let expected = rows(&run(&runtime(2, PLENTY, None), &plan, view(seed, 24, values)).await.unwrap());
            for (threads, share) in [(1, 0), (2, 0), (3, 8 << 20)] {
                let little = runtime(threads, PLENTY, Some((1 << 30, share, 0)));
                let told = run(&little, &plan, view(seed, 24, values)).await.unwrap();
                assert!(told.iter().all(|batch| batch.num_rows() <= CHUNK_ROWS));
                assert!(rows(&told) == expected, "{keys:?} {asked:?} {values} {threads} {share}");
                let many = expected.len() > 50_000;
                assert!(little.spilled_bytes() > 0 || !many, "{keys:?} {asked:?} {values} {threads} {share}");
                nothing_is_left(&little).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_kept_to_over_several_levels() {
    // About 700,000 groups of a hundred bytes or so.
    let plan = plan(&[0, 2], Asked::Totals);
    let expected = rows(&run(&runtime(2, PLENTY, None), &plan, view(7, 90, 1 << 40)).await.unwrap());
    assert!(expected.len() > 700_000);
    let little = runtime(2, 160 << 20, Some((1 << 30, 8 << 20, 2 << 20)));
    let told = rows(&run(&little, &plan, view(7, 90, 1 << 40)).await.unwrap());
    assert!(told == expected);
    // If each row goes to disk more than once, there is more than one level.
    let once = 90 * CHUNK_ROWS as u64 * 100;
    assert!(little.spilled_bytes() > once, "{}", little.spilled_bytes());
    nothing_is_left(&little).await;
    let none = run(&runtime(2, 160 << 20, None), &plan, view(7, 90, 1 << 40)).await;
    assert_eq!(none.unwrap_err().kind, FailureKind::OutOfMemory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_the_disk_is_out_of_memory_before_the_first_row() {
    let plan = plan(&[0, 2], Asked::Totals);
    for limit in [0, 100 << 10, 5 << 20] {
        let little = runtime(2, PLENTY, Some((limit, 0, 0)));
        let running = little.start(&plan, &[], vec![view(8, 60, 1 << 40)], &Cancellation::default()).await.unwrap();
        let mut batches = running.batches;
        let failure = Runtime::failure(&batches.try_next().await.unwrap_err());
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        assert!(failure.message.contains("anker.query_disk"), "{failure:?}");
        drop(batches);
        nothing_is_left(&little).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_group_has_needs_memory() {
    // All rows belong to one group, and all their values differ.
    for asked in [Asked::Distinct, Asked::Lists] {
        let grouped = plan(&[0], asked);
        let little = runtime(2, 12 << 20, Some((1 << 30, 4 << 20, 1 << 20)));
        let made = Made { seed: 9, chunks: 90, values: 1 << 40, types: COLUMNS.into() };
        let one = run(&little, &grouped, Arc::new(Keyless(made)));
        assert_eq!(one.await.unwrap_err().kind, FailureKind::OutOfMemory);
        nothing_is_left(&little).await;
        // All rows are one group.
        let total = plan(&[], asked);
        assert_eq!(run(&little, &total, view(9, 90, 1 << 40)).await.unwrap_err().kind, FailureKind::OutOfMemory);
        nothing_is_left(&little).await;
    }
}

/// Random rows that all have the same key.
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
    let plan = plan(&[0, 2], Asked::Totals);
    let mut ends = BTreeMap::new();
    for milliseconds in (0..400).step_by(40) {
        let little = runtime(2, PLENTY, Some((1 << 30, 0, 0)));
        let running = little.start(&plan, &[], vec![view(10, 200, 1 << 40)], &Cancellation::default()).await.unwrap();
        let query = tokio::spawn(running.batches.try_collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        query.abort();
        *ends.entry(query.await.is_err()).or_insert(0) += 1;
        nothing_is_left(&little).await;
    }
    assert!(ends[&true] >= 1, "{ends:?}");
}
