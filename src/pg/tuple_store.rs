//! Rows that are kept to be read later, on disk if they exceed `work_mem`.

use pgrx::prelude::*;

use super::memory::in_context;
use super::place::Place;
use super::session;

/// A store of rows. It lives in the query's memory, so a store that was not ended is freed with the query.
pub struct TupleStore {
    store: *mut pg_sys::Tuplestorestate,
    /// The slot of the row that was read last.
    slot: *mut pg_sys::TupleTableSlot,
    descriptor: pg_sys::TupleDesc,
}

impl TupleStore {
    /// A store for the rows of a node.
    pub fn new(place: Place<'_>) -> TupleStore {
        let (descriptor, memory) = place.rows_and_memory();
        // SAFETY: the descriptor lives as long as the query's memory.
        unsafe {
            in_context(memory, || {
                let store = pg_sys::tuplestore_begin_heap(true, false, session::work_mem());
                let slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple);
                TupleStore { store, slot, descriptor }
            })
        }
    }

    /// Appends a row.
    ///
    /// # Safety
    ///
    /// There is a value for each of the store's columns, and it has the column's type.
    pub unsafe fn push(&mut self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
        // SAFETY: by the caller's promise.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }

    /// Reads the next row; false if there is none. Values that are passed by reference are valid until the next row is
    /// read.
    pub fn next(&mut self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) -> bool {
        // SAFETY: the slot is for the store's rows, and has an array of values and one of nulls for all columns.
        unsafe {
            if !pg_sys::tuplestore_gettupleslot(self.store, true, false, self.slot) {
                return false;
            }
            let columns = (*self.descriptor).natts as usize;
            pg_sys::slot_getsomeattrs_int(self.slot, columns as i32);
            values.copy_from_slice(std::slice::from_raw_parts((*self.slot).tts_values, columns));
            nulls.copy_from_slice(std::slice::from_raw_parts((*self.slot).tts_isnull, columns));
        }
        true
    }

    /// Goes back to the first row.
    pub fn rewind(&mut self) {
        // SAFETY: the store is not ended.
        unsafe { pg_sys::tuplestore_rescan(self.store) };
    }

    pub fn end(self) {
        // SAFETY: made by `new`, and not used from here on.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::tuplestore_end(self.store);
        }
    }
}
