//! Measures the output of an operator, and its costs.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion_common::error::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion_execution::runtime_env::RuntimeEnv;
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use futures::{Stream, StreamExt};

use super::Tally;

/// Measurements of one operator, over all its partitions.
#[derive(Debug, Default)]
pub struct Meter {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    memory: AtomicUsize,
    most_memory: AtomicUsize,
    disk: AtomicU64,
    most_disk: AtomicU64,
}

impl Meter {
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The time spent in the operator's streams, without the time spent in the streams below them.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }

    /// The greatest memory at one time, in bytes.
    pub fn most_memory(&self) -> u64 {
        self.most_memory.load(Ordering::Relaxed) as u64
    }

    /// The greatest disk space at one time, in bytes.
    pub fn most_disk(&self) -> u64 {
        self.most_disk.load(Ordering::Relaxed)
    }

    fn took(&self, bytes: usize) {
        let all = self.memory.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most_memory.fetch_max(all, Ordering::Relaxed);
    }

    /// Measures work as if a stream below the running stream did it. `rows` counts the rows of the work's result.
    pub fn spent<T>(&self, work: impl FnOnce() -> T, rows: impl FnOnce(&T) -> u64) -> T {
        let start = Instant::now();
        let done = work();
        let taken = start.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(taken, Ordering::Relaxed);
        WITHIN.set(WITHIN.get().saturating_add(taken));
        self.rows.fetch_add(rows(&done), Ordering::Relaxed);
        done
    }

    /// The same stream, measured.
    pub fn measured(self: &Arc<Meter>, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        Box::pin(Measured { rows, meter: self.clone() })
    }

    /// The same context, except that memory counts for this meter, and for no meter of an operator above.
    pub fn context(self: &Arc<Meter>, context: &TaskContext) -> Arc<TaskContext> {
        let pool = context.memory_pool();
        let pool = pool.downcast_ref::<Counted>().map_or(pool, |counted| &counted.pool).clone();
        let counted = Arc::new(Counted { pool, meter: self.clone() });
        let runtime = RuntimeEnv { memory_pool: counted, ..RuntimeEnv::clone(&context.runtime_env()) };
        let same = TaskContext::default().with_session_config(context.session_config().clone());
        Arc::new(same.with_runtime(Arc::new(runtime)))
    }
}

impl Tally for Meter {
    fn added(&self, bytes: u64) {
        let all = self.disk.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most_disk.fetch_max(all, Ordering::Relaxed);
    }

    fn removed(&self, bytes: u64) {
        self.disk.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The disk counter of an operator with this context, if it is observed.
pub fn tally(context: &TaskContext) -> Option<Arc<dyn Tally>> {
    let pool = context.memory_pool().downcast_ref::<Counted>();
    pool.map(|counted| counted.meter.clone() as Arc<dyn Tally>)
}

struct Measured {
    rows: SendableRecordBatchStream,
    meter: Arc<Meter>,
}

thread_local! {
    /// The time spent in measured streams below the stream that this thread is running.
    static WITHIN: Cell<u64> = const { Cell::new(0) };
}

impl Stream for Measured {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let around = WITHIN.replace(0);
        let start = Instant::now();
        let polled = self.rows.poll_next_unpin(context);
        let taken = start.elapsed().as_nanos() as u64;
        let within = WITHIN.replace(around.saturating_add(taken));
        self.meter.nanoseconds.fetch_add(taken.saturating_sub(within), Ordering::Relaxed);
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            self.meter.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl RecordBatchStream for Measured {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// The pool of all queries, which also counts the memory of one operator.
#[derive(Debug)]
struct Counted {
    pool: Arc<dyn MemoryPool>,
    meter: Arc<Meter>,
}

impl MemoryPool for Counted {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.meter.took(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.meter.memory.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.meter.took(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.pool, f)
    }
}
