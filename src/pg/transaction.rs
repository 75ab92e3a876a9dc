//! Transactions that this process opens on its own.

use std::panic::{RefUnwindSafe, UnwindSafe};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::plain::calls;

calls! {
    /// Opens a transaction; none may be open.
    begin => StartTransactionCommand();
    commit => CommitTransactionCommand();
    /// The transaction's id. If it has none yet, one is assigned.
    number => GetCurrentTransactionId() -> pg_sys::TransactionId;
    /// Makes the changes that this statement has made so far visible to its next steps.
    see_own_changes => CommandCounterIncrement();
    /// Rolls back the transaction, if there is one, and releases everything that it still holds.
    abort => AbortCurrentTransaction();
}

/// Like [`begin`], but the whole transaction uses one snapshot.
pub fn begin_repeatable_read() {
    begin();
    // SAFETY: a plain variable; no snapshot was taken yet.
    unsafe { pg_sys::XactIsoLevel = pg_sys::XACT_REPEATABLE_READ as i32 };
}

/// Makes this process's commits wait neither for the disk nor for a standby.
pub fn never_wait_at_commit() {
    // SAFETY: a plain variable.
    unsafe { pg_sys::synchronous_commit = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as i32 };
}

/// Makes this process's commits wait for the disk, but not for a standby.
pub fn wait_for_own_disk_at_commit() {
    // SAFETY: a plain variable.
    unsafe { pg_sys::synchronous_commit = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_LOCAL_FLUSH as i32 };
}

/// Lets the open transaction write, even if transactions are read-only by default.
pub fn allow_writes() {
    // SAFETY: a plain variable; no snapshot was taken yet.
    unsafe { pg_sys::XactReadOnly = false };
}

/// Runs `work` in a transaction of its own, and commits it. An error ends the worker, which aborts the transaction.
pub fn run<T>(work: impl FnOnce() -> T) -> T {
    begin();
    let result = work();
    commit();
    result
}

/// Runs `work` in a subtransaction. If `work` raises an error, `failed` turns the error into a result, or raises it
/// again.
pub fn attempt<T>(
    work: impl FnOnce() -> T + UnwindSafe,
    failed: impl Fn(CaughtError) -> T + UnwindSafe + RefUnwindSafe,
) -> T {
    // SAFETY: within a transaction and without parallel workers, as the server makes sure. A subtransaction replaces
    // memory context and resource owner; both are restored right after it, however it ended.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        let put_back = move || {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        };
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let failed = &failed;
        let caught = move |error| {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            put_back();
            failed(error)
        };
        PgTryBuilder::new(|| {
            let result = work();
            pg_sys::ReleaseCurrentSubTransaction();
            put_back();
            result
        })
        .catch_others(caught)
        .catch_rust_panic(caught)
        .execute()
    }
}
