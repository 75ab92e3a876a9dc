//! Clean snapshots: a clean snapshot sees every transaction that the stream has already passed.
//!
//! A load reads everything that was committed before the stream's position C, where the mirror began to follow the
//! table. A transaction may have its commit record below C and still be in the proc array, so that snapshots do not see
//! it. Its changes would be neither decoded nor loaded. So a snapshot is taken only
//!
//! 1. when every backend that was between its commit record and the commit log has passed this point: transactions that
//!    committed below C are in the commit log now; and
//! 2. when every transaction that the commit log already shows as committed, but that a first snapshot does not see,
//!    has left the proc array.
//!
//! Any other transaction that the clean snapshot does not see commits behind C, so the stream will bring its changes.
//! The transactions of step 2 are determined once. Later ones commit behind C, and new ones may come without end.

use std::ops::Range;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use protocol::Snapshot;

use crate::pg::process;
use crate::pg::snapshot::{self, Committing};
use crate::pg::transaction;
use crate::pg::wait::WaitFor;

/// The pause between two attempts. Transactions leave the proc array within microseconds after their commit, unless
/// they wait for a standby.
const RETRY_MS: i64 = 2;
/// The time after which a wait is reported.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Opens a REPEATABLE READ transaction with a clean snapshot, and returns the snapshot. The caller guarantees that the
/// stream's position C was read before. `prepare` runs in each attempted transaction before its snapshot is taken.
/// `waiting` is told the reason for a long wait.
pub fn begin(mut prepare: impl FnMut(), mut waiting: impl FnMut(&str)) -> Snapshot {
    wait_for_commit_log(&mut waiting);
    let start = Instant::now();
    let mut lingering: Option<Vec<u64>> = None;
    loop {
        transaction::begin_repeatable_read();
        prepare();
        let Some(snapshot) = snapshot::of_transaction() else {
            error!("could not take a snapshot outside of recovery");
        };
        let left: Vec<u64> = match lingering.take() {
            None => unseen_commits(&snapshot).collect(),
            Some(before) => before.into_iter().filter(|xid| !snapshot.sees(*xid)).collect(),
        };
        match left.first() {
            None => return snapshot,
            Some(xid) => {
                if start.elapsed() > NOTICEABLE {
                    waiting(&format!("waiting for transaction {xid}, which has committed, to leave the proc array"));
                }
                lingering = Some(left);
                transaction::commit();
                process::sleep(RETRY_MS, WaitFor::LoadSnapshot);
            }
        }
    }
}

/// Waits until every transaction that is now between its commit record and the commit log has reached the commit log.
fn wait_for_commit_log(waiting: &mut impl FnMut(&str)) {
    let start = Instant::now();
    let mut committing = Committing::now();
    while committing.goes_on() {
        if start.elapsed() > NOTICEABLE {
            waiting("waiting for a transaction that is just committing to reach the commit log");
        }
        process::sleep(RETRY_MS, WaitFor::LoadSnapshot);
    }
}

/// The transactions that the commit log shows as committed, but that the snapshot does not see.
fn unseen_commits(snapshot: &Snapshot) -> impl Iterator<Item = u64> {
    let later: Range<u64> = snapshot.xmax..snapshot::next_full_xid();
    snapshot.xip().iter().copied().chain(later).filter(|&xid| snapshot::has_committed(xid as u32))
}
