//! What `anker.engine` shows about requests: counters, and the last values of two delays.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use protocol::request::Status;

/// Values kept of each delay.
const RECENT: usize = 4096;

#[derive(Default)]
pub struct Stats {
    running: AtomicU64,
    served: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    commit_to_applied_us: Mutex<VecDeque<u64>>,
    request_to_ready_us: Mutex<VecDeque<u64>>,
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Served,
    Refused,
    Failed,
    Cancelled,
}

impl Stats {
    /// A query is under way until [`Stats::end`].
    pub fn begin(&self) {
        self.running.fetch_add(1, Relaxed);
    }

    pub fn end(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Served => &self.served,
            Outcome::Refused => &self.refused,
            Outcome::Failed => &self.failed,
            Outcome::Cancelled => &self.cancelled,
        };
        counter.fetch_add(1, Relaxed);
        self.running.fetch_sub(1, Relaxed);
    }

    pub fn applied(&self, delays_us: &[u64]) {
        push(&self.commit_to_applied_us, delays_us);
    }

    pub fn ready(&self, delay_us: u64) {
        push(&self.request_to_ready_us, &[delay_us]);
    }

    /// Fills in this side's part.
    pub fn report(&self, status: &mut Status) {
        status.queries_running = self.running.load(Relaxed);
        status.queries_served = self.served.load(Relaxed);
        status.queries_refused = self.refused.load(Relaxed);
        status.queries_failed = self.failed.load(Relaxed);
        status.queries_cancelled = self.cancelled.load(Relaxed);
        status.commit_to_applied_us = self.commit_to_applied_us.lock().iter().copied().collect();
        status.request_to_ready_us = self.request_to_ready_us.lock().iter().copied().collect();
    }
}

fn push(recent: &Mutex<VecDeque<u64>>, values: &[u64]) {
    if values.is_empty() {
        return;
    }
    let values = &values[values.len().saturating_sub(RECENT)..];
    let mut recent = recent.lock();
    let surplus = (recent.len() + values.len()).saturating_sub(RECENT);
    recent.drain(..surplus);
    recent.extend(values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_values_are_kept_in_order() {
        let stats = Stats::default();
        stats.applied(&(0..5000).collect::<Vec<_>>());
        stats.applied(&[5000, 5001]);
        stats.ready(7);
        let mut status = Status::default();
        stats.report(&mut status);
        assert_eq!(status.commit_to_applied_us.len(), RECENT);
        assert_eq!(status.commit_to_applied_us.first(), Some(&906));
        assert_eq!(status.commit_to_applied_us.last(), Some(&5001));
        assert_eq!(status.request_to_ready_us, [7]);
    }

    #[test]
    fn every_query_ends_once() {
        let stats = Stats::default();
        for outcome in [Outcome::Served, Outcome::Refused, Outcome::Failed, Outcome::Cancelled, Outcome::Served] {
            stats.begin();
            stats.end(outcome);
        }
        stats.begin();
        let mut status = Status::default();
        stats.report(&mut status);
        assert_eq!((status.queries_running, status.queries_served, status.queries_cancelled), (1, 2, 1));
    }
}
