//! What EXPLAIN shows of our nodes.

use std::ffi::{CStr, CString};
use std::time::Duration;

use pgrx::prelude::*;

use super::chooser::Chooser;
use super::engine_node::EngineScan;
use crate::pg::relation::relation_name;
use crate::pg::tree::{push, text};

/// # Safety
///
/// `state` is EXPLAIN's, in use.
pub unsafe fn chooser(node: &Chooser, state: *mut pg_sys::ExplainState) {
    let side = if node.uses_heap() {
        // SAFETY: set together with the heap's plan state, a C string.
        let reason = unsafe { CStr::from_ptr(node.reason) };
        format!("heap, because {}", reason.to_string_lossy())
    } else {
        "engine".to_string()
    };
    // SAFETY: by the caller's promise.
    unsafe { property(c"Anker", &side, state) }
}

/// # Safety
///
/// `state` is EXPLAIN's, in use.
pub unsafe fn engine(scan: &EngineScan, state: *mut pg_sys::ExplainState) {
    let mut names = std::ptr::null_mut();
    for relation in &scan.spec.plan.relations {
        push(&mut names, text(&relation_name(pg_sys::Oid::from(relation.relid))));
    }
    // SAFETY: by the caller's promise; a list of C strings.
    unsafe {
        pg_sys::ExplainPropertyList(c"Relations".as_ptr(), names, state);
        if !(*state).analyze {
            return;
        }
        let Some(result) = &scan.result else {
            return;
        };
        let conversation = &result.conversation;
        if let Some(ready) = &conversation.ready {
            property(c"Mechanism", &ready.mechanism, state);
            time(c"Snapshot Time", Duration::from_micros(ready.snapshot_us), state);
            time(c"Wait", conversation.wait.saturating_sub(Duration::from_micros(ready.snapshot_us)), state);
            number(c"Undone Transactions", ready.undone_transactions, state);
            number(c"Undone Changes", ready.undone_changes, state);
        }
        if let Some(done) = &conversation.done {
            number(c"Rows Scanned", done.scanned_rows, state);
            number(c"Rows", done.rows, state);
            time(c"Queue Time", Duration::from_micros(done.queued_us), state);
            time(c"Engine Time", Duration::from_micros(done.engine_us), state);
        } else {
            number(c"Rows", result.rows, state);
        }
    }
}

unsafe fn property(label: &CStr, value: &str, state: *mut pg_sys::ExplainState) {
    let value = CString::new(value).unwrap_or_default();
    // SAFETY: two C strings; the state by the caller's promise.
    unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), state) }
}

unsafe fn number(label: &CStr, value: u64, state: *mut pg_sys::ExplainState) {
    // SAFETY: a C string; the state by the caller's promise.
    unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), value as i64, state) }
}

/// Times are shown where EXPLAIN shows times at all.
unsafe fn time(label: &CStr, value: Duration, state: *mut pg_sys::ExplainState) {
    // SAFETY: C strings; the state by the caller's promise.
    unsafe {
        if (*state).timing {
            let milliseconds = value.as_secs_f64() * 1000.0;
            pg_sys::ExplainPropertyFloat(label.as_ptr(), c"ms".as_ptr(), milliseconds, 3, state);
        }
    }
}
