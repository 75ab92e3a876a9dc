//! A snapshot that misses nothing which the stream has already passed.
//!
//! A load fills in what was committed before the stream's position C, where the mirror began to follow. A transaction
//! may have its commit record below C and still be in the proc array, where snapshots do not see it: it would be
//! neither decoded nor loaded. So a snapshot is taken only
//!
//! 1. when every backend that was between its commit record and the commit log has got over it: what committed below C
//!    is in the commit log now; and
//! 2. and when every transaction that is committed there by then, and that a snapshot of then does not see, has left
//!    the proc array.
//!
//! Anything else that it does not see commits behind C, and the stream will bring it. The transactions of 2. are found
//! once: later ones may come and linger without end, and none of them matters.

use std::ops::Range;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use protocol::Snapshot;

use crate::pg::process;
use crate::pg::snapshot::{self, Committing};
use crate::pg::transaction;

/// Transactions leave the proc array within microseconds of their commit, unless they wait for a standby.
const RETRY_MS: i64 = 2;
/// Waiting longer than this is told.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Opens a REPEATABLE READ transaction whose snapshot is such a one, and returns it. The caller has made sure that C
/// lies behind it. `prepare` runs in each transaction tried, before its snapshot is taken; `waiting` is told what
/// for, when that takes long.
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
                process::sleep(RETRY_MS);
            }
        }
    }
}

/// Waits until nobody who is now between commit record and commit log is there any more.
fn wait_for_commit_log(waiting: &mut impl FnMut(&str)) {
    let start = Instant::now();
    let mut committing = Committing::now();
    while committing.goes_on() {
        if start.elapsed() > NOTICEABLE {
            waiting("waiting for a transaction that is just committing to reach the commit log");
        }
        process::sleep(RETRY_MS);
    }
}

/// Transactions that have committed and that the snapshot does not see.
fn unseen_commits(snapshot: &Snapshot) -> impl Iterator<Item = u64> {
    let later: Range<u64> = snapshot.xmax..snapshot::next_full_xid();
    snapshot.xip().iter().copied().chain(later).filter(|&xid| snapshot::has_committed(xid as u32))
}
