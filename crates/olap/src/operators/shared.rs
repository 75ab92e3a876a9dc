//! Shared rows: computed once and read by several parts of a query. They are kept until the query ends, in memory or,
//! if memory runs out, on disk.
//!
//! ```text
//!   reader  reader        each returns the columns that it needs
//!       \   /
//!     SharedRows          the first reader that asks starts a task for each partition, so that one reader can read
//!         |               all rows before another one begins
//!      any plan
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use plan::ColumnId;

use crate::base::compact::owned;
use crate::expr::column_name;
use crate::spill::{self, Means, Room, SINK_BYTES, Sink, blocking};

/// The bytes of rows that are read from disk at once.
const READ_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub struct SharedRows {
    plan: Arc<dyn ExecutionPlan>,
    /// The positions of the read columns in the plan's output.
    places: Vec<usize>,
    partitions: Mutex<Vec<Kept>>,
}

/// A partition that is or will be computed.
type Kept = Shared<BoxFuture<'static, Result<Arc<Partition>, Arc<DataFusionError>>>>;

enum Partition {
    /// Rows in memory. The room reserves this memory as long as the rows exist.
    Memory(Vec<RecordBatch>, #[expect(unused)] Room),
    Disk(spill::Kept),
}

impl Partition {
    fn batches(&self, rows: usize) -> BoxStream<'static, Result<RecordBatch>> {
        match self {
            Partition::Memory(batches, _) => stream::iter(batches.clone()).map(Ok).boxed(),
            Partition::Disk(kept) => kept.batches_within(rows, READ_BYTES).boxed(),
        }
    }
}

impl SharedRows {
    /// `places` are the positions of the read columns in the plan's output.
    pub fn new(plan: Arc<dyn ExecutionPlan>, places: Vec<usize>) -> SharedRows {
        SharedRows { plan, places, partitions: Mutex::default() }
    }

    /// All partitions are started with the first one that is requested, because an exchange needs readers for all of
    /// them.
    fn partition(&self, partition: usize, context: &Arc<TaskContext>) -> Kept {
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        if partitions.is_empty() {
            let count = self.plan.output_partitioning().partition_count();
            partitions.extend((0..count).map(|i| kept(self.plan.clone(), i, context.clone())));
        }
        partitions[partition].clone()
    }
}

/// Computes a partition in a task. The task is dropped with the last reader of the partition.
fn kept(plan: Arc<dyn ExecutionPlan>, partition: usize, context: Arc<TaskContext>) -> Kept {
    let task = SpawnedTask::spawn(async move {
        let mut keeper = Keeper::new(Means::new("SharedRows", &context), plan.schema());
        let mut rows = plan.execute(partition, context)?;
        while let Some(batch) = rows.try_next().await? {
            keeper.add(batch)?;
        }
        keeper.finish().map(Arc::new)
    });
    let ended = async move {
        let ended = task.join_unwind().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)));
        ended.flatten().map_err(Arc::new)
    };
    ended.boxed().shared()
}

/// Collects the rows of a partition.
struct Keeper {
    means: Means,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The file to which all rows go once memory has run out.
    sink: Option<Sink>,
}

impl Keeper {
    fn new(means: Means, schema: SchemaRef) -> Keeper {
        Keeper { means, schema, batches: Vec::new(), sink: None }
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if let Some(sink) = &mut self.sink {
            return blocking(|| sink.write(&batch));
        }
        let columns = batch.columns().iter().cloned().map(owned).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
        let bytes = batch.get_array_memory_size();
        self.batches.push(batch);
        match (self.means.room.grow(bytes), &self.means.disk) {
            (Err(_), Some(account)) => {
                let batches = std::mem::take(&mut self.batches);
                let sink = self.sink.insert(Sink::new(account.clone(), &self.schema)?);
                blocking(|| batches.iter().try_for_each(|batch| sink.write(batch)))?;
                drop(batches);
                self.means.room.resize(SINK_BYTES)
            }
            (grown, _) => grown,
        }
    }

    fn finish(self) -> Result<Partition> {
        Ok(match self.sink {
            Some(sink) => Partition::Disk(blocking(|| sink.finish())?.kept()),
            None => Partition::Memory(self.batches, self.means.room),
        })
    }
}

#[derive(Clone, Debug)]
pub struct Reader {
    rows: Arc<SharedRows>,
    /// The columns that are read.
    read: Vec<usize>,
    /// Whether EXPLAIN shows the shared plan below this reader.
    is_first: bool,
    properties: Arc<PlanProperties>,
}

impl Reader {
    pub fn new(rows: Arc<SharedRows>, read: Vec<usize>, columns: &[ColumnId], is_first: bool) -> Reader {
        let below = rows.plan.schema();
        let field = |(at, id): (&usize, &ColumnId)| {
            Field::new(column_name(*id), below.field(rows.places[*at]).data_type().clone(), true)
        };
        let schema = Arc::new(Schema::new(read.iter().zip(columns).map(field).collect::<Vec<_>>()));
        let partitions = rows.plan.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Reader { rows, read, is_first, properties: Arc::new(properties) }
    }

    fn as_read(&self, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.read.iter().map(|at| batch.column(self.rows.places[*at]).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }
}

impl ExecutionPlan for Reader {
    fn name(&self) -> &str {
        "SharedRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        if self.is_first { vec![&self.rows.plan] } else { vec![] }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// Not called, because plans are not rewritten after they are built.
    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, reader) = (self.schema(), self.clone());
        let batches = async move {
            let kept = reader.rows.partition(partition, &context).await.map_err(DataFusionError::Shared)?;
            let (schema, rows) = (reader.schema(), context.session_config().batch_size());
            Ok::<_, DataFusionError>(kept.batches(rows).map(move |batch| reader.as_read(&schema, &batch?)))
        };
        let batches = stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

impl DisplayAs for Reader {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRows{}", if self.is_first { "" } else { ": again" })
    }
}
