//! PostgreSQL's planner, and the hook that replaces it.

use std::ffi::c_char;

use pgrx::prelude::*;

use crate::pg::hooks;
use crate::pg::plain::unguarded;

unguarded! {
    fn standard_planner(
        query: *mut pg_sys::Query,
        source: *const c_char,
        options: i32,
        params: pg_sys::ParamListInfo,
        #[cfg(feature = "since_19")] explain: *mut pg_sys::ExplainState,
    ) -> *mut pg_sys::PlannedStmt;
}

/// The arguments of PostgreSQL's planner, besides the query.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Asking {
    /// The text that the query was parsed from.
    pub source: *const c_char,
    /// The cursor options.
    pub options: i32,
    pub params: pg_sys::ParamListInfo,
    /// The state of the EXPLAIN that the query is planned for; otherwise null.
    #[cfg(feature = "since_19")]
    explain: *mut pg_sys::ExplainState,
}

impl Asking {
    /// The arguments for a query that is not planned for EXPLAIN.
    pub fn new(source: *const c_char, options: i32, params: pg_sys::ParamListInfo) -> Asking {
        Asking {
            source,
            options,
            params,
            #[cfg(feature = "since_19")]
            explain: std::ptr::null_mut(),
        }
    }

    pub fn with_options(self, options: i32) -> Asking {
        Asking { options, ..self }
    }

    /// The same arguments for a part of the query. An extension that adds lines to EXPLAIN must not take the part for
    /// the whole query.
    pub fn for_part(self) -> Asking {
        Asking::new(self.source, self.options, self.params)
    }
}

/// A planner. An error jumps over all frames up to that of the caller.
pub type Planner = unsafe extern "C-unwind" fn(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt;

/// Code in the place of PostgreSQL's planner.
pub trait Plan {
    /// Plans a query.
    ///
    /// # Safety
    ///
    /// The query was rewritten, and the planner may change it.
    unsafe fn plan(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt;
}

static mut PREVIOUS: pg_sys::planner_hook_type = None;
static mut OURS: pg_sys::planner_hook_type = None;

/// Installs our planner before the one that is set. To be called once, while the library is preloaded.
pub fn plan_by<P: Plan>() {
    hooks::install!(planner_hook, PREVIOUS, plan::<P>);
    // SAFETY: on the one thread, before anybody reads it.
    unsafe { OURS = pg_sys::planner_hook };
}

/// Whether another library has set a planner hook.
pub fn others_have_planners() -> bool {
    // SAFETY: hooks are set while libraries are loaded.
    let (previous, outer, ours) = unsafe { (PREVIOUS, pg_sys::planner_hook, OURS) };
    previous.is_some() || outer.map(|outer| outer as usize) != ours.map(|ours| ours as usize)
}

/// Plans by the hook that was set before ours or, without one, by PostgreSQL's planner.
///
/// # Safety
///
/// The query was rewritten, and the planner may change it.
pub unsafe extern "C-unwind" fn previous_planner(
    query: *mut pg_sys::Query,
    asking: Asking,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise; hooks are set while libraries are loaded.
    unsafe { call(PREVIOUS, query, asking) }
}

/// Plans by the hook that was set last, which calls all others.
///
/// # Safety
///
/// As for [`previous_planner`].
pub unsafe fn outermost_planner(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise; hooks are set while libraries are loaded.
    unsafe { call(pg_sys::planner_hook, query, asking) }
}

unsafe fn call(hook: pg_sys::planner_hook_type, query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt {
    let planner = hook.unwrap_or(standard_planner);
    // SAFETY: by the caller's promise.
    unsafe {
        planner(
            query,
            asking.source,
            asking.options,
            asking.params,
            #[cfg(feature = "since_19")]
            asking.explain,
        )
    }
}

/// The planner hook, which PostgreSQL calls for every query of the server.
unsafe extern "C-unwind" fn plan<P: Plan>(
    query: *mut pg_sys::Query,
    source: *const c_char,
    options: i32,
    params: pg_sys::ParamListInfo,
    #[cfg(feature = "since_19")] explain: *mut pg_sys::ExplainState,
) -> *mut pg_sys::PlannedStmt {
    let asking = Asking {
        source,
        options,
        params,
        #[cfg(feature = "since_19")]
        explain,
    };
    // SAFETY: called by PostgreSQL with a rewritten query that the planner may change.
    unsafe { P::plan(query, asking) }
}
