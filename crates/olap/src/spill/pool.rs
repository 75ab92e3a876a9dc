//! The memory pool of all queries, as each query sees it.
//!
//! The allocator keeps memory that queries have freed, so that the next allocations are fast. An allocation of another
//! size or thread often cannot reuse that memory. So freed memory counts against the limit, too:
//!
//! ```text
//!   limit  |-- reserved by operators --|-- freed, but kept by the allocator --|   more: the kept memory is returned
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::error::{DataFusionError, Result};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation};

/// The name of the first phase of grouping. The first phase may take only a part of the memory. When this part is used
/// up, the first phase passes its groups on, and the operators that receive the groups need memory, too.
pub const FIRST_PHASE: &str = "PartialGroups";

/// The name of DataFusion's exchange. It accepts all rows that come, and cannot work with less memory.
const EXCHANGE: &str = "RepartitionExec";

/// The allocator's memory is looked at whenever operators have taken or released this part of the limit.
const STEPS: usize = 64;
/// The least number of bytes between two looks.
const SHORTEST_STEP: usize = 1 << 20;

/// The memory that was freed, but that the process's allocator has not returned to the system.
pub trait FreedMemory: fmt::Debug + Send + Sync {
    fn bytes(&self) -> usize;

    /// Returns the memory to the system.
    fn give_back(&self);
}

/// The memory of all queries, and the counters of one query.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// The limit of the query's memory, at most the limit for all queries.
    bytes: usize,
    /// The memory of the query.
    query: AtomicUsize,
    /// The most memory that the query has had at one time.
    peak: AtomicUsize,
    /// The memory of the query's first phases and exchanges.
    first_phases: AtomicUsize,
    exchanges: AtomicUsize,
}

#[derive(Debug)]
struct Shared {
    all: GreedyMemoryPool,
    bytes: usize,
    first_phases: AtomicUsize,
    freed: Option<Arc<dyn FreedMemory>>,
    /// The bytes that were taken or released since the last look at the kept memory.
    moved: AtomicUsize,
}

impl Shared {
    /// Counts bytes that were taken or released. Now and then, makes the allocator return what it keeps if that is
    /// beyond the limit.
    fn count(&self, bytes: usize) {
        let Some(freed) = &self.freed else { return };
        if self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes < (self.bytes / STEPS).max(SHORTEST_STEP) {
            return;
        }
        self.moved.store(0, Ordering::Relaxed);
        if self.all.reserved() + freed.bytes() > self.bytes {
            freed.give_back();
        }
    }
}

impl Pool {
    pub fn new(bytes: usize, freed: Option<Arc<dyn FreedMemory>>) -> Pool {
        let shared = Shared {
            all: GreedyMemoryPool::new(bytes),
            bytes,
            first_phases: AtomicUsize::new(0),
            freed,
            moved: AtomicUsize::new(0),
        };
        Pool::of(Arc::new(shared), bytes)
    }

    fn of(shared: Arc<Shared>, bytes: usize) -> Pool {
        let none = AtomicUsize::default;
        Pool { shared, bytes, query: none(), peak: none(), first_phases: none(), exchanges: none() }
    }

    /// The same memory, for one more query, which may have only a part of it if it has a limit.
    pub fn for_query(&self, limit: Option<usize>) -> Pool {
        Pool::of(self.shared.clone(), limit.unwrap_or(usize::MAX).min(self.shared.bytes))
    }

    /// The bytes that the query's operators have now.
    pub fn query_bytes(&self) -> usize {
        self.query.load(Ordering::Relaxed)
    }

    /// The most bytes that the query's operators have had at one time.
    pub fn peak_bytes(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Called when the query has taken bytes, which are counted already.
    fn took(&self, bytes: usize) {
        let now = self.query_bytes();
        if now > self.peak_bytes() {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
        self.shared.count(bytes);
    }

    /// Whether the query has a limit of its own.
    fn is_limited(&self) -> bool {
        self.bytes < self.shared.bytes
    }

    /// Counts bytes that the query wants, if its own limit allows them.
    fn count(&self, bytes: usize) -> Result<()> {
        let within = |all: usize| all.checked_add(bytes).filter(|all| *all <= self.bytes || !self.is_limited());
        match self.query.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => Ok(()),
            Err(_) => Err(DataFusionError::ResourcesExhausted(format!(
                "the query needs more memory than anker.max_query_memory = {} MB",
                self.bytes >> 20
            ))),
        }
    }

    /// Takes memory for a first phase, within the part of all first phases, and of those of this query.
    fn try_grow_first_phase(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let counters = [(&self.shared.first_phases, self.shared.bytes), (&self.first_phases, self.bytes)];
        let taken = counters
            .map(|(taken, bytes)| taken.fetch_add(additional, Ordering::Relaxed) + additional <= bytes / 20 * 3);
        let grown = match taken == [true; 2] {
            true => self.shared.all.try_grow(reservation, additional),
            false => Err(DataFusionError::ResourcesExhausted("the first phases of grouping have their part".into())),
        };
        if grown.is_err() {
            counters.iter().for_each(|(taken, _)| _ = taken.fetch_sub(additional, Ordering::Relaxed));
        }
        grown
    }

    /// Whether the rows that wait in the query's exchanges need more memory than they should.
    pub fn is_congested(&self) -> bool {
        self.exchanges.load(Ordering::Relaxed) > self.bytes / 20
    }

    /// The kind of operator that a reservation belongs to.
    fn kind(reservation: &MemoryReservation) -> Kind {
        match reservation.consumer().name() {
            name if name.starts_with(FIRST_PHASE) => Kind::FirstPhase,
            name if name.starts_with(EXCHANGE) => Kind::Exchange,
            _ => Kind::Other,
        }
    }
}

/// The kinds of operators whose memory is counted apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    FirstPhase,
    Exchange,
    Other,
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "queries"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.shared.all.grow(reservation, additional);
        match Pool::kind(reservation) {
            Kind::FirstPhase => {
                self.shared.first_phases.fetch_add(additional, Ordering::Relaxed);
                self.first_phases.fetch_add(additional, Ordering::Relaxed);
            }
            Kind::Exchange => _ = self.exchanges.fetch_add(additional, Ordering::Relaxed),
            Kind::Other => {}
        }
        self.query.fetch_add(additional, Ordering::Relaxed);
        self.took(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shared.all.shrink(reservation, shrink);
        match Pool::kind(reservation) {
            Kind::FirstPhase => {
                self.shared.first_phases.fetch_sub(shrink, Ordering::Relaxed);
                self.first_phases.fetch_sub(shrink, Ordering::Relaxed);
            }
            Kind::Exchange => _ = self.exchanges.fetch_sub(shrink, Ordering::Relaxed),
            Kind::Other => {}
        }
        self.query.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.count(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.count(additional)?;
        let kind = Pool::kind(reservation);
        let grown = match kind {
            Kind::FirstPhase => self.try_grow_first_phase(reservation, additional),
            _ => self.shared.all.try_grow(reservation, additional),
        };
        match &grown {
            Ok(()) if kind == Kind::Exchange => _ = self.exchanges.fetch_add(additional, Ordering::Relaxed),
            Ok(()) => {}
            Err(_) => _ = self.query.fetch_sub(additional, Ordering::Relaxed),
        }
        if grown.is_ok() {
            self.took(additional);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.shared.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shared.all.memory_limit()
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.all.fmt(f)
    }
}
