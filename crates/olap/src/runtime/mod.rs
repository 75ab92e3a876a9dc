//! Queries: the memory, disk and threads that they share, and how a query is started.

mod reserve;
mod results;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use colstore::TableView;
use datafusion_common::DataFusionError;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::{ExecutionPlan, displayable};
use plan::{Literal, Plan, words};
use protocol::request::Failure;
use protocol::tree::EnginePlan;

pub use self::reserve::Reservation;
use crate::base::cancellation::Cancellation;
use crate::base::error::{failure, internal};
use crate::build::{self, Manner};
use crate::observe::Observation;
use crate::spill::{self, Disk, FreedMemory, Pool, Quota, Share, Spill};

/// The state that all queries share: memory, disk and settings.
pub struct Runtime {
    pub(crate) environment: Arc<RuntimeEnv>,
    pool: Pool,
    config: SessionConfig,
    pub(crate) disk: Option<Arc<Disk>>,
    threads: usize,
}

#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// The working memory of all queries together.
    pub memory_bytes: u64,
    /// The disk for rows that do not fit into memory.
    pub disk: Option<DiskOptions>,
    /// The number of partitions of a query.
    pub threads: u32,
}

#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The path at which a file is created when it is needed, and unlinked at once.
    pub path: PathBuf,
    /// The limit for all queries together.
    pub limit_bytes: u64,
    /// The memory that all operators which can use the disk may take together. The remainder is left for other
    /// operators.
    pub share_bytes: u64,
    /// The memory that each operator which can use the disk gets in any case.
    pub least_bytes: u64,
}

impl DiskOptions {
    /// The options if all queries together have `memory_bytes` of working memory.
    pub fn new(path: PathBuf, limit_bytes: u64, memory_bytes: u64) -> DiskOptions {
        DiskOptions {
            path,
            limit_bytes,
            share_bytes: spill::share_of(memory_bytes),
            least_bytes: spill::least_of(memory_bytes),
        }
    }
}

/// A query that is ready to run: the schema of the result (columns of any name in the Arrow form of
/// `Plan::output_types`), and its batches. Dropping the stream cancels the query. [`Cancellation`] also stops a join
/// that returns nothing for long.
///
/// A query that has returned its first batch can no longer fail, unless [`Plan::may_fail_late`].
pub struct Running {
    pub schema: SchemaRef,
    pub batches: SendableRecordBatchStream,
    /// The figures for EXPLAIN, if the query is observed.
    pub observation: Option<Observation>,
    pub usage: Usage,
}

/// The memory and disk that one query uses, which can be read while it runs.
#[derive(Debug)]
pub struct Usage {
    pool: Arc<Pool>,
    quota: Arc<Quota>,
}

impl Usage {
    /// The working memory that the query has now.
    pub fn memory_bytes(&self) -> u64 {
        self.pool.query_bytes() as u64
    }

    /// The most working memory that the query has had at one time.
    pub fn peak_memory_bytes(&self) -> u64 {
        self.pool.peak_bytes() as u64
    }

    /// The bytes that the query has on disk now.
    pub fn disk_bytes(&self) -> u64 {
        self.quota.used_bytes()
    }

    /// The bytes that the query has written to disk so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.quota.written_bytes()
    }
}

impl Runtime {
    pub fn new(options: RuntimeOptions) -> Runtime {
        Runtime::with_freed(options, None)
    }

    /// Like `new`; the memory that the allocator keeps counts against the limit, too.
    pub fn with_freed(options: RuntimeOptions, freed: Option<Arc<dyn FreedMemory>>) -> Runtime {
        let threads = options.threads.max(1) as usize;
        let memory = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
        let pool = Pool::new(memory, freed);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool.for_query(None)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
            .build_arc()
            .expect("an environment without disk has nothing to fail on");
        let mut config = SessionConfig::new().with_target_partitions(threads).with_batch_size(colstore::CHUNK_ROWS);
        let mut disk = None;
        if let Some(DiskOptions { path, limit_bytes, share_bytes, least_bytes }) = options.disk {
            let file = disk.insert(Arc::new(Disk::new(path, limit_bytes))).clone();
            let share = Arc::new(Share::new(share_bytes as usize, least_bytes as usize));
            config = config.with_extension(Arc::new(Spill { share, disk: file }));
        }
        Runtime { environment, pool, config, disk, threads }
    }

    /// The bytes that queries have written to disk so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.written_bytes())
    }

    /// Plans and starts a query; must be called within a tokio runtime. `views` are the tables of `plan.relations`, in
    /// the same order and with the same columns. A malformed plan is `Failure { kind: Internal }`, never a panic.
    pub async fn start(
        &self,
        plan: &Plan,
        params: &[Option<Literal>],
        views: Vec<Arc<dyn TableView>>,
        cancellation: &Cancellation,
    ) -> Result<Running, Failure> {
        self.start_as(plan, params, views, cancellation, Manner::default()).await
    }

    /// Like `start`, with options.
    pub async fn start_as(
        &self,
        plan: &Plan,
        params: &[Option<Literal>],
        views: Vec<Arc<dyn TableView>>,
        cancellation: &Cancellation,
        manner: Manner,
    ) -> Result<Running, Failure> {
        let (optimized, physical) = self.physical(plan, params, views, cancellation, manner)?;
        let observation = manner.observed.then(|| Observation::new(physical.clone(), words::meanings(&optimized.root)));
        let schema = physical.schema();
        let memory_bytes = manner.memory_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let pool = Arc::new(self.pool.for_query(memory_bytes));
        let quota = Arc::new(Quota::new(manner.disk_bytes.unwrap_or(u64::MAX)));
        let config = self.config.clone().with_target_partitions(self.threads(&manner));
        let mut config = config.with_extension(pool.clone()).with_extension(quota.clone());
        if let (Some(bytes), Some(spill)) = (memory_bytes, self.config.get_extension::<Spill>()) {
            config = config.with_extension(Arc::new(spill.of_query(bytes)));
        }
        let usage = Usage { pool: pool.clone(), quota };
        let environment = RuntimeEnv { memory_pool: pool, ..RuntimeEnv::clone(&self.environment) };
        let context = TaskContext::default().with_session_config(config);
        let context = Arc::new(context.with_runtime(Arc::new(environment)));
        let start = if plan.ends_with_groups() { results::all_or_nothing } else { results::streaming };
        let batches = start(physical, context).map_err(|e| failure(&e))?;
        Ok(Running { schema, batches, observation, usage })
    }

    /// The physical plan as text, one operator a line.
    pub fn explain(
        &self,
        plan: &Plan,
        params: &[Option<Literal>],
        views: Vec<Arc<dyn TableView>>,
    ) -> Result<String, Failure> {
        let (_, physical) = self.physical(plan, params, views, &Cancellation::default(), Manner::default())?;
        Ok(displayable(physical.as_ref()).indent(false).to_string())
    }

    /// The plan of a query that is not run, for EXPLAIN.
    pub fn outline(
        &self,
        plan: &Plan,
        params: &[Option<Literal>],
        views: Vec<Arc<dyn TableView>>,
        manner: Manner,
    ) -> Result<EnginePlan, Failure> {
        let manner = Manner { observed: true, ..manner };
        let (optimized, physical) = self.physical(plan, params, views, &Cancellation::default(), manner)?;
        let observation = Observation::new(physical, words::meanings(&optimized.root));
        observation.plan(false).ok_or_else(|| internal("a plan without operators"))
    }

    /// The number of threads of a query.
    fn threads(&self, manner: &Manner) -> usize {
        manner.threads.map_or(self.threads, |threads| (threads as usize).clamp(1, self.threads))
    }

    /// Converts an error in a query's stream of batches to a failure.
    pub fn failure(error: &DataFusionError) -> Failure {
        failure(error)
    }

    /// The optimized plan, and the physical plan that executes it.
    fn physical(
        &self,
        plan: &Plan,
        params: &[Option<Literal>],
        views: Vec<Arc<dyn TableView>>,
        cancellation: &Cancellation,
        manner: Manner,
    ) -> Result<(Plan, Arc<dyn ExecutionPlan>), Failure> {
        plan.check().map_err(internal)?;
        if views.len() != plan.relations.len() {
            return Err(internal(format!("{} views for {} relations", views.len(), plan.relations.len())));
        }
        for (relation, view) in plan.relations.iter().zip(&views) {
            if relation.columns != view.types() {
                return Err(internal(format!("view of {:?} has other columns", relation.source)));
            }
        }
        let plan = optimizer::optimized(plan.clone());
        let physical = build::build(&plan, params, &views, self.threads(&manner), cancellation, manner)?;
        Ok((plan, physical))
    }
}
