//! Reads a [`TableView`]: each partition a range of chunks, each chunk a batch, no value copied unless rows are masked.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use colstore::TableView;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream;
use protocol::tree::Chunks;

/// Chunks that make a partition worth its task.
const MIN_CHUNKS: usize = 4;

#[derive(Debug)]
pub struct ViewScan {
    view: Arc<dyn TableView>,
    /// Chunks that were read so far.
    read: Arc<AtomicU64>,
    properties: Arc<PlanProperties>,
}

impl ViewScan {
    /// `schema` has a field for every column of the view.
    pub fn new(view: Arc<dyn TableView>, schema: Schema, threads: usize) -> Self {
        let partitions = (view.chunk_count() / MIN_CHUNKS).clamp(1, threads);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        ViewScan { view, read: Arc::default(), properties: Arc::new(properties) }
    }

    pub fn chunks(&self) -> Chunks {
        Chunks { read: self.read.load(Ordering::Relaxed), of: self.view.chunk_count() as u64 }
    }

    fn chunks_of(&self, partition: usize) -> Range<usize> {
        let (chunks, partitions) = (self.view.chunk_count(), self.properties.partitioning.partition_count());
        partition * chunks / partitions..(partition + 1) * chunks / partitions
    }
}

fn read_chunk(view: &dyn TableView, schema: &SchemaRef, index: usize) -> Result<RecordBatch> {
    let chunk = view.chunk(index).map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
    let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), chunk.arrays, &options)?;
    match chunk.live {
        None => Ok(batch),
        Some(live) if live.len() == chunk.rows => Ok(filter_record_batch(&batch, &BooleanArray::new(live, None))?),
        Some(live) => Err(DataFusionError::Internal(format!("mask of {} for {} rows", live.len(), chunk.rows))),
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
        let (view, schema) = (self.view.clone(), self.schema());
        let batches = self.chunks_of(partition).map({
            let (schema, read) = (schema.clone(), self.read.clone());
            move |index| {
                read.fetch_add(1, Ordering::Relaxed);
                read_chunk(view.as_ref(), &schema, index)
            }
        });
        let filled = batches.filter(|batch| batch.as_ref().map_or(true, |b| b.num_rows() > 0));
        // Chunks are always ready: only by spending tokio's budget does the query leave its thread to others and
        // notice that it was dropped.
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, stream::iter(filled)))))
    }
}

impl DisplayAs for ViewScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewScan: rows={}", self.view.row_count())
    }
}
