//! Short-lived workers that read with ordinary snapshots, because the capture worker must not take ordinary snapshots
//! while it decodes. They read the rows that tables had when the mirror began to follow them, and the list of mirrored
//! tables.

mod anchor;
mod clean_snapshot;
mod link;
mod list;
mod mark;
mod orders;
mod table;

pub use anchor::AnchorOrder;
pub use list::{ListOrder, anchor_oid, has_any_of, has_tables, list_oid, parents_oid, remove_from_list};
pub use mark::{crashes, forget_crashes, retain_crashes};
pub use orders::{MAX_ORDERS, to_extra as orders_to_extra};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pg::process::Extra;

/// The greatest number of loaders that a database has at once.
pub const MAX_LOADERS: usize = 2;

fn to_extra(order: &impl Serialize) -> Extra {
    let mut extra: Extra = [0; size_of::<Extra>()];
    // The longest order, a list of a few integers, fits into the space.
    postcard::to_slice(order, &mut extra).expect("an order fits");
    extra
}

fn from_extra<T: DeserializeOwned>(extra: &Extra) -> T {
    // `to_extra` of the same library has written these bytes.
    postcard::from_bytes(extra).expect("an order was given")
}
