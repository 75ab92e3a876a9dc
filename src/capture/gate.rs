//! Gates: snapshots that the worker takes itself, so that the engine may apply the transactions that they see.
//!
//! The commit record of a transaction can be decoded while its backend is still in the proc array, so that no snapshot
//! sees it yet. The engine must not apply the transaction before a snapshot could see it. So after each batch the
//! worker takes a snapshot, and takes more while one of the sent transactions is still not seen.

use std::time::{Duration, Instant};

use protocol::Snapshot;

use crate::pg::snapshot::Glimpse;

/// The time between two gates while transactions wait for one. It is longer if they have waited for long, for a standby
/// say.
const PENDING_INTERVAL: Duration = Duration::from_millis(2);
const LONG_PENDING_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two gates if anything was sent lately. The engine's floors move in steps of this time.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(250);
const ACTIVE_FOR: Duration = Duration::from_secs(5);
/// The time between two gates otherwise, which keeps 64-bit transaction ids and floors fresh.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

pub struct Gates {
    glimpse: Glimpse,
    /// Sent transactions that no gate has seen yet.
    unseen: Vec<u64>,
    last_sent: Instant,
    last_gate: Option<Instant>,
}

impl Gates {
    pub fn new() -> Gates {
        Gates { glimpse: Glimpse::new(), unseen: Vec::new(), last_sent: Instant::now(), last_gate: None }
    }

    /// Notes that a transaction was sent to the engine.
    pub fn sent(&mut self, xid: u64) {
        self.unseen.push(xid);
        self.last_sent = Instant::now();
    }

    /// The time until the next gate is due.
    pub fn due_in(&self) -> Duration {
        let Some(last) = self.last_gate else {
            return Duration::ZERO;
        };
        let interval = if !self.unseen.is_empty() {
            (self.last_sent.elapsed() / 8).clamp(PENDING_INTERVAL, LONG_PENDING_INTERVAL)
        } else if self.last_sent.elapsed() < ACTIVE_FOR {
            ACTIVE_INTERVAL
        } else {
            IDLE_INTERVAL
        };
        interval.saturating_sub(last.elapsed())
    }

    /// Takes a snapshot. To be called outside of transactions only.
    pub fn take(&mut self) -> Option<Snapshot> {
        self.last_gate = Some(Instant::now());
        let gate = self.glimpse.take()?;
        self.unseen.retain(|&xid| !gate.sees(xid));
        Some(gate)
    }
}
