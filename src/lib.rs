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
        // The server was started without the library, and only this session has loaded it. The library may have been
        // removed from `shared_preload_libraries`, or a standby may lack the setting. Flagged queries then run on the
        // heap, and the list of mirrored tables can be edited.
        return if pg::session::is_creating_extension() {
            api::require_library()
        };
    }
    settings::init();
    if settings::MAX_STATEMENTS.get() > 0 {
        pg::session::compute_query_ids();
    }
    shared::init();
    api::init();
    capture::init();
    planner::init();
    scan::init();
}

/// Makes errors come without a backtrace. If the environment enables Rust's backtraces, pgrx would add one to the
/// detail of an error, which users read.
///
/// The standard library decides at the first backtrace whether to make any. So the first one is made here, under a
/// setting that is removed afterwards. This library contains its own copy of the standard library, so no other library
/// is affected.
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
