//! The ground floor of this crate: it serves every room above, and uses none of them.
//!
//! | file | job |
//! |---|---|
//! | `chunk` | the division of slots into chunks |
//! | `pick` | selections of a chunk's rows |
//! | `bitmap` | one bit per slot, for rows that exist or cells that are not null |
//! | `bounds` | the least and the greatest number of a chunk (its zone map) |
//! | `order` | the order in which a column's values are compared |
//! | `quiet` | overwritten chunks whose numbers may now fit in fewer bytes |
//! | `leases` | snapshots that queries hold, and may have to give up |
//! | `stamps` | the time of each chunk's last change |
//! | `image` | bytes of an image, read with checks |
//! | `claim` | the memory of waiting transactions and of undo, charged to the pool |
//! | `clock` | milliseconds, and delays from commit to apply |
//! | `fastest` | loops compiled for each set of instructions |
//! | `zero_copy` | Arrow buffers over snapshots |

pub mod bitmap;
pub mod bounds;
pub mod chunk;
pub mod claim;
pub mod clock;
pub mod fastest;
pub mod image;
pub mod leases;
pub mod order;
pub mod pick;
pub mod quiet;
pub mod stamps;
pub mod zero_copy;
