//! The stream of batches from a physical plan.
//!
//! A reader of the stream may pass rows on only after the last point at which the query can fail: see
//! [`crate::Running`].

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream, execute_stream_partitioned};
use futures::{StreamExt, TryStreamExt, stream};

/// Returns batches as soon as any partition has some.
pub fn streaming(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    Ok(without_panics(execute_stream(plan, context)?))
}

/// Returns batches once every partition has made its first batch, or has ended. This is for plans in which a partition
/// can fail only before its first batch.
pub fn all_or_nothing(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    if plan.output_partitioning().partition_count() == 1 {
        return streaming(plan, context);
    }
    let schema = plan.schema();
    let begun = execute_stream_partitioned(plan, context)?.into_iter().map(begin).collect::<Vec<_>>();
    let batches = stream::once(async move {
        let mut partitions = Vec::with_capacity(begun.len());
        for task in begun {
            let begun = task.join_unwind().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
            partitions.push(begun);
        }
        let batches = partitions.into_iter().map(|(first, rest)| stream::iter(first.map(Ok)).chain(rest));
        Ok::<_, DataFusionError>(stream::iter(batches).flatten())
    });
    Ok(without_panics(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten()))))
}

type Begun = (Option<RecordBatch>, SendableRecordBatchStream);

/// Runs a partition up to its first batch. Dropping the task ends it.
fn begin(mut partition: SendableRecordBatchStream) -> SpawnedTask<Result<Begun>> {
    SpawnedTask::spawn(async move { Ok((partition.try_next().await?, partition)) })
}

/// Turns a panic into an error, because DataFusion passes a panic of one of its tasks on to the task that waits for it.
/// A panic must not end the engine.
fn without_panics(batches: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = batches.schema();
    let caught = AssertUnwindSafe(batches).catch_unwind().map(|batch| batch.unwrap_or_else(|p| Err(panicked(p))));
    Box::pin(RecordBatchStreamAdapter::new(schema, caught))
}

fn panicked(payload: Box<dyn Any + Send>) -> DataFusionError {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    DataFusionError::Internal(format!("panic: {}", message.unwrap_or("of unknown cause")))
}
