//! Macros for variables and functions of the server that are safe to read and to call.

/// Reads a variable of the server.
macro_rules! variable {
    ($name:ident) => {
        // SAFETY: plain data that only this thread reads and writes.
        unsafe { pgrx::pg_sys::$name }
    };
}
pub(super) use variable;

/// Defines functions that call a function of the server. The server's function must accept any arguments.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident => $function:ident() $(-> $answer:ty)?;)*) => {
        $($(#[$doc])* pub fn $name() $(-> $answer)? {
            // SAFETY: on the main thread; a call that is not allowed now raises an error of the server.
            unsafe { pgrx::pg_sys::$function() }
        })*
    };
}
pub(super) use calls;
