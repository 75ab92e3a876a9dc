//! PostgreSQL's snapshots as [`protocol::Snapshot`].

use pgrx::prelude::*;
use protocol::Snapshot;

/// `None` where the rule does not hold: not an MVCC snapshot, or one taken in recovery.
///
/// # Safety
///
/// `snapshot` points to a valid snapshot.
pub unsafe fn from_pg(snapshot: pg_sys::Snapshot) -> Option<Snapshot> {
    // SAFETY: valid by the caller's promise; xip has xcnt elements (or is null with xcnt = 0).
    unsafe {
        let s = snapshot.as_ref()?;
        if s.snapshot_type != pg_sys::SnapshotType::SNAPSHOT_MVCC || s.takenDuringRecovery {
            return None;
        }
        let next = next_full_xid();
        let running = match s.xcnt {
            0 => &[][..],
            n => std::slice::from_raw_parts(s.xip, n as usize),
        };
        Some(Snapshot::new(widen(s.xmax, next), running.iter().map(|&x| widen(x, next)).collect()))
    }
}

/// The next transaction id that will be given out, 64 bits wide.
pub fn next_full_xid() -> u64 {
    // SAFETY: reads shared memory under its own lock.
    unsafe { pg_sys::ReadNextFullTransactionId().value }
}

/// The full id of a transaction that is not ahead of `next` and less than 2^32 behind it, which is all that a snapshot
/// or the WAL in flight can name.
pub fn widen(xid: pg_sys::TransactionId, next: u64) -> u64 {
    let xid = u32::from(xid) as u64;
    let same_epoch = (next & !0xffff_ffff) | xid;
    if same_epoch <= next { same_epoch } else { same_epoch.saturating_sub(1 << 32) }
}
