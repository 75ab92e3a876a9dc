//! The threshold of checkpoints: a WAL position up to which the rows of every live table are complete.
//!
//! Let A be the transactions that were applied to a table. Then every other transaction has aborted, or has all its
//! records about the table behind the threshold. So a block of the table that was not changed behind the threshold has
//! exactly the rows that A has left in it.
//!
//! The capture worker reads, in this order: the stream's position P, the next transaction id N, a gate B, the insert
//! position E. A transaction with a record before P got its id before N. If B's xmin is at least some earlier N, that
//! transaction has ended before B was taken, and is visible in B if it has committed. Its commit record lies before E.
//! So once the stream has passed E, and a later gate was applied, the transaction was applied; and P of that N is a
//! threshold.

use std::collections::VecDeque;

use protocol::change::Around;

/// The greatest number of positions that are kept. Beyond it, every other one is dropped, which delays the threshold.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub struct Thresholds {
    /// Positions of the stream, each with the transaction id that was the next one: P and N, in ascending order.
    positions: VecDeque<(u64, u64)>,
    /// Gates, each as its xmin and the insert position after it, in ascending order.
    gates: VecDeque<(u64, u64)>,
    reached: u64,
}

impl Thresholds {
    /// The latest threshold; 0 if there is none yet.
    pub fn reached(&self) -> u64 {
        self.reached
    }

    /// Called when a gate was applied, with the stream's position.
    pub fn gate_applied(&mut self, xmin: u64, position: u64, around: Around) {
        while let Some((xmin, _)) = self.gates.pop_front_if(|(_, inserted)| *inserted <= position) {
            while let Some((decoded, _)) = self.positions.pop_front_if(|(_, next_xid)| *next_xid <= xmin) {
                self.reached = decoded;
            }
        }
        add(&mut self.positions, (around.decoded, around.next_xid));
        add(&mut self.gates, (xmin, around.inserted));
    }
}

fn add(list: &mut VecDeque<(u64, u64)>, new: (u64, u64)) {
    if list.len() >= MOST {
        let mut is_kept = false;
        list.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }
    list.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(decoded: u64, next_xid: u64, inserted: u64) -> Around {
        Around { decoded, next_xid, inserted }
    }

    #[test]
    fn a_position_waits_for_old_transactions_and_for_the_stream() {
        let mut thresholds = Thresholds::default();
        // Transaction 5 runs, and 9 is the next one.
        thresholds.gate_applied(5, 100, around(100, 9, 120));
        thresholds.gate_applied(5, 120, around(120, 9, 130));
        assert_eq!(thresholds.reached(), 0, "transaction 5 may have written before position 100");
        // Transaction 5 has ended, but the stream may not have brought its commit yet.
        thresholds.gate_applied(9, 140, around(140, 9, 150));
        assert_eq!(thresholds.reached(), 0);
        thresholds.gate_applied(9, 149, around(149, 9, 150));
        assert_eq!(thresholds.reached(), 0);
        thresholds.gate_applied(9, 150, around(150, 9, 151));
        assert_eq!(thresholds.reached(), 149);
    }

    #[test]
    fn a_long_transaction_costs_little_memory() {
        let mut thresholds = Thresholds::default();
        for number in 0..10_000 {
            thresholds.gate_applied(5, number, around(number, number, number));
        }
        assert!(thresholds.positions.len() <= MOST && thresholds.gates.len() <= MOST);
        thresholds.gate_applied(20_000, 20_000, around(20_000, 20_000, 20_000));
        thresholds.gate_applied(20_000, 20_000, around(20_000, 20_000, 20_000));
        assert!(thresholds.reached() > 9_000);
    }
}
