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

/// A version that the writer has replaced. Its bytes are seen by the snapshots from `birth` on, up to the one that it is
/// kept with; the version itself is walked past by all older ones.
pub struct Retired {
    birth: u64,
    bytes: Option<Bytes>,
    _version: VersionMemory,
}

struct Bytes {
    _base: FrameRef,
    _log: Vec<FrameRef>,
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
    /// # Safety
    ///
    /// The version is from [`Version::allocate`] and reachable only for snapshots that are alive now.
    #[allow(unsafe_code)]
    pub unsafe fn new(birth: u64, version: NonNull<Version>, base: FrameRef, log: Vec<FrameRef>) -> Retired {
        Retired { birth, bytes: Some(Bytes { _base: base, _log: log }), _version: VersionMemory(version) }
    }

    /// What nobody needs if this is the newest snapshot that it is kept for.
    fn unneeded(&mut self, newest: &Entry) -> Option<Bytes> {
        if self.birth > newest.epoch { self.bytes.take() } else { None }
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
        // Given back after the lock.
        let (mut unneeded, mut ended) = (Vec::new(), Vec::new());
        {
            let mut snapshots = self.snapshots.lock();
            let at = snapshots.binary_search_by_key(&epoch, |entry| entry.epoch).expect("a snapshot ends once");
            ended.append(&mut snapshots.remove(at).kept);
            if let Some(older) = at.checked_sub(1) {
                let older = &mut snapshots[older];
                unneeded.extend(ended.iter_mut().filter_map(|retired| retired.unneeded(older)));
                older.kept.append(&mut ended);
            }
            self.newest.store(snapshots.last().map_or(NEVER, |entry| entry.epoch), Ordering::Release);
        }
        drop((unneeded, ended));
    }

    /// Keeps what live snapshots still see. The writer has already put something else in its place.
    pub fn retire(&self, mut retired: Vec<Retired>) {
        let mut unneeded = Vec::new();
        if let Some(newest) = self.snapshots.lock().last_mut() {
            unneeded.extend(retired.iter_mut().filter_map(|retired| retired.unneeded(newest)));
            newest.kept.append(&mut retired);
        }
        drop((unneeded, retired));
    }
}
