//! Memory that can be snapshotted while one writer goes on changing it.
//!
//! A [`Region`] has one writer, which reads and writes in place. A [`Snapshot`] of it is cheap, belongs to nobody in
//! particular (`Send + Sync`), and keeps what the region held at that moment; any number may be alive and they end in
//! any order, on any thread. Whoever made a snapshot may still patch it; once it is shared it cannot change any more.
//!
//! Content is charged to a [`Pool`], which enforces a limit: what does not fit is an error, never an abort. Books are
//! not charged: some dozens of bytes for each run, and for each of its versions that a snapshot sees.
//!
//! The crate knows only the operating system. Each [`Mechanism`] is one file; docs/snapshots.md compares them.

mod areas;
mod copiers;
mod epochs;
mod error;
mod extents;
mod fork;
mod frames;
mod history;
mod kernel_cow;
mod lazy;
mod mechanism;
mod mremap_cow;
mod overlay;
mod page_file;
mod paged;
mod physical;
mod pool;
mod prefetch;
mod region;
mod rewired;
mod scoot;
mod slabs;
mod streaming;
mod sys;
#[cfg(test)]
mod testing;
mod vm_snapshot;

pub use epochs::{EpochRegion, EpochSnapshot};
pub use error::Error;
pub use extents::{Extents, ExtentsSnapshot};
pub use fork::{Errand, ForkMemory, ForkSnapshot, ForkView, ForkedErrand, Job, Pages};
pub use lazy::LazyRegion;
pub use mechanism::{Mechanism, UnknownMechanism};
pub use physical::PhysicalRegion;
pub use pool::{Charge, FrameRef, OutOfMemory, Pool};
pub use prefetch::prefetch;
pub use region::{Label, Region, Run, Snapshot, Usage};
pub use rewired::RewiredRegion;
pub use scoot::ScootRegion;
#[doc(hidden)]
pub use sys::faults;
pub use sys::{page_bytes, page_faults};
