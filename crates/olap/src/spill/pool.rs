//! The memory pool of all queries.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::error::{DataFusionError, Result};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation};

/// The name of the first phase of grouping. The first phase may take only a part of the memory. When this part is used
/// up, the first phase passes its groups on, and the operators that receive the groups need memory, too.
pub const FIRST_PHASE: &str = "PartialGroups";

/// The name of DataFusion's exchange. It accepts all rows that come, and cannot work with less memory.
const EXCHANGE: &str = "RepartitionExec";

#[derive(Debug)]
pub struct Pool {
    all: GreedyMemoryPool,
    bytes: usize,
    first_phases: AtomicUsize,
    exchanges: AtomicUsize,
}

impl Pool {
    pub fn new(bytes: usize) -> Pool {
        Pool {
            all: GreedyMemoryPool::new(bytes),
            bytes,
            first_phases: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
        }
    }

    /// Whether the rows that wait in exchanges need more memory than they should.
    pub fn is_congested(&self) -> bool {
        self.exchanges.load(Ordering::Relaxed) > self.bytes / 20
    }

    /// The counter and the limit of the memory of first phases or exchanges, if the reservation belongs to one of
    /// these.
    fn part(&self, reservation: &MemoryReservation) -> Option<(&AtomicUsize, usize)> {
        match reservation.consumer().name() {
            name if name.starts_with(FIRST_PHASE) => Some((&self.first_phases, self.bytes / 20 * 3)),
            name if name.starts_with(EXCHANGE) => Some((&self.exchanges, self.bytes)),
            _ => None,
        }
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "queries"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        if let Some((taken, _)) = self.part(reservation) {
            taken.fetch_add(additional, Ordering::Relaxed);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        if let Some((taken, _)) = self.part(reservation) {
            taken.fetch_sub(shrink, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let Some((taken, limit)) = self.part(reservation) else {
            return self.all.try_grow(reservation, additional);
        };
        let all = taken.fetch_add(additional, Ordering::Relaxed) + additional;
        let grown = match all <= limit {
            true => self.all.try_grow(reservation, additional),
            false => Err(DataFusionError::ResourcesExhausted("the first phases of grouping have their part".into())),
        };
        if grown.is_err() {
            taken.fetch_sub(additional, Ordering::Relaxed);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.all.memory_limit()
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
