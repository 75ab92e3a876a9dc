//! The reader's side.

#![allow(unsafe_code)]

use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::version::{LINE, Seen, Version};
use crate::error::Error;
use crate::pool::{Charge, FrameRef, OutOfMemory, Pool};
use crate::region::{Run, Snapshot, locate};

/// An epoch that is kept alive.
pub struct EpochSnapshot {
    ticket: Arc<Ticket>,
    runs: usize,
    run_bytes: usize,
    /// By run, in the order made.
    patches: HashMap<usize, Vec<Patch>>,
    charge: Charge,
    pool: Pool,
}

/// Keeps what the snapshot sees as it is. Runs hold it, too.
struct Ticket {
    epoch: u64,
    shared: Arc<Shared>,
    pool: Pool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.live.end(self.epoch);
        self.pool.snapshot_died();
    }
}

/// Longer ones are cut.
struct Patch {
    within: u32,
    len: u8,
    bytes: [u8; PATCH_BYTES],
}

const PATCH_BYTES: usize = 16;

impl EpochSnapshot {
    pub(super) fn new(
        shared: &Arc<Shared>,
        epoch: u64,
        runs: usize,
        run_bytes: usize,
        pool: &Pool,
    ) -> Result<EpochSnapshot, OutOfMemory> {
        shared.live.begin(epoch, pool)?;
        pool.snapshot_born();
        let ticket = Arc::new(Ticket { epoch, shared: shared.clone(), pool: pool.clone() });
        Ok(EpochSnapshot {
            ticket,
            runs,
            run_bytes,
            patches: HashMap::new(),
            charge: pool.charge(),
            pool: pool.clone(),
        })
    }

    pub fn run_count(&self) -> usize {
        self.runs
    }

    /// See [`Snapshot::run`].
    #[inline]
    pub fn get(&self, index: usize) -> Result<Run, OutOfMemory> {
        let version = self.version(index);
        // SAFETY: the ticket keeps the snapshot alive, and the snapshot sees the version.
        let (base, seen) = unsafe { (version.as_ref().base, Seen::of(version, self.ticket.epoch)) };
        let patches = if self.patches.is_empty() { None } else { self.patches.get(&index) };
        if seen.is_none() && patches.is_none() {
            let owner: Arc<dyn Any + Send + Sync> = self.ticket.clone();
            // SAFETY: nobody writes to the base of a version that a live snapshot sees, and the ticket keeps it so.
            return Ok(unsafe { Run::new(base, self.run_bytes, owner) });
        }
        let merged = self.merged(base, seen.into_iter().flatten(), patches.map_or(&[], Vec::as_slice))?;
        Ok(merged.into_run())
    }

    /// The frame's version that the snapshot sees.
    #[inline]
    fn version(&self, index: usize) -> NonNull<Version> {
        assert!(index < self.runs, "the snapshot does not have so many runs");
        let heads = &self.ticket.shared.heads;
        if index + 1 < self.runs {
            prefetch(heads.at(index + 1).load(Ordering::Relaxed));
        }
        let mut version: *const Version = heads.at(index).load(Ordering::Acquire);
        // SAFETY: the newest version is there, and so is every older one down to the one that a live snapshot sees.
        unsafe {
            while (*version).birth > self.ticket.epoch {
                version = (*version).previous;
            }
            NonNull::new_unchecked(version.cast_mut())
        }
    }

    fn merged(
        &self,
        base: NonNull<u8>,
        lines: impl Iterator<Item = (usize, *const [u8; LINE])>,
        patches: &[Patch],
    ) -> Result<FrameRef, OutOfMemory> {
        // SAFETY: nobody writes to the base of a version that a live snapshot sees.
        let base = unsafe { std::slice::from_raw_parts(base.as_ptr(), self.run_bytes) };
        let mut merged = self.pool.copy(base)?;
        self.ticket.shared.copied_bytes.fetch_add(self.run_bytes as u64, Ordering::Relaxed);
        let bytes = merged.get_mut().expect("the copy is ours alone");
        for (line, from) in lines {
            let to = &mut bytes[line * LINE..(line + 1) * LINE];
            // SAFETY: nobody writes to a line that a live snapshot sees.
            unsafe { ptr::copy_nonoverlapping(from.cast(), to.as_mut_ptr(), LINE) };
        }
        for patch in patches {
            let (within, len) = (patch.within as usize, patch.len as usize);
            bytes[within..within + len].copy_from_slice(&patch.bytes[..len]);
        }
        Ok(merged)
    }
}

impl Snapshot for EpochSnapshot {
    fn len(&self) -> usize {
        self.runs * self.run_bytes
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn run(&self, index: usize) -> Result<Run, Error> {
        Ok(self.get(index)?)
    }

    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let (run, within) = locate(self.len(), self.run_bytes, offset, bytes.len());
        let pieces = bytes.len().div_ceil(PATCH_BYTES);
        self.charge.set(self.charge.bytes() + (pieces * size_of::<Patch>()) as u64)?;
        let patches = self.patches.entry(run).or_default();
        for (piece, bytes) in bytes.chunks(PATCH_BYTES).enumerate() {
            let mut patch = Patch {
                within: (within + piece * PATCH_BYTES) as u32,
                len: bytes.len() as u8,
                bytes: [0; PATCH_BYTES],
            };
            patch.bytes[..bytes.len()].copy_from_slice(bytes);
            patches.push(patch);
        }
        Ok(())
    }
}

impl Debug for EpochSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochSnapshot(epoch {}, {} runs)", self.ticket.epoch, self.runs)
    }
}

/// Most readers go on with the next run.
#[inline]
fn prefetch(version: *const Version) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint that reads nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(version.cast(), _MM_HINT_T0);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = version;
}
