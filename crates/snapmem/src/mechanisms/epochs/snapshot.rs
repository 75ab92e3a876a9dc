//! Snapshots of an epoch region, as readers use them.

#![allow(unsafe_code)]

use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::version::{LINE, Seen, Version};
use crate::memory::error::{Error, OutOfMemory};
use crate::memory::pool::{Charge, FrameRef, Pool};
use crate::memory::prefetch::prefetch;
use crate::memory::region::{Label, Snapshot, locate};
use crate::memory::run::Run;

/// A snapshot of an epoch region.
pub struct EpochSnapshot {
    ticket: Arc<Ticket>,
    runs: usize,
    /// The length of every run. It is used only if bytes are addressed by their offset.
    run_bytes: usize,
    /// The patched runs.
    patched: HashMap<usize, Patched>,
    charge: Charge,
    pool: Pool,
}

/// The registration of a live snapshot. While it exists, everything that the snapshot sees stays unchanged. Runs that
/// readers hold also hold the ticket.
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

enum Patched {
    /// A private copy of a patched run.
    Run(FrameRef),
    /// Patches that are not applied yet, in the order in which they were made. They are applied to a copy only when the
    /// run is read, at the reader's cost.
    Later(Vec<Patch>),
}

/// A run of at most this many bytes is copied as soon as it is patched.
const CHEAP_RUN: usize = 4096;
/// A longer run is copied when the list of its patches takes this fraction (one in `LISTED_SHARE`) of the run's length.
const LISTED_SHARE: usize = 4;

/// A patch of at most [`PATCH_BYTES`] bytes; longer patches are split.
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
            patched: HashMap::new(),
            charge: pool.charge(),
            pool: pool.clone(),
        })
    }

    pub fn run_count(&self) -> usize {
        self.runs
    }

    /// See [`Snapshot::run`].
    #[inline]
    pub fn run(&self, index: usize) -> Result<Run, OutOfMemory> {
        Ok(self.labelled_run(index)?.0)
    }

    /// A run with its label.
    #[inline]
    pub fn labelled_run(&self, index: usize) -> Result<(Run, Label), OutOfMemory> {
        let version = self.version(index);
        let seen = self.seen(version);
        // SAFETY: the ticket keeps the snapshot alive, and the snapshot sees the version.
        let (base, bytes, label) = unsafe { (version.as_ref().base, version.as_ref().bytes, version.as_ref().label) };
        let run = match if self.patched.is_empty() { None } else { self.patched.get(&index) } {
            Some(Patched::Run(copy)) => copy.clone().into_run(),
            Some(Patched::Later(patches)) => self.merged(version, seen, patches)?.into_run(),
            None if seen.is_some() => self.merged(version, seen, &[])?.into_run(),
            None => {
                let owner: Arc<dyn Any + Send + Sync> = self.ticket.clone();
                // SAFETY: nobody writes to the base of a version that a live snapshot sees, and the ticket keeps it so.
                unsafe { Run::new(base, bytes, owner) }
            }
        };
        Ok((run, label))
    }

    /// The lines of a version's log that the snapshot sees; `None` if it sees none.
    #[inline]
    fn seen(&self, version: NonNull<Version>) -> Option<Seen> {
        // SAFETY: the ticket keeps the snapshot alive, and the snapshot sees the version.
        unsafe { Seen::of(version, self.ticket.epoch) }
    }

    /// Copies bytes that lie within one run.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let (run, within) = locate(self.len(), self.run_bytes, offset, into.len());
        let patched = self.patched.get(&run);
        if let Some(Patched::Run(copy)) = patched {
            into.copy_from_slice(&copy[within..within + into.len()]);
            return;
        }
        let version = self.version(run);
        // SAFETY: as in `run`; nobody writes to memory that a live snapshot sees.
        let seen = unsafe {
            let from = version.as_ref().base.as_ptr().add(within);
            ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
            Seen::of(version, self.ticket.epoch)
        };
        for (line, from) in seen.into_iter().flatten() {
            // SAFETY: as above.
            let line_bytes = unsafe { &*from };
            overlay(into, within, line * LINE, line_bytes);
        }
        if let Some(Patched::Later(patches)) = patched {
            patches.iter().for_each(|patch| overlay(into, within, patch.within as usize, patch.bytes()));
        }
    }

    /// See [`Snapshot::patch`].
    pub fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let (run, within) = locate(self.len(), self.run_bytes, offset, bytes.len());
        if bytes.is_empty() {
            return Ok(());
        }
        let refused = OutOfMemory::Limit { wanted: bytes.len() as u64, limit: self.pool.limit() };
        self.patched.try_reserve(1).map_err(|_| refused)?;
        if let Some(Patched::Later(patches)) = self.patched.get_mut(&run) {
            patches.try_reserve(bytes.len().div_ceil(PATCH_BYTES)).map_err(|_| refused)?;
        }
        let listed = match self.patched.get(&run) {
            Some(Patched::Later(patches)) => patches.len() * size_of::<Patch>(),
            Some(Patched::Run(_)) => self.run_bytes,
            None => 0,
        };
        if self.run_bytes <= CHEAP_RUN || listed + bytes.len() > self.run_bytes / LISTED_SHARE {
            self.own_run(run)?;
        } else {
            let pieces = bytes.len().div_ceil(PATCH_BYTES);
            self.charge.set(self.charge.bytes() + (pieces * size_of::<Patch>()) as u64)?;
        }
        match self.patched.entry(run).or_insert_with(|| Patched::Later(Vec::new())) {
            Patched::Run(copy) => {
                if copy.get_mut().is_none() {
                    // A reader may hold the run in its present form, so the run must not change.
                    *copy = self.pool.copy(copy)?;
                }
                let copy = copy.get_mut().expect("the copy is not shared");
                copy[within..within + bytes.len()].copy_from_slice(bytes);
            }
            Patched::Later(patches) => {
                let pieces = bytes.chunks(PATCH_BYTES).enumerate();
                patches.extend(pieces.map(|(piece, bytes)| Patch::new(within + piece * PATCH_BYTES, bytes)));
            }
        }
        Ok(())
    }

    /// Copies the run with its patches, so that further patches can be written to the copy.
    fn own_run(&mut self, run: usize) -> Result<(), OutOfMemory> {
        let patches = match self.patched.get(&run) {
            Some(Patched::Run(_)) => return Ok(()),
            Some(Patched::Later(patches)) => &patches[..],
            None => &[],
        };
        let version = self.version(run);
        let copy = self.merged(version, self.seen(version), patches)?;
        let listed = size_of_val(patches) as u64;
        self.charge.set(self.charge.bytes() - listed)?;
        self.patched.insert(run, Patched::Run(copy));
        Ok(())
    }

    /// The version of a frame that this snapshot sees.
    #[inline]
    fn version(&self, index: usize) -> NonNull<Version> {
        assert!(index < self.runs, "the snapshot does not have so many runs");
        let heads = &self.ticket.shared.heads;
        if index + 1 < self.runs {
            // Most readers read runs in order, so the next run's entry is prefetched.
            prefetch(heads.at(index + 1).hint());
        }
        let (newest, birth) = heads.at(index).newest();
        // SAFETY: frames have versions.
        if birth <= self.ticket.epoch { unsafe { NonNull::new_unchecked(newest) } } else { self.older_version(index) }
    }

    #[cold]
    fn older_version(&self, index: usize) -> NonNull<Version> {
        let heads = &self.ticket.shared.heads;
        let _walk = heads.walk();
        let (mut version, _) = heads.at(index).newest();
        // SAFETY: the newest version is there, and nobody removes older ones meanwhile. The one that this snapshot
        // sees is among them, and stays as long as the snapshot is alive.
        unsafe {
            while (*version).birth > self.ticket.epoch {
                version = (*version).previous.load(Ordering::Acquire);
            }
            NonNull::new_unchecked(version)
        }
    }

    /// A private copy for the reader: the base, overwritten by the lines of the log, and then by the patches.
    fn merged(
        &self,
        version: NonNull<Version>,
        seen: Option<Seen>,
        patches: &[Patch],
    ) -> Result<FrameRef, OutOfMemory> {
        // SAFETY: nobody writes to the base of a version that a live snapshot sees.
        let base = unsafe { std::slice::from_raw_parts(version.as_ref().base.as_ptr(), version.as_ref().bytes) };
        let mut merged = self.pool.copy(base)?;
        self.ticket.shared.copied_bytes.fetch_add(base.len() as u64, Ordering::Relaxed);
        let bytes = merged.get_mut().expect("the copy is ours alone");
        for (line, from) in seen.into_iter().flatten() {
            let to = &mut bytes[line * LINE..(line + 1) * LINE];
            // SAFETY: nobody writes to a line that a live snapshot sees.
            unsafe { ptr::copy_nonoverlapping(from.cast(), to.as_mut_ptr(), LINE) };
        }
        for patch in patches {
            let within = patch.within as usize;
            bytes[within..within + patch.bytes().len()].copy_from_slice(patch.bytes());
        }
        Ok(merged)
    }
}

impl Patch {
    fn new(within: usize, bytes: &[u8]) -> Patch {
        let mut patch = Patch { within: within as u32, len: bytes.len() as u8, bytes: [0; PATCH_BYTES] };
        patch.bytes[..bytes.len()].copy_from_slice(bytes);
        patch
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Copies `bytes`, which begin at offset `at` of a run, over `into`, which begins at offset `within`, where both
/// overlap.
fn overlay(into: &mut [u8], within: usize, at: usize, bytes: &[u8]) {
    let start = within.max(at);
    let end = (within + into.len()).min(at + bytes.len());
    if start < end {
        into[start - within..end - within].copy_from_slice(&bytes[start - at..end - at]);
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
        Ok(EpochSnapshot::run(self, index)?)
    }

    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        Ok(EpochSnapshot::patch(self, offset, bytes)?)
    }
}

impl Debug for EpochSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochSnapshot(epoch {}, {} runs)", self.ticket.epoch, self.runs)
    }
}
