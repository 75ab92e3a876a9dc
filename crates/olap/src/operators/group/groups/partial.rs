//! The first phase of grouping by keys, which each thread does separately. The last phase merges the states.
//!
//! ```text
//!   rows -> groups in memory -> their states, at the end or when memory runs out
//!           (if nearly each row begins a group: each further row becomes a state of its own)
//! ```

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::{BoxStream, Fuse};
use futures::{StreamExt, TryStreamExt, stream};

use super::level::slices;
use super::table::{Shape, Table};
use crate::spill::FIRST_PHASE;

/// The number of rows after which it is decided whether partial grouping pays.
const TRIAL_ROWS: usize = 100_000;
/// Partial grouping pays if fewer than this many of ten rows begin a group.
const WORTHWHILE: usize = 8;

#[derive(Debug)]
pub struct PartialGroups {
    shape: Arc<Shape>,
}

impl PartialGroups {
    /// Replaces the aggregation `like`, which has keys, and returns partial states.
    pub fn new(like: AggregateExec) -> Result<PartialGroups> {
        Ok(PartialGroups { shape: Arc::new(Shape::of(Arc::new(like))?) })
    }
}

impl ExecutionPlan for PartialGroups {
    fn name(&self) -> &str {
        "PartialGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.shape.like.properties()
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
        let child = children.pop().ok_or_else(|| DataFusionError::Internal("PartialGroups has one child".into()))?;
        Ok(Arc::new(PartialGroups { shape: Arc::new(self.shape.over(child)?) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.shape.like.input().execute(partition, context.clone())?;
        let states = states(&self.shape, rows.boxed(), &context, true)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), states)))
    }
}

impl DisplayAs for PartialGroups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartialGroups: as ")?;
        self.shape.like.fmt_as(DisplayFormatType::Default, f)
    }
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The states of groups of rows or, if not `grouped`, of each row.
pub fn states(shape: &Arc<Shape>, rows: Batches, context: &TaskContext, grouped: bool) -> Result<Batches> {
    let phase = Phase {
        table: Table::new(shape.clone())?,
        rows: rows.fuse(),
        seen: 0,
        grouped,
        memory: MemoryConsumer::new(FIRST_PHASE).register(context.memory_pool()),
    };
    let batch_size = context.session_config().batch_size();
    let states = stream::try_unfold(phase, Phase::next);
    let slices = move |states| stream::iter(slices(&states, batch_size).map(Ok));
    Ok(states.map_ok(slices).try_flatten().boxed())
}

struct Phase {
    table: Table,
    rows: Fuse<Batches>,
    seen: usize,
    grouped: bool,
    memory: MemoryReservation,
}

impl Phase {
    async fn next(mut self) -> Result<Option<(RecordBatch, Phase)>> {
        while let Some(batch) = self.rows.try_next().await? {
            if !self.grouped {
                return Ok(Some((self.table.states_of_rows(&batch)?, self)));
            }
            self.table.add(&batch)?;
            let tried = self.seen >= TRIAL_ROWS;
            self.seen += batch.num_rows();
            if !tried && self.seen >= TRIAL_ROWS {
                self.grouped = self.table.len() < self.seen / 10 * WORTHWHILE;
            }
            if !self.grouped || self.memory.try_resize(self.table.bytes()).is_err() {
                return Ok(Some((self.states()?, self)));
            }
        }
        match self.table.len() {
            0 => Ok(None),
            _ => Ok(Some((self.states()?, self))),
        }
    }

    fn states(&mut self) -> Result<RecordBatch> {
        let states = self.table.states()?;
        self.memory.free();
        Ok(states)
    }
}
