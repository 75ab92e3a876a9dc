//! Tables of random rows, and queries that have to use the disk, for tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray};
use colstore::{CHUNK_ROWS, Chunk, OutOfMemory, TableView};
use datafusion_common::arrow::row::{RowConverter, SortField};
use futures::TryStreamExt;
use plan::{Plan, Type};
use protocol::request::Failure;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{Cancellation, DiskOptions, Runtime, RuntimeOptions};

/// A path for a new file.
pub fn path() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("pgsql_tmp_anker_olap_{}_{number}.disk", std::process::id()))
}

pub const COLUMNS: [Type; 4] = [Type::Int64, Type::Float64, Type::Text, Type::Int64];

/// Random rows, the same for the same seed: a number, a float, a text, and another number, each null at times.
#[derive(Debug)]
pub struct Made {
    pub seed: u64,
    pub chunks: usize,
    /// The approximate number of distinct values.
    pub values: i64,
    pub types: Vec<Type>,
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

pub fn view(seed: u64, chunks: usize, values: i64) -> Arc<dyn TableView> {
    Arc::new(Made { seed, chunks, values, types: COLUMNS.to_vec() })
}

pub fn runtime(threads: u32, memory_bytes: u64, disk: Option<(u64, u64, u64)>) -> Runtime {
    let disk = disk.map(|(limit_bytes, share_bytes, least_bytes)| DiskOptions {
        path: path(),
        limit_bytes,
        share_bytes,
        least_bytes,
    });
    Runtime::new(RuntimeOptions { memory_bytes, disk, threads })
}

pub async fn run(runtime: &Runtime, plan: &Plan, view: Arc<dyn TableView>) -> Result<Vec<RecordBatch>, Failure> {
    let running = runtime.start(plan, &[], vec![view], &Cancellation::default()).await?;
    running.batches.try_collect().await.map_err(|e| Runtime::failure(&e))
}

/// The rows as bytes, sorted.
pub fn rows(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let mut all = rows_in_order(batches);
    all.sort();
    all
}

/// The rows as bytes. Equal values have equal bytes: -0 becomes 0.
pub fn rows_in_order(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let Some(first) = batches.first() else { return vec![] };
    let field = |array: &ArrayRef| SortField::new(array.data_type().clone());
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
    all
}

/// Checks that nothing is left on disk, at once or after the tasks of a cancelled query have ended.
pub async fn nothing_is_left(runtime: &Runtime) {
    let disk = runtime.disk.as_ref().unwrap();
    for _ in 0..500 {
        if disk.pages_in_use() == 0 && runtime.environment.memory_pool.reserved() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(disk.pages_in_use(), 0);
    assert_eq!(runtime.environment.memory_pool.reserved(), 0);
}

pub const PLENTY: u64 = 4 << 30;
