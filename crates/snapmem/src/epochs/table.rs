//! The newest version of every frame, for readers: grows at the end while others read, and never moves.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::version::Version;
use crate::pool::{OutOfMemory, Pool};

/// The first part has this many places, every further one as many as all before it.
const FIRST: usize = 64;
const PARTS: usize = 40;

pub struct Table {
    parts: [AtomicPtr<AtomicPtr<Version>>; PARTS],
}

impl Table {
    pub fn new() -> Table {
        Table { parts: [const { AtomicPtr::new(ptr::null_mut()) }; PARTS] }
    }

    /// Part, place in the part, and the part's length.
    #[inline]
    fn locate(index: usize) -> (usize, usize, usize) {
        let part = (index / FIRST + 1).ilog2() as usize;
        (part, index - FIRST * ((1 << part) - 1), FIRST << part)
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<AtomicPtr<Version>>(len).expect("a table that fits in memory")
    }

    /// The writer's: there is a place for `index` afterwards.
    pub fn ensure(&self, index: usize, pool: &Pool) -> Result<(), OutOfMemory> {
        let (part, _, len) = Table::locate(index);
        if self.parts[part].load(Ordering::Relaxed).is_null() {
            let layout = Table::layout(len);
            // SAFETY: the layout has a size.
            let memory = unsafe { alloc_zeroed(layout) };
            if memory.is_null() {
                return Err(OutOfMemory { wanted: layout.size() as u64, limit: pool.limit() });
            }
            self.parts[part].store(memory.cast(), Ordering::Release);
        }
        Ok(())
    }

    /// For a place that has been made.
    #[inline]
    pub fn at(&self, index: usize) -> &AtomicPtr<Version> {
        let (part, place, len) = Table::locate(index);
        let start = self.parts[part].load(Ordering::Acquire);
        assert!(!start.is_null() && place < len);
        // SAFETY: the part is there, zeroed at birth (null pointers), as long as the table is, and has `len` places.
        unsafe { &*start.add(place) }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for (part, start) in self.parts.iter_mut().enumerate() {
            let start = *start.get_mut();
            if !start.is_null() {
                // SAFETY: from `ensure`, with this very layout; nobody holds the table any more.
                unsafe { dealloc(start.cast(), Table::layout(FIRST << part)) };
            }
        }
    }
}
