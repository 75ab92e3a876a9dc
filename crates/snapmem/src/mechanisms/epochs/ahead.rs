//! Copying frames when the snapshot is taken, instead of line by line when they are written.
//!
//! Writing lines aside is dear where a snapshot's frames are written again and again: each line costs, and so does
//! every copy of a frame whose log got full. Copied at once, in parallel and in order, a frame costs as much as a few
//! lines. So an automatic region counts what the last snapshot made it write aside, frame by frame, and the next
//! snapshot copies those frames that it was often enough. A frame that was copied goes on being counted while that
//! snapshot lives, and is copied again only if it was worth it.

use std::sync::atomic::Ordering;

use super::EpochRegion;
use crate::memory::copiers::Copiers;

/// A frame is copied ahead if it was written at least once per this many of its bytes. (64 KB: 8 lines, with their
/// share of the copy of a full log, cost about as much as a copy in bulk.)
const BYTES_PER_WRITE: usize = 8192;
/// The cost of copying a frame late, in lines.
const LATE_COPY: usize = 40;
/// Fewer frames are not worth waking threads for.
const MIN_FRAMES: usize = 16;

#[derive(Debug, Default)]
pub struct Ahead {
    /// The cost of snapshots to the writer since frames were last counted, in lines.
    cost: usize,
    /// Snapshots since then.
    snapshots: usize,
    /// Frames that the last snapshot copied ahead, of how many.
    copied: Option<(usize, usize)>,
    /// It would have copied frames if there had been memory.
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
    /// After a snapshot has begun: its frames that will be rewritten get a copy that is the writer's.
    pub(super) fn copy_ahead(&mut self) {
        let frames = self.frames.len();
        let Some(ahead) = &mut self.ahead else { return };
        ahead.snapshots += 1;
        // Counting looks at every frame: not for less than a line a frame.
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

    /// Whether there is memory for it; else frames are copied when they are written, or that fails.
    fn copy_now(&mut self, runs: &[usize]) -> bool {
        // The rest is for what cannot do without: growth, and writes to other frames.
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
