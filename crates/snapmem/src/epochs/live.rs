//! Which snapshots of a region are alive, and what is kept for them.
//!
//! Memory that the writer replaced is kept with the newest snapshot that can see it. When that one ends, the memory
//! passes to the next older one that can see it too, or is free.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::version::Version;
use crate::pool::{FrameRef, OutOfMemory, Pool};

/// Epochs count from 1; this is before all of them.
pub const NEVER: u64 = 0;

pub struct Live {
    /// The newest snapshot's epoch, or [`NEVER`]. Only the writer makes it larger.
    newest: AtomicU64,
    snapshots: Mutex<Vec<Entry>>,
}

/// Ascending by epoch.
struct Entry {
    epoch: u64,
    kept: Vec<Retired>,
}

/// Seen by the snapshots from `birth` on, up to the one that it is kept with.
pub struct Retired {
    birth: u64,
    _memory: Memory,
}

enum Memory {
    Frames { _frames: Vec<FrameRef> },
    Version { _version: VersionMemory },
}

struct VersionMemory(NonNull<Version>);

// SAFETY: only frees the version, on whatever thread.
#[allow(unsafe_code)]
unsafe impl Send for VersionMemory {}

impl Drop for VersionMemory {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the version was handed over by `Retired::version`; no snapshot that walks past it is left.
        unsafe { Version::free(self.0) };
    }
}

impl Retired {
    /// A version's bytes, which snapshots from `birth` on see.
    pub fn frames(birth: u64, frames: Vec<FrameRef>) -> Retired {
        Retired { birth, _memory: Memory::Frames { _frames: frames } }
    }

    /// A version itself, which all older snapshots walk past.
    ///
    /// # Safety
    ///
    /// The version is from [`Version::allocate`] and reachable only for snapshots that are alive now.
    #[allow(unsafe_code)]
    pub unsafe fn version(version: NonNull<Version>) -> Retired {
        Retired { birth: NEVER, _memory: Memory::Version { _version: VersionMemory(version) } }
    }
}

impl Live {
    pub fn new() -> Live {
        Live { newest: AtomicU64::new(NEVER), snapshots: Mutex::new(Vec::new()) }
    }

    /// Memory born later than this is the writer's alone.
    #[inline]
    pub fn newest(&self) -> u64 {
        // What snapshots that have ended read was read before: pairs with the store in `end`.
        self.newest.load(Ordering::Acquire)
    }

    pub fn count(&self) -> u64 {
        self.snapshots.lock().len() as u64
    }

    /// The writer begins a snapshot; epochs ascend.
    pub fn begin(&self, epoch: u64, pool: &Pool) -> Result<(), OutOfMemory> {
        let mut snapshots = self.snapshots.lock();
        let wanted = size_of::<Entry>() as u64;
        snapshots.try_reserve(1).map_err(|_| OutOfMemory { wanted, limit: pool.limit() })?;
        snapshots.push(Entry { epoch, kept: Vec::new() });
        self.newest.store(epoch, Ordering::Release);
        Ok(())
    }

    pub fn end(&self, epoch: u64) {
        let mut free = Vec::new();
        {
            let mut snapshots = self.snapshots.lock();
            let at = snapshots.binary_search_by_key(&epoch, |entry| entry.epoch).expect("a snapshot ends once");
            let ended = snapshots.remove(at);
            match at.checked_sub(1) {
                Some(older) => {
                    let older = &mut snapshots[older];
                    for retired in ended.kept {
                        if retired.birth <= older.epoch { older.kept.push(retired) } else { free.push(retired) }
                    }
                }
                None => free = ended.kept,
            }
            self.newest.store(snapshots.last().map_or(NEVER, |entry| entry.epoch), Ordering::Release);
        }
        drop(free);
    }

    /// Keeps what live snapshots still see. The writer has already put something else in its place.
    pub fn retire(&self, retired: impl IntoIterator<Item = Retired>) {
        let mut free = Vec::new();
        {
            let mut snapshots = self.snapshots.lock();
            for retired in retired {
                match snapshots.last_mut().filter(|newest| retired.birth <= newest.epoch) {
                    Some(newest) => newest.kept.push(retired),
                    None => free.push(retired),
                }
            }
        }
        drop(free);
    }
}
