//! The executor's run of a query whose topmost node is ours. The node is told of the run, and its rows may go straight
//! to the client.
//!
//! Errors of the server jump over the frames here. The frames own nothing, because everything belongs to a memory
//! context of the run.

use std::marker::PhantomData;

use pgrx::prelude::*;

use super::compat::{self, AroundRun};
use super::delivery;
use super::scan_node::{self, ScanNode};

/// Installs the hook. To be called while the library is preloaded.
pub fn deliver_rows_of<N: ScanNode>() {
    compat::run_around::<Delivering<N>>();
}

struct Delivering<N>(PhantomData<N>);

impl<N: ScanNode> AroundRun for Delivering<N> {
    unsafe fn around(
        query: *mut pg_sys::QueryDesc,
        direction: pg_sys::ScanDirection::Type,
        count: u64,
        run: impl FnOnce(),
    ) {
        // SAFETY: a started query, by the caller's promise. Its topmost node is ours where its value is asked for.
        unsafe {
            let all = count == 0 && direction == pg_sys::ScanDirection::ForwardScanDirection;
            let is_ours = scan_node::is_of::<N>((*query).planstate);
            if is_ours {
                scan_node::value_of::<N>((*query).planstate).run(all && !(*query).already_executed);
            }
            let delivered = if is_ours { delivery::Run::begin(query) } else { None };
            if let Some(run) = &delivered
                && all
                && (*(*query).estate).es_instrument == 0
            {
                scan_node::value_of::<N>((*query).planstate).deliver(Some(run.delivery()));
            }
            run();
            if let Some(run) = delivered {
                scan_node::value_of::<N>((*query).planstate).deliver(None);
                run.end();
            }
            if is_ours {
                scan_node::value_of::<N>((*query).planstate).ran((*(*query).estate).es_processed);
            }
        }
    }
}
