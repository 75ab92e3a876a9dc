//! The executor's run of a query whose topmost node is ours. The node is told of the run, and its rows may go straight
//! to the client.
//!
//! Errors of the server jump over the frames here. The frames own nothing, because everything belongs to a memory
//! context of the run.

use pgrx::prelude::*;

use super::scan_node::{self, ScanNode};
use super::{delivery, hooks, symbols};

static mut PREVIOUS: pg_sys::ExecutorRun_hook_type = None;

/// Installs the hook. To be called while the library is preloaded.
pub fn deliver_rows_of<N: ScanNode>() {
    hooks::install!(ExecutorRun_hook, PREVIOUS, run::<N>);
}

/// The executor's hook, which every query of the server calls.
unsafe extern "C-unwind" fn run<N: ScanNode>(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    #[cfg(not(feature = "pg18"))] once: bool,
) {
    // SAFETY: called by the executor with a started query; the next function gets the same arguments.
    unsafe {
        let next = PREVIOUS.unwrap_or(symbols::standard_ExecutorRun);
        let all = count == 0 && direction == pg_sys::ScanDirection::ForwardScanDirection;
        let is_ours = scan_node::is_of::<N>((*query).planstate);
        if is_ours {
            // `once` is ignored, as PostgreSQL itself ignores it in later versions.
            scan_node::value_of::<N>((*query).planstate).run(all && !(*query).already_executed);
        }
        let delivered = if is_ours { delivery::Run::begin(query) } else { None };
        if let Some(run) = &delivered
            && all
            && (*(*query).estate).es_instrument == 0
        {
            scan_node::value_of::<N>((*query).planstate).deliver(Some(run.delivery()));
        }
        next(
            query,
            direction,
            count,
            #[cfg(not(feature = "pg18"))]
            once,
        );
        if let Some(run) = delivered {
            scan_node::value_of::<N>((*query).planstate).deliver(None);
            run.end();
        }
    }
}
