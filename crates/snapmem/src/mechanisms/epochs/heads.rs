//! The newest version of every frame, for readers. The list grows at its end while others read, and never moves.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use super::version::Version;
use crate::memory::error::OutOfMemory;
use crate::memory::pool::Pool;

/// The number of places in the first part. Every further part has as many as all parts before it.
const FIRST: usize = 8;
const PARTS: usize = 32;

pub struct Heads {
    parts: [AtomicPtr<Head>; PARTS],
    /// Held shared while walking from a newest version to older ones, and exclusively while versions in between are
    /// removed.
    walks: RwLock<()>,
}

/// A frame's newest version, and its birth. The birth is stored here, too, because a version that a snapshot does not
/// see may be freed before a reader looks at it.
pub struct Head {
    version: AtomicPtr<Version>,
    /// Stored before `version` and loaded after it, so that a reader of a version never sees an earlier birth.
    birth: AtomicU64,
}

impl Head {
    /// The newest version and its birth. If a successor has just come, the birth may be the successor's. A snapshot
    /// from that birth on sees the version.
    #[inline]
    pub fn newest(&self) -> (*mut Version, u64) {
        let version = self.version.load(Ordering::Acquire);
        (version, self.birth.load(Ordering::Relaxed))
    }

    /// For the writer: sets the newest version.
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

    /// The part, the place in it, and the length of the part.
    #[inline]
    fn locate(index: usize) -> (usize, usize, usize) {
        let part = (index / FIRST + 1).ilog2() as usize;
        (part, index - FIRST * ((1 << part) - 1), FIRST << part)
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<Head>(len).expect("a table that fits in memory")
    }

    /// For the writer: makes sure that there is a place for `index`.
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

    /// The place of `index`, which must exist.
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
    /// While the guard is held, versions that can be reached from a newest one stay.
    pub fn walk(&self) -> RwLockReadGuard<'_, ()> {
        self.walks.read()
    }

    /// Runs `change` while nobody walks. If somebody walks, it does nothing or, if `must_be`, waits.
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
