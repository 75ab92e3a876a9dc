//! Joins by equal keys, or by limits of values, with the help of a disk where the build side does not fit into memory.
//!
//! ```text
//!   build side, all partitions -> rows laid out -> one table        a word of 64 bits for the keys of a row -> rows
//!                                                   ^   ^
//!   probe side, a partition ------------------------+   |           each batch: words -> pairs -> columns of what comes out
//!   probe side, another one ----------------------------+
//!
//!   no memory for the table: both sides -> parts on disk, by hash of the keys -> each part as above
//! ```
//!
//! With limits, as where one value lies between two others, rows that have no keys, or the same key as many others, are sorted instead.
//! Without keys they have to fit into memory.
//!
//! No rows are exchanged between threads. A join fails before its first row comes out, or not at all.
//!
//! | file | job |
//! |---|---|
//! | `shape` | what is joined, and what comes out |
//! | `layout` | the columns of a side |
//! | `words`, `equal` | keys as words; keys whose words are hashes |
//! | `table` | the rows that have a word |
//! | `ranks`, `ordered` | values as ranks; the rows that lie between some |
//! | `gather`, `building`, `built` | the build side: read, put together, in memory |
//! | `probe`, `output` | the rows of the probe side looked up; batches of what comes out |
//! | `streaming` | a partition of the probe side, when the build side is in memory |
//! | `parts`, `apart`, `partwise` | rows on disk, divided into parts; the parts joined |

mod apart;
mod building;
mod built;
mod equal;
mod gather;
mod layout;
mod ordered;
mod output;
mod parts;
mod partwise;
mod plan;
mod probe;
mod ranks;
mod shape;
mod streaming;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

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

use self::apart::{Apart, apart};
use self::gather::{Gathered, gather};
use self::partwise::Partwise;
use self::shape::Shape;
use self::streaming::{Ready, Streaming};
use crate::spill::Means;

pub use self::ordered::Bound;
pub use self::plan::{Join, Limit};
pub use self::ranks::{Ranked, Ranking};
pub use self::shape::{First, Given, Key};

/// A join of two plans.
#[derive(Debug)]
pub struct JoinExec {
    shape: Arc<Shape>,
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    /// Keys of both sides, and limits, as they are shown.
    on: Vec<Key>,
    limits: Vec<Key>,
    prepared: Arc<Mutex<Preparing>>,
    spent: Arc<Spent>,
    properties: Arc<PlanProperties>,
}

/// The build side, and how many partitions have it.
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

/// Time of tasks that no stream waits for in its own time.
#[derive(Debug, Default)]
pub struct Spent(AtomicU64);

impl Spent {
    fn since(&self, start: Option<Instant>) {
        if let Some(start) = start {
            self.0.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

impl JoinExec {
    fn new(
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

    /// That its tasks have worked, beside its streams.
    pub fn nanoseconds(&self) -> u64 {
        self.spent.0.load(Ordering::Relaxed)
    }
}

/// What is joined, for tasks that do.
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

    /// The build side, which the first partition that asks begins to prepare.
    async fn prepared(&self, preparing: &Mutex<Preparing>) -> Result<Prepared> {
        let begun = {
            let mut preparing = preparing.lock();
            let begin = || self.clone().prepare().map(|done| done.map_err(Arc::new)).boxed().shared();
            preparing.prepared.get_or_insert_with(begin).clone()
        };
        let prepared = begun.await.map_err(DataFusionError::Shared)?;
        let mut preparing = preparing.lock();
        preparing.taken += 1;
        // Its memory is given back when the last partition does not need it any more.
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

    /// Nobody rewrites a plan once it is put together.
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
