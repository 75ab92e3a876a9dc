//! A flag that is set while queries of `anker.verify` run. These queries need the rows themselves, but an engine that
//! forks lets its child processes answer only grouped queries, unless this flag is set.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this backend is verifying. An atomic is enough, because a backend has only one thread.
static NOW: AtomicBool = AtomicBool::new(false);

pub fn now() -> bool {
    NOW.load(Ordering::Relaxed)
}

/// Sets the flag while `ask` runs. An error resets it, too.
pub fn during<T>(ask: impl FnOnce() -> T) -> T {
    struct Until;
    impl Drop for Until {
        fn drop(&mut self) {
            NOW.store(false, Ordering::Relaxed);
        }
    }
    NOW.store(true, Ordering::Relaxed);
    let _until = Until;
    ask()
}
