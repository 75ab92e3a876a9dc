//! The newest version of every frame, for readers: grows at the end while others read, and never moves.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use super::version::Version;
use crate::memory::error::OutOfMemory;
use crate::memory::pool::Pool;

/// The first part has this many places, every further one as many as all before it.
const FIRST: usize = 8;
const PARTS: usize = 32;

pub struct Heads {
    parts: [AtomicPtr<Place>; PARTS],
    /// Shared by who walks from a newest version to older ones, exclusive to who takes versions out between.
    walks: RwLock<()>,
}

/// A frame's newest version. Its birth is stored beside it: a version that a snapshot does not see may be gone by the
/// time it is looked at.
pub struct Place {
    version: AtomicPtr<Version>,
    /// Stored before `version`, loaded after it: so that who sees a version does not see an earlier birth.
    birth: AtomicU64,
}

impl Place {
    /// The newest version and its birth; that of its successor, if one has just come. So a snapshot from that birth on
    /// sees the version.
    #[inline]
    pub fn newest(&self) -> (*mut Version, u64) {
        let version = self.version.load(Ordering::Acquire);
        (version, self.birth.load(Ordering::Relaxed))
    }

    /// The writer's.
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

    /// Part, place in the part, and the part's length.
    #[inline]
    fn locate(index: usize) -> (usize, usize, usize) {
        let part = (index / FIRST + 1).ilog2() as usize;
        (part, index - FIRST * ((1 << part) - 1), FIRST << part)
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<Place>(len).expect("a table that fits in memory")
    }

    /// The writer's: there is a place for `index` afterwards.
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

    /// For a place that has been made.
    #[inline]
    pub fn at(&self, index: usize) -> &Place {
        let (part, place, len) = Heads::locate(index);
        let start = self.parts[part].load(Ordering::Acquire);
        assert!(!start.is_null() && place < len);
        // SAFETY: the part exists as long as the table, is zeroed at birth (null pointers and births), and has `len`
        // places.
        unsafe { &*start.add(place) }
    }
}

impl Heads {
    /// As long as the guard is held, versions that a newest one leads to stay.
    pub fn walk(&self) -> RwLockReadGuard<'_, ()> {
        self.walks.read()
    }

    /// Does something while nobody walks, unless somebody does; if it must be, waits until nobody does.
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
