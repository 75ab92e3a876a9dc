//! The operator that adds the columns of window functions to sorted rows.
//!
//! All rows of a partition are computed together; several small partitions may be computed together, too. If the
//! functions are only row numbers and ranks, rows are numbered as they arrive, without being collected.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::base::cancellation::Cancellation;
use crate::base::keys::{Keys, SortColumn};
use crate::base::visit::visit_each;
use crate::operators::window::bytes::bytes_beside;
use crate::operators::window::frames::{Borders, Layout, Starts};
use crate::operators::window::numbers::Numbers;
use crate::operators::window::windowed::Call;

#[derive(Debug)]
pub struct Windows {
    /// The input, sorted by window partition and order. All rows of a window partition are in one partition of the
    /// plan.
    input: Arc<dyn ExecutionPlan>,
    partition: Arc<[SortColumn]>,
    order: Arc<[SortColumn]>,
    calls: Arc<[Call]>,
    fields: Vec<Field>,
    cancellation: Cancellation,
    properties: Arc<PlanProperties>,
}

impl Windows {
    /// `fields` are the columns that the calls add.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        partition: Vec<SortColumn>,
        order: Vec<SortColumn>,
        calls: Vec<Call>,
        fields: Vec<Field>,
        cancellation: Cancellation,
    ) -> Windows {
        let own = input.schema().fields().iter().map(|field| Field::clone(field)).collect::<Vec<_>>();
        let schema = Schema::new([own, fields.clone()].concat());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema)),
            datafusion_physical_plan::Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let properties = Arc::new(properties);
        let (partition, order, calls) = (partition.into(), order.into(), calls.into());
        Windows { input, partition, order, calls, fields, cancellation, properties }
    }
}

/// Collects rows until some partitions are complete.
struct Collector {
    input_schema: SchemaRef,
    schema: SchemaRef,
    borders: Borders,
    calls: Arc<[Call]>,
    cancellation: Cancellation,
    waiting: Vec<RecordBatch>,
    starts: Vec<Starts>,
    rows: usize,
    enough: usize,
    reservation: MemoryReservation,
}

/// Rows with the columns of the calls, and their memory.
struct Complete {
    batch: RecordBatch,
    memory: MemoryReservation,
}

impl Collector {
    /// Adds a batch, and returns the partitions that are complete now.
    fn push(&mut self, batch: RecordBatch) -> Result<Option<Complete>> {
        let starts = self.borders.of(&batch)?;
        let rows = batch.num_rows();
        // The last partition that begins in this batch may not be complete.
        let start = if self.rows + rows < self.enough { None } else { starts.partitions.set_indices().last() };
        let Some(start) = start else {
            self.wait(batch, starts)?;
            return Ok(None);
        };
        self.wait(batch.slice(0, start), starts.slice(0, start))?;
        let complete = self.complete()?;
        self.wait(batch.slice(start, rows - start), starts.slice(start, rows - start))?;
        Ok(complete)
    }

    fn wait(&mut self, batch: RecordBatch, starts: Starts) -> Result<()> {
        self.reservation.try_grow(batch.get_array_memory_size())?;
        self.rows += batch.num_rows();
        self.waiting.push(batch);
        self.starts.push(starts);
        Ok(())
    }

    /// All collected rows, with the columns of the calls.
    fn complete(&mut self) -> Result<Option<Complete>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let memory = self.reservation.take();
        let rows = std::mem::take(&mut self.rows);
        memory.try_grow(memory.size())?;
        let batch = concat_batches(&self.input_schema, &std::mem::take(&mut self.waiting))?;
        let layout_bytes = Layout::bytes(rows);
        let mut bytes = batch.get_array_memory_size();
        memory.try_resize(bytes + layout_bytes)?;
        let layout = Layout::new(&std::mem::take(&mut self.starts));
        let mut columns = batch.columns().to_vec();
        for call in self.calls.iter() {
            memory.try_resize(bytes + layout_bytes + rows * call.bytes_of_row())?;
            let column = call.evaluate(&batch, &layout, &memory, &self.cancellation)?;
            bytes += bytes_beside(&column, &columns);
            memory.try_resize(bytes + layout_bytes)?;
            columns.push(column);
        }
        drop(layout);
        memory.try_resize(bytes)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok(Some(Complete { batch, memory }))
    }
}

impl ExecutionPlan for Windows {
    fn name(&self) -> &str {
        "Windows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let keys = self.partition.iter().chain(self.order.iter()).map(|column| &column.expr);
        visit_each(keys.chain(self.calls.iter().flat_map(Call::expressions)), f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (partition, order, calls) = (self.partition.to_vec(), self.order.to_vec(), self.calls.to_vec());
        let (fields, cancellation) = (self.fields.clone(), self.cancellation.clone());
        Ok(Arc::new(Windows::new(children.remove(0), partition, order, calls, fields, cancellation)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, input_schema) = (self.schema(), self.input.schema());
        let batch_size = context.session_config().batch_size();
        let keys = |columns: &Arc<[SortColumn]>| Keys::new(columns.clone(), &input_schema);
        let borders = Borders::new(keys(&self.partition)?, keys(&self.order)?);
        let input = self.input.execute(partition, context.clone())?;
        if let Some(mut numbers) = Numbers::new(&self.calls, schema.clone()) {
            let mut borders = borders;
            let numbered = input.map(move |batch| batch.and_then(|batch| numbers.with(&batch, &borders.of(&batch)?)));
            return Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, numbered))));
        }
        let mut collector = Collector {
            borders,
            input_schema,
            schema: schema.clone(),
            calls: self.calls.clone(),
            cancellation: self.cancellation.clone(),
            waiting: Vec::new(),
            starts: Vec::new(),
            rows: 0,
            enough: batch_size,
            reservation: MemoryConsumer::new("Windows").register(context.memory_pool()),
        };
        let input = input.map(|batch| batch.map(Some));
        let end = stream::once(std::future::ready(Ok::<_, DataFusionError>(None)));
        let complete = input.chain(end).try_filter_map(move |batch| {
            std::future::ready(match batch {
                Some(batch) => collector.push(batch),
                None => collector.complete(),
            })
        });
        let slices = complete.map_ok(move |Complete { batch, memory }| {
            let starts = (0..batch.num_rows()).step_by(batch_size);
            // The memory is released after the last slice was returned.
            let slice = move |start: usize| {
                let slice = batch.slice(start, batch_size.min(batch.num_rows() - start));
                Ok((slice, &memory).0)
            };
            stream::iter(starts.map(slice))
        });
        let batches = slices.try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

impl DisplayAs for Windows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Windows")
    }
}
