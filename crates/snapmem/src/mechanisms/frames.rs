//! Copy-on-write in user space, one run at a time.
//!
//! ```text
//!   region    [0] [1] [2] [3]          frames are reference-counted; a snapshot is a second table of the same frames
//!              |   |    \   |
//!              |   |  2' |  |          the writer copied frame 2 before its first write after the snapshot
//!   snapshot  [0] [1] [2] [3]
//! ```
//!
//! A frame is written only if the writer holds the only reference to it. At the first write to a frame after a
//! snapshot, the writer checks the reference count, and remembers that the frame is private. So most reads and writes
//! do not touch the count. There are no page faults, no system calls and no TLB shoot-downs. Taking a snapshot adds a
//! reference to every frame.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::error::{Error, OutOfMemory};
use crate::memory::pool::{Charge, FrameRef, Pool};
use crate::memory::region::{InPlace, Region, Snapshot, Usage, locate};
use crate::memory::run::Run;

/// A growable table of frames, each of which is one run.
#[derive(Debug)]
pub struct FramesRegion {
    frames: Vec<OwnedFrame>,
    run_bytes: usize,
    pool: Pool,
    copied_bytes: u64,
    live: Arc<AtomicU64>,
}

impl FramesRegion {
    /// A region without frames.
    pub fn new(pool: &Pool, run_bytes: usize) -> FramesRegion {
        FramesRegion { frames: Vec::new(), run_bytes, pool: pool.clone(), copied_bytes: 0, live: Arc::default() }
    }
}

impl Region for FramesRegion {
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
                Ok(frame) => self.frames.push(OwnedFrame { frame, private: true }),
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
        if bytes.is_empty() {
            return Ok(());
        }
        let frame = &mut self.frames[run];
        if !frame.private {
            self.copied_bytes += frame.unshare(&self.pool)? as u64;
        }
        frame.bytes_mut()[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let (run, within) = locate(self.len(), self.run_bytes, offset, into.len());
        into.copy_from_slice(&self.frames[run].frame[within..within + into.len()]);
    }

    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error> {
        let mut charge = self.pool.charge();
        charge.set((self.frames.len() * size_of::<FrameRef>()) as u64)?;
        let mut frames = Vec::new();
        reserve(&mut frames, self.frames.len(), &self.pool)?;
        frames.extend(self.frames.iter_mut().map(OwnedFrame::share));
        self.pool.snapshot_born();
        self.live.fetch_add(1, Ordering::Relaxed);
        let (run_bytes, pool, live) = (self.run_bytes, self.pool.clone(), self.live.clone());
        Ok(Box::new(FramesSnapshot { frames, run_bytes, pool, live, _charge: charge }))
    }

    fn usage(&self) -> Usage {
        let shared = self.frames.iter().filter(|frame| frame.frame.strong_count() > 1).count();
        Usage {
            bytes: self.len() as u64,
            snapshots: self.live.load(Ordering::Relaxed),
            shared_bytes: (shared * self.run_bytes) as u64,
            copied_bytes: self.copied_bytes,
        }
    }
}

impl InPlace for FramesRegion {
    #[inline]
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8] {
        let (run, within) = locate(self.len(), self.run_bytes, offset, len);
        &self.frames[run].frame[within..within + len]
    }
}

#[derive(Debug)]
struct FramesSnapshot {
    frames: Vec<FrameRef>,
    run_bytes: usize,
    pool: Pool,
    /// The number of live snapshots of the region.
    live: Arc<AtomicU64>,
    /// The charge for the snapshot's table of frames.
    _charge: Charge,
}

impl Snapshot for FramesSnapshot {
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
        if bytes.is_empty() {
            return Ok(());
        }
        let frame = &mut self.frames[run];
        if frame.get_mut().is_none() {
            *frame = self.pool.copy(frame)?;
        }
        // `frame` is a fresh copy that only this value refers to, and the value is borrowed exclusively.
        let own = frame.get_mut().expect("the frame is not shared");
        own[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Drop for FramesSnapshot {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.pool.snapshot_died();
    }
}

/// A frame of a region. Only [`OwnedFrame::share`] creates another reference to it.
#[derive(Debug)]
struct OwnedFrame {
    frame: FrameRef,
    /// Whether the region has the only reference to the frame. If false, a snapshot may have one.
    private: bool,
}

impl OwnedFrame {
    fn share(&mut self) -> FrameRef {
        self.private = false;
        self.frame.clone()
    }

    /// Makes the frame private. Returns the number of bytes that had to be copied for that.
    fn unshare(&mut self, pool: &Pool) -> Result<usize, OutOfMemory> {
        let shared = self.frame.get_mut().is_none();
        if shared {
            self.frame = pool.copy(&self.frame)?;
        }
        self.private = true;
        Ok(if shared { self.frame.len() } else { 0 })
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.private);
        // SAFETY: the caller made the frame private, and every clone goes through `share`, which ends that.
        unsafe { self.frame.get_mut_unchecked() }
    }
}

fn reserve<T>(frames: &mut Vec<T>, more: usize, pool: &Pool) -> Result<(), OutOfMemory> {
    let wanted = (more * size_of::<T>()) as u64;
    frames.try_reserve(more).map_err(|_| OutOfMemory::Limit { wanted, limit: pool.limit() })
}
