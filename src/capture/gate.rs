//! Gates: snapshots that the worker takes itself. The engine may apply the transactions that a gate sees.
//!
//! The commit record of a transaction can be decoded while its backend is still in the proc array, so that no snapshot
//! sees the transaction yet. The engine must not apply the transaction before a snapshot could see it. So the worker
//! takes a snapshot after each batch, and further snapshots until one of them sees every transaction that was sent.

use std::time::{Duration, Instant};

use protocol::Snapshot;
use protocol::change::Around;

use crate::pg::snapshot::{self, Glimpse};
use crate::pg::wal;

/// The time between two gates while no gate has seen some of the transactions that were sent. The second constant is
/// for transactions that stay unseen for long, for example because they wait for a standby.
const PENDING_INTERVAL: Duration = Duration::from_millis(2);
const LONG_PENDING_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two gates if a transaction was sent lately. The engine's floors advance in steps of this time.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(250);
const ACTIVE_FOR: Duration = Duration::from_secs(5);
/// The time between two gates if no transaction was sent lately. It is short enough to keep 64-bit transaction ids and
/// floors fresh.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

pub struct Gates {
    glimpse: Glimpse,
    /// The transactions that were sent, but that no gate has seen yet.
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

    /// Makes gates come soon, even if no transaction was sent lately.
    pub fn hurry(&mut self) {
        (self.last_sent, self.last_gate) = (Instant::now(), None);
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

    /// Takes a snapshot, and reads the positions around it. `decoded` is the position up to which everything was sent.
    /// To be called only outside transactions.
    pub fn take(&mut self, decoded: u64) -> Option<(Snapshot, Around)> {
        self.last_gate = Some(Instant::now());
        // The order matters, see [`Around`].
        let next_xid = snapshot::next_full_xid();
        let gate = self.glimpse.take()?;
        let inserted = wal::inserted_position();
        self.unseen.retain(|&xid| !gate.sees(xid));
        Some((gate, Around { decoded, next_xid, inserted }))
    }
}
