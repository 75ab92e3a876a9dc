//! The two custom scan nodes: see "A flagged query" in docs/internals.md.
//!
//! - `chooser`: "Anker", on top: engine or heap, decided once, before the first row
//! - `engine_node`: "Anker Engine", the scan of the engine's result; `result` holds it
//! - `checks`: what stands against asking the engine at all; `attempt` for values that raise
//! - `conversation`: what goes to the engine and what comes back; `trouble`: what can go wrong with it
//! - `batch`: Arrow to PostgreSQL's values
//! - `spec`: what the planner tells the scan

mod attempt;
mod batch;
mod checks;
mod chooser;
mod conversation;
mod engine_node;
mod explain;
mod result;
pub mod spec;
mod trouble;

use pgrx::prelude::*;

/// Statics for PostgreSQL, which reads them from its one thread.
#[repr(transparent)]
struct Methods<T>(T);

// SAFETY: never written after the library is built; the pointers inside are to constants.
unsafe impl<T> Sync for Methods<T> {}

static CHOOSER: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: c"Anker".as_ptr(),
    CreateCustomScanState: Some(chooser::create_state),
});

static ENGINE: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: c"Anker Engine".as_ptr(),
    CreateCustomScanState: Some(engine_node::create_state),
});

pub fn init() {
    // SAFETY: on the main thread while the library is loaded; the methods are never freed.
    unsafe {
        pg_sys::RegisterCustomScanMethods(chooser_methods());
        pg_sys::RegisterCustomScanMethods(engine_methods());
    }
}

pub fn chooser_methods() -> *const pg_sys::CustomScanMethods {
    &raw const CHOOSER.0
}

pub fn engine_methods() -> *const pg_sys::CustomScanMethods {
    &raw const ENGINE.0
}

/// Runs `f` in a memory context.
///
/// # Safety
///
/// `context` is alive.
unsafe fn in_context<R>(context: pg_sys::MemoryContext, f: impl FnOnce() -> R) -> R {
    // SAFETY: by the caller's promise; after an error PostgreSQL sets the context itself.
    unsafe {
        let previous = pg_sys::MemoryContextSwitchTo(context);
        let result = f();
        pg_sys::MemoryContextSwitchTo(previous);
        result
    }
}
