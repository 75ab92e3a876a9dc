//! Relations: opened, asked, and closed when the value goes.

use std::ffi::CStr;
use std::mem::ManuallyDrop;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::catalog::{self, text_of};
use super::{compat, symbols};

/// An open relation. Its lock, where it was taken here, stays until the transaction ends, as is the rule for tables.
pub struct OpenRelation(pg_sys::Relation);

impl OpenRelation {
    /// One that the transaction has locked already.
    pub fn locked(relid: pg_sys::Oid) -> OpenRelation {
        // SAFETY: in a transaction; a relation that is not there is an error.
        OpenRelation(unsafe { pg_sys::relation_open(relid, pg_sys::NoLock as i32) })
    }

    /// Locks against being altered or dropped, and opens.
    pub fn lock(relid: pg_sys::Oid) -> OpenRelation {
        // SAFETY: as above.
        OpenRelation(unsafe { pg_sys::relation_open(relid, pg_sys::AccessShareLock as i32) })
    }

    /// As [`locked`](Self::locked); `None`: there is no such relation (any more).
    pub fn try_locked(relid: pg_sys::Oid) -> Option<OpenRelation> {
        // SAFETY: in a transaction.
        OpenRelation::unless_null(unsafe { pg_sys::try_relation_open(relid, pg_sys::NoLock as i32) })
    }

    /// Looks at a relation without waiting for anybody, and without leaving a lock behind; `None`: it is locked against
    /// that, or there is no such relation (any more).
    pub fn glance<T>(relid: pg_sys::Oid, look: impl FnOnce(&OpenRelation) -> T) -> Option<T> {
        const LOCK: i32 = pg_sys::AccessShareLock as i32;
        // SAFETY: in a transaction, whose end releases the lock if an error does not let us.
        unsafe {
            if !pg_sys::ConditionalLockRelationOid(relid, LOCK) {
                return None;
            }
            let seen = OpenRelation::try_locked(relid).map(|relation| look(&relation));
            pg_sys::UnlockRelationOid(relid, LOCK);
            seen
        }
    }

    /// Without a lock, as the catalog was at a position of the WAL: whatever others do now does not matter there.
    ///
    /// # Safety
    ///
    /// A transaction is open and decoding's historic snapshot is set.
    pub unsafe fn historic(relid: pg_sys::Oid) -> Option<OpenRelation> {
        // SAFETY: by the caller's promise.
        OpenRelation::unless_null(unsafe { pg_sys::RelationIdGetRelation(relid) })
    }

    fn unless_null(relation: pg_sys::Relation) -> Option<OpenRelation> {
        // Made only if there is one: what is dropped is closed.
        if relation.is_null() { None } else { Some(OpenRelation(relation)) }
    }

    /// One that somebody else has opened, and closes after the borrower is done.
    ///
    /// # Safety
    ///
    /// The relation is open, for longer than the value is used.
    pub unsafe fn borrowed(relation: pg_sys::Relation) -> ManuallyDrop<OpenRelation> {
        ManuallyDrop::new(OpenRelation(relation))
    }

    pub fn as_ptr(&self) -> pg_sys::Relation {
        self.0
    }

    pub fn oid(&self) -> pg_sys::Oid {
        // SAFETY: open as long as the value lives, here and below.
        unsafe { (*self.0).rd_id }
    }

    /// Its row of pg_class.
    pub fn class(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: an open relation has it.
        unsafe { &*(*self.0).rd_rel }
    }

    /// Valid as long as the relation is open.
    pub fn descriptor(&self) -> pg_sys::TupleDesc {
        // SAFETY: an open relation has it.
        unsafe { (*self.0).rd_att }
    }

    /// Its attributes, those that were dropped among them.
    pub fn attributes(&self) -> &[pg_sys::FormData_pg_attribute] {
        // SAFETY: the descriptor stays as long as the relation is open.
        unsafe { compat::attributes(self.descriptor()) }
    }

    pub fn name(&self) -> String {
        text_of(&self.class().relname)
    }

    /// With its schema, quoted as SQL wants it.
    pub fn qualified_name(&self) -> String {
        let class = self.class();
        // SAFETY: both calls return palloc'd C strings.
        unsafe {
            let schema = pg_sys::get_namespace_name(class.relnamespace);
            let name = pg_sys::quote_qualified_identifier(schema, class.relname.data.as_ptr());
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// The name of a column, quoted as SQL wants it.
    pub fn quoted_column(&self, attnum: i16) -> String {
        let name = &self.attributes()[attnum as usize - 1].attname;
        // SAFETY: a C string, and so is what is returned.
        unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.data.as_ptr())) }.to_string_lossy().into_owned()
    }

    pub fn has_row_security(&self) -> bool {
        self.class().relrowsecurity
    }

    /// Whether this transaction holds such a lock on it, or a stronger one.
    pub fn is_locked_by_me(&self, mode: u32) -> bool {
        // SAFETY: the relation is open.
        unsafe { pg_sys::CheckRelationLockedByMe(self.0, mode as i32, true) }
    }

    /// Whether changes of rows are logged with the whole old row.
    pub fn has_full_identity(&self) -> bool {
        self.class().relreplident as u8 == pg_sys::REPLICA_IDENTITY_FULL
    }

    /// Attribute numbers of the replica identity index, ascending; empty without one.
    ///
    /// RelationGetIdentityKeyBitmap has them too, but may be called under a historic snapshot only.
    pub fn identity_attributes(&self) -> Vec<i16> {
        // SAFETY: the relation is open.
        let index = unsafe { pg_sys::RelationGetReplicaIndex(self.0) };
        let key_columns = |row: &pg_sys::FormData_pg_index| {
            // SAFETY: the vector has so many elements, and more.
            unsafe { row.indkey.values.as_slice(row.indnkeyatts as usize) }.to_vec()
        };
        let mut attributes = catalog::index(index, key_columns).unwrap_or_default();
        attributes.sort_unstable();
        attributes
    }
}

impl Drop for OpenRelation {
    fn drop(&mut self) {
        // While an error unwinds the transaction's end closes it.
        if !std::thread::panicking() {
            // SAFETY: opened by one of the above, and closed once.
            unsafe { pg_sys::RelationClose(self.0) };
        }
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
    unsafe { pg_guard_ffi_boundary(|| compat::collation_is_c(collation)) }
}
