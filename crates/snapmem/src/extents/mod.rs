//! Extents: a list of runs of any length, each with a label, on any mechanism. Columns consist of them.
//!
//! ```text
//!   epochs      the region's runs themselves have any length, and a label
//!
//!   any other   directory                     one region for each length of runs that occurs
//!               run 0: 4K, place 1, label   4K  [free][run 0][run 2]
//!               run 1: 64K, place 0, label  64K [run 1]
//!               run 2: 4K, place 2, label
//! ```
//!
//! If a run is replaced by a longer or shorter one, its old place becomes free for a new run of the old length. The
//! place can be reused even while snapshots see the old run, because a snapshot keeps the regions and the directory as
//! they were.
//!
//! Each access costs one well-predicted branch, which tells epochs from the other mechanisms.

mod regions;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug};

use self::regions::{Regions, RegionsSnapshot};
use crate::mechanism::Mechanism;
use crate::mechanisms::epochs::{EpochRegion, EpochSnapshot};
use crate::memory::error::OutOfMemory;
use crate::memory::pool::Pool;
use crate::memory::region::Label;
use crate::memory::run::Run;

/// A growable list of runs with one writer. The length of a run is a power of two, from 64 bytes to 4 GiB.
pub struct Extents(Kind);

enum Kind {
    Epochs(EpochRegion),
    Regions(Box<Regions>),
}

impl Extents {
    /// A list without runs. `run_bytes` is the length of runs that will be appended. [`Mechanism::probe`] must have
    /// found that the mechanism works here.
    pub fn new(pool: &Pool, mechanism: Mechanism, run_bytes: usize) -> Extents {
        Extents(match mechanism {
            Mechanism::Epochs | Mechanism::Auto => Kind::Epochs(EpochRegion::automatic(pool, run_bytes)),
            other => Kind::Regions(Box::new(Regions::new(pool, other, run_bytes))),
        })
    }

    /// The length of a run that [`Extents::push_run`] appends.
    pub fn run_bytes(&self) -> usize {
        match &self.0 {
            Kind::Epochs(region) => region.run_bytes(),
            Kind::Regions(regions) => regions.run_bytes(),
        }
    }

    pub fn run_count(&self) -> usize {
        match &self.0 {
            Kind::Epochs(region) => region.run_count(),
            Kind::Regions(regions) => regions.run_count(),
        }
    }

    /// The length of all runs together.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::Epochs(region) => region.bytes(),
            Kind::Regions(regions) => regions.bytes(),
        }
    }

    /// Appends a run of zeros with the label 0.
    pub fn push_run(&mut self) -> Result<(), OutOfMemory> {
        match &mut self.0 {
            Kind::Epochs(region) => region.push_run(),
            Kind::Regions(regions) => regions.push_run(),
        }
    }

    /// Changes the length of appended runs to `run_bytes`. If there is a run already, it becomes as long; its new bytes
    /// are zero. There must not be more than one run.
    pub fn lengthen_runs(&mut self, run_bytes: usize) -> Result<(), OutOfMemory> {
        match &mut self.0 {
            Kind::Epochs(region) => region.lengthen_runs(run_bytes),
            Kind::Regions(regions) => regions.lengthen_runs(run_bytes),
        }
    }

    /// Replaces a run by a new one of any length. The new run begins as zeros. `fill` is called with the old content,
    /// and writes the new content. Live snapshots keep the old run and its label. On error, nothing has changed.
    pub fn replace_run(
        &mut self,
        run: usize,
        bytes: usize,
        label: Label,
        fill: impl FnOnce(&[u8], &mut [u8]),
    ) -> Result<(), OutOfMemory> {
        match &mut self.0 {
            Kind::Epochs(region) => region.replace_run(run, bytes, label, fill),
            Kind::Regions(regions) => regions.replace_run(run, bytes, label, fill),
        }
    }

    /// Bytes of a run, without a copy. The bytes must lie within one line of 64 bytes.
    #[inline]
    pub fn bytes_in(&self, run: usize, within: usize, len: usize) -> &[u8] {
        match &self.0 {
            Kind::Epochs(region) => region.bytes_in(run, within, len),
            Kind::Regions(regions) => regions.bytes_in(run, within, len),
        }
    }

    /// Writes bytes of a run. On error nothing has changed.
    #[inline]
    pub fn write_in(&mut self, run: usize, within: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        match &mut self.0 {
            Kind::Epochs(region) => region.write_in(run, within, bytes),
            Kind::Regions(regions) => regions.write_in(run, within, bytes),
        }
    }

    /// A snapshot of all runs.
    pub fn snapshot(&mut self) -> Result<ExtentsSnapshot, OutOfMemory> {
        Ok(ExtentsSnapshot(match &mut self.0 {
            Kind::Epochs(region) => SnapshotKind::Epochs(region.snapshot()?),
            Kind::Regions(regions) => SnapshotKind::Regions(Box::new(regions.snapshot()?)),
        }))
    }

    /// See [`EpochRegion::tidy`]; other mechanisms have nothing to merge.
    pub fn tidy(&mut self, runs: usize) -> usize {
        match &mut self.0 {
            Kind::Epochs(region) => region.tidy(runs),
            Kind::Regions(_) => 0,
        }
    }

    /// Whether [`Extents::tidy`] would find nothing to do. The answer holds until the next write.
    pub fn is_tidy(&self) -> bool {
        match &self.0 {
            Kind::Epochs(region) => region.is_tidy(),
            Kind::Regions(_) => true,
        }
    }
}

impl Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Epochs(region) => region.fmt(f),
            Kind::Regions(regions) => regions.fmt(f),
        }
    }
}

/// The runs as they were when the snapshot was taken, with the patches that the snapshot's maker has added.
#[derive(Debug)]
pub struct ExtentsSnapshot(SnapshotKind);

#[derive(Debug)]
enum SnapshotKind {
    Epochs(EpochSnapshot),
    Regions(Box<RegionsSnapshot>),
}

impl ExtentsSnapshot {
    pub fn run_count(&self) -> usize {
        match &self.0 {
            SnapshotKind::Epochs(snapshot) => snapshot.run_count(),
            SnapshotKind::Regions(snapshot) => snapshot.run_count(),
        }
    }

    #[inline]
    pub fn run(&self, index: usize) -> Result<Run, OutOfMemory> {
        Ok(self.labelled_run(index)?.0)
    }

    /// A run with its label.
    #[inline]
    pub fn labelled_run(&self, index: usize) -> Result<(Run, Label), OutOfMemory> {
        match &self.0 {
            SnapshotKind::Epochs(snapshot) => snapshot.labelled_run(index),
            SnapshotKind::Regions(snapshot) => snapshot.labelled_run(index),
        }
    }

    /// Copies bytes from `offset` on, which must lie within one run. All runs must have the same length, because
    /// `offset` counts from the start of the first run.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfMemory> {
        match &self.0 {
            SnapshotKind::Epochs(snapshot) => {
                snapshot.read(offset, into);
                Ok(())
            }
            SnapshotKind::Regions(snapshot) => snapshot.read(offset, into),
        }
    }

    /// Changes bytes for this snapshot only. They are addressed as in [`ExtentsSnapshot::read`].
    #[inline]
    pub fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        match &mut self.0 {
            SnapshotKind::Epochs(snapshot) => snapshot.patch(offset, bytes),
            SnapshotKind::Regions(snapshot) => snapshot.patch(offset, bytes),
        }
    }
}
