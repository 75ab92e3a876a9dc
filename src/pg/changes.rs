//! Changes of the catalog, which empty what a backend remembers of it.

use std::cell::Cell;
use std::ptr;

use pgrx::prelude::*;

/// A cache of facts from the catalog, by the functions that empty it.
pub(super) struct Cache {
    /// Forgets a relation that has changed; without an oid, all of them.
    pub(super) relation: fn(pg_sys::Oid),
    /// Forgets all operators.
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

/// The number of changes so far. From the first call on, changes empty this cache.
pub(super) fn count(cache: &'static Cache) -> u64 {
    let mut caches = CHANGES.caches.get();
    if !caches.iter().flatten().any(|known| ptr::eq(*known, cache)) {
        if caches[0].is_none() {
            let (nothing, operators) = (pg_sys::Datum::null(), pg_sys::SysCacheIdentifier::AMOPOPID as i32);
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

/// A relation has changed; without an oid, all of them.
unsafe extern "C-unwind" fn relation(_argument: pg_sys::Datum, relid: pg_sys::Oid) {
    CHANGES.count.set(CHANGES.count.get() + 1);
    CHANGES.caches.get().iter().flatten().for_each(|cache| (cache.relation)(relid));
}

unsafe extern "C-unwind" fn operator(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    CHANGES.count.set(CHANGES.count.get() + 1);
    CHANGES.caches.get().iter().flatten().for_each(|cache| (cache.operators)());
}
