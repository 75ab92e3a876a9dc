//! Resource owners: they hold the locks and other resources that code takes from PostgreSQL.

use pgrx::prelude::*;

/// Runs `work`, and then releases all locks and other resources that it has taken. If `work` raises an error, they are
/// released when the transaction or subtransaction ends.
pub fn keeping_nothing<T>(work: impl FnOnce() -> T) -> T {
    let own = Owner::install();
    let result = work();
    own.release();
    result
}

/// A resource owner that is the current one as long as this value lives.
struct Owner {
    own: pg_sys::ResourceOwner,
    before: pg_sys::ResourceOwner,
}

impl Owner {
    fn install() -> Owner {
        // SAFETY: in a transaction, whose owner becomes the parent of the new one.
        unsafe {
            let before = pg_sys::CurrentResourceOwner;
            let own = pg_sys::ResourceOwnerCreate(before, c"pg_anker".as_ptr());
            pg_sys::CurrentResourceOwner = own;
            Owner { own, before }
        }
    }

    fn release(self) {
        use pg_sys::ResourceReleasePhase::{
            RESOURCE_RELEASE_AFTER_LOCKS, RESOURCE_RELEASE_BEFORE_LOCKS, RESOURCE_RELEASE_LOCKS,
        };
        let own = self.own;
        // The owner before becomes the current one again, because the current owner must not be deleted.
        drop(self);
        for phase in [RESOURCE_RELEASE_BEFORE_LOCKS, RESOURCE_RELEASE_LOCKS, RESOURCE_RELEASE_AFTER_LOCKS] {
            // An owner that "commits" would hand its locks over to its parent.
            let (commits, is_top) = (false, false);
            // SAFETY: the owner is a child of a living one, and the phases are in PostgreSQL's order.
            unsafe { pg_sys::ResourceOwnerRelease(own, phase, commits, is_top) };
        }
        // SAFETY: everything that it held is released.
        unsafe { pg_sys::ResourceOwnerDelete(own) };
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the owner before lives longer than this value.
        unsafe { pg_sys::CurrentResourceOwner = self.before };
    }
}
