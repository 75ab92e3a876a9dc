//! Copying frames at the snapshot, instead of line by line when they are written.
//!
//! Putting lines aside is expensive if a snapshot's frames are written again and again: each line costs, and so does
//! each copy of a frame whose log is full. If a frame is copied at the snapshot, in parallel with others, it costs as
//! much as a few lines. So an automatic region counts, for each frame, the lines that were put aside because of the
//! last snapshot. The next snapshot copies the frames for which a copy would have been cheaper. Such a frame is still
//! counted while that snapshot lives, and is copied again only if the copy was worth it.

use std::sync::atomic::Ordering;

use super::EpochRegion;
use crate::memory::copiers::Copiers;

/// A frame is copied ahead if it was written at least once per this many of its bytes. (For 64 KB, that is 8 lines.
/// With their share of copying a frame with a full log, they cost about as much as a copy in bulk.)
const BYTES_PER_WRITE: usize = 8192;
/// The cost of copying a single frame when it is written, in lines.
const LATE_COPY: usize = 40;
/// For fewer frames, it does not pay to wake threads.
const MIN_FRAMES: usize = 16;

#[derive(Debug, Default)]
pub struct Ahead {
    /// The cost of snapshots to the writer since frames were last counted, in lines.
    cost: usize,
    /// The number of snapshots since then.
    snapshots: usize,
    /// The number of frames that the last snapshot copied ahead, and the number of all frames.
    copied: Option<(usize, usize)>,
    /// Whether it would have copied frames if there had been memory.
    short: bool,
}

impl Ahead {
    pub fn lines_written(&mut self, lines: usize) {
        self.cost += lines;
    }

    pub fn frame_copied(&mut self) {
        self.cost += LATE_COPY;
    }

    pub fn reason(&self) -> String {
        match self.copied {
            Some((hot, all)) => {
                format!("copies ahead {hot} of {all} frames, which are written often while snapshots live")
            }
            None if self.short => "writes lines aside: there is no memory to copy frames ahead".to_owned(),
            None => "writes lines aside: no frames are written often while snapshots live".to_owned(),
        }
    }
}

impl EpochRegion {
    /// Called after a snapshot has begun: gives the writer copies of the frames that will be rewritten.
    pub(super) fn copy_ahead(&mut self) {
        let frames = self.frames.len();
        let Some(ahead) = &mut self.ahead else { return };
        ahead.snapshots += 1;
        // Counting visits every frame. It pays only if the cost exceeds a line per frame.
        if frames < MIN_FRAMES || (ahead.copied.is_none() && ahead.cost < frames) {
            return;
        }
        let snapshots = ahead.snapshots;
        (ahead.cost, ahead.snapshots) = (0, 0);
        let counted = self.frames.iter_mut().enumerate();
        let hot: Vec<usize> = counted
            .filter_map(|(run, frame)| {
                let often = (frame.base.len() / BYTES_PER_WRITE).max(1) * snapshots;
                (std::mem::take(&mut frame.writes) >= often as u32).then_some(run)
            })
            .collect();
        let wanted = hot.len() >= MIN_FRAMES;
        let copied = wanted && self.copy_now(&hot);
        if let Some(ahead) = &mut self.ahead {
            (ahead.copied, ahead.short) = (copied.then_some((hot.len(), frames)), wanted && !copied);
        }
    }

    /// Whether there was memory for the copies. Otherwise, frames are copied when they are written, or that fails.
    fn copy_now(&mut self, runs: &[usize]) -> bool {
        // The rest of the memory is left for growth, and for writes to other frames.
        if runs.iter().map(|&run| self.frames[run].base.len() as u64).sum::<u64>() > self.pool.room() / 2 {
            return false;
        }
        let mut bases = runs.iter().map(|&run| self.frames[run].base.clone()).collect();
        let Ok(copies) = Copiers::shared().copy(&mut bases, &self.pool.unrelieved()) else { return false };
        drop(bases);
        let mut retired = Vec::new();
        if retired.try_reserve_exact(runs.len()).is_err() {
            return false;
        }
        for (&run, copy) in runs.iter().zip(copies) {
            self.shared.copied_bytes.fetch_add(copy.len() as u64, Ordering::Relaxed);
            match self.replace_by_copy(run, copy) {
                Ok(old) => retired.push(old),
                Err(_) => break,
            }
        }
        self.shared.live.retire(retired);
        true
    }
}
