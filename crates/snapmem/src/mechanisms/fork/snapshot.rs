//! A snapshot by fork, as the parent sees it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::board::{Board, REPLY_BYTES};
use super::child::{Child, ForkView, Job};
use super::ledger::Ledger;
use crate::memory::error::Error;

/// A child process with the regions as they were when it was forked. The child is killed when this is dropped.
///
/// Requests may come from any thread. As many of them run at the same time as the child has threads.
pub struct ForkSnapshot {
    child: Child,
    board: Board,
    /// A lock for each slot of the board, with the slot's index in it. The lock is held while the slot is in use.
    slots: Vec<Mutex<usize>>,
    next: AtomicUsize,
    view: ForkView,
    epoch: u64,
    ledger: Arc<Ledger>,
}

impl ForkSnapshot {
    pub(super) fn new(child: Child, board: Board, view: ForkView, epoch: u64, ledger: Arc<Ledger>) -> ForkSnapshot {
        let slots = (0..board.slots()).map(Mutex::new).collect();
        ForkSnapshot { child, board, slots, next: AtomicUsize::new(0), view, epoch, ledger }
    }

    /// The length of a region when the snapshot was taken, if the region is part of it.
    pub fn len(&self, region: usize) -> Option<usize> {
        self.view.len(region)
    }

    /// The child's process id, unless the child is known to have ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.pid()
    }

    /// Waits until all threads of the child have started.
    pub fn wait_until_ready(&self) -> Result<(), Error> {
        (0..self.board.slots()).try_for_each(|slot| self.board.slot(slot).wait_until_served(|| self.check()))
    }

    /// Makes the child do a job. Returns the number that the job returns, and copies the job's buffer to `reply`, which
    /// has at most 64 KiB.
    pub fn run(&self, job: Job, arguments: [u64; 4], reply: &mut [u8]) -> Result<u64, Error> {
        let slot = self.free_slot();
        self.board.slot(*slot).ask(job as *mut (), arguments, reply, || self.check())
    }

    /// The wrapping sum of the 64-bit little-endian integers in a range. If the range ends within an integer, the
    /// missing bytes count as zeros.
    ///
    /// # Panics
    ///
    /// Like [`ForkSnapshot::read`].
    pub fn sum(&self, region: usize, range: Range<usize>) -> Result<u64, Error> {
        self.check_range(region, range.start, range.end);
        self.run(sum, [region as u64, range.start as u64, range.end as u64, 0], &mut [])
    }

    /// Reads bytes of a region.
    ///
    /// # Panics
    ///
    /// If the region is not part of the snapshot, or does not have these bytes.
    pub fn read(&self, region: usize, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        self.check_range(region, offset, offset.saturating_add(into.len()));
        for (i, piece) in into.chunks_mut(REPLY_BYTES).enumerate() {
            let start = offset + i * REPLY_BYTES;
            self.run(copy, [region as u64, start as u64, (start + piece.len()) as u64, 0], piece)?;
        }
        Ok(())
    }

    fn check_range(&self, region: usize, start: usize, end: usize) {
        let len = self.view.len(region).expect("the region is not part of the snapshot");
        assert!(start <= end && end <= len, "not within the region");
    }

    fn check(&self) -> Result<(), Error> {
        self.child.check(&self.board)
    }

    /// Locks a slot that is not in use. If all slots are in use, waits for one of them.
    fn free_slot(&self) -> MutexGuard<'_, usize> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let free = self.slots[next..].iter().chain(&self.slots[..next]).find_map(Mutex::try_lock);
        free.unwrap_or_else(|| self.slots[next].lock())
    }
}

impl Drop for ForkSnapshot {
    fn drop(&mut self) {
        self.child.kill();
        self.ledger.end(self.epoch);
    }
}

impl fmt::Debug for ForkSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForkSnapshot").field("pid", &self.pid()).field("threads", &self.board.slots()).finish()
    }
}

fn sum(view: &ForkView, [region, start, end, _]: [u64; 4], _: &mut [u8]) -> u64 {
    let (words, rest) = range(view, region, start, end).as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).fold(0, |sum, &word| sum.wrapping_add(u64::from_le_bytes(word)))
}

fn copy(view: &ForkView, [region, start, end, _]: [u64; 4], reply: &mut [u8]) -> u64 {
    let bytes = range(view, region, start, end);
    reply[..bytes.len()].copy_from_slice(bytes);
    bytes.len() as u64
}

fn range(view: &ForkView, region: u64, start: u64, end: u64) -> &[u8] {
    &view.region(region as usize).unwrap_or_default()[start as usize..end as usize]
}
