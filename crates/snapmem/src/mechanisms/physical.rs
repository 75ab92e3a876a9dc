//! The copy: a snapshot copies all of the region's memory.
//!
//! Several threads copy at the same time, into warm frames of the pool if there are any, because page faults of fresh
//! memory cost several times as much as copying. Writes cost the same with and without snapshots.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::copiers::Copiers;
use crate::memory::error::Error;
use crate::memory::paged::reserve;
use crate::memory::pool::{Alive, FrameRef, Pool};
use crate::memory::region::{InPlace, Region, Snapshot, Usage, locate};
use crate::memory::run::Run;

/// A region of frames, each of which is one run. Only the region refers to its frames, because snapshots copy them.
#[derive(Debug)]
pub struct PhysicalRegion {
    frames: Vec<FrameRef>,
    run_bytes: usize,
    pool: Pool,
    copiers: Arc<Copiers>,
    copied_bytes: u64,
    live: Arc<AtomicU64>,
}

impl PhysicalRegion {
    /// A region that is copied by as many threads as there are cores, but at most four. All regions share these
    /// threads.
    pub fn new(pool: &Pool, run_bytes: usize) -> PhysicalRegion {
        PhysicalRegion::with_copiers(pool, run_bytes, Copiers::shared())
    }

    /// A region that is copied by `threads` threads of its own.
    pub fn with_threads(pool: &Pool, run_bytes: usize, threads: usize) -> PhysicalRegion {
        PhysicalRegion::with_copiers(pool, run_bytes, Arc::new(Copiers::new(threads)))
    }

    fn with_copiers(pool: &Pool, run_bytes: usize, copiers: Arc<Copiers>) -> PhysicalRegion {
        let pool = pool.clone();
        PhysicalRegion { frames: Vec::new(), run_bytes, pool, copiers, copied_bytes: 0, live: Arc::default() }
    }
}

impl Region for PhysicalRegion {
    fn len(&self) -> usize {
        self.frames.len() * self.run_bytes
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn grow(&mut self, len: usize) -> Result<(), Error> {
        let (before, wanted) = (self.frames.len(), len.div_ceil(self.run_bytes));
        reserve(&mut self.frames, wanted.saturating_sub(before), &self.pool)?;
        for _ in before..wanted {
            match self.pool.frame(self.run_bytes) {
                Ok(frame) => self.frames.push(frame),
                Err(error) => {
                    self.frames.truncate(before);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let (run, within) = locate(self.len(), self.run_bytes, offset, bytes.len());
        // SAFETY: the region's frames are its own: snapshots have copies, and the copiers are done with them.
        let frame = unsafe { self.frames[run].get_mut_unchecked() };
        frame[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let (run, within) = locate(self.len(), self.run_bytes, offset, into.len());
        into.copy_from_slice(&self.frames[run][within..within + into.len()]);
    }

    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error> {
        let frames = self.copiers.copy(&mut self.frames, &self.pool)?;
        self.pool.cushioned()?;
        self.copied_bytes += self.len() as u64;
        let alive = Alive::new(&self.pool, &self.live);
        Ok(Box::new(PhysicalSnapshot { frames, run_bytes: self.run_bytes, pool: self.pool.clone(), _alive: alive }))
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.len() as u64,
            snapshots: self.live.load(Ordering::Relaxed),
            shared_bytes: 0,
            copied_bytes: self.copied_bytes,
        }
    }
}

impl InPlace for PhysicalRegion {
    #[inline]
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8] {
        let (run, within) = locate(self.len(), self.run_bytes, offset, len);
        &self.frames[run][within..within + len]
    }
}

#[derive(Debug)]
struct PhysicalSnapshot {
    frames: Vec<FrameRef>,
    run_bytes: usize,
    pool: Pool,
    _alive: Alive,
}

impl Snapshot for PhysicalSnapshot {
    fn len(&self) -> usize {
        self.frames.len() * self.run_bytes
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn run(&self, index: usize) -> Result<Run, Error> {
        Ok(self.frames[index].clone().into_run())
    }

    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let (run, within) = locate(self.len(), self.run_bytes, offset, bytes.len());
        let frame = &mut self.frames[run];
        if frame.get_mut().is_none() {
            // A reader may hold the run in its present form, so the run must not change.
            *frame = self.pool.copy(frame)?;
        }
        let own = frame.get_mut().expect("the frame is not shared");
        own[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn equals_a_plain_vector() {
        for threads in 1..4 {
            testing::equals_a_model(256, |pool| Box::new(PhysicalRegion::with_threads(pool, 256, threads)));
        }
    }

    #[test]
    fn without_room_for_a_copy_nothing_changes() {
        let pool = Pool::new(3 << 20);
        let mut region = PhysicalRegion::with_threads(&pool, 4096, 2);
        region.grow(2 << 20).unwrap();
        region.write((2 << 20) - 3, &[1, 2, 3]).unwrap();
        assert!(region.snapshot().is_err());
        let mut end = [0; 3];
        region.read((2 << 20) - 3, &mut end);
        assert_eq!((end, region.len(), pool.used(), pool.snapshots()), ([1, 2, 3], 2 << 20, 2 << 20, 0));
        assert_eq!(region.usage().snapshots, 0);
    }
}
