//! The snapshot mechanisms, in a file or folder each; docs/snapshots.md compares them.
//!
//! | file | a snapshot is |
//! |---|---|
//! | `physical` | a copy of all memory |
//! | `rewired` | pages of a file, mapped one by one |
//! | `scoot` | a file mapped shared and mapped privately |
//! | `vm_snapshot`, `mremap_cow` | private memory that a patched kernel duplicates; `kernel_cow` is their common part |
//! | `frames` | reference counts of runs, copied on write in user space |
//! | `epochs` | versions of runs, distinguished by the epoch in which they were written |
//! | `lazy` | made when it is needed, on any of the others |
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
