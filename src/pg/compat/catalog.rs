//! Operators, collations, descriptors of rows, and keys.

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

/// The beginning of `pg_locale_struct`.
#[cfg(feature = "since_18")]
#[repr(C)]
struct Locale {
    #[cfg(not(feature = "since_19"))]
    _provider: std::ffi::c_char,
    _deterministic: bool,
    collate_is_c: bool,
}

unsafe extern "C-unwind" {
    #[cfg(not(feature = "since_18"))]
    fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    #[cfg(feature = "since_18")]
    fn pg_newlocale_from_collation(collation: pg_sys::Oid) -> *const Locale;
}

/// Whether texts with this collation are ordered by their bytes.
pub fn ordered_by_bytes(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe {
        pg_guard_ffi_boundary(|| {
            #[cfg(not(feature = "since_18"))]
            return lc_collate_is_c(collation);
            #[cfg(feature = "since_18")]
            return (*pg_newlocale_from_collation(collation)).collate_is_c;
        })
    }
}

/// The strategy number of "not equal" in [`MeaningOfOperator`]. All other numbers are those of B-tree.
pub const NOT_EQUAL: u32 = 6;

/// The operator families that contain an operator: a list of [`MeaningOfOperator`].
#[cfg(not(feature = "since_18"))]
pub use pg_sys::get_op_btree_interpretation as meanings_of_operator;
#[cfg(feature = "since_18")]
pub use pg_sys::get_op_index_interpretation as meanings_of_operator;

#[cfg(not(feature = "since_18"))]
pub type MeaningOfOperator = pg_sys::OpBtreeInterpretation;
#[cfg(feature = "since_18")]
pub type MeaningOfOperator = pg_sys::OpIndexInterpretation;

/// The strategy number of a meaning: a strategy of B-tree, or [`NOT_EQUAL`].
pub fn strategy(meaning: &MeaningOfOperator) -> u32 {
    #[cfg(not(feature = "since_18"))]
    return meaning.strategy as u32;
    #[cfg(feature = "since_18")]
    return meaning.cmptype;
}

/// The first attribute of a tuple descriptor. It stands in the attributes' array or, from PostgreSQL 18 on, behind the
/// array of compact attributes.
pub fn first_attribute(descriptor: &pg_sys::TupleDescData) -> *const pg_sys::FormData_pg_attribute {
    #[cfg(not(feature = "since_18"))]
    return descriptor.attrs.as_ptr();
    #[cfg(feature = "since_18")]
    return descriptor.compact_attrs.as_ptr().wrapping_add(descriptor.natts as usize).cast();
}

/// The index of a relation's primary key; an invalid oid if it has none.
///
/// # Safety
///
/// The relation is open.
pub unsafe fn primary_key_index(relation: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_18"))]
        return pg_sys::RelationGetPrimaryKeyIndex(relation);
        // The key does not count if it is deferrable, because then it may be violated until the transaction ends.
        #[cfg(feature = "since_18")]
        return pg_sys::RelationGetPrimaryKeyIndex(relation, false);
    }
}

/// power() of numerics, which shows more digits of small results since PostgreSQL 16.
pub const POWER_OF_NUMERICS: plan::Named =
    if cfg!(feature = "since_16") { plan::Named::PowerSince16 } else { plan::Named::Power };

/// Whether PostgreSQL may sort the rows of a query for one aggregate, so that all aggregates get them in that order.
pub const SORTS_FOR_AGGREGATES: bool = cfg!(feature = "since_16");
