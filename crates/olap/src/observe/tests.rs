use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use colstore::{CHUNK_ROWS, Chunk, OutOfMemory, TableView};
use futures::StreamExt;
use plan::words::Scan;
use plan::{
    Agg, Aggregation, CmpOp, ColumnId, Computed, Expr, JoinKind, Literal, Meaning, Plan, Rel, Relation, RelationColumn,
    Type,
};
use protocol::tree::{Actual, Chunks, EnginePlan, Operator, Step};

use crate::{Cancellation, JoinOrder, Manner, Runtime, RuntimeOptions};

const OBSERVED: Manner =
    Manner { observed: true, order: JoinOrder::Cheapest, threads: None, memory_bytes: None, disk_bytes: None };

/// Consecutive numbers.
#[derive(Debug)]
struct Numbers(usize);

impl TableView for Numbers {
    fn types(&self) -> &[Type] {
        &[Type::Int64]
    }

    fn row_count(&self) -> u64 {
        (self.0 * CHUNK_ROWS) as u64
    }

    fn chunk_count(&self) -> usize {
        self.0
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        let first = (index * CHUNK_ROWS) as i64;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + CHUNK_ROWS as i64));
        Ok(Chunk { rows: CHUNK_ROWS, arrays: vec![numbers], live: None })
    }
}

fn column(id: u16) -> Expr {
    Expr::column(ColumnId(id))
}

fn int(value: i64) -> Expr {
    Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(value)) }
}

fn scan(relation: u16) -> Rel {
    Rel::Scan { relation, columns: vec![ColumnId(relation)] }
}

/// `SELECT key, count(*) FROM a JOIN b ON a = b WHERE b < limit GROUP BY key`, with `key = a % every`.
fn joined(limit: i64, every: i64) -> Plan {
    let number = |ty| RelationColumn { attnum: 1, ty };
    let below = Expr::Cmp { op: CmpOp::Lt, left: Box::new(column(1)), right: Box::new(int(limit)) };
    let join = scan(0).join(JoinKind::Inner, scan(1).filter(vec![below]), vec![Expr::equal(column(0), column(1))]);
    let (left, right) = (Box::new(column(0)), Box::new(int(every)));
    let key = Expr::Arith { op: plan::ArithOp::Mod, ty: Type::Int64, left, right };
    Plan {
        relations: vec![Relation::of_table(1, &[number(Type::Int64)]), Relation::of_table(2, &[number(Type::Int64)])],
        columns: vec![Type::Int64; 4],
        params: vec![],
        root: Rel::Aggregate {
            input: Box::new(join),
            keys: vec![Computed { column: ColumnId(2), expr: key }],
            aggregates: vec![Aggregation { columns: vec![ColumnId(3)], agg: Agg::CountStar, distinct: false }],
        },
        output: vec![column(2), column(3)],
    }
}

fn views() -> Vec<Arc<dyn TableView>> {
    vec![Arc::new(Numbers(20)), Arc::new(Numbers(10))]
}

fn engine(threads: u32) -> Runtime {
    Runtime::new(RuntimeOptions { memory_bytes: 64 << 20, disk: None, threads })
}

fn run(plan: &Plan, threads: u32) -> EnginePlan {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    tokio.block_on(async {
        let cancellation = Cancellation::default();
        let running = engine(threads).start_as(plan, &[], views(), &cancellation, OBSERVED).await.unwrap();
        let mut batches = running.batches;
        while let Some(batch) = batches.next().await {
            batch.unwrap();
        }
        drop(batches);
        running.observation.unwrap().plan(true).unwrap()
    })
}

/// The operators from the top down, each with its depth.
fn flat<'a>(operator: &'a Operator, depth: usize, all: &mut Vec<(usize, &'a Operator)>) {
    all.push((depth, operator));
    operator.inputs.iter().for_each(|input| flat(input, depth + 1, all));
}

fn steps(plan: &EnginePlan) -> Vec<(usize, &Operator)> {
    let mut all = Vec::new();
    flat(&plan.root, 0, &mut all);
    all
}

#[test]
fn what_runs_is_what_is_shown_and_counted_in_all_threads() {
    let (limit, every) = (30_000, 100);
    for threads in [1, 2, 3] {
        let plan = joined(limit, every);
        let outline = engine(threads).outline(&plan, &[], views(), Manner::default()).unwrap();
        let ran = run(&plan, threads);
        let (before, after) = (steps(&outline), steps(&ran));
        assert_eq!(before.len(), after.len());
        for ((depth, foretold), (same, counted)) in before.iter().zip(&after) {
            assert_eq!((depth, &foretold.step), (same, &counted.step));
            assert_eq!(foretold.expected_rows, counted.expected_rows);
            assert!(foretold.actual.is_none() && counted.actual.is_some());
        }
        let [(0, group), (1, join), (2, wide), (2, hash), (3, filter), (4, narrow)] = after[..] else {
            panic!("{after:#?}");
        };
        let of = |operator: &Operator| operator.actual.clone().unwrap();
        assert!(matches!(&group.step, Step::Aggregate { keys, .. } if keys.len() == 1));
        assert!(matches!(join.step, Step::Join(_)) && hash.step == Step::Hash);
        assert!(matches!(filter.step, Step::Filter { .. }));
        assert_eq!(of(group).rows, every as u64);
        assert_eq!([of(join), of(hash), of(filter)].map(|actual| actual.rows), [limit as u64; 3]);
        let all = |chunks: u64| Some(Chunks { read: chunks, of: chunks });
        // The scan on the probe side drops the rows without a partner, and counts them.
        assert_eq!((of(wide).rows, of(wide).chunks), (limit as u64, all(20)));
        assert_eq!(of(wide).without_partner, 20 * CHUNK_ROWS as u64 - limit as u64);
        assert_eq!((of(narrow).rows, of(narrow).chunks), (10 * CHUNK_ROWS as u64, all(10)));
        assert_eq!(narrow.expected_rows, Some((10 * CHUNK_ROWS) as f64));
        // The rows of the build side take eight bytes each. The join reserves them, but they are shown at the hash,
        // which holds them.
        assert!(of(hash).memory_bytes >= 8 * limit as u64 && of(join).memory_bytes == 0, "{threads}: {after:#?}");
        assert!(of(group).memory_bytes > 0 && of(filter).memory_bytes == 0);
        let timed = |operator: &Operator| of(operator).nanoseconds.is_some_and(|time| time > 0);
        assert!([group, join, wide, filter, narrow].into_iter().all(timed) && !timed(hash));
        let scans = ran.columns.iter().filter_map(|(id, meaning)| match meaning {
            Meaning::Column { scan, at: 0 } => Some((id.0, *scan)),
            _ => None,
        });
        let scanned: Vec<_> = scans.collect();
        assert_eq!(scanned, [0, 1].map(|relation| (relation, Scan { number: 0, relation })));
    }
}

#[test]
fn a_scan_that_nobody_needs_to_its_end_says_so() {
    let count = Some(int(5));
    let range = Box::new(plan::Range { count, ..plan::Range::default() });
    let first = Rel::Top { input: Box::new(scan(0)), keys: vec![], order: vec![], range };
    let plan = Plan { root: first, output: vec![column(0)], ..joined(1, 1) };
    let ran = run(&plan, 1);
    let Actual { rows, chunks, .. } = ran.root.inputs[0].actual.clone().unwrap();
    assert_eq!(ran.root.actual.clone().unwrap().rows, 5);
    assert!(rows < 20 * CHUNK_ROWS as u64 && chunks.is_some_and(|chunks| chunks.read < chunks.of), "{ran:#?}");
}

#[test]
fn a_query_that_is_not_observed_has_no_observers() {
    let text = engine(2).explain(&joined(10, 10), &[], views()).unwrap();
    assert!(!text.contains("Observed"), "{text}");
}
