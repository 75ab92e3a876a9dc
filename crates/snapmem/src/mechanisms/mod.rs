//! The snapshot mechanisms, in a file or folder each; docs/snapshots.md compares them.
//!
//! | file | a snapshot is |
//! |---|---|
//! | `physical` | a copy of all memory |
//! | `rewired` | a second mapping of file pages, which are mapped one by one |
//! | `scoot` | a private mapping of a file that the region maps as shared |
//! | `vm_snapshot`, `mremap_cow` | private memory that a patched kernel duplicates; `kernel_cow` is their common part |
//! | `frames` | references to runs, which are copied on write in user space |
//! | `epochs` | an epoch, which tells the versions of runs apart |
//! | `lazy` | a snapshot of another mechanism, made when it is needed |
//! | `fork` | another process |

pub mod epochs;
pub mod fork;
pub mod frames;
mod kernel_cow;
pub mod lazy;
pub mod mremap_cow;
pub mod physical;
pub mod rewired;
pub mod scoot;
pub mod vm_snapshot;
