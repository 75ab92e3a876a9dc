//! The join operator. The first partition that runs starts the preparation of the build side. After the preparation,
//! each partition looks up its own rows of the probe side.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::apart::{Apart, apart};
use super::gather::{Gathered, gather};
use super::partwise::Partwise;
use super::shape::{Key, Shape};
use super::spent::Spent;
use super::streaming::{Ready, Streaming};
use crate::spill::Means;

/// A join of two plans.
#[derive(Debug)]
pub struct JoinExec {
    shape: Arc<Shape>,
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    /// The keys of both sides and the limits, for display.
    on: Vec<Key>,
    limits: Vec<Key>,
    prepared: Arc<Mutex<Preparing>>,
    spent: Arc<Spent>,
    properties: Arc<PlanProperties>,
}

/// The preparation of the build side, and the number of partitions that have received it.
#[derive(Default)]
struct Preparing {
    prepared: Option<Shared<BoxFuture<'static, Outcome>>>,
    taken: usize,
}

type Outcome = Result<Prepared, Arc<DataFusionError>>;

impl fmt::Debug for Preparing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} have it", self.taken)
    }
}

#[derive(Clone)]
enum Prepared {
    Ready(Arc<Ready>),
    Apart(Arc<Apart>),
}

impl JoinExec {
    pub fn new(
        shape: Shape,
        on: Vec<Key>,
        limits: Vec<Key>,
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
    ) -> JoinExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(shape.schema.clone()),
            Partitioning::UnknownPartitioning(probe.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let (prepared, spent) = Default::default();
        let (shape, properties) = (Arc::new(shape), Arc::new(properties));
        JoinExec { shape, build, probe, on, limits, prepared, spent, properties }
    }

    /// The working time of the join's tasks, in addition to the time of its streams.
    pub fn nanoseconds(&self) -> u64 {
        self.spent.nanoseconds()
    }
}

/// The inputs of a join, for its tasks.
#[derive(Clone)]
struct Sides {
    shape: Arc<Shape>,
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    spent: Arc<Spent>,
    context: Arc<TaskContext>,
}

impl Sides {
    fn partitions(&self) -> usize {
        self.probe.output_partitioning().partition_count()
    }

    /// The build side. The first partition that asks starts its preparation.
    async fn prepared(&self, preparing: &Mutex<Preparing>) -> Result<Prepared> {
        let begun = {
            let mut preparing = preparing.lock();
            let begin = || self.clone().prepare().map(|done| done.map_err(Arc::new)).boxed().shared();
            preparing.prepared.get_or_insert_with(begin).clone()
        };
        let prepared = begun.await.map_err(DataFusionError::Shared)?;
        let mut preparing = preparing.lock();
        preparing.taken += 1;
        // All partitions have the build side now. Its memory is released when no partition needs it any more.
        if preparing.taken == self.partitions() {
            preparing.prepared = None;
        }
        Ok(prepared)
    }

    async fn prepare(self) -> Result<Prepared> {
        let means = Means::new(self.shape.name(), &self.context);
        match gather(&self.shape, &self.build, &self.context, &means, &self.spent).await? {
            Gathered::Built(built, rooms) => {
                let asking = AtomicUsize::new(self.partitions());
                Ok(Prepared::Ready(Arc::new(Ready { built, asking, _rooms: rooms })))
            }
            Gathered::OnDisk(written) => {
                let apart = apart(&self.shape, written, &self.probe, &self.context, means, &self.spent);
                Ok(Prepared::Apart(Arc::new(apart.await?)))
            }
        }
    }
}

impl ExecutionPlan for JoinExec {
    fn name(&self) -> &str {
        self.shape.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.build, &self.probe]
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
        let batch_size = context.session_config().batch_size();
        let sides = Sides {
            shape: self.shape.clone(),
            build: self.build.clone(),
            probe: self.probe.clone(),
            spent: self.spent.clone(),
            context,
        };
        let preparing = self.prepared.clone();
        let batches = stream::once(async move {
            let shape = sides.shape.clone();
            Ok::<_, DataFusionError>(match sides.prepared(&preparing).await? {
                Prepared::Ready(ready) => {
                    let wanted = ready.built.rows > 0 || !shape.is_empty_without_build();
                    let rows = wanted.then(|| sides.probe.execute(partition, sides.context.clone())).transpose()?;
                    let streaming = Streaming::new(shape, ready, rows, batch_size);
                    let next = |mut all: Streaming| async move { Ok(all.next().await?.map(|batch| (batch, all))) };
                    stream::try_unfold(streaming, next).boxed()
                }
                Prepared::Apart(apart) => {
                    let partwise = Partwise::new(shape, apart, batch_size)?;
                    let next = |mut all: Partwise| async move { Ok(all.next().await?.map(|batch| (batch, all))) };
                    stream::try_unfold(partwise, next).boxed()
                }
            })
        });
        let batches = batches.try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), batches))))
    }
}

impl DisplayAs for JoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.shape.name(), self.shape.kind)?;
        self.on.iter().try_for_each(|(build, probe)| write!(f, ", {build} = {probe}"))?;
        for ((build, probe), bound) in self.limits.iter().zip(&self.shape.bounds) {
            write!(f, ", {build} {} {probe}", bound.operator())?;
        }
        match &self.shape.residual {
            Some(residual) => write!(f, ", filter={residual:?}"),
            None => Ok(()),
        }
    }
}
