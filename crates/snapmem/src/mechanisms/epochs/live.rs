//! The live snapshots of a region, and the memory that is kept for them.
//!
//! Memory that the writer has replaced is kept in the entry of the newest snapshot that can see it. When that snapshot
//! ends, the memory passes to the next older snapshot, if this one can see the memory, too; otherwise the memory is
//! freed.

use std::mem;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::version::Version;
use crate::memory::error::OutOfMemory;
use crate::memory::pool::{FrameRef, Pool};

/// An epoch before all others, which count from 1.
pub const NEVER: u64 = 0;

pub struct Live {
    /// The newest snapshot's epoch, or [`NEVER`]. Only the writer increases it.
    newest: AtomicU64,
    snapshots: Mutex<Vec<Entry>>,
}

/// A live snapshot, with the memory that is kept for it. [`Live`] lists them in ascending order of their epochs.
struct Entry {
    epoch: u64,
    kept: Vec<Retired>,
}

impl Entry {
    /// Keeps retired memory. If the list cannot grow, the memory is leaked, because that is better than ending the
    /// process.
    fn keep(&mut self, retired: Retired) {
        match self.kept.try_reserve(1) {
            Ok(()) => self.kept.push(retired),
            Err(_) => mem::forget(retired),
        }
    }
}

/// Memory that the writer has replaced. It is visible to snapshots with epochs from `birth` on, up to the snapshot in
/// whose entry it is kept.
pub struct Retired {
    birth: u64,
    _memory: Memory,
}

enum Memory {
    Bytes { _base: FrameRef, _log: Vec<FrameRef> },
    Versions { _chain: Chain },
}

struct Chain(NonNull<Version>);

// SAFETY: only frees the versions, on whatever thread.
#[allow(unsafe_code)]
unsafe impl Send for Chain {}

impl Drop for Chain {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the versions were handed over by `Retired::versions`; no snapshot that walks along them is left.
        unsafe { Version::free_chain(self.0) };
    }
}

impl Retired {
    /// The base and the log of a version that was replaced.
    pub fn bytes(birth: u64, base: FrameRef, log: Vec<FrameRef>) -> Retired {
        Retired { birth, _memory: Memory::Bytes { _base: base, _log: log } }
    }

    /// All versions of a frame that was removed or replaced, from the newest one on.
    ///
    /// # Safety
    ///
    /// The versions must come from [`Version::allocate`], and only snapshots that are alive now may reach them.
    #[allow(unsafe_code)]
    pub unsafe fn versions(newest: NonNull<Version>) -> Retired {
        Retired { birth: NEVER, _memory: Memory::Versions { _chain: Chain(newest) } }
    }
}

impl Live {
    pub fn new() -> Live {
        Live { newest: AtomicU64::new(NEVER), snapshots: Mutex::new(Vec::new()) }
    }

    /// The epoch of the newest live snapshot. No snapshot sees memory that was born later, so the writer may change it.
    #[inline]
    pub fn newest(&self) -> u64 {
        // This load pairs with the store in `end`, so that all reads of ended snapshots happened before this load.
        self.newest.load(Ordering::Acquire)
    }

    /// Calls `ask` with a function that tells whether any live snapshot has an epoch in a given range.
    pub fn with_seen<T>(&self, ask: impl FnOnce(&dyn Fn(Range<u64>) -> bool) -> T) -> T {
        let snapshots = self.snapshots.lock();
        ask(&|epochs| {
            let first = snapshots.partition_point(|entry| entry.epoch < epochs.start);
            snapshots.get(first).is_some_and(|entry| entry.epoch < epochs.end)
        })
    }

    pub fn count(&self) -> u64 {
        self.snapshots.lock().len() as u64
    }

    /// Adds a snapshot. Only the writer calls this, with ascending epochs.
    pub fn begin(&self, epoch: u64, pool: &Pool) -> Result<(), OutOfMemory> {
        let mut snapshots = self.snapshots.lock();
        let wanted = size_of::<Entry>() as u64;
        snapshots.try_reserve(1).map_err(|_| OutOfMemory::Limit { wanted, limit: pool.limit() })?;
        snapshots.push(Entry { epoch, kept: Vec::new() });
        self.newest.store(epoch, Ordering::Release);
        Ok(())
    }

    pub fn end(&self, epoch: u64) {
        // Memory that no snapshot sees any more is freed only after the lock is released, because freeing takes time.
        let mut unneeded;
        {
            let mut snapshots = self.snapshots.lock();
            let at = snapshots.binary_search_by_key(&epoch, |entry| entry.epoch).expect("a snapshot ends once");
            unneeded = snapshots.remove(at).kept;
            if let Some(older) = at.checked_sub(1) {
                let older = &mut snapshots[older];
                let epoch = older.epoch;
                unneeded.extract_if(.., |retired| retired.birth <= epoch).for_each(|seen| older.keep(seen));
            }
            self.newest.store(snapshots.last().map_or(NEVER, |entry| entry.epoch), Ordering::Release);
        }
        drop(unneeded);
    }

    /// Makes room for `more` pieces of kept memory in the newest snapshot's entry.
    pub fn reserve(&self, more: usize, pool: &Pool) -> Result<(), OutOfMemory> {
        let wanted = (more * size_of::<Retired>()) as u64;
        match self.snapshots.lock().last_mut() {
            Some(newest) => {
                newest.kept.try_reserve(more).map_err(|_| OutOfMemory::Limit { wanted, limit: pool.limit() })
            }
            None => Ok(()),
        }
    }

    /// Keeps memory that the writer has replaced, and that live snapshots may still see.
    pub fn retire(&self, retired: impl IntoIterator<Item = Retired>) {
        let mut snapshots = self.snapshots.lock();
        for retired in retired {
            match snapshots.last_mut() {
                Some(newest) if retired.birth <= newest.epoch => newest.keep(retired),
                _ => drop(retired),
            }
        }
    }
}
