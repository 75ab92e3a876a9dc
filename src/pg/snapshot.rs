//! Converts PostgreSQL's snapshots to [`protocol::Snapshot`].

use pgrx::prelude::*;
use protocol::Snapshot;

use super::plain::calls;

/// Converts a snapshot. `None` if the snapshot is not an MVCC snapshot, or was taken in recovery: no mirror can serve
/// it.
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

/// The snapshot of the open transaction. If the isolation level gives each statement its own snapshot, a new one is
/// taken.
pub fn of_transaction() -> Option<Snapshot> {
    // SAFETY: valid until the transaction takes another.
    unsafe { from_pg(pg_sys::GetTransactionSnapshot()) }
}

/// Runs `work` with the snapshot of the open transaction as the active one. After an error, the end of the transaction
/// removes it from the stack of active snapshots.
pub fn with_active<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a fresh snapshot, which is copied.
    unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
    let result = work();
    // SAFETY: the snapshot that was pushed above.
    unsafe { pg_sys::PopActiveSnapshot() };
    result
}

/// Takes snapshots only to look at them. Nothing is read with them, so they keep no rows from being vacuumed.
pub struct Glimpse(Box<pg_sys::SnapshotData>);

impl Glimpse {
    pub fn new() -> Glimpse {
        let snapshot_type = pg_sys::SnapshotType::SNAPSHOT_MVCC;
        Glimpse(Box::new(pg_sys::SnapshotData { snapshot_type, ..Default::default() }))
    }

    /// Takes a snapshot. To be called only outside transactions.
    pub fn take(&mut self) -> Option<Snapshot> {
        // SAFETY: no transaction is open, so nobody relies on the xmin that taking a snapshot advertises.
        unsafe {
            let taken = pg_sys::GetSnapshotData(&mut *self.0);
            (*pg_sys::MyProc).xmin = pg_sys::InvalidTransactionId;
            from_pg(taken)
        }
    }
}

/// Transactions that have written their commit record, but are not yet marked as committed in the commit log.
pub struct Committing(Vec<pg_sys::VirtualTransactionId>);

impl Committing {
    const KIND: i32 = pg_sys::DELAY_CHKPT_START as i32;

    pub fn now() -> Committing {
        let mut count = 0;
        // SAFETY: looks into shared memory under the server's own lock; the returned `count` elements are copied.
        unsafe {
            let found = pg_sys::GetVirtualXIDsDelayingChkpt(&mut count, Committing::KIND);
            let copied = std::slice::from_raw_parts(found, count as usize).to_vec();
            pg_sys::pfree(found.cast());
            Committing(copied)
        }
    }

    /// Whether one of these transactions is still not marked as committed.
    pub fn goes_on(&mut self) -> bool {
        let (first, count) = (self.0.as_mut_ptr(), self.0.len() as i32);
        // SAFETY: `count` elements, which are only looked at.
        count > 0 && unsafe { pg_sys::HaveVirtualXIDsDelayingChkpt(first, count, Committing::KIND) }
    }
}

/// Whether a transaction has committed. The server's commit log must still cover its id.
pub fn has_committed(xid: u32) -> bool {
    // SAFETY: the function only reads the commit log.
    xid >= u32::from(pg_sys::FirstNormalTransactionId)
        && unsafe { pg_sys::TransactionIdDidCommit(pg_sys::TransactionId::from(xid)) }
}

calls! {
    next_transaction => ReadNextFullTransactionId() -> pg_sys::FullTransactionId;
}

/// The next transaction id that will be given out, with 64 bits.
pub fn next_full_xid() -> u64 {
    next_transaction().value
}

/// The full id of a transaction, of 64 bits. The transaction must be older than `next`, by less than 2^32 ids. This
/// holds for every id in a snapshot or in recent WAL.
pub fn widen(xid: pg_sys::TransactionId, next: u64) -> u64 {
    let xid = u32::from(xid) as u64;
    let same_epoch = (next & !0xffff_ffff) | xid;
    if same_epoch <= next { same_epoch } else { same_epoch.saturating_sub(1 << 32) }
}
