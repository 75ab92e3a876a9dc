//! The last or only phase of grouping by keys. It replaces DataFusion's, and uses the disk if the groups do not fit
//! into memory.
//!
//! ```text
//!   rows -> Level -> groups in memory ------------------> results
//!             |                                             ^
//!             +-> parts on disk, by hash of the keys        |
//!                   each: rows -> Level -> groups -> results on disk
//!                                   |
//!                                   +-> parts on disk ...
//! ```
//!
//! Rows go to disk, never states of groups. No result is returned before the last part is grouped, so a query can only
//! fail before its first row.

mod indexed;
mod level;
mod packed;
mod partial;
mod remembered;
#[cfg(test)]
mod same;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use self::level::{Level, Results, slices};
pub use self::partial::{PartialGroups, states};
pub use self::table::{Shape, group_values};
use crate::spill::{Means, blocking, paced};

#[derive(Debug)]
pub struct Groups {
    shape: Arc<Shape>,
    properties: Arc<PlanProperties>,
}

impl Groups {
    /// Replaces the aggregation `like`, which has keys, and returns results instead of partial states.
    pub fn new(like: AggregateExec) -> Result<Groups> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(like.schema()),
            like.properties().output_partitioning().clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Groups { shape: Arc::new(Shape::of(Arc::new(like))?), properties: Arc::new(properties) })
    }
}

impl ExecutionPlan for Groups {
    fn name(&self) -> &str {
        "Groups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.shape.like.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.shape.like.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let child = children.pop().ok_or_else(|| DataFusionError::Internal("Groups has one child".into()))?;
        let (shape, properties) = (Arc::new(self.shape.over(child)?), self.properties.clone());
        Ok(Arc::new(Groups { shape, properties }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let means = Means::new("Groups", &context);
        let batch_size = context.session_config().batch_size();
        let input = paced(self.shape.like.input(), partition, context)?;
        let groups = group(self.shape.clone(), input, means, batch_size);
        let batches = stream::once(groups).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), batches))))
    }
}

impl DisplayAs for Groups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Groups: as ")?;
        self.shape.like.fmt_as(DisplayFormatType::Default, f)
    }
}

type Batches = BoxStream<'static, Result<arrow_array::RecordBatch>>;

/// Returns a row for each group of `input`.
async fn group(shape: Arc<Shape>, input: Batches, mut means: Means, batch_size: usize) -> Result<Batches> {
    let mut results = means.disk.clone().map(Results::new);
    let mut waiting = Vec::new();
    let (mut rows, mut depth): (Batches, u64) = (input, 0);
    loop {
        let mut level = Level::new(shape.clone(), &mut means, depth, batch_size)?;
        while let Some(batch) = rows.try_next().await? {
            level.add(&batch)?;
        }
        // The stream is dropped now, so that everything that it holds is released.
        drop(rows);
        let (groups, parts) = level.finish()?;
        waiting.extend(parts.into_iter().map(|part| (part, depth + 1)));
        let Some((part, deeper)) = waiting.pop() else {
            let others = match results {
                Some(results) => results.finish()?,
                None => None,
            };
            let others = stream::iter(others).flat_map(|stored| stored.batches(1));
            // The memory of the groups is released after they were returned.
            let slices = slices(&groups, batch_size).map(move |slice| (slice, &means).0);
            return Ok(others.chain(stream::iter(slices.map(Ok))).boxed());
        };
        if let Some(results) = &mut results {
            blocking(|| results.write(&groups, batch_size))?;
        }
        rows = part.batches(batch_size).boxed();
        depth = deeper;
    }
}
