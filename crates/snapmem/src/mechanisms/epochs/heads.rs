//! The newest version of every frame, for readers. The list grows at its end while others read, and its entries never
//! move.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use super::version::Version;
use crate::memory::error::OutOfMemory;
use crate::memory::pool::Pool;

/// The number of entries in the first part of the list. Every further part has twice as many entries as the part before
/// it.
const FIRST: usize = 8;
const PARTS: usize = 32;

pub struct Heads {
    parts: [AtomicPtr<Head>; PARTS],
    /// A lock on walks. Readers hold it shared while they walk from a newest version to older ones. The writer holds it
    /// exclusively while it removes versions.
    walks: RwLock<()>,
}

/// A frame's newest version, and that version's birth. A reader must read the birth here before it follows the pointer,
/// because a version that its snapshot does not see may have been freed.
pub struct Head {
    version: AtomicPtr<Version>,
    /// The birth is stored before `version` and loaded after it. So a reader that gets a version never gets the birth
    /// of an earlier one.
    birth: AtomicU64,
}

impl Head {
    /// The newest version and its birth. If the writer is just publishing another version, the returned birth may be
    /// the birth of that other version, which is later. In both cases, a snapshot may use the returned version if its
    /// epoch is not before the returned birth.
    #[inline]
    pub fn newest(&self) -> (*mut Version, u64) {
        let version = self.version.load(Ordering::Acquire);
        (version, self.birth.load(Ordering::Relaxed))
    }

    /// Sets the newest version. Only the writer calls this.
    pub fn publish(&self, version: NonNull<Version>, birth: u64) {
        self.birth.store(birth, Ordering::Relaxed);
        self.version.store(version.as_ptr(), Ordering::Release);
    }

    #[inline]
    pub fn hint(&self) -> *const Version {
        self.version.load(Ordering::Relaxed)
    }
}

impl Heads {
    pub fn new() -> Heads {
        Heads { parts: [const { AtomicPtr::new(ptr::null_mut()) }; PARTS], walks: RwLock::new(()) }
    }

    /// The location of a frame's entry: the number of the part, the index in that part, and the length of the part.
    #[inline]
    fn locate(index: usize) -> (usize, usize, usize) {
        let part = (index / FIRST + 1).ilog2() as usize;
        (part, index - FIRST * ((1 << part) - 1), FIRST << part)
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<Head>(len).expect("a table that fits in memory")
    }

    /// Makes sure that there is an entry for frame `index`. Only the writer calls this.
    pub fn ensure(&self, index: usize, pool: &Pool) -> Result<(), OutOfMemory> {
        let (part, _, len) = Heads::locate(index);
        if self.parts[part].load(Ordering::Relaxed).is_null() {
            let layout = Heads::layout(len);
            // SAFETY: the layout has a size.
            let memory = unsafe { alloc_zeroed(layout) };
            if memory.is_null() {
                return Err(OutOfMemory::Limit { wanted: layout.size() as u64, limit: pool.limit() });
            }
            self.parts[part].store(memory.cast(), Ordering::Release);
        }
        Ok(())
    }

    /// The entry of frame `index`, which must exist.
    #[inline]
    pub fn at(&self, index: usize) -> &Head {
        let (part, place, len) = Heads::locate(index);
        let start = self.parts[part].load(Ordering::Acquire);
        assert!(!start.is_null() && place < len);
        // SAFETY: the part exists as long as the table, is zeroed at birth (null pointers and births), and has `len`
        // places.
        unsafe { &*start.add(place) }
    }
}

impl Heads {
    /// Locks the chains of versions against removal. While the guard is held, every version that can be reached from a
    /// newest one exists.
    pub fn walk(&self) -> RwLockReadGuard<'_, ()> {
        self.walks.read()
    }

    /// Runs `change` while no reader walks along versions. If a reader does, `must_be` decides: true waits for the
    /// reader, false does nothing and returns `None`.
    pub fn while_nobody_walks<T>(&self, must_be: bool, change: impl FnOnce() -> T) -> Option<T> {
        let alone = if must_be { Some(self.walks.write()) } else { self.walks.try_write() };
        alone.map(|_alone| change())
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        for (part, start) in self.parts.iter_mut().enumerate() {
            let start = *start.get_mut();
            if !start.is_null() {
                // SAFETY: from `ensure`, with this very layout; nobody holds the table any more.
                unsafe { dealloc(start.cast(), Heads::layout(FIRST << part)) };
            }
        }
    }
}
