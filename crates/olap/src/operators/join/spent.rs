//! The working time of tasks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The time of tasks whose time no stream counts.
#[derive(Debug, Default)]
pub struct Spent(AtomicU64);

impl Spent {
    pub fn since(&self, start: Option<Instant>) {
        if let Some(start) = start {
            self.0.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    pub fn nanoseconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
