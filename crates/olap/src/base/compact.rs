//! Compaction: texts are copied, so that a batch does not keep memory of rows that it does not contain. Rows are
//! compacted before an operator that counts memory batch by batch.
//!
//! The texts of a few rows may lie in memory between the texts of many other rows. All slices of a large batch share
//! the batch's memory. Without compaction, each slice would be counted as if it held all of that memory.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

/// A column is copied only if it holds more than this number of bytes that its rows do not need.
const SLACK: usize = 64 << 10;

/// Copies texts or bytes that were taken out of a batch into memory of their own. Without this copy, they would keep
/// the memory of the whole batch.
pub fn owned(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column,
    }
}

#[derive(Debug)]
struct Compact {
    input: Arc<dyn ExecutionPlan>,
}

/// An operator that returns the same rows, compacted.
pub fn compact(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let is_view = |ty: &DataType| matches!(ty, DataType::Utf8View | DataType::BinaryView);
    match input.schema().fields().iter().any(|field| is_view(field.data_type())) {
        true => Arc::new(Compact { input }),
        false => input,
    }
}

fn compacted(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(lean).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// The same values, copied if they hold much more memory than they need.
pub fn lean(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => without_others(column.as_string_view(), column),
        DataType::BinaryView => without_others(column.as_binary_view(), column),
        _ => column.clone(),
    }
}

fn without_others<T: ByteViewType + ?Sized>(values: &GenericByteViewArray<T>, column: &ArrayRef) -> ArrayRef {
    let held: usize = values.data_buffers().iter().map(|buffer| buffer.len()).sum();
    if held <= SLACK || held <= SLACK + 2 * values.total_buffer_bytes_used() {
        return column.clone();
    }
    Arc::new(values.gc())
}

impl ExecutionPlan for Compact {
    fn name(&self) -> &str {
        "Compact"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Compact { input: children.remove(0) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, context)?.map(|batch| compacted(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

impl DisplayAs for Compact {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compact")
    }
}
