//! PostgreSQL's MVCC snapshot, reduced to the data that decides whether a *committed* top-level transaction is in it.

use serde::{Deserialize, Serialize};

/// Transaction ids are 64 bits wide (FullTransactionId) and so never wrap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// First transaction id that had not completed when the snapshot was taken.
    pub xmax: u64,
    /// Transactions below `xmax` that were still running; sorted, without duplicates.
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

    /// Whether the snapshot contains the transaction, given that it committed.
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmax && self.xip.binary_search(&xid).is_err()
    }

    /// Whether this snapshot sees everything that `other` can see.
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
        // Compares all snapshots over six transactions with the definition.
        let all: Vec<Snapshot> = (0..=6u64)
            .flat_map(|xmax| {
                (0..1u32 << xmax).map(move |m| Snapshot::new(xmax, (0..xmax).filter(|x| m >> x & 1 == 1).collect()))
            })
            .collect();
        for a in &all {
            for b in &all {
                let included = (0..8).all(|x| !b.sees(x) || a.sees(x));
                // `dominates` may refuse if `b.xmax` is greater only because of transactions that b itself excludes.
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
