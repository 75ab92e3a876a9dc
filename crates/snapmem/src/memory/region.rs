//! The interface of every mechanism.
//!
//! ```text
//!   writer --write--> Region --snapshot--> Snapshot --run--> Run (bytes that never change)
//!                     one owner            patched by its     kept alive by
//!                                          maker, then shared its holders
//! ```

use std::fmt::Debug;
use std::iter::Sum;

use crate::memory::error::Error;
use crate::memory::run::Run;

/// Memory with one writer, divided into runs of equal length. New bytes are zero.
///
/// If one writer owns several regions, and takes a snapshot of each without a write in between, the snapshots are
/// consistent with each other.
pub trait Region: Send {
    /// The length in bytes, a multiple of the run length.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn run_bytes(&self) -> usize;

    /// Appends runs of zeros until the region has `len` bytes. Live snapshots do not change.
    fn grow(&mut self, len: usize) -> Result<(), Error>;

    /// Writes bytes from `offset` on, which must lie within one run. On error nothing has changed.
    ///
    /// # Panics
    ///
    /// If the bytes do not lie within one run of the region.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error>;

    /// Reads bytes from `offset` on, which must lie within one run.
    ///
    /// # Panics
    ///
    /// Like [`Region::write`].
    fn read(&self, offset: usize, into: &mut [u8]);

    /// A snapshot of the region as it is now.
    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error>;

    fn usage(&self) -> Usage;

    /// For a region that chooses its own behaviour: the present choice, with the reason for it.
    fn reason(&self) -> Option<String> {
        None
    }
}

/// The content of a region at the time of the snapshot, with the patches that the snapshot's maker has added.
///
/// Any number of snapshots may exist, and they may end in any order, on any thread.
pub trait Snapshot: Send + Sync + Debug {
    /// The region's length in bytes when the snapshot was taken.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn run_bytes(&self) -> usize;

    /// The run with this index. It fails only if a copy must be made for the reader, and there is no memory for that.
    ///
    /// # Panics
    ///
    /// If the snapshot does not have that many runs.
    fn run(&self, index: usize) -> Result<Run, Error>;

    /// Changes bytes within one run, for this snapshot only. The call takes an exclusive borrow, which is impossible
    /// once the snapshot is shared. So only the snapshot's maker can patch it.
    ///
    /// # Panics
    ///
    /// Like [`Region::write`].
    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error>;
}

/// A region whose bytes can be read without a copy.
pub(crate) trait InPlace: Region {
    /// Bytes that lie within one line of 64 bytes.
    ///
    /// # Panics
    ///
    /// If they do not lie within one run of the region.
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8];
}

/// A value that a region's owner attaches to a run. It tells readers how to interpret the run's bytes.
pub type Label = u128;

/// The memory that a region, or several regions together, cost. The pool also counts copied bytes, but counts lines
/// that were put aside only at the next snapshot. Patches do not belong to any region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The region's own memory.
    pub bytes: u64,
    /// The number of live snapshots of the region. With some mechanisms, a run that a reader keeps also keeps its
    /// snapshot alive.
    pub snapshots: u64,
    /// The bytes that the region shares with live snapshots. Some mechanisms do not know this for every page; they
    /// return an upper bound.
    pub shared_bytes: u64,
    /// The bytes that were copied so far because of snapshots.
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

/// The run that contains `offset`, and the offset in that run. Panics unless `bytes` bytes from `offset` on lie within
/// one run of a region of `len` bytes.
#[inline]
pub(crate) fn locate(len: usize, run_bytes: usize, offset: usize, bytes: usize) -> (usize, usize) {
    let (run, within) = (offset / run_bytes, offset % run_bytes);
    assert!(offset < len && bytes <= run_bytes - within, "not within one run of the region");
    (run, within)
}
