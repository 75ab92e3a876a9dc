//! Patches of a snapshot: private copies of the patched runs.

use std::collections::HashMap;

use crate::memory::error::Error;
use crate::memory::pool::{FrameRef, Pool};
use crate::memory::run::Run;

#[derive(Debug)]
pub(crate) struct Overlay {
    frames: HashMap<usize, FrameRef>,
    pool: Pool,
}

impl Overlay {
    pub fn new(pool: &Pool) -> Overlay {
        Overlay { frames: HashMap::new(), pool: pool.clone() }
    }

    /// The run with that index, if it was patched.
    #[inline]
    pub fn run(&self, index: usize) -> Option<Run> {
        if self.frames.is_empty() { None } else { self.frames.get(&index).map(|frame| frame.clone().into_run()) }
    }

    /// Patches a run. `original` returns the run without patches; it is called for the first patch.
    pub fn patch(
        &mut self,
        index: usize,
        within: usize,
        bytes: &[u8],
        original: impl FnOnce() -> Result<Run, Error>,
    ) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.frames.contains_key(&index) {
            self.frames.insert(index, self.pool.copy(&original()?)?);
        }
        let frame = self.frames.get_mut(&index).expect("the run has just been copied");
        if frame.get_mut().is_none() {
            // A reader may hold the run as it is, so it must not change.
            *frame = self.pool.copy(frame)?;
        }
        let own = frame.get_mut().expect("the frame is not shared");
        own[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
