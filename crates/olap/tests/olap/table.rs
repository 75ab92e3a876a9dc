//! Tables of Arrow arrays, and functions that run a plan over such tables.

use std::sync::Arc;

use anker_olap::{Cancellation, DiskOptions, Manner, Runtime, RuntimeOptions};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use colstore::{Chunk, OutOfMemory, TableView};
use futures::TryStreamExt;
use plan::{Agg, Expr, Literal, Physical, Type};
use protocol::request::{Failure, FailureKind};

use crate::level::{AsPlan, Grouping, Level};

pub type Value = Option<Literal>;
pub type Row = Vec<Value>;

/// A table with given chunks.
#[derive(Debug)]
pub struct TestView {
    types: Vec<Type>,
    chunks: Vec<Chunk>,
}

impl TableView for TestView {
    fn types(&self) -> &[Type] {
        &self.types
    }

    fn row_count(&self) -> u64 {
        let live = |c: &Chunk| c.live.as_ref().map_or(c.rows, |live| live.count_set_bits());
        self.chunks.iter().map(live).sum::<usize>() as u64
    }

    fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        Ok(self.chunks[index].clone())
    }
}

impl TestView {
    pub fn of_chunks(types: Vec<Type>, chunks: Vec<Chunk>) -> Arc<dyn TableView> {
        Arc::new(TestView { types, chunks })
    }

    /// A table of these rows in chunks of `size` rows.
    pub fn of_pieces(types: &[Type], rows: &[Row], size: usize) -> Arc<dyn TableView> {
        TestView::of_chunks(types.to_vec(), rows.chunks(size).map(|rows| chunk(types, rows, None)).collect())
    }

    /// A table of these rows in a single chunk.
    pub fn of_rows(types: &[Type], rows: &[Row]) -> Arc<dyn TableView> {
        TestView::of_chunks(types.to_vec(), vec![chunk(types, rows, None)])
    }
}

/// A chunk of these rows. A row exists if its bit in `live` is set.
pub fn chunk(types: &[Type], rows: &[Row], live: Option<Vec<bool>>) -> Chunk {
    let column = |(i, ty): (usize, &Type)| array(*ty, &rows.iter().map(|r| &r[i]).collect::<Vec<_>>());
    Chunk {
        rows: rows.len(),
        arrays: types.iter().enumerate().map(column).collect(),
        live: live.map(BooleanBuffer::from),
    }
}

/// An array of these values. The elements behind nulls are values that would raise errors if anything computed with
/// them.
fn array(ty: Type, values: &[&Value]) -> ArrayRef {
    let nulls = Some(NullBuffer::from_iter(values.iter().map(|v| v.is_some()))).filter(|n| n.null_count() > 0);
    let ints = |trap: i64| values.iter().map(move |v| v.as_ref().map_or(trap, int)).collect::<Vec<i64>>();
    match ty.physical() {
        Physical::Bit => {
            let bits: Vec<bool> = values.iter().map(|v| matches!(v, Some(Literal::Bool(true)))).collect();
            Arc::new(BooleanArray::new(bits.into(), nulls))
        }
        Physical::Int16 => {
            Arc::new(Int16Array::new(ints(i16::MIN as i64).into_iter().map(|i| i as i16).collect(), nulls))
        }
        Physical::Int32 => {
            let trap = if ty == Type::Date { 2_145_031_948 } else { i32::MIN as i64 };
            Arc::new(Int32Array::new(ints(trap).into_iter().map(|i| i as i32).collect(), nulls))
        }
        Physical::Int64 => Arc::new(Int64Array::new(ints(i64::MIN).into(), nulls)),
        Physical::Float64 => {
            let floats = values.iter().map(|v| match v {
                Some(Literal::Float(f)) => *f,
                _ => f64::MAX,
            });
            Arc::new(Float64Array::new(floats.collect(), nulls))
        }
        Physical::Int128 => {
            let decimals = values.iter().map(|v| match v {
                Some(Literal::Decimal(d)) => *d,
                _ => i128::MIN,
            });
            Arc::new(Decimal128Array::new(decimals.collect(), nulls).with_data_type(DataType::Decimal128(38, 0)))
        }
        Physical::Text => Arc::new(StringViewArray::from_iter(values.iter().map(|v| match v {
            Some(Literal::Text(t)) => Some(t.as_str()),
            _ => None,
        }))),
        Physical::Bytes => Arc::new(BinaryViewArray::from_iter(values.iter().map(|v| match v {
            Some(Literal::Bytes(b)) => Some(b.as_slice()),
            _ => None,
        }))),
    }
}

pub fn int(literal: &Literal) -> i64 {
    match literal {
        Literal::Int(i) => *i,
        other => panic!("{other:?} is not an integer"),
    }
}

fn read(array: &ArrayRef, ty: Type, row: usize) -> Value {
    if array.is_null(row) {
        return None;
    }
    Some(match ty.physical() {
        Physical::Bit => Literal::Bool(array.as_boolean().value(row)),
        Physical::Int16 => Literal::Int(array.as_primitive::<Int16Type>().value(row) as i64),
        Physical::Int32 => Literal::Int(array.as_primitive::<Int32Type>().value(row) as i64),
        Physical::Int64 => Literal::Int(array.as_primitive::<Int64Type>().value(row)),
        Physical::Float64 => Literal::Float(array.as_primitive::<Float64Type>().value(row)),
        Physical::Int128 => {
            assert_eq!(array.data_type(), &DataType::Decimal128(38, 0));
            Literal::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        Physical::Text => Literal::Text(array.as_string_view().value(row).to_string()),
        Physical::Bytes => Literal::Bytes(array.as_binary_view().value(row).to_vec()),
    })
}

pub fn engine(threads: u32) -> Runtime {
    Runtime::new(RuntimeOptions { memory_bytes: 1 << 30, disk: None, threads })
}

/// An engine that writes as much data to disk as it can.
pub fn spilling_engine(threads: u32) -> Runtime {
    let path = std::env::temp_dir().join(format!("pgsql_tmp_anker_olap_{}.disk", std::process::id()));
    let disk = DiskOptions { path, limit_bytes: 1 << 30, share_bytes: 0, least_bytes: 0 };
    Runtime::new(RuntimeOptions { memory_bytes: 1 << 30, disk: Some(disk), threads })
}

pub fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

pub async fn batches(
    engine: &Runtime,
    plan: &impl AsPlan,
    params: &[Value],
    views: &[Arc<dyn TableView>],
) -> Result<Vec<RecordBatch>, Failure> {
    batches_as(engine, plan, params, views, Manner::default()).await
}

async fn batches_as(
    engine: &Runtime,
    plan: &impl AsPlan,
    params: &[Value],
    views: &[Arc<dyn TableView>],
    manner: Manner,
) -> Result<Vec<RecordBatch>, Failure> {
    let running = engine.start_as(&plan.plan(), params, views.to_vec(), &Cancellation::default(), manner).await?;
    let batches: Vec<RecordBatch> = running.batches.try_collect().await.map_err(|e| Runtime::failure(&e))?;
    assert!(batches.iter().all(|b| b.schema() == running.schema));
    Ok(batches)
}

/// Runs a plan, and returns its rows.
pub async fn rows(
    engine: &Runtime,
    plan: &impl AsPlan,
    params: &[Value],
    views: &[Arc<dyn TableView>],
) -> Result<Vec<Row>, Failure> {
    rows_as(engine, plan, params, views, Manner::default()).await
}

/// Like [`rows`], but runs the plan in the given [`Manner`].
pub async fn rows_as(
    engine: &Runtime,
    plan: &impl AsPlan,
    params: &[Value],
    views: &[Arc<dyn TableView>],
    manner: Manner,
) -> Result<Vec<Row>, Failure> {
    let batches = batches_as(engine, plan, params, views, manner).await?;
    let types = plan.plan().output_types();
    let mut rows = Vec::new();
    for batch in batches {
        assert_eq!(batch.num_columns(), types.len());
        for row in 0..batch.num_rows() {
            rows.push(types.iter().zip(batch.columns()).map(|(ty, array)| read(array, *ty, row)).collect());
        }
    }
    Ok(rows)
}

/// A plan over tables with these columns.
pub fn plan_over(tables: &[&[Type]]) -> Level {
    Level { tables: tables.iter().map(|types| types.to_vec()).collect(), ..Level::default() }
}

pub fn grouping(keys: Vec<Expr>, aggregates: Vec<Agg>) -> Option<Grouping> {
    Some(Grouping { keys, aggregates })
}

/// Runs a plan over one table.
pub fn run(level: &Level, table: &[Row]) -> Result<Vec<Row>, FailureKind> {
    let views = [TestView::of_rows(&level.tables[0], table)];
    tokio_runtime().block_on(rows(&engine(2), level, &[], &views)).map_err(|f| f.kind)
}
