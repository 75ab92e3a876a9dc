//! Changes of the catalog, which empty what a backend remembers of it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::prelude::*;

use super::{planning, primary_key};

struct Count(Cell<u64>);

// SAFETY: a backend has one thread.
unsafe impl Sync for Count {}

static CHANGES: Count = Count(Cell::new(0));

/// Starts counting changes of the catalog, and returns the number so far.
pub(super) fn count() -> u64 {
    static HEEDS: AtomicBool = AtomicBool::new(false);
    if !HEEDS.swap(true, Ordering::Relaxed) {
        let (nothing, operators) = (pg_sys::Datum::null(), pg_sys::SysCacheIdentifier::AMOPOPID as i32);
        // SAFETY: the callbacks only clear caches; they are registered once per process.
        unsafe {
            pg_sys::CacheRegisterRelcacheCallback(Some(relation), nothing);
            pg_sys::CacheRegisterSyscacheCallback(operators, Some(operator), nothing);
        }
    }
    CHANGES.0.get()
}

/// A relation has changed; without an oid, all of them.
unsafe extern "C-unwind" fn relation(_argument: pg_sys::Datum, relid: pg_sys::Oid) {
    CHANGES.0.set(CHANGES.0.get() + 1);
    primary_key::forget(relid);
    planning::forget(relid);
}

unsafe extern "C-unwind" fn operator(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    CHANGES.0.set(CHANGES.0.get() + 1);
    primary_key::forget_equalities();
}
