//! The two custom scan nodes: see "A flagged query" in docs/internals.md.
//!
//! - `chooser`: "Anker", on top: engine or heap, decided once, before the first row
//! - `engine_node`: "Anker Engine", the scan of the engine's result; `result` holds it
//! - `checks`: what stands against asking the engine at all; `attempt` for values that raise
//! - `conversation`: what goes to the engine and what comes back; `trouble`: what can go wrong with it
//! - `batch`: Arrow to PostgreSQL's values

mod attempt;
mod batch;
mod checks;
mod chooser;
mod conversation;
mod engine_node;
mod explain;
mod result;
mod trouble;

use pgrx::prelude::*;

use crate::spec::{CHOOSER as CHOOSER_NAME, ENGINE as ENGINE_NAME};

/// Statics for PostgreSQL, which reads them from its one thread.
#[repr(transparent)]
struct Methods<T>(T);

// SAFETY: never written after the library is built; the pointers inside are to constants.
unsafe impl<T> Sync for Methods<T> {}

static CHOOSER: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: CHOOSER_NAME.as_ptr(),
    CreateCustomScanState: Some(chooser::create_state),
});

static ENGINE: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: ENGINE_NAME.as_ptr(),
    CreateCustomScanState: Some(engine_node::create_state),
});

pub fn init() {
    // SAFETY: on the main thread while the library is loaded; the methods are never freed.
    unsafe {
        pg_sys::RegisterCustomScanMethods(&raw const CHOOSER.0);
        pg_sys::RegisterCustomScanMethods(&raw const ENGINE.0);
    }
}
