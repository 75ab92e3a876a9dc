//! PostgreSQL's MVCC snapshot, reduced to the data that decides whether it sees a *committed* top-level transaction.

use serde::{Deserialize, Serialize};

/// A snapshot. Transaction ids are 64 bits wide (FullTransactionId), so they never wrap around.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Transactions with this id or a greater one are invisible, because they were running, or had not begun, when the
    /// snapshot was taken.
    pub xmax: u64,
    /// The transactions below `xmax` that were still running; sorted, without duplicates.
    xip: Vec<u64>,
}

impl Snapshot {
    pub fn new(xmax: u64, mut xip: Vec<u64>) -> Self {
        xip.sort_unstable();
        xip.dedup();
        Snapshot { xmax, xip }
    }

    pub fn xip(&self) -> &[u64] {
        &self.xip
    }

    /// The oldest transaction that was still running, or `xmax` if none was.
    pub fn xmin(&self) -> u64 {
        self.xip.first().copied().unwrap_or(self.xmax)
    }

    /// Whether the snapshot sees a transaction that has committed.
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmax && self.xip.binary_search(&xid).is_err()
    }

    /// Whether this snapshot sees every transaction that `other` sees.
    pub fn dominates(&self, other: &Snapshot) -> bool {
        other.xmax <= self.xmax && self.xip.iter().all(|&x| x >= other.xmax || other.xip.binary_search(&x).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_completed_before() {
        let s = Snapshot::new(10, vec![7, 4]);
        assert!(s.sees(3) && s.sees(9) && !s.sees(4) && !s.sees(7) && !s.sees(10) && !s.sees(11));
    }

    #[test]
    fn domination_is_inclusion_of_the_visible_sets() {
        // All snapshots over six transactions are compared in pairs with the definition.
        let all: Vec<Snapshot> = (0..=6u64)
            .flat_map(|xmax| {
                (0..1u32 << xmax).map(move |m| Snapshot::new(xmax, (0..xmax).filter(|x| m >> x & 1 == 1).collect()))
            })
            .collect();
        for a in &all {
            for b in &all {
                let included = (0..8).all(|x| !b.sees(x) || a.sees(x));
                // `dominates` may be false although `a` sees all that `b` sees. This happens if `b.xmax` is greater
                // only because of transactions that `b` does not see.
                if a.dominates(b) {
                    assert!(included, "{a:?} {b:?}");
                }
                if included && b.xmax <= a.xmax {
                    assert!(a.dominates(b), "{a:?} {b:?}");
                }
            }
        }
    }
}
