//! Fused grouping is the first phase of grouping the rows of a scan, without making batches of rows. Sums and counts of
//! each chunk come straight from its codes.
//!
//! ```text
//!   chunk -> which rows pass (a mask, or a list)
//!         -> slots: numbers that tell the group of each row, made of the codes of its keys
//!         -> program: computes the values that are summed, in 64 bits, a block of rows at a time
//!         -> sums of the chunk, slot by slot -> totals, group by group -> partial states
//! ```
//!
//! The operator returns the states of an `Aggregate(Partial)`, which the same second phase merges. If bounds do not
//! show that a sum fits 64 bits, the ordinary expressions compute it for this chunk, with all checks. If keys have no
//! codes, or if there are many groups, the remaining rows are left to the ordinary operator.

mod compile;
mod loops;
mod program;
mod rows;
mod slots;
mod totals;
mod work;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

pub use self::compile::{Compiler, Shape};
use self::work::Work;
use crate::operators::scan::Direct;

/// The number of chunks that are read before other tasks get their turn.
const CHUNKS_AT_ONCE: usize = 8;
/// The greatest number of groups. With more, the ordinary operator is faster.
const MOST_GROUPS: usize = 1024;

#[derive(Debug)]
pub struct FusedGroups {
    shape: Arc<Shape>,
    direct: Arc<Direct>,
    /// The ordinary operator over the same scan.
    otherwise: Arc<dyn ExecutionPlan>,
}

impl FusedGroups {
    pub fn new(shape: Shape, direct: Direct, otherwise: Arc<dyn ExecutionPlan>) -> FusedGroups {
        FusedGroups { shape: Arc::new(shape), direct: Arc::new(direct), otherwise }
    }
}

impl ExecutionPlan for FusedGroups {
    fn name(&self) -> &str {
        "FusedGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.otherwise.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.otherwise]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.otherwise.apply_expressions(f)
    }

    /// Not called, because plans are not rewritten after they are built.
    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        children.pop().ok_or_else(|| DataFusionError::Internal("FusedGroups has one child".into()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.direct.begin(partition)?;
        let work = Work::new(self.shape.clone(), self.direct.clone(), self.schema())?;
        let grouped = group(work, self.direct.clone(), self.otherwise.clone(), partition, context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(grouped).try_flatten())))
    }
}

impl DisplayAs for FusedGroups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FusedGroups: or")
    }
}

/// The partial states of a partition's groups.
async fn group(
    mut work: Work,
    direct: Arc<Direct>,
    otherwise: Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let memory = MemoryConsumer::new("FusedGroups").register(context.memory_pool());
    poll_fn(|context| direct.poll_ready(context)).await;
    loop {
        for _ in 0..CHUNKS_AT_ONCE {
            let chunk = match work.groups() > MOST_GROUPS {
                true => None,
                false => match direct.next(partition) {
                    None => return Ok(stream::iter([work.states()]).boxed()),
                    Some(chunk) if work.add(chunk)? => {
                        memory.try_resize(work.bytes())?;
                        continue;
                    }
                    Some(chunk) => Some(chunk),
                },
            };
            direct.hand_over(partition, chunk);
            let states = if work.groups() > 0 { Some(work.states()) } else { None };
            return Ok(stream::iter(states).chain(otherwise.execute(partition, context)?).boxed());
        }
        // Other tasks may use the thread now. If the query was dropped, it ends here.
        tokio::task::yield_now().await;
    }
}
