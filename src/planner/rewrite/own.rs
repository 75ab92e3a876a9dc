//! A cache of the oids of the extension's own functions without arguments. Without the cache, each look-up would scan
//! catalogs.

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::prelude::*;

use crate::pg::catalog;

pub struct OwnFunction {
    name: &'static CStr,
    /// The cached oid, with the count of [`CHANGES`] at the look-up. The oid is `None` if the function does not exist.
    found: Cell<Option<(u64, Option<pg_sys::Oid>)>>,
}

// SAFETY: a backend has one thread.
unsafe impl Sync for OwnFunction {}

/// The number of changes to functions or schemas that this backend has heard of.
struct Changes {
    count: Cell<u64>,
    registered: Cell<bool>,
}

// SAFETY: a backend has one thread.
unsafe impl Sync for Changes {}

static CHANGES: Changes = Changes { count: Cell::new(0), registered: Cell::new(false) };

impl OwnFunction {
    pub const fn named(name: &'static CStr) -> OwnFunction {
        OwnFunction { name, found: Cell::new(None) }
    }

    /// The function's oid, if it exists. Needs a transaction.
    pub fn oid(&self) -> Option<pg_sys::Oid> {
        if !CHANGES.registered.replace(true) {
            // SAFETY: the callback only counts; it is registered once per process.
            unsafe {
                for cache in [pg_sys::SysCacheIdentifier::PROCOID, pg_sys::SysCacheIdentifier::NAMESPACEOID] {
                    pg_sys::CacheRegisterSyscacheCallback(cache as _, Some(count_change), pg_sys::Datum::null());
                }
            }
        }
        match self.found.get() {
            Some((at, oid)) if at == CHANGES.count.get() => oid,
            _ => {
                // If the catalog changes during this look-up, the count differs, and the next call looks again.
                let at = CHANGES.count.get();
                let oid = self.look_up();
                self.found.set(Some((at, oid)));
                oid
            }
        }
    }

    fn look_up(&self) -> Option<pg_sys::Oid> {
        let function = catalog::function(catalog::schema(c"anker")?, self.name)?;
        let extension = catalog::extension(c"pg_anker")?;
        catalog::belongs_to(extension, pg_sys::ProcedureRelationId, function).then_some(function)
    }
}

unsafe extern "C-unwind" fn count_change(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    CHANGES.count.set(CHANGES.count.get() + 1);
}
