//! Copying frames when the snapshot is taken, instead of line by line when they are written.
//!
//! A frame whose log gets full costs the writer the log and the copy. Where that befell a good part of a region's frames
//! since the last snapshot, it probably will again: then the frames that were written often enough are copied at once,
//! in parallel and in order, which is several times cheaper for each. Once few frames are written that often, lines are
//! written aside again.

use std::sync::atomic::Ordering;

use super::EpochRegion;
use crate::copiers::Copiers;

/// Frames are copied ahead if at least this part of them would be copied anyway.
const WORTHWHILE_SHARE: usize = 4;
/// A region with fewer frames is not worth waking threads for.
const MIN_FRAMES: usize = 16;

#[derive(Debug, Default)]
pub struct Ahead {
    /// Frames copied by the writer since the last snapshot.
    copied_late: usize,
    /// Whether the last snapshot copied frames.
    active: bool,
    /// Frames that were written often, and all, when they were last counted.
    counted: (usize, usize),
}

impl Ahead {
    pub fn frame_copied(&mut self) {
        self.copied_late += 1;
    }

    pub fn reason(&self) -> String {
        let (hot, all) = self.counted;
        match (self.active, all) {
            (true, _) => format!("frames are copied ahead: {hot} of {all} were rewritten between the last snapshots"),
            (false, 0) => "lines are written aside: few frames are rewritten between snapshots".to_owned(),
            (false, _) => {
                format!(
                    "lines are written aside: {hot} of {all} frames were rewritten between snapshots when last counted"
                )
            }
        }
    }
}

impl EpochRegion {
    /// After a snapshot has begun: its frames that will be rewritten get a copy that is the writer's.
    pub(super) fn copy_ahead(&mut self) {
        let (frames, often) = (self.frames.len(), self.max_entries.max(1) as u32);
        let Some(ahead) = &mut self.ahead else { return };
        let late = std::mem::take(&mut ahead.copied_late);
        if frames < MIN_FRAMES || !(ahead.active || late * WORTHWHILE_SHARE >= frames) {
            return;
        }
        let mut hot: Vec<usize> = Vec::new();
        for (run, frame) in self.frames.iter_mut().enumerate() {
            if std::mem::take(&mut frame.writes) >= often && frame.log.is_none() {
                hot.push(run);
            }
        }
        ahead.counted = (hot.len(), frames);
        ahead.active = hot.len() * WORTHWHILE_SHARE >= frames;
        if ahead.active {
            self.copy_now(&hot);
        }
    }

    /// Where there is no memory for it, frames are copied when they are written, or that fails.
    fn copy_now(&mut self, runs: &[usize]) {
        let mut bases = runs.iter().map(|&run| self.frames[run].base.clone()).collect();
        let Ok(copies) = Copiers::shared().copy(&mut bases, &self.pool) else { return };
        drop(bases);
        let mut retired = Vec::with_capacity(runs.len());
        for (&run, copy) in runs.iter().zip(copies) {
            self.shared.copied_bytes.fetch_add(copy.len() as u64, Ordering::Relaxed);
            match self.replace(run, copy) {
                Ok(old) => retired.extend(old),
                Err(_) => break,
            }
        }
        self.shared.live.retire(retired);
    }
}
