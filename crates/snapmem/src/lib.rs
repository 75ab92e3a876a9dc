//! Memory that can be snapshotted while one writer goes on changing it.
//!
//! A [`Region`] is a growable table of equally long frames with one writer, which reads and writes in place. A
//! [`Snapshot`] of it is cheap, belongs to nobody in particular (`Send + Sync`), and keeps what the region held at
//! that moment; any number may be alive and they end in any order, on any thread. Whoever made a snapshot may still
//! patch it; once it is shared it cannot change any more.
//!
//! All memory comes from a [`Pool`], which enforces a limit: what does not fit is an error, never an abort.
//!
//! The crate knows only the operating system. Each mechanism is one file; `frames` is the one in use.

mod frames;
mod pool;

pub use frames::{MECHANISM, Region, Snapshot};
pub use pool::{Charge, FrameRef, OutOfMemory, Pool};
