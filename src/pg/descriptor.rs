//! Tuples, and the descriptors of their columns.

use std::marker::PhantomData;

use pgrx::prelude::*;

use super::address::Address;
use super::compat;

/// The description of the columns of a relation's tuples.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    pointer: pg_sys::TupleDesc,
    valid: PhantomData<&'a ()>,
}

/// A row as the server holds it.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    pointer: pg_sys::HeapTuple,
    descriptor: Descriptor<'a>,
}

/// Whether a column is generated and virtual, so that no row holds its value. Tables can have such columns since
/// PostgreSQL 18.
pub fn is_virtual(column: &pg_sys::FormData_pg_attribute) -> bool {
    const VIRTUAL: u8 = b'v';
    column.attgenerated as u8 == VIRTUAL
}

impl<'a> Descriptor<'a> {
    /// # Safety
    ///
    /// `pointer` is valid during `'a`.
    pub(super) unsafe fn new(pointer: pg_sys::TupleDesc) -> Descriptor<'a> {
        Descriptor { pointer, valid: PhantomData }
    }

    pub(super) fn as_ptr(self) -> pg_sys::TupleDesc {
        self.pointer
    }

    /// All attributes, including dropped ones.
    pub fn attributes(self) -> &'a [pg_sys::FormData_pg_attribute] {
        // SAFETY: the descriptor is valid by the promise of `new`, and has `natts` attributes.
        unsafe {
            let descriptor = &*self.pointer;
            std::slice::from_raw_parts(compat::first_attribute(descriptor), descriptor.natts as usize)
        }
    }
}

impl<'a> Tuple<'a> {
    /// # Safety
    ///
    /// The tuple has this descriptor, and is valid during `'a`.
    pub(super) unsafe fn new(pointer: pg_sys::HeapTuple, descriptor: Descriptor<'a>) -> Tuple<'a> {
        Tuple { pointer, descriptor }
    }

    pub(super) fn descriptor(self) -> Descriptor<'a> {
        self.descriptor
    }

    pub(super) fn as_ptr(self) -> pg_sys::HeapTuple {
        self.pointer
    }

    /// The address of a row that was read from its table.
    pub fn address(self) -> Address {
        // SAFETY: the tuple is valid.
        Address::of(unsafe { (*self.pointer).t_self })
    }

    /// The value of the first column, whose type must be one of the oid types; `None` for a null.
    pub fn first_oid(self) -> Option<pg_sys::Oid> {
        assert!(!self.descriptor.attributes().is_empty(), "a tuple of columns");
        let mut null = false;
        // SAFETY: tuple and descriptor belong together and have a first column.
        let datum = unsafe { pg_sys::heap_getattr(self.pointer, 1, self.descriptor.pointer, &mut null) };
        (!null).then(|| pg_sys::Oid::from(datum.value() as u32))
    }
}
