//! Copying whole frames when a snapshot is taken, instead of putting lines aside when they are written.
//!
//! Putting lines aside is expensive if a snapshot's frames are written again and again: each line costs, and so does
//! each copy of a frame whose log is full. A frame that is copied ahead, at the snapshot, in parallel with others,
//! costs only as much as a few lines. So for each frame, an automatic region counts the lines that were put aside
//! because of the last snapshot. The next snapshot copies the frames for which a copy would have been cheaper. Writes
//! to a copied frame are still counted, and later snapshots copy it only while that remains worth it.

use std::sync::atomic::Ordering;

use super::EpochRegion;
use crate::memory::copiers::Copiers;

/// A frame is copied ahead if, for each snapshot, at least one line was written per this many of its bytes: for a frame
/// of 64 KB, 8 lines. So many lines, and their share of copying the frame when its log is full, cost about as much as
/// copying the frame ahead.
const BYTES_PER_WRITE: usize = 8192;
/// The cost of copying a frame when it is written (not ahead). The unit is the cost of putting one line aside.
const LATE_COPY: usize = 40;
/// With fewer frames than this, waking threads takes longer than it saves.
const MIN_FRAMES: usize = 16;

#[derive(Debug, Default)]
pub struct Ahead {
    /// The cost that snapshots have caused for the writer, since the `writes` of the frames were last counted. The unit
    /// is the cost of putting one line aside.
    cost: usize,
    /// The number of snapshots since the last count.
    snapshots: usize,
    /// The number of frames that the last snapshot copied ahead, and the number of all frames then.
    copied: Option<(usize, usize)>,
    /// Whether the last snapshot would have copied frames if there had been memory.
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
    /// Copies the frames that will probably be rewritten, and lets the writer continue on the copies. It is called when
    /// a snapshot has begun.
    pub(super) fn copy_ahead(&mut self) {
        let frames = self.frames.len();
        let Some(ahead) = &mut self.ahead else { return };
        ahead.snapshots += 1;
        // Counting visits every frame. It pays only if snapshots have cost more than putting aside one line per frame.
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

    /// Copies these frames now. Returns false if there was too little memory; then each frame is copied when it is
    /// written.
    fn copy_now(&mut self, runs: &[usize]) -> bool {
        // Half of the free memory is left for growth, and for writes to other frames.
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
