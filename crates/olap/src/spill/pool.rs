//! The memory of all queries.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::error::{DataFusionError, Result};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation};

/// DataFusion's first phase of grouping: it hands on what it has when it gets no more, which takes others some memory.
const FIRST_PHASE: &str = "PartialHashAggregateStream";

#[derive(Debug)]
pub struct Pool {
    all: GreedyMemoryPool,
    first_phases: AtomicUsize,
    /// Of the first phases together.
    limit: usize,
}

impl Pool {
    pub fn new(bytes: usize) -> Pool {
        Pool { all: GreedyMemoryPool::new(bytes), first_phases: AtomicUsize::new(0), limit: bytes / 5 }
    }
}

fn is_first_phase(reservation: &MemoryReservation) -> bool {
    reservation.consumer().name().starts_with(FIRST_PHASE)
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "queries"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        if is_first_phase(reservation) {
            self.first_phases.fetch_add(additional, Ordering::Relaxed);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        if is_first_phase(reservation) {
            self.first_phases.fetch_sub(shrink, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if !is_first_phase(reservation) {
            return self.all.try_grow(reservation, additional);
        }
        let all = self.first_phases.fetch_add(additional, Ordering::Relaxed) + additional;
        let grown = match all <= self.limit {
            true => self.all.try_grow(reservation, additional),
            false => Err(DataFusionError::ResourcesExhausted("the first phases of grouping have their part".into())),
        };
        if grown.is_err() {
            self.first_phases.fetch_sub(additional, Ordering::Relaxed);
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
