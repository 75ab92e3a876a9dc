//! The orders of a loader: several tables, since with small ones most of the cost is that of the process.

use follow::LoadOrder;

use crate::pg::process::Extra;

/// The most orders that fit a worker's arguments: an id has at most 5 bytes, a generation 10.
pub const MAX_ORDERS: usize = 8;

pub fn to_extra(orders: &[LoadOrder]) -> Extra {
    let plain: Vec<(u32, u64)> = orders.iter().map(|order| (order.relid, order.generation)).collect();
    super::to_extra(&plain)
}

pub fn from_extra(extra: &Extra) -> Vec<LoadOrder> {
    let plain: Vec<(u32, u64)> = super::from_extra(extra);
    plain.into_iter().map(|(relid, generation)| LoadOrder { relid, generation }).collect()
}
