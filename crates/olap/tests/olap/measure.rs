//! Measures the most important kinds of query. The tables have as many rows as in a TPC-C database of five warehouses.
//! Run it with `--ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int16Array, Int32Array, Int64Array};
use colstore::{CHUNK_ROWS, Chunk, TableView};
use plan::{
    Agg, CmpOp, ColumnId, Expr, Frame, Literal, Over, Plan, Range, Rel, SortKey, Type, WindowCall, WindowFunction,
};

use crate::build::{cmp, column, integer};
use crate::level::{Level, relation};
use crate::table::{Row, TestView, batches, chunk, engine, grouping, plan_over, tokio_runtime};

const MONEY: Type = Type::Decimal64 { scale: 2 };

/// A table of `rows` rows, whose values are computed from the row's number.
fn view(rows: usize, types: &[Type], value: impl Fn(usize, usize) -> i64) -> Arc<dyn TableView> {
    let array = |ty: Type, numbers: Vec<i64>| -> ArrayRef {
        match ty {
            Type::Int16 => Arc::new(numbers.into_iter().map(|n| Some(n as i16)).collect::<Int16Array>()),
            Type::Int32 => Arc::new(numbers.into_iter().map(|n| Some(n as i32)).collect::<Int32Array>()),
            _ => Arc::new(Int64Array::from(numbers)),
        }
    };
    let chunk = |first: usize| {
        let length = CHUNK_ROWS.min(rows - first);
        let numbers = |col: usize| (first..first + length).map(|row| value(col, row)).collect();
        let arrays = types.iter().enumerate().map(|(col, ty)| array(*ty, numbers(col))).collect();
        Chunk { rows: length, arrays, live: None }
    };
    TestView::of_chunks(types.to_vec(), (0..rows).step_by(CHUNK_ROWS).map(chunk).collect())
}

fn scramble(row: usize) -> usize {
    row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

type Shape = (&'static str, Level, Vec<Arc<dyn TableView>>);

#[test]
#[ignore = "measures"]
fn hot_shapes() {
    // The columns ol_w_id, ol_d_id, ol_quantity, ol_amount, ol_o_id.
    let line_types = [Type::Int32, Type::Int16, Type::Int16, MONEY, Type::Int32];
    let lines = view(6_020_000, &line_types, |col, row| match col {
        0 => (row / 1_204_000) as i64,
        1 => (row / 10 % 10) as i64 + 1,
        2 => (scramble(row) % 10) as i64,
        3 => (scramble(row) % 999_999) as i64,
        _ => (row / 10) as i64,
    });
    // The columns s_w_id, s_quantity.
    let stock = view(500_000, &[Type::Int32, Type::Int16], |col, row| match col {
        0 => (row / 100_000) as i64,
        _ => (scramble(row) % 100) as i64,
    });
    let warehouses = view(5, &[Type::Int32], |_, row| row as i64);
    // The columns o_id, o_carrier.
    let orders = view(602_000, &[Type::Int32, Type::Int16], |col, row| if col == 0 { row as i64 } else { 3 });

    let over = |columns: &[usize]| {
        let types: Vec<Type> = columns.iter().map(|c| line_types[*c]).collect();
        (plan_over(&[&types]), vec![projected(&lines, columns)])
    };
    let mut shapes: Vec<Shape> = Vec::new();
    let mut shape = |name, (plan, views): (Level, Vec<Arc<dyn TableView>>), change: &dyn Fn(&mut Level)| {
        let mut plan = plan;
        change(&mut plan);
        shapes.push((name, plan, views));
    };
    let join = (plan_over(&[&[Type::Int32], &[Type::Int32]]), vec![warehouses, projected(&stock, &[0])]);
    shape("Q1 join, count by warehouse", join, &|p| {
        p.filters = vec![cmp(CmpOp::Eq, column(0, 0), column(1, 0))];
        p.grouping = grouping(vec![column(0, 0)], vec![Agg::CountStar]);
    });
    shape("Q2 avg by district", over(&[1, 3]), &|p| {
        p.grouping = grouping(vec![column(0, 0)], vec![Agg::Avg(column(0, 1))]);
    });
    shape("Q3 sum, avg by warehouse", over(&[0, 2, 3]), &|p| {
        p.grouping = grouping(vec![column(0, 0)], vec![Agg::Sum(column(0, 1)), Agg::Avg(column(0, 2))]);
    });
    shape("Q7 avg", over(&[3]), &|p| p.grouping = grouping(vec![], vec![Agg::Avg(column(0, 0))]));
    let stock = (plan_over(&[&[Type::Int16]]), vec![projected(&stock, &[1])]);
    shape("Q8 avg of stock", stock, &|p| p.grouping = grouping(vec![], vec![Agg::Avg(column(0, 0))]));
    shape("count(*)", over(&[]), &|p| p.grouping = grouping(vec![], vec![Agg::CountStar]));
    shape("avg where quantity < 5", over(&[2, 3]), &|p| {
        p.filters = vec![cmp(CmpOp::Lt, column(0, 0), integer(Type::Int16, 5))];
        p.grouping = grouping(vec![], vec![Agg::Avg(column(0, 1))]);
    });
    shape("avg by warehouse, district", over(&[0, 1, 3]), &|p| {
        p.grouping = grouping(vec![column(0, 0), column(0, 1)], vec![Agg::Avg(column(0, 2))]);
    });
    shape("sum by order (602,000 groups)", over(&[4, 3]), &|p| {
        p.grouping = grouping(vec![column(0, 0)], vec![Agg::Sum(column(0, 1))]);
    });
    let joined =
        (plan_over(&[&[Type::Int32, Type::Int16], &[Type::Int32, MONEY]]), vec![orders, projected(&lines, &[4, 3])]);
    shape("join with orders, avg by carrier", joined, &|p| {
        p.filters = vec![cmp(CmpOp::Eq, column(0, 0), column(1, 0))];
        p.grouping = grouping(vec![column(0, 1)], vec![Agg::Avg(column(1, 1))]);
    });

    let runtime = tokio_runtime();
    println!("{:34} {:>9} {:>9} {:>9}", "min of 12, ms", "CPU", "1 thread", "2");
    for (name, plan, views) in &shapes {
        let (mut cpu, mut wall) = (f64::MAX, [f64::MAX; 2]);
        for (threads, wall) in [1, 2].into_iter().zip(&mut wall) {
            let engine = engine(threads);
            for _ in 0..12 {
                let (start, before) = (Instant::now(), thread_cpu());
                runtime.block_on(batches(&engine, plan, &[], views)).unwrap();
                *wall = wall.min(start.elapsed().as_secs_f64() * 1e3);
                if threads == 1 {
                    cpu = cpu.min(thread_cpu() - before);
                }
            }
        }
        println!("{name:34} {cpu:9.2} {:9.2} {:9.2}", wall[0], wall[1]);
    }
}

/// The CPU time of this thread in milliseconds. On a busy machine, it is more reliable than the elapsed time. With one
/// partition, the whole query runs on this thread.
fn thread_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

fn projected(view: &Arc<dyn TableView>, columns: &[usize]) -> Arc<dyn TableView> {
    let types = columns.iter().map(|c| view.types()[*c]).collect();
    let chunks = (0..view.chunk_count()).map(|i| {
        let chunk = view.chunk(i).unwrap();
        Chunk { arrays: columns.iter().map(|c| chunk.arrays[*c].clone()).collect(), ..chunk }
    });
    TestView::of_chunks(types, chunks.collect())
}

/// Measures two queries: one numbers all rows in an order, and one returns the first hundred rows of an order.
#[test]
#[ignore = "measures"]
fn orders() {
    let types = [Type::Int32, Type::Int64, Type::Text];
    let table: Vec<Row> = (0..1_000_000)
        .map(|row| {
            let word = format!("{:x} order {}", scramble(row) % 50_000, row % 3);
            vec![
                Some(Literal::Int((scramble(row) % 1000) as i64)),
                Some(Literal::Int(scramble(row + 7) as i64)),
                Some(Literal::Text(word)),
            ]
        })
        .collect();
    let chunks = table.chunks(CHUNK_ROWS).map(|rows| chunk(&types, rows, None)).collect();
    let views = [TestView::of_chunks(types.to_vec(), chunks)];
    let own: Vec<ColumnId> = (0..4).map(ColumnId).collect();
    let by = |at: u16, locale: Option<&str>| {
        let locale = locale.map(str::to_owned);
        SortKey { locale, ..SortKey::ascending(Expr::column(ColumnId(at))) }
    };
    let runtime = tokio_runtime();
    let engine = engine(2);
    for (name, order) in [
        ("two numbers", vec![by(0, None), by(1, None)]),
        ("number, text by bytes", vec![by(0, None), by(2, None)]),
        ("text by bytes", vec![by(2, None)]),
        ("text in a locale", vec![by(2, Some("C.utf8"))]),
    ] {
        let scan = Box::new(Rel::Scan { relation: 0, columns: own[..3].to_vec() });
        let frame = Frame::ALL;
        let call = WindowCall { columns: vec![own[3]], function: WindowFunction::RowNumber, frame, reach: None };
        let over = Over { partition: vec![], order: order.clone(), ties: vec![] };
        let few = Some(Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(100)) });
        let range = Box::new(Range { offset: None, count: few, ties: false });
        let all = Rel::Window { input: scan.clone(), over: Box::new(over), calls: vec![call] };
        let first = Rel::Top { input: scan, keys: vec![], order, range };
        for (which, root, output) in [("all", all, own[3]), ("first", first, own[1])] {
            let plan = Plan {
                relations: vec![relation(0, &types)],
                columns: [&types[..], &[Type::Int64]].concat(),
                params: vec![],
                root,
                output: vec![Expr::column(output)],
            };
            let run = || {
                let start = Instant::now();
                runtime.block_on(batches(&engine, &plan, &[], &views)).unwrap();
                start.elapsed().as_secs_f64() * 1000.0
            };
            let least = (0..7).map(|_| run()).fold(f64::INFINITY, f64::min);
            println!("{least:8.1} ms  {which} by {name}");
        }
    }
}
