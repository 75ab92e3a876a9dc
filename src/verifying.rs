//! A flag for queries of `anker.verify`. They need the rows themselves from any engine. An engine that forks lets its
//! child processes answer only grouped queries otherwise.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this backend, which has one thread, is verifying.
static NOW: AtomicBool = AtomicBool::new(false);

pub fn now() -> bool {
    NOW.load(Ordering::Relaxed)
}

/// Sets the flag while `ask` runs. It is reset even after an error.
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
