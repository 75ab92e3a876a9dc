//! Reads a [`TableView`]: each partition a range of chunks, of each chunk the rows that are there and that pass the scan's
//! conditions. What the conditions read is read first, the other columns only of the rows that are left.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use arrow_select::take::take;
use colstore::{CHUNK_ROWS, ChunkRows, OutOfMemory, TableView};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream;
use protocol::tree::{Actual, Chunks, Operator, Step};

use crate::pruning::Pruning;

/// Chunks that make a partition worth its task.
const MIN_CHUNKS: usize = 4;
/// Chunks that are read in one go if none of their rows is wanted.
const CHUNKS_AT_ONCE: usize = 16;
/// Batches of more rows go on as they are.
const LARGE_BATCH: usize = CHUNK_ROWS / 2;

#[derive(Debug)]
pub struct ViewScan {
    source: Arc<Source>,
    partitions: usize,
    properties: Arc<PlanProperties>,
}

/// What the threads of a scan share.
#[derive(Debug)]
struct Source {
    view: Arc<dyn TableView>,
    filter: Option<Filter>,
    /// The view's columns that are returned.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// What was read so far.
    chunks: AtomicU64,
    rows: AtomicU64,
    nanoseconds: AtomicU64,
}

/// Conditions on rows, which raise no error.
#[derive(Debug)]
pub struct Filter {
    /// Over `columns`.
    pub condition: Arc<dyn PhysicalExpr>,
    /// The view's columns that it reads.
    pub columns: Vec<usize>,
    pub schema: SchemaRef,
    pub pruning: Pruning,
    /// The scan below the conditions, for who wants to be told of it, with the rows that are expected of it.
    pub scan: Option<(Step, f64)>,
}

impl ViewScan {
    /// All columns of the view, for each of which `schema` has a field.
    pub fn new(view: Arc<dyn TableView>, schema: Schema, threads: usize) -> ViewScan {
        let columns = (0..schema.fields().len()).collect();
        ViewScan::of(view, None, columns, Arc::new(schema), threads)
    }

    /// Those of rows that pass a filter: some of the view's columns, for each of which `schema` has a field.
    pub fn filtered(
        view: Arc<dyn TableView>,
        filter: Filter,
        columns: Vec<usize>,
        schema: Schema,
        threads: usize,
    ) -> ViewScan {
        ViewScan::of(view, Some(filter), columns, Arc::new(schema), threads)
    }

    fn of(
        view: Arc<dyn TableView>,
        filter: Option<Filter>,
        columns: Vec<usize>,
        schema: SchemaRef,
        threads: usize,
    ) -> ViewScan {
        let partitions = (view.chunk_count() / MIN_CHUNKS).clamp(1, threads);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let (chunks, rows, nanoseconds) = Default::default();
        let source = Arc::new(Source { view, filter, columns, schema, chunks, rows, nanoseconds });
        ViewScan { source, partitions, properties: Arc::new(properties) }
    }

    pub fn chunks(&self) -> Chunks {
        Chunks { read: self.source.chunks.load(Ordering::Relaxed), of: self.source.view.chunk_count() as u64 }
    }

    /// The scan below the conditions as EXPLAIN shows it; `ran`: with what became of it so far.
    pub fn below_filter(&self, ran: bool) -> Option<Operator> {
        let (step, expected_rows) = self.source.filter.as_ref()?.scan.clone()?;
        let actual = ran.then(|| Actual {
            rows: self.source.rows.load(Ordering::Relaxed),
            nanoseconds: Some(self.source.nanoseconds.load(Ordering::Relaxed)),
            chunks: Some(self.chunks()),
            ..Actual::default()
        });
        Some(Operator { step, expected_rows: Some(expected_rows), actual, inputs: Vec::new() })
    }

    fn chunks_of(&self, partition: usize) -> Range<usize> {
        let chunks = self.source.view.chunk_count();
        partition * chunks / self.partitions..(partition + 1) * chunks / self.partitions
    }
}

impl Source {
    /// The rows of a chunk that are wanted, if there are any.
    fn read(&self, index: usize) -> Result<Option<RecordBatch>> {
        if self.filter.as_ref().is_some_and(|filter| filter.pruning.excludes(self.view.as_ref(), index)) {
            return Ok(None);
        }
        self.chunks.fetch_add(1, Ordering::Relaxed);
        let ChunkRows { count, live } = self.view.rows(index).map_err(exhausted)?;
        let live = match live {
            Some(live) if live.len() != count => {
                return Err(DataFusionError::Internal(format!("mask of {} for {count} rows", live.len())));
            }
            live => live.map(|live| live.set_indices_u32().collect::<Vec<u32>>()),
        };
        self.rows.fetch_add(live.as_ref().map_or(count, Vec::len) as u64, Ordering::Relaxed);
        let chunk = ChunkOf { source: self, index, count };
        let wanted = match &self.filter {
            None => Wanted { rows: live, read: Vec::new() },
            Some(filter) => chunk.passing(filter, live)?,
        };
        let rows = wanted.rows.as_ref().map_or(count, Vec::len);
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self.columns.iter().map(|column| chunk.column(*column, &wanted));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?))
    }
}

struct ChunkOf<'a> {
    source: &'a Source,
    index: usize,
    /// All rows, also those that are not there.
    count: usize,
}

/// Rows of a chunk.
struct Wanted {
    /// `None`: all.
    rows: Option<Vec<u32>>,
    /// Columns that were read for the filter, of these rows.
    read: Vec<(usize, ArrayRef)>,
}

impl ChunkOf<'_> {
    /// Those rows that pass the filter.
    fn passing(&self, filter: &Filter, live: Option<Vec<u32>>) -> Result<Wanted> {
        let before = filter.scan.is_some().then(Instant::now);
        let mut wanted = Wanted { rows: live, read: Vec::new() };
        for column in &filter.columns {
            let array = self.column(*column, &wanted)?;
            wanted.read.push((*column, array));
        }
        if let Some(before) = before {
            self.source.nanoseconds.fetch_add(before.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        let rows = wanted.rows.as_ref().map_or(self.count, Vec::len);
        let arrays = wanted.read.iter().map(|(_, array)| array.clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(filter.schema.clone(), arrays, &options)?;
        let passed = filter.condition.evaluate(&batch)?.into_array(rows)?;
        let passed = passed.as_boolean();
        if passed.true_count() == rows {
            return Ok(wanted);
        }
        let places = places(passed);
        wanted.rows = Some(match &wanted.rows {
            Some(rows) => places.values().iter().map(|place| rows[*place as usize]).collect(),
            None => places.values().to_vec(),
        });
        for (_, array) in &mut wanted.read {
            *array = take(array, &places, None)?;
        }
        Ok(wanted)
    }

    fn column(&self, column: usize, wanted: &Wanted) -> Result<ArrayRef> {
        let view = &self.source.view;
        if let Some((_, array)) = wanted.read.iter().find(|(read, _)| *read == column) {
            return Ok(array.clone());
        }
        match &wanted.rows {
            None => view.array(self.index, column).map_err(exhausted),
            Some(rows) => some_rows(view.as_ref(), self.index, column, rows),
        }
    }
}

/// Some rows of a column of a chunk, in ascending order.
pub fn some_rows(view: &dyn TableView, index: usize, column: usize, rows: &[u32]) -> Result<ArrayRef> {
    match view.picked(index, column, rows).map_err(exhausted)? {
        Some(array) => Ok(array),
        None => {
            let array = view.array(index, column).map_err(exhausted)?;
            Ok(take(&array, &UInt32Array::from(rows.to_vec()), None)?)
        }
    }
}

/// Where a condition is true.
fn places(passed: &BooleanArray) -> UInt32Array {
    let bits = match passed.nulls() {
        Some(known) => passed.values() & known.inner(),
        None => passed.values().clone(),
    };
    bits.set_indices_u32().collect::<Vec<u32>>().into()
}

fn exhausted(error: OutOfMemory) -> DataFusionError {
    DataFusionError::ResourcesExhausted(error.to_string())
}

/// The rows of some chunks. Where a filter leaves few of each, they are put together to batches that are worth their while.
struct Reading {
    source: Arc<Source>,
    chunks: Range<usize>,
    together: Option<BatchCoalescer>,
}

impl Reading {
    fn new(source: Arc<Source>, chunks: Range<usize>) -> Reading {
        let is_sparse = source.filter.is_some() && !source.schema.fields().is_empty();
        let coalescer = || {
            let together = BatchCoalescer::new(source.schema.clone(), CHUNK_ROWS);
            together.with_biggest_coalesce_batch_size(Some(LARGE_BATCH))
        };
        Reading { chunks, together: is_sparse.then(coalescer), source }
    }

    /// The next batch; nothing yet if many chunks had no row for it, so that the query leaves its thread to others and
    /// notices that it was dropped.
    fn poll(&mut self) -> Poll<Option<Result<RecordBatch>>> {
        for _ in 0..CHUNKS_AT_ONCE {
            match self.next() {
                Ok(Some(batch)) => return Poll::Ready(Some(Ok(batch))),
                Ok(None) if self.chunks.is_empty() => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        Poll::Pending
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.together.as_mut().and_then(BatchCoalescer::next_completed_batch) {
            return Ok(Some(batch));
        }
        let batch = self.chunks.next().map(|index| self.source.read(index)).transpose()?.flatten();
        let Some(together) = &mut self.together else { return Ok(batch) };
        if let Some(batch) = batch {
            together.push_batch(batch)?;
        }
        if self.chunks.is_empty() {
            together.finish_buffered_batch()?;
        }
        Ok(together.next_completed_batch())
    }
}

impl ExecutionPlan for ViewScan {
    fn name(&self) -> &str {
        "ViewScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut reading = Reading::new(self.source.clone(), self.chunks_of(partition));
        let batches = stream::poll_fn(move |context| {
            let polled = reading.poll();
            if polled.is_pending() {
                context.waker().wake_by_ref();
            }
            polled
        });
        // Batches are nearly always ready: only by spending tokio's budget does the query leave its thread to others.
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), batches))))
    }
}

impl DisplayAs for ViewScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewScan: rows={}", self.source.view.row_count())?;
        self.source.filter.as_ref().map_or(Ok(()), |filter| write!(f, ", filter={}", filter.condition))
    }
}
