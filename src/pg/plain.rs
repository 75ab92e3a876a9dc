//! Macros for variables and functions of the server.

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

/// Declares functions of the server that are called without pgrx's guard. pgrx declares them, too, from the headers of
/// the version, and here the types must be the same, or the extension does not compile.
macro_rules! unguarded {
    ($(
        $(#[doc = $doc:literal])* $access:vis
        fn $name:ident($($(#[$since:meta])? $argument:ident: $ty:ty),* $(,)?) $(-> $answer:ty)?;
    )*) => {
        unsafe extern "C-unwind" {
            $($(#[doc = $doc])* $access fn $name($($(#[$since])? $argument: $ty),*) $(-> $answer)?;)*
        }
        $(const _: unsafe fn($($(#[$since])? $ty),*) $(-> $answer)? = pgrx::pg_sys::$name;)*
    };
}
pub(super) use unguarded;
