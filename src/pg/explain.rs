//! What EXPLAIN shows of a node.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::time::Duration;

use pgrx::prelude::*;

use super::tree::{push, text};

/// EXPLAIN, as it comes to a node.
pub struct Explain<'a> {
    state: *mut pg_sys::ExplainState,
    used: PhantomData<&'a ()>,
}

impl Explain<'_> {
    /// # Safety
    ///
    /// The state is in use during `'a`.
    pub(super) unsafe fn new(state: *mut pg_sys::ExplainState) -> Self {
        Explain { state, used: PhantomData }
    }

    /// Whether the query was run.
    pub fn analyzes(&self) -> bool {
        self.options().analyze
    }

    pub fn property(&self, label: &CStr, value: &str) {
        let value = CString::new(value).unwrap_or_default();
        // SAFETY: two C strings.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.state) }
    }

    pub fn number(&self, label: &CStr, value: u64) {
        // SAFETY: a C string, and no unit.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), value as i64, self.state) }
    }

    pub fn list(&self, label: &CStr, values: impl Iterator<Item = String>) {
        let mut list = std::ptr::null_mut();
        values.for_each(|value| push(&mut list, text(&value)));
        // SAFETY: a list of C strings.
        unsafe { pg_sys::ExplainPropertyList(label.as_ptr(), list, self.state) }
    }

    /// Times are shown where EXPLAIN shows times at all.
    pub fn time(&self, label: &CStr, value: Duration) {
        if self.options().timing {
            let milliseconds = value.as_secs_f64() * 1000.0;
            // SAFETY: two C strings.
            unsafe { pg_sys::ExplainPropertyFloat(label.as_ptr(), c"ms".as_ptr(), milliseconds, 3, self.state) }
        }
    }

    fn options(&self) -> &pg_sys::ExplainState {
        // SAFETY: by the promise of `new`.
        unsafe { &*self.state }
    }
}
