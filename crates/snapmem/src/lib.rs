//! Memory that can be snapshotted while one writer continues to change it.
//!
//! A [`Region`] has one writer, which reads and writes in place. A [`Snapshot`] of it is cheap, belongs to no thread
//! (`Send + Sync`), and keeps the content that the region had when the snapshot was taken. Any number of snapshots may
//! exist, and they may end in any order, on any thread. The maker of a snapshot may patch it. Once the snapshot is
//! shared, it can no longer change.
//!
//! Content is charged to a [`Pool`], which enforces a limit: exceeding it is an error, never an abort. Bookkeeping is
//! not charged. It takes some dozens of bytes for each run, and for each old version of a run that a snapshot sees.
//!
//! The crate uses only the operating system, and the names of mechanisms from `protocol`. Each [`Mechanism`] is one
//! file or folder; docs/snapshots.md compares them.
//!
//! | room, the upper ones first | job |
//! |---|---|
//! | `extents` | runs of any length, on any mechanism |
//! | `mechanism` | the mechanisms by their names |
//! | `mechanisms` | a file or folder for each mechanism |
//! | `memory` | the building blocks of mechanisms: pool, runs, system calls |

mod extents;
mod mechanism;
mod mechanisms;
mod memory;
#[cfg(test)]
mod testing;

pub use extents::{Extents, ExtentsSnapshot};
pub use mechanism::{Mechanism, UnknownMechanism};
pub use mechanisms::epochs::{EpochRegion, EpochSnapshot};
pub use mechanisms::fork::{Errand, ForkMemory, ForkSnapshot, ForkView, ForkedErrand, Job, Pages};
pub use mechanisms::lazy::LazyRegion;
pub use mechanisms::physical::PhysicalRegion;
pub use mechanisms::rewired::RewiredRegion;
pub use mechanisms::scoot::ScootRegion;
pub use memory::error::{Error, OutOfMemory};
pub use memory::pool::{Charge, FrameRef, Pool, Relief};
pub use memory::prefetch::prefetch;
pub use memory::region::{Label, Region, Snapshot, Usage};
pub use memory::run::Run;
#[doc(hidden)]
pub use memory::sys::faults;
pub use memory::sys::{page_bytes, page_faults};
