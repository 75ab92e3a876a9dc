//! Scans of a [`TableView`]. Each partition reads a range of chunks, and returns the existing rows that pass the scan's
//! filter. The filter's columns are read first, the other columns only for the remaining rows.

mod claims;
mod direct;
mod filter;
mod pruning;
pub mod runtime_filter;
pub mod sources;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::BooleanBuffer;
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
use protocol::tree::{Actual, Chunks, Operator};

use self::claims::Claims;
pub use self::direct::{Direct, Selected};
pub use self::filter::{Condition, Filter};
use self::filter::{Filtered, Wanted};
pub use self::pruning::{Pruning, Ranges, Reading};

/// The least number of chunks for each partition. With fewer chunks, a further partition does not pay.
const MIN_CHUNKS: usize = 4;
/// The number of chunks without wanted rows that are read before other tasks get their turn.
const CHUNKS_AT_ONCE: usize = 16;
/// Batches with more rows than this are not combined.
const LARGE_BATCH: usize = CHUNK_ROWS / 2;

#[derive(Debug)]
pub struct ViewScan {
    source: Arc<Source>,
    properties: Arc<PlanProperties>,
}

/// State that the threads of a scan share.
#[derive(Debug)]
struct Source {
    view: Arc<dyn TableView>,
    filter: Option<Filter>,
    /// The view's columns that are returned.
    columns: Vec<usize>,
    schema: SchemaRef,
    claims: Claims,
    /// The number of chunks that were read so far. `rows` is the number of their rows.
    chunks: AtomicU64,
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    without_partner: AtomicU64,
}

impl ViewScan {
    /// A scan of some of the view's columns; `schema` has a field for each.
    pub fn new(view: Arc<dyn TableView>, columns: Vec<usize>, schema: Schema, threads: usize) -> ViewScan {
        ViewScan::of(view, None, columns, Arc::new(schema), threads)
    }

    /// A scan of the rows that pass a filter.
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
        let (chunks, rows, nanoseconds, without_partner) = Default::default();
        let claims = Claims::new(view.chunk_count(), partitions);
        let source = Source { view, filter, columns, schema, claims, chunks, rows, nanoseconds, without_partner };
        ViewScan { source: Arc::new(source), properties: Arc::new(properties) }
    }

    pub fn chunks(&self) -> Chunks {
        Chunks { read: self.source.chunks.load(Ordering::Relaxed), of: self.source.view.chunk_count() as u64 }
    }

    /// The number of rows that passed the conditions, but would have found no partner in a join above.
    pub fn without_partner(&self) -> u64 {
        self.source.without_partner.load(Ordering::Relaxed)
    }

    /// The scan below the conditions, as EXPLAIN shows it. With `ran`, it has the figures that were measured so far.
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
}

impl Source {
    /// Ready once the keys of all runtime filters are known, or will not become known.
    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut keys = self.filter.iter().flat_map(|filter| &filter.keys);
        if keys.all(|keys| keys.poll_known(context).is_ready()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Begins a chunk: returns it with a mask of its existing rows, unless bounds show that no row passes.
    fn begin(&self, index: usize) -> Result<Option<(ChunkOf<'_>, Option<BooleanBuffer>)>> {
        if self.filter.as_ref().is_some_and(|filter| filter.excludes(self.view.as_ref(), index)) {
            return Ok(None);
        }
        self.chunks.fetch_add(1, Ordering::Relaxed);
        let ChunkRows { count, live } = self.view.rows(index).map_err(exhausted)?;
        if let Some(live) = live.as_ref().filter(|live| live.len() != count) {
            return Err(DataFusionError::Internal(format!("mask of {} for {count} rows", live.len())));
        }
        let there = live.as_ref().map_or(count, BooleanBuffer::count_set_bits);
        self.rows.fetch_add(there as u64, Ordering::Relaxed);
        Ok(Some((ChunkOf { source: self, index, count }, live)))
    }

    /// Counts the work of a filter, and returns the rows that pass it.
    fn filtered(&self, filtered: Filtered) -> Wanted {
        let Filtered { wanted, nanoseconds, without_partner } = filtered;
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.without_partner.fetch_add(without_partner as u64, Ordering::Relaxed);
        wanted
    }

    /// The wanted rows of a chunk, if there are any.
    fn read(&self, index: usize) -> Result<Option<RecordBatch>> {
        let Some((chunk, live)) = self.begin(index)? else { return Ok(None) };
        let wanted = match &self.filter {
            None => Wanted { rows: live.map(|live| filter::places_of(&live)), read: Vec::new() },
            Some(filter) => self.filtered(filter.passing(&chunk, live)?),
        };
        match wanted.rows.as_ref().map_or(chunk.count, Vec::len) {
            0 => Ok(None),
            _ => chunk.batch(&wanted).map(Some),
        }
    }
}

pub(crate) struct ChunkOf<'a> {
    source: &'a Source,
    index: usize,
    /// The number of slots in the chunk, including slots without a row.
    count: usize,
}

impl ChunkOf<'_> {
    /// All columns of the scan.
    fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let rows = wanted.rows.as_ref().map_or(self.count, Vec::len);
        let arrays = self.source.columns.iter().map(|column| self.column(*column, wanted));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.source.schema.clone(), arrays, &options)?)
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

pub fn exhausted(error: OutOfMemory) -> DataFusionError {
    DataFusionError::ResourcesExhausted(error.to_string())
}

/// Reads the chunks of a partition. If the filter leaves few rows of each, they are combined into larger batches.
struct Reader {
    source: Arc<Source>,
    partition: usize,
    /// Whether there are no more chunks.
    ended: bool,
    together: Option<BatchCoalescer>,
}

impl Reader {
    fn new(source: Arc<Source>, partition: usize) -> Reader {
        let is_sparse = source.filter.is_some() && !source.schema.fields().is_empty();
        let coalescer = || {
            let together = BatchCoalescer::new(source.schema.clone(), CHUNK_ROWS);
            together.with_biggest_coalesce_batch_size(Some(LARGE_BATCH))
        };
        Reader { partition, ended: false, together: is_sparse.then(coalescer), source }
    }

    /// The next batch. Pending if many chunks in succession had no wanted row, so that other tasks get the thread, and
    /// a dropped query ends.
    fn poll(&mut self) -> Poll<Option<Result<RecordBatch>>> {
        for _ in 0..CHUNKS_AT_ONCE {
            match self.next() {
                Ok(Some(batch)) => return Poll::Ready(Some(Ok(batch))),
                Ok(None) if self.ended => return Poll::Ready(None),
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
        let index = self.source.claims.next(self.partition);
        self.ended = index.is_none();
        let batch = index.map(|index| self.source.read(index)).transpose()?.flatten();
        let Some(together) = &mut self.together else { return Ok(batch) };
        if let Some(batch) = batch {
            together.push_batch(batch)?;
        }
        if self.ended {
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
        self.source.claims.begin(partition)?;
        let mut reader = Reader::new(self.source.clone(), partition);
        let batches = stream::poll_fn(move |context| {
            if reader.source.poll_ready(context).is_pending() {
                return Poll::Pending;
            }
            let polled = reader.poll();
            if polled.is_pending() {
                context.waker().wake_by_ref();
            }
            polled
        });
        // Batches are nearly always ready, so the scan would keep its thread. `cooperative` makes the scan yield,
        // because each batch then counts against tokio's budget.
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), batches))))
    }
}

impl DisplayAs for ViewScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewScan: rows={}", self.source.view.row_count())?;
        let Some(filter) = &self.source.filter else { return Ok(()) };
        filter.conditions.iter().try_for_each(|condition| write!(f, ", filter={}", condition.expr))?;
        if filter.keys.is_empty() { Ok(()) } else { write!(f, ", keys of {} joins", filter.keys.len()) }
    }
}
