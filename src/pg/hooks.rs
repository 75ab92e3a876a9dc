//! Hooks of the server, which other extensions may use, too.

/// Installs our function as a hook, and stores the previous hook, which our function calls. To be called while the
/// library is preloaded.
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
