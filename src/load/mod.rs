//! Short-lived workers that read with an ordinary snapshot, which the capture worker must not: the rows that a table
//! had when the mirror began to follow it, and the list of mirrored tables.

mod clean_snapshot;
mod list;
mod table;

pub use list::{ListOrder, list_if_not_empty, list_oid};
pub use table::LoadOrder;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pg::process::Extra;

fn to_extra(order: &impl Serialize) -> Extra {
    let mut extra: Extra = [0; size_of::<Extra>()];
    // The orders are a few integers each, far less than the room there is.
    postcard::to_slice(order, &mut extra).expect("an order fits");
    extra
}

fn from_extra<T: DeserializeOwned>(extra: &Extra) -> T {
    // Written by `to_extra` of this same library.
    postcard::from_bytes(extra).expect("an order was given")
}
