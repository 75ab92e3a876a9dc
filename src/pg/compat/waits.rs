//! Names of the events that our processes wait for, as pg_stat_activity shows them. PostgreSQL has no such names before
//! version 17, and shows `Extension` instead.

use pgrx::prelude::*;

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WaitFor {
            $($(#[$doc])* $variant,)*
        }

        #[cfg(feature = "since_17")]
        const NAMES: &[&std::ffi::CStr] = &[$($name,)*];
    };
}

events! {
    // -- backends with a query for the engine
    /// The engine accepts the connection.
    Connection c"AnkerConnect",
    /// The engine takes the request.
    Request c"AnkerSend",
    /// The mirror catches up with the query's snapshot, and the engine takes its own snapshot.
    Snapshot c"AnkerSnapshot",
    /// The query gets a place among the running queries.
    Place c"AnkerQueue",
    /// The engine computes and sends an answer.
    Answer c"AnkerAnswer",

    // -- other backends
    /// The mirror of a table serves queries.
    Mirror c"AnkerMirror",
    /// The capture worker leaves the database.
    WorkerEnd c"AnkerWorkerEnd",

    // -- workers
    /// There is work for the launcher.
    Launcher c"AnkerLauncherMain",
    /// There is new WAL, or other work for the capture worker.
    Changes c"AnkerCaptureMain",
    /// The engine has started, or transactions have ended that are older than the worker's slot.
    CaptureStart c"AnkerCaptureStart",
    /// The engine makes room in the ring.
    Ring c"AnkerRing",

    // -- loaders
    LoadLock c"AnkerLoadLock",
    /// Transactions become visible to the loader's snapshot.
    LoadSnapshot c"AnkerLoadSnapshot",
    /// The engine takes rows of a table that is being loaded.
    LoadRows c"AnkerLoad",
}

/// The number of the event for PostgreSQL's functions that wait.
#[cfg(not(feature = "since_17"))]
pub fn wait_event(_: WaitFor) -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}
#[cfg(feature = "since_17")]
pub fn wait_event(event: WaitFor) -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    // The numbers are the same in all processes, and each process asks for a number once.
    static NUMBERS: [AtomicU32; NAMES.len()] = [const { AtomicU32::new(0) }; NAMES.len()];
    let number = &NUMBERS[event as usize];
    match number.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: the name is a constant. The process is attached to shared memory, because it has a latch.
            let new = unsafe { pg_sys::WaitEventExtensionNew(NAMES[event as usize].as_ptr()) };
            number.store(new, Ordering::Relaxed);
            new
        }
        known => known,
    }
}
