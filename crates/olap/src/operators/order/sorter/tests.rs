//! Compares orders that are made with little memory with those that are made with plenty.

use plan::{ColumnId, Expr, FailureKind, Literal, Plan, Range, Rel, Relation, RelationColumn, SortKey, Type};

use crate::spill::testing::{COLUMNS, PLENTY, nothing_is_left, rows, rows_in_order, run, runtime, view};

/// The first rows in the order of some columns, some of them descending; with keys, the first rows of each group.
fn plan(keys: &[u16], order: &[u16], count: i64, ties: bool, output: &[u16]) -> Plan {
    let column = |id: &u16| Expr::column(ColumnId(*id));
    let relation: Vec<RelationColumn> =
        COLUMNS.iter().zip(1..).map(|(ty, attnum)| RelationColumn { attnum, ty: *ty }).collect();
    let scan = Rel::Scan { relation: 0, columns: (0..4).map(ColumnId).collect() };
    let by =
        |id: &u16| SortKey { expr: column(id), descending: id.is_multiple_of(2), nulls_first: *id == 3, locale: None };
    let count = Some(Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(count)) });
    let root = Rel::Top {
        input: Box::new(scan),
        keys: keys.iter().map(column).collect(),
        order: order.iter().map(by).collect(),
        range: Box::new(Range { offset: None, count, ties }),
    };
    let relations = vec![Relation::of_table(1, &relation)];
    Plan { relations, columns: COLUMNS.to_vec(), params: vec![], root, output: output.iter().map(column).collect() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_gives_the_same_order() {
    let all = [2, 3, 0, 1];
    for (seed, count) in (1..).zip([1 << 40, 50_000, 9_000, 1]) {
        let plan = plan(&[], &all, count, false, &[0, 1, 2, 3]);
        let expected = rows_in_order(&run(&runtime(2, PLENTY, None), &plan, view(seed, 24, 60_000)).await.unwrap());
        for (threads, share, least) in [(1, 0, 100 << 10), (1, 0, 1 << 20), (2, 1 << 20, 1 << 20), (3, 8 << 20, 0)] {
            let little = runtime(threads, PLENTY, Some((1 << 30, share, least)));
            let told = run(&little, &plan, view(seed, 24, 60_000)).await.unwrap();
            assert!(rows_in_order(&told) == expected, "{count} {threads} {share}");
            assert!(little.spilled_bytes() > 0 || count < 50_000, "{count} {threads} {share}");
            nothing_is_left(&little).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_and_groups_are_the_same() {
    let ties = plan(&[], &[3], 30_000, true, &[3]);
    let groups = plan(&[0], &[2, 3, 1], 2, false, &[0, 2, 3, 1]);
    for plan in [ties, groups] {
        for values in [50, 70_000] {
            let expected = rows(&run(&runtime(2, PLENTY, None), &plan, view(5, 24, values)).await.unwrap());
            for threads in [1, 2] {
                let little = runtime(threads, PLENTY, Some((1 << 30, 0, 300 << 10)));
                let told = rows(&run(&little, &plan, view(5, 24, values)).await.unwrap());
                assert!(told == expected, "{values} {threads}");
                assert!(little.spilled_bytes() > 0 || values == 50);
                nothing_is_left(&little).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_the_disk_is_out_of_memory() {
    let plan = plan(&[], &[2, 3, 0, 1], 1 << 40, false, &[0, 1, 2, 3]);
    let little = runtime(2, PLENTY, Some((1 << 20, 0, 300 << 10)));
    let failure = run(&little, &plan, view(6, 24, 60_000)).await.unwrap_err();
    assert!(failure.kind == FailureKind::OutOfMemory && failure.message.contains("anker.query_disk"), "{failure:?}");
    nothing_is_left(&little).await;
}

/// The bytes of a number in the bytes of a row, with the mark for null.
const NUMBER: usize = 9;

/// The first rows of each value of the first column; with ties, also the rows that are equal to the last of them.
fn first_of_each(rows: Vec<Vec<u8>>, count: usize, ties: bool) -> Vec<Vec<u8>> {
    let mut first = Vec::<Vec<u8>>::new();
    for group in rows.chunk_by(|a, b| a[..NUMBER] == b[..NUMBER]) {
        let end = count.min(group.len());
        let equal = group[end..].iter().take_while(|row| ties && **row == group[end - 1]).count();
        first.extend_from_slice(&group[..end + equal]);
    }
    first.sort();
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_few_groups_and_of_many() {
    for (values, count, ties, order) in [
        (40, 1, false, &[2, 3, 1][..]),
        (40, 3, true, &[3]),
        (700, 2, false, &[1, 2, 3]),
        (700, 5, true, &[2]),
        (70_000, 1, true, &[1]),
        (70_000, 2, false, &[2, 3, 1]),
    ] {
        let all = [&[0], order].concat();
        let sorted = plan(&[], &all, 1 << 40, false, &all);
        let in_order = run(&runtime(2, PLENTY, None), &sorted, view(7, 60, values)).await.unwrap();
        let expected = first_of_each(rows_in_order(&in_order), count as usize, ties);
        for threads in [1, 3] {
            // Memory for less than half of the rows.
            let little = runtime(threads, PLENTY, Some((1 << 30, (all.len() as u64) * (6 << 20), 1 << 20)));
            let told = run(&little, &plan(&[0], order, count, ties, &all), view(7, 60, values)).await.unwrap();
            assert!(rows(&told) == expected, "{values} {count} {ties} {threads}");
            assert!(threads > 1 || (little.spilled_bytes() > 0) == (values > 700), "{values} {threads}");
            nothing_is_left(&little).await;
        }
    }
}
