//! Runtime filters: keys of a join's build side, which scans of its probe side use to skip rows without a partner.
//!
//! ```text
//!          HashJoin
//!         /        \
//!   GatherKeys      ...          the keys of all rows, noted as they pass
//!       |            |
//!   build side    ViewScan       waits for them, then skips chunks and rows
//! ```
//!
//! Runtime filters exist only for joins that drop rows without a partner, and only for integer keys. A scan gives up a
//! filter if it finds that most rows have a partner.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use colstore::TableView;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::StreamExt;

use self::members::Members;

mod members;
#[cfg(test)]
mod tests;

/// The greatest number of rows whose keys are noted.
const MOST_KEYS: usize = 4 << 20;
/// A filter leaves few rows if it leaves at most one in this many.
const FEW: u64 = 16;
/// The number of rows after which a scan decides whether a filter pays.
const TRIAL_ROWS: u64 = 1 << 16;

/// The keys of a build side, once it is complete.
#[derive(Debug, Default)]
pub struct JoinKeys {
    /// The keys, set once the build side is complete. The inner value is `None` if not all keys were noted.
    known: OnceLock<Option<Members>>,
    gathering: Mutex<Gathering>,
    /// The number of keys that all partitions have noted so far.
    noted: AtomicUsize,
}

#[derive(Debug, Default)]
struct Gathering {
    /// The keys of partitions that have ended.
    parts: Vec<Noted>,
    ended: usize,
    given_up: bool,
    waiting: Vec<Waker>,
}

impl JoinKeys {
    /// Ready once the keys are known, or will not become known.
    pub fn poll_known(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.known.get().is_some() {
            return Poll::Ready(());
        }
        let mut gathering = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        // The keys may have become known before the lock was taken.
        if self.known.get().is_some() {
            return Poll::Ready(());
        }
        // A reader that merges many streams may poll again and again, so each waker is kept only once.
        if !gathering.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            gathering.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn members(&self) -> Option<&Members> {
        self.known.get()?.as_ref()
    }

    /// Called when a partition has ended, with its keys if all were noted.
    fn add(&self, noted: Option<Noted>, partitions: usize, context: &TaskContext) {
        let mut gathering = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        gathering.ended += 1;
        gathering.given_up |= noted.is_none();
        gathering.parts.extend(noted);
        if gathering.given_up {
            gathering.parts.clear();
        }
        if gathering.ended == partitions {
            let parts = std::mem::take(&mut gathering.parts);
            let keys: Vec<&[i64]> = parts.iter().map(|part| &part.keys[..]).collect();
            let members = if gathering.given_up { None } else { Members::of(&keys, reservation(context)) };
            // Only the last partition sets the keys, so this cannot fail.
            let _ = self.known.set(members);
            gathering.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

fn reservation(context: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("JoinKeys").register(context.memory_pool())
}

/// The keys of a join, as a scan tests them.
#[derive(Debug)]
pub struct KeyTest {
    /// The column of the view.
    pub column: usize,
    keys: Arc<JoinKeys>,
    asked: AtomicU64,
    found: AtomicU64,
}

impl KeyTest {
    pub fn new(column: usize, keys: Arc<JoinKeys>) -> KeyTest {
        KeyTest { column, keys, asked: AtomicU64::new(0), found: AtomicU64::new(0) }
    }

    pub fn poll_known(&self, context: &mut Context<'_>) -> Poll<()> {
        self.keys.poll_known(context)
    }

    /// Whether no row of a chunk has a partner.
    pub fn excludes(&self, view: &dyn TableView, index: usize) -> bool {
        let Some(members) = self.keys.members() else { return false };
        view.bounds(index, self.column).is_some_and(|(low, high)| !members.has_within(low, high))
    }

    /// Whether few rows of a chunk have a partner, if its values are evenly distributed.
    pub fn leaves_few(&self, view: &dyn TableView, index: usize) -> bool {
        let Some(members) = self.keys.members() else { return false };
        view.bounds(index, self.column).is_some_and(|(low, high)| members.are_few_of(low, high, FEW))
    }

    /// Whether the test saves more than it costs.
    pub fn is_worth_it(&self) -> bool {
        let (asked, found) = (self.asked.load(Ordering::Relaxed), self.found.load(Ordering::Relaxed));
        self.keys.members().is_some() && (asked < TRIAL_ROWS || found < asked / 4 * 3)
    }

    /// The rows that may have a partner.
    pub fn passed(&self, keys: &ArrayRef) -> Result<BooleanBuffer> {
        let Some(members) = self.keys.members() else { return Ok(BooleanBuffer::new_set(keys.len())) };
        let passed = match keys.data_type() {
            DataType::Int16 => members.among(keys.as_primitive::<Int16Type>()),
            DataType::Int32 => members.among(keys.as_primitive::<Int32Type>()),
            DataType::Int64 => members.among(keys.as_primitive::<Int64Type>()),
            other => return Err(DataFusionError::Internal(format!("{other} is no key that is noted"))),
        };
        self.asked.fetch_add(passed.len() as u64, Ordering::Relaxed);
        self.found.fetch_add(passed.count_set_bits() as u64, Ordering::Relaxed);
        Ok(passed)
    }
}

/// Passes on the rows of a build side, and notes their keys.
#[derive(Debug)]
pub struct GatherKeys {
    input: Arc<dyn ExecutionPlan>,
    noted: Vec<(Arc<dyn PhysicalExpr>, Arc<JoinKeys>)>,
}

impl GatherKeys {
    /// `noted` are the keys, each with the [`JoinKeys`] that receive its values.
    pub fn new(input: Arc<dyn ExecutionPlan>, noted: Vec<(Arc<dyn PhysicalExpr>, Arc<JoinKeys>)>) -> GatherKeys {
        GatherKeys { input, noted }
    }
}

impl ExecutionPlan for GatherKeys {
    fn name(&self) -> &str {
        "GatherKeys"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for (key, _) in &self.noted {
            recursion = f(key)?;
        }
        Ok(recursion)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("GatherKeys has one child".into()))?;
        Ok(Arc::new(GatherKeys { input, noted: self.noted.clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        let notes = self.noted.iter().map(|(key, keys)| Notes::new(key, keys, partitions, &context));
        let mut notes: Vec<Notes> = notes.collect();
        let mut rows = self.input.execute(partition, context)?;
        let noting = futures::stream::poll_fn(move |context| {
            let polled = rows.poll_next_unpin(context);
            match &polled {
                Poll::Ready(Some(Ok(batch))) => {
                    if let Some(error) = notes.iter_mut().find_map(|notes| notes.note(batch).err()) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Poll::Ready(None) => notes.iter_mut().for_each(Notes::end),
                Poll::Ready(Some(Err(_))) | Poll::Pending => {}
            }
            polled
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), noting)))
    }
}

impl DisplayAs for GatherKeys {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatherKeys")
    }
}

/// The keys of a partition, and their memory.
#[derive(Debug)]
struct Noted {
    keys: Vec<i64>,
    memory: MemoryReservation,
}

impl Noted {
    fn new(context: &TaskContext) -> Noted {
        Noted { keys: Vec::new(), memory: reservation(context) }
    }

    /// Whether there is memory for `more` keys.
    fn has_room_for(&mut self, more: usize) -> bool {
        let wanted = self.keys.len() + more;
        if wanted <= self.keys.capacity() {
            return true;
        }
        let capacity = wanted.max(2 * self.keys.len());
        let has_room = self.memory.try_resize(capacity * size_of::<i64>()).is_ok();
        if has_room {
            self.keys.reserve_exact(capacity - self.keys.len());
        }
        has_room
    }
}

/// Notes the keys of a partition.
struct Notes {
    key: Arc<dyn PhysicalExpr>,
    /// The keys so far; `None` if there are too many.
    noted: Option<Noted>,
    /// Receives the keys when the partition ends, or `None` if the partition does not complete.
    told: Option<Arc<JoinKeys>>,
    partitions: usize,
    context: Arc<TaskContext>,
}

impl Notes {
    fn new(key: &Arc<dyn PhysicalExpr>, keys: &Arc<JoinKeys>, partitions: usize, context: &Arc<TaskContext>) -> Notes {
        let (noted, told) = (Some(Noted::new(context)), Some(keys.clone()));
        Notes { key: key.clone(), noted, told, partitions, context: context.clone() }
    }

    fn note(&mut self, batch: &RecordBatch) -> Result<()> {
        let (Some(noted), Some(told)) = (&mut self.noted, &self.told) else { return Ok(()) };
        let keys = self.key.evaluate(batch)?.into_array(batch.num_rows())?;
        let more = keys.len() - keys.null_count();
        let all = told.noted.fetch_add(more, Ordering::Relaxed) + more;
        if all > MOST_KEYS || !noted.has_room_for(more) {
            self.noted = None;
            return Ok(());
        }
        let noted = &mut noted.keys;
        match keys.data_type() {
            DataType::Int16 => extend(noted, keys.as_primitive::<Int16Type>()),
            DataType::Int32 => extend(noted, keys.as_primitive::<Int32Type>()),
            DataType::Int64 => extend(noted, keys.as_primitive::<Int64Type>()),
            other => return Err(DataFusionError::Internal(format!("{other} is no key that is noted"))),
        }
        Ok(())
    }

    /// Called when all rows of the partition have been seen.
    fn end(&mut self) {
        let noted = self.noted.take();
        self.tell(noted);
    }

    fn tell(&mut self, noted: Option<Noted>) {
        if let Some(keys) = self.told.take() {
            keys.add(noted, self.partitions, &self.context);
        }
    }
}

impl Drop for Notes {
    /// If the partition did not complete, nothing is known about its keys.
    fn drop(&mut self) {
        self.tell(None);
    }
}

fn extend<T: ArrowPrimitiveType<Native: Into<i64>>>(noted: &mut Vec<i64>, keys: &PrimitiveArray<T>) {
    match keys.nulls() {
        None => noted.extend(keys.values().iter().map(|key| (*key).into())),
        Some(_) => noted.extend(keys.iter().flatten().map(Into::into)),
    }
}
