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
    /// The memory of the query.
    query: AtomicUsize,
    /// The memory of the query's exchanges.
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
        Pool { shared: Arc::new(shared), query: AtomicUsize::new(0), exchanges: AtomicUsize::new(0) }
    }

    /// The same memory, for one more query.
    pub fn for_query(&self) -> Pool {
        Pool { shared: self.shared.clone(), query: AtomicUsize::new(0), exchanges: AtomicUsize::new(0) }
    }

    /// The bytes that the query's operators have now.
    pub fn query_bytes(&self) -> usize {
        self.query.load(Ordering::Relaxed)
    }

    /// Counts bytes that the query has taken.
    fn took(&self, bytes: usize) {
        self.query.fetch_add(bytes, Ordering::Relaxed);
        self.shared.count(bytes);
    }

    /// Whether the rows that wait in the query's exchanges need more memory than they should.
    pub fn is_congested(&self) -> bool {
        self.exchanges.load(Ordering::Relaxed) > self.shared.bytes / 20
    }

    /// The counter and the limit of the memory of first phases or exchanges, if the reservation belongs to one of
    /// these.
    fn part(&self, reservation: &MemoryReservation) -> Option<(&AtomicUsize, usize)> {
        match reservation.consumer().name() {
            name if name.starts_with(FIRST_PHASE) => Some((&self.shared.first_phases, self.shared.bytes / 20 * 3)),
            name if name.starts_with(EXCHANGE) => Some((&self.exchanges, self.shared.bytes)),
            _ => None,
        }
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "queries"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.shared.all.grow(reservation, additional);
        if let Some((taken, _)) = self.part(reservation) {
            taken.fetch_add(additional, Ordering::Relaxed);
        }
        self.took(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shared.all.shrink(reservation, shrink);
        if let Some((taken, _)) = self.part(reservation) {
            taken.fetch_sub(shrink, Ordering::Relaxed);
        }
        self.query.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.count(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let Some((taken, limit)) = self.part(reservation) else {
            self.shared.all.try_grow(reservation, additional)?;
            self.took(additional);
            return Ok(());
        };
        let all = taken.fetch_add(additional, Ordering::Relaxed) + additional;
        let grown = match all <= limit {
            true => self.shared.all.try_grow(reservation, additional),
            false => Err(DataFusionError::ResourcesExhausted("the first phases of grouping have their part".into())),
        };
        match &grown {
            Ok(()) => self.took(additional),
            Err(_) => _ = taken.fetch_sub(additional, Ordering::Relaxed),
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
