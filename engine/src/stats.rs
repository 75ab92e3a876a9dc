//! Figures about requests, which the view `anker.engine` shows: counters, and the latest values of two delays.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use colstore::ApplyDelays;
use parking_lot::Mutex;
use protocol::request::Status;

/// The number of latest values that are kept for each of the two delays.
const RECENT: usize = 4096;

#[derive(Default)]
pub struct Stats {
    running: AtomicU64,
    served: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    applied: Mutex<Applied>,
    request_to_ready_us: Mutex<VecDeque<u64>>,
}

/// The transactions applied and their latest delays. One lock guards both, so that the delays belong to the
/// transactions that were counted last.
#[derive(Default)]
struct Applied {
    transactions: u64,
    delays_us: VecDeque<u64>,
}

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Served,
    Refused,
    Failed,
    Cancelled,
}

impl Stats {
    /// Begins a query, which ends with [`Stats::end`].
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

    pub fn applied(&self, fresh: ApplyDelays) {
        if fresh.micros.is_empty() {
            return;
        }
        let mut applied = self.applied.lock();
        applied.transactions = fresh.total;
        push(&mut applied.delays_us, &fresh.micros);
    }

    pub fn ready(&self, delay_us: u64) {
        push(&mut self.request_to_ready_us.lock(), &[delay_us]);
    }

    /// Adds these figures to the status.
    pub fn report(&self, status: &mut Status) {
        status.queries_running = self.running.load(Relaxed);
        status.queries_served = self.served.load(Relaxed);
        status.queries_refused = self.refused.load(Relaxed);
        status.queries_failed = self.failed.load(Relaxed);
        status.queries_cancelled = self.cancelled.load(Relaxed);
        {
            let applied = self.applied.lock();
            status.transactions_applied = applied.transactions;
            status.commit_to_applied_us = applied.delays_us.iter().copied().collect();
        }
        status.request_to_ready_us = self.request_to_ready_us.lock().iter().copied().collect();
    }
}

fn push(recent: &mut VecDeque<u64>, values: &[u64]) {
    let values = &values[values.len().saturating_sub(RECENT)..];
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
        stats.applied(ApplyDelays { micros: (0..5000).collect(), total: 5000 });
        stats.applied(ApplyDelays { micros: vec![5000, 5001], total: 5002 });
        stats.ready(7);
        let mut status = Status::default();
        stats.report(&mut status);
        assert_eq!((status.transactions_applied, status.commit_to_applied_us.len()), (5002, RECENT));
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
