//! Memory contexts: runs code in a context, and ties Rust values to one.

use std::ffi::{CStr, c_void};

use pgrx::prelude::*;

/// Runs `f` in a memory context.
///
/// # Safety
///
/// `context` is alive.
pub(super) unsafe fn in_context<R>(context: pg_sys::MemoryContext, f: impl FnOnce() -> R) -> R {
    // SAFETY: by the caller's promise; after an error PostgreSQL sets the context itself.
    unsafe {
        let previous = pg_sys::MemoryContextSwitchTo(context);
        let result = f();
        pg_sys::MemoryContextSwitchTo(previous);
        result
    }
}

/// Ties a Rust value to a memory context: the value is dropped when the context is deleted or reset.
///
/// # Safety
///
/// `context` is alive, and nobody uses the value once it is gone.
pub(super) unsafe fn own<T>(context: pg_sys::MemoryContext, value: Box<T>) -> *mut T {
    #[pg_guard]
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

/// Runs `f` when the statement ends, even after an error, because the statement's memory is freed in any case.
pub fn when_statement_ends(f: impl FnOnce() + 'static) {
    struct Last<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Last<F> {
        fn drop(&mut self) {
            if let Some(f) = self.0.take() {
                f();
            }
        }
    }
    // SAFETY: one of the two memory contexts exists while a statement runs, and nobody else refers to the value.
    unsafe {
        let portal = pg_sys::PortalContext;
        let around = if portal.is_null() { pg_sys::CurrentMemoryContext } else { portal };
        // After an error, the portal's context stays until the session's next command, but contexts below it are
        // deleted at once.
        let context = Scratch::below(around, c"pg_anker statement").0;
        own(context, Box::new(Last(Some(f))));
    }
}

/// A memory context of our own, for values that live only until the next row or batch.
#[derive(Clone, Copy)]
pub struct Scratch(pg_sys::MemoryContext);

impl Scratch {
    /// A context that lives as long as the process.
    pub fn lasting(name: &'static CStr) -> Scratch {
        // SAFETY: the top context is always there.
        unsafe { Scratch::below(pg_sys::TopMemoryContext, name) }
    }

    /// A context that lives as long as the current context, or until this context is deleted. It must not be used after
    /// that.
    pub(super) fn within_current(name: &'static CStr) -> Scratch {
        // SAFETY: there is always a current context.
        unsafe { Scratch::below(pg_sys::CurrentMemoryContext, name) }
    }

    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn below(context: pg_sys::MemoryContext, name: &'static CStr) -> Scratch {
        let [least, first, most] = [
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        ];
        // SAFETY: by the caller's promise; the name is static, as PostgreSQL wants it.
        Scratch(unsafe { pg_sys::AllocSetContextCreateInternal(context, name.as_ptr(), least, first, most) })
    }

    /// # Safety
    ///
    /// The context is alive, and nobody uses it or its contents any more.
    pub(super) unsafe fn delete(self) {
        // SAFETY: by the caller's promise.
        unsafe { pg_sys::MemoryContextDelete(self.0) };
    }

    /// Runs `f` with this context as the current one.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the context lives as long as the process, or at least as long as this value is used.
        unsafe { in_context(self.0, f) }
    }

    /// Runs `f` with this context as the current one, and then empties the context.
    ///
    /// # Safety
    ///
    /// Nothing that `f` makes in the current context is used afterwards.
    pub unsafe fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let result = self.run(f);
        // SAFETY: by the caller's promise.
        unsafe { pg_sys::MemoryContextReset(self.0) };
        result
    }
}
