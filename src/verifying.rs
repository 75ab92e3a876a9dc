//! Whether `anker.verify` is asking: it wants the rows themselves of any engine, also of one that forks, whose children
//! only make groups.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this backend, which has one thread, is verifying.
static NOW: AtomicBool = AtomicBool::new(false);

pub fn now() -> bool {
    NOW.load(Ordering::Relaxed)
}

/// While `ask` runs, also if it ends by an error.
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
