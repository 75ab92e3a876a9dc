//! The orders of a loader. One loader gets several tables, because starting the process is most of the cost of loading
//! a small table.

use follow::LoadOrder;

use crate::pg::process::Extra;

/// The greatest number of orders that fit into a worker's arguments. A table's oid takes at most 5 bytes, a generation
/// at most 10.
pub const MAX_ORDERS: usize = 8;

pub fn to_extra(orders: &[LoadOrder]) -> Extra {
    let plain: Vec<(u32, u64)> = orders.iter().map(|order| (order.relid, order.generation)).collect();
    super::to_extra(&plain)
}

pub fn from_extra(extra: &Extra) -> Vec<LoadOrder> {
    let plain: Vec<(u32, u64)> = super::from_extra(extra);
    plain.into_iter().map(|(relid, generation)| LoadOrder { relid, generation }).collect()
}
