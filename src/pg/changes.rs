//! Tells a backend's caches about changes of the catalog.

use std::cell::Cell;
use std::ptr;

use pgrx::prelude::*;

/// A cache of facts from the catalog: the functions that remove entries which may have changed.
pub(super) struct Cache {
    /// Removes the entry of a changed relation; with an invalid oid, the entries of all relations.
    pub(super) relation: fn(pg_sys::Oid),
    /// Removes the entries of all operators.
    pub(super) operators: fn(),
}

const MOST: usize = 2;

struct Changes {
    count: Cell<u64>,
    caches: Cell<[Option<&'static Cache>; MOST]>,
}

// SAFETY: a backend has one thread.
unsafe impl Sync for Changes {}

static CHANGES: Changes = Changes { count: Cell::new(0), caches: Cell::new([None; MOST]) };

/// The number of changes so far. From the first call with a cache on, changes remove entries from that cache.
pub(super) fn count(cache: &'static Cache) -> u64 {
    let mut caches = CHANGES.caches.get();
    if !caches.iter().flatten().any(|known| ptr::eq(*known, cache)) {
        if caches[0].is_none() {
            let (nothing, operators) = (pg_sys::Datum::null(), pg_sys::SysCacheIdentifier::AMOPOPID as _);
            // SAFETY: the callbacks only clear caches; they are registered once per process.
            unsafe {
                pg_sys::CacheRegisterRelcacheCallback(Some(relation), nothing);
                pg_sys::CacheRegisterSyscacheCallback(operators, Some(operator), nothing);
            }
        }
        let free = caches.iter_mut().find(|place| place.is_none()).expect("a place for each cache");
        *free = Some(cache);
        CHANGES.caches.set(caches);
    }
    CHANGES.count.get()
}

/// Called when a relation has changed; with an invalid oid, any relation may have changed.
unsafe extern "C-unwind" fn relation(_argument: pg_sys::Datum, relid: pg_sys::Oid) {
    CHANGES.count.set(CHANGES.count.get() + 1);
    CHANGES.caches.get().iter().flatten().for_each(|cache| (cache.relation)(relid));
}

unsafe extern "C-unwind" fn operator(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    CHANGES.count.set(CHANGES.count.get() + 1);
    CHANGES.caches.get().iter().flatten().for_each(|cache| (cache.operators)());
}
