//! What a loader is told to load: several tables, since with small ones most of the cost is that of the process.

use follow::LoadOrder;

use crate::pg::process::Extra;

/// As many as fit into what a worker can be started with: an id of 5 and a generation of 10 bytes each at most.
pub const MAX_ORDERS: usize = 8;

pub fn to_extra(orders: &[LoadOrder]) -> Extra {
    let plain: Vec<(u32, u64)> = orders.iter().map(|order| (order.relid, order.generation)).collect();
    super::to_extra(&plain)
}

pub fn from_extra(extra: &Extra) -> Vec<LoadOrder> {
    let plain: Vec<(u32, u64)> = super::from_extra(extra);
    plain.into_iter().map(|(relid, generation)| LoadOrder { relid, generation }).collect()
}
