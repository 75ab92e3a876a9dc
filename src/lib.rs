//! pg_anker: fast analytic queries on a live PostgreSQL. See docs/internals.md.

use std::ffi::OsStr;

use pgrx::prelude::*;

mod api;
mod capture;
mod client;
mod layout;
mod load;
mod note;
mod pg;
mod planner;
mod reason;
mod scan;
mod settings;
mod shared;
mod spec;
mod verifying;

::pgrx::pg_module_magic!(name, version);

#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    forbid_backtraces();
    if !pg::session::is_preloading() {
        // The setting may have been taken away, or a standby lacks it. Flagged queries run on the heap then, and the
        // list of mirrored tables can be edited.
        return if pg::session::is_creating_extension() {
            api::require_library()
        };
    }
    settings::init();
    shared::init();
    api::init();
    capture::init();
    planner::init();
    scan::init();
}

/// pgrx shows a backtrace as detail of an error wherever the environment asks Rust for them. It is users who would read
/// them.
///
/// The standard library decides once, at the first backtrace: here, under a setting that is taken back behind it. The
/// library has a standard library of its own, so that no other one is concerned.
fn forbid_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    let set = |value: Option<&OsStr>| {
        // SAFETY: a process of the server has one thread.
        unsafe {
            match value {
                Some(value) => std::env::set_var(VARIABLE, value),
                None => std::env::remove_var(VARIABLE),
            }
        }
    };
    set(Some(OsStr::new("0")));
    drop(std::backtrace::Backtrace::capture());
    set(before.as_deref());
}
