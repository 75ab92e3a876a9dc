//! Hooks of the server, which other extensions may use too.

/// Installs a function of ours before the hook that is set, and keeps that one. To be called while the library is
/// preloaded.
macro_rules! install {
    ($hook:ident, $previous:ident, $ours:expr) => {
        // SAFETY: on the one thread, before anybody calls the hook.
        unsafe {
            $previous = pgrx::pg_sys::$hook;
            pgrx::pg_sys::$hook = Some($ours);
        }
    };
}
pub(crate) use install;
