//! The interface of every mechanism.
//!
//! ```text
//!   writer --write--> Region --snapshot--> Snapshot --run--> Run (bytes that stay what they are)
//!                     one owner            patched by its     kept alive by whoever
//!                                          maker, then shared holds it
//! ```

use std::fmt::Debug;
use std::iter::Sum;

use crate::memory::error::Error;
use crate::memory::run::Run;

/// Memory with one writer, cut into runs of equal length. New bytes are zero.
///
/// A snapshot of several regions is one snapshot of each, taken while the writer, who owns them all, does nothing else.
pub trait Region: Send {
    /// In bytes; a multiple of the run length.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn run_bytes(&self) -> usize;

    /// Appends zeroed runs until the region has `len` bytes. Live snapshots neither grow nor move.
    fn grow(&mut self, len: usize) -> Result<(), Error>;

    /// Writes within one run. On error nothing has changed.
    ///
    /// # Panics
    ///
    /// If the bytes do not lie within one run of the region.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error>;

    /// Reads within one run what was last written.
    ///
    /// # Panics
    ///
    /// As [`Region::write`].
    fn read(&self, offset: usize, into: &mut [u8]);

    /// The region as it is now.
    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error>;

    fn usage(&self) -> Usage;

    /// The present choice of a region that chooses by itself, and the reason for it.
    fn reason(&self) -> Option<String> {
        None
    }
}

/// The region's content when the snapshot was taken, except patches by the one that took it.
///
/// Any number may be alive, and they end in any order, on any thread.
pub trait Snapshot: Send + Sync + Debug {
    /// In bytes: the region's length when the snapshot was taken.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn run_bytes(&self) -> usize;

    /// The run with that index. It fails only if a run has to be put together first and there is no memory for it.
    ///
    /// # Panics
    ///
    /// If the snapshot does not have that many runs.
    fn run(&self, index: usize) -> Result<Run, Error>;

    /// Changes bytes within one run, for this snapshot only. Sharing a snapshot ends the exclusive borrow that this
    /// takes, so a published snapshot cannot change.
    ///
    /// # Panics
    ///
    /// Like [`Region::write`].
    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error>;
}

/// A region whose bytes can be looked at where they are.
pub(crate) trait InPlace: Region {
    /// Bytes that lie within one line of 64.
    ///
    /// # Panics
    ///
    /// If they do not lie within one run of the region.
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8];
}

/// The note of a region's owner about a run, which tells its readers the meaning of its bytes.
pub type Label = u128;

/// The cost of a region, or the sum of several. The pool counts copies too, but lines written aside only at the next
/// snapshot. Patches belong to no region any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The region's own memory.
    pub bytes: u64,
    /// Snapshots of it that are alive; for some mechanisms a run that was kept keeps its snapshot alive.
    pub snapshots: u64,
    /// Bytes that the region shares with live snapshots. Mechanisms that do not know every page count an upper bound.
    pub shared_bytes: u64,
    /// Bytes copied so far because of snapshots.
    pub copied_bytes: u64,
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(usages: I) -> Usage {
        usages.fold(Usage::default(), |sum, one| Usage {
            bytes: sum.bytes + one.bytes,
            snapshots: sum.snapshots + one.snapshots,
            shared_bytes: sum.shared_bytes + one.shared_bytes,
            copied_bytes: sum.copied_bytes + one.copied_bytes,
        })
    }
}

/// Run and offset in it, checked: `bytes` from `offset` on lie in one run of `len`.
#[inline]
pub(crate) fn locate(len: usize, run_bytes: usize, offset: usize, bytes: usize) -> (usize, usize) {
    let (run, within) = (offset / run_bytes, offset % run_bytes);
    assert!(offset < len && bytes <= run_bytes - within, "not within one run of the region");
    (run, within)
}
