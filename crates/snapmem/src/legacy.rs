//! Copy-on-write in user space.
//!
//! ```text
//!   region    [0] [1] [2] [3]          frames are reference-counted; a snapshot is a second table of the same frames
//!              |   |    \   |
//!              |   |  2' |  |          the writer copied frame 2 before its first write after the snapshot
//!   snapshot  [0] [1] [2] [3]
//! ```
//!
//! A frame is written only by who holds the only reference to it. The writer asks the reference count once, and
//! remembers the answer until the next snapshot: so neither reading nor writing touches the count as a rule. No page
//! faults, no system calls, no TLB shoot-downs.

#![allow(unsafe_code)]

use crate::pool::{FrameRef, OutOfMemory, Pool};

/// Name of the mechanism, as shown to users.
pub const MECHANISM: &str = "frames";

/// Memory with one writer.
#[derive(Debug)]
pub struct LegacyRegion {
    frames: Vec<OwnedFrame>,
    frame_bytes: usize,
    pool: Pool,
}

impl LegacyRegion {
    /// Without frames at first.
    pub fn new(pool: &Pool, frame_bytes: usize) -> LegacyRegion {
        LegacyRegion { frames: Vec::new(), frame_bytes, pool: pool.clone() }
    }

    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Appends a frame of zeros.
    pub fn grow(&mut self) -> Result<(), OutOfMemory> {
        reserve(&mut self.frames, 1, &self.pool)?;
        self.frames.push(OwnedFrame { frame: self.pool.frame(self.frame_bytes)?, private: true });
        Ok(())
    }

    #[inline]
    pub fn read(&self, frame: usize) -> &[u8] {
        &self.frames[frame].frame
    }

    /// A frame's bytes for writing; copies the frame first if a snapshot shares it.
    #[inline]
    pub fn write(&mut self, frame: usize) -> Result<&mut [u8], OutOfMemory> {
        self.frames[frame].write(&self.pool)
    }

    pub fn snapshot(&mut self) -> Result<LegacySnapshot, OutOfMemory> {
        let mut frames = Vec::new();
        reserve(&mut frames, self.frames.len(), &self.pool)?;
        frames.extend(self.frames.iter_mut().map(OwnedFrame::share));
        self.pool.snapshot_born();
        Ok(LegacySnapshot { frames, pool: self.pool.clone() })
    }
}

/// What a region held when the snapshot was taken, but for the patches of who took it.
#[derive(Debug)]
pub struct LegacySnapshot {
    frames: Vec<FrameRef>,
    pool: Pool,
}

impl LegacySnapshot {
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// A clone of the reference keeps the frame's bytes beyond the snapshot's own life.
    #[inline]
    pub fn frame(&self, frame: usize) -> &FrameRef {
        &self.frames[frame]
    }

    /// A frame's bytes for patching, in a private copy: neither the region nor another snapshot sees it.
    pub fn patch(&mut self, frame: usize) -> Result<&mut [u8], OutOfMemory> {
        unshare(&mut self.frames[frame], &self.pool)
    }
}

impl Drop for LegacySnapshot {
    fn drop(&mut self) {
        self.pool.snapshot_died();
    }
}

/// A frame of a region. The only way to get another reference to it is [`OwnedFrame::share`].
#[derive(Debug)]
struct OwnedFrame {
    frame: FrameRef,
    /// Nobody else holds the frame; unset: somebody may.
    private: bool,
}

impl OwnedFrame {
    fn share(&mut self) -> FrameRef {
        self.private = false;
        self.frame.clone()
    }

    #[inline]
    fn write(&mut self, pool: &Pool) -> Result<&mut [u8], OutOfMemory> {
        if !self.private {
            unshare(&mut self.frame, pool)?;
            self.private = true;
        }
        // SAFETY: `private` says that nobody else holds the frame, and every clone goes through `share`, which unsets it.
        Ok(unsafe { self.frame.get_mut_unchecked() })
    }
}

/// The frame's bytes for writing, after copying them if somebody else holds the frame.
fn unshare<'a>(frame: &'a mut FrameRef, pool: &Pool) -> Result<&'a mut [u8], OutOfMemory> {
    if frame.get_mut().is_none() {
        *frame = pool.copy(frame)?;
    }
    // Nobody can have got hold of the frame meanwhile: it is ours alone, and borrowed.
    Ok(frame.get_mut().expect("the frame is not shared"))
}

fn reserve<T>(frames: &mut Vec<T>, more: usize, pool: &Pool) -> Result<(), OutOfMemory> {
    let wanted = (more * size_of::<T>()) as u64;
    frames.try_reserve(more).map_err(|_| OutOfMemory { wanted, limit: pool.limit() })
}
