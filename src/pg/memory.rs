//! Memory contexts: working in one, and tying Rust values to one.

use std::ffi::c_void;

use pgrx::pg_sys;

/// Runs `f` in a memory context.
///
/// # Safety
///
/// `context` is alive.
pub unsafe fn in_context<R>(context: pg_sys::MemoryContext, f: impl FnOnce() -> R) -> R {
    // SAFETY: by the caller's promise; after an error PostgreSQL sets the context itself.
    unsafe {
        let previous = pg_sys::MemoryContextSwitchTo(context);
        let result = f();
        pg_sys::MemoryContextSwitchTo(previous);
        result
    }
}

/// Ties a Rust value to a memory context: it is dropped when the context goes.
///
/// # Safety
///
/// `context` is alive, and nobody uses the value after it.
pub unsafe fn own<T>(context: pg_sys::MemoryContext, value: Box<T>) -> *mut T {
    unsafe extern "C-unwind" fn drop_value<T>(value: *mut c_void) {
        // SAFETY: made by Box::into_raw below; called once.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    }
    // SAFETY: the callback lives in the context that calls it.
    unsafe {
        let callback = pg_sys::MemoryContextAllocZero(context, size_of::<pg_sys::MemoryContextCallback>())
            .cast::<pg_sys::MemoryContextCallback>();
        let value = Box::into_raw(value);
        (*callback).func = Some(drop_value::<T>);
        (*callback).arg = value.cast();
        pg_sys::MemoryContextRegisterResetCallback(context, callback);
        value
    }
}
