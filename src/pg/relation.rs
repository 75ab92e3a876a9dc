//! Relations: opened and closed again, and what the catalog says of them.

use std::ffi::CStr;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::symbols;

/// The relation's name, or its number if it is gone.
pub fn relation_name(relid: pg_sys::Oid) -> String {
    // SAFETY: a catalog lookup; null if there is no such relation.
    unsafe {
        let name = pg_sys::get_rel_name(relid);
        if name.is_null() { relid.to_u32().to_string() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Whether tables inherit from this one, which is locked.
pub fn has_children(relation: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups. The flag that the first reads may be left over from children that are gone.
    unsafe {
        pg_guard_ffi_boundary(|| {
            symbols::has_subclass(relation)
                && !symbols::find_inheritance_children(relation, pg_sys::NoLock as i32).is_null()
        })
    }
}

/// Whether columns among `keys` are the primary key of the relation, to which `column` belongs.
pub fn keys_determine(relation: pg_sys::Oid, column: &pg_sys::Var, keys: *mut pg_sys::List) -> bool {
    let mut constraints = std::ptr::null_mut();
    let (entry, levels_up) = (column.varno as pg_sys::Index, column.varlevelsup);
    // SAFETY: catalog lookups; the keys are a list of expressions.
    unsafe {
        pg_guard_ffi_boundary(|| {
            symbols::check_functional_grouping(relation, entry, levels_up, keys, &raw mut constraints)
        })
    }
}

/// Whether text in this collation is ordered by its bytes.
pub fn ordered_by_bytes(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_guard_ffi_boundary(|| symbols::lc_collate_is_c(collation)) }
}

/// A relation opened without a lock: decoding sees the catalog as of its position, whatever others do now.
pub struct HistoricRelation(pub pg_sys::Relation);

impl HistoricRelation {
    /// `None`: there is no such relation (any more).
    ///
    /// # Safety
    ///
    /// A transaction is open and decoding's historic snapshot is set.
    pub unsafe fn open(relid: u32) -> Option<HistoricRelation> {
        // SAFETY: by the caller's promise.
        let relation = unsafe { pg_sys::RelationIdGetRelation(relid.into()) };
        // Made only if there is one: what is dropped is closed.
        if relation.is_null() { None } else { Some(HistoricRelation(relation)) }
    }
}

impl Drop for HistoricRelation {
    fn drop(&mut self) {
        // While an error unwinds, the transaction's end closes it, and after that the process ends.
        if !std::thread::panicking() {
            // SAFETY: opened by `open`, and closed once.
            unsafe { pg_sys::RelationClose(self.0) };
        }
    }
}
