//! The memory of operators that can put rows on disk if they get no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::error::{DataFusionError, Result};
use datafusion_execution::memory_pool::MemoryReservation;

/// The memory that the operators which can put rows on disk may take together. It is only a part of the pool, because
/// other operators cannot put rows on disk.
#[derive(Debug)]
pub struct Share {
    limit: usize,
    /// The memory that each operator which can put rows on disk may take in any case. It is not taken from the share.
    minimum: usize,
    taken: AtomicUsize,
    /// The share of all queries, if this is the share of one query.
    whole: Option<Arc<Share>>,
}

impl Share {
    pub fn new(limit: usize, minimum: usize) -> Share {
        Share { limit, minimum, taken: AtomicUsize::new(0), whole: None }
    }

    /// A share of this share, for one query. Both limits apply.
    pub fn part(self: &Arc<Share>, limit: usize, minimum: usize) -> Share {
        let minimum = minimum.min(self.minimum);
        Share { limit, minimum, taken: AtomicUsize::new(0), whole: Some(self.clone()) }
    }

    fn take(&self, bytes: usize) -> bool {
        let within = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.limit);
        if self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
            return false;
        }
        let fits = self.whole.as_ref().is_none_or(|whole| whole.take(bytes));
        if !fits {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Takes memory even beyond the limits.
    fn take_anyway(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.take_anyway(bytes);
        }
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// The memory that one operator has taken.
#[derive(Debug)]
pub struct Room {
    reservation: MemoryReservation,
    share: Arc<Share>,
    /// The bytes that were taken from the share, beyond the minimum.
    taken: usize,
}

impl Room {
    pub fn new(reservation: MemoryReservation, share: Arc<Share>) -> Room {
        Room { reservation, share, taken: 0 }
    }

    /// The bytes that the operator has taken.
    pub fn bytes(&self) -> usize {
        self.reservation.size()
    }

    /// The bytes that the operator gets in any case, if the pool has them.
    pub fn least_bytes(&self) -> usize {
        self.share.minimum
    }

    /// Changes the operator's memory to `bytes` in total. Returns false, and changes nothing, if the share or the pool
    /// has too little left.
    #[must_use]
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(self.share.minimum);
        if wanted > self.taken && !self.share.take(wanted - self.taken) {
            return false;
        }
        let before = self.taken;
        self.taken = before.max(wanted);
        let fits = self.reservation.try_resize(bytes).is_ok();
        self.keep(if fits { wanted } else { before });
        fits
    }

    /// Changes the operator's memory to `bytes` in total, even beyond the share, because the operator cannot go on with
    /// less.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        self.reservation.try_resize(bytes)?;
        let wanted = bytes.saturating_sub(self.share.minimum);
        if wanted > self.taken {
            self.share.take_anyway(wanted - self.taken);
            self.taken = wanted;
        }
        self.keep(wanted);
        Ok(())
    }

    /// Takes `bytes` more, or returns an error if the share or the pool has too little left. An operator that has no
    /// memory yet may exceed the share.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if self.reservation.size() == 0 {
            return self.resize(bytes);
        }
        match self.try_resize(self.reservation.size() + bytes) {
            true => Ok(()),
            false => Err(DataFusionError::ResourcesExhausted(format!("no memory for {bytes} bytes more"))),
        }
    }

    /// An empty room for the same operator.
    pub fn another(&self) -> Room {
        Room { reservation: self.reservation.new_empty(), share: self.share.clone(), taken: 0 }
    }

    fn keep(&mut self, taken: usize) {
        self.share.give_back(self.taken - taken);
        self.taken = taken;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.keep(0);
    }
}
