//! Gates: snapshots that the worker takes itself, so that the engine may apply what they see.
//!
//! A flushed commit can be decoded while its backend is still in the proc array, where no snapshot sees it. The engine
//! must not apply it before some snapshot could; so after each batch the worker looks whether one can, and looks again
//! while some sent transaction is still not seen.

use std::time::{Duration, Instant};

use protocol::Snapshot;

use crate::pg::snapshot::Glimpse;

/// Between two gates while transactions wait for one; longer when they have waited for long (for a standby, say).
const PENDING_INTERVAL: Duration = Duration::from_millis(2);
const LONG_PENDING_INTERVAL: Duration = Duration::from_millis(50);
/// While anything was sent lately: the engine's floors get their grain from this.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(250);
const ACTIVE_FOR: Duration = Duration::from_secs(5);
/// Otherwise: keeps 64-bit transaction ids and floors fresh.
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

    /// A transaction went to the engine.
    pub fn sent(&mut self, xid: u64) {
        self.unseen.push(xid);
        self.last_sent = Instant::now();
    }

    /// How long until the next gate is due.
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

    /// Takes a snapshot. Outside of transactions only.
    pub fn take(&mut self) -> Option<Snapshot> {
        self.last_gate = Some(Instant::now());
        let gate = self.glimpse.take()?;
        self.unseen.retain(|&xid| !gate.sees(xid));
        Some(gate)
    }
}
