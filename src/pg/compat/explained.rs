//! An option of EXPLAIN. Extensions can have one since PostgreSQL 18.
//!
//! ```text
//!   EXPLAIN (ANKER)   the option is parsed: EXPLAIN's state gets an empty note
//!   hook              before a query is planned, it is looked at, and what was found becomes the note
//!   hook              below the query's plan, the note is shown. A prepared query was not looked at: its note is empty
//! ```

use std::ffi::CStr;

use pgrx::prelude::*;

use super::Asking;

/// Looks at a query that is going to be explained. Returns what was found as a node.
pub type Look = unsafe extern "C-unwind" fn(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::Node;

/// Shows what was found, or an empty string if the query was not looked at, below the plan of a statement.
pub type Show = unsafe extern "C-unwind" fn(
    state: *mut pg_sys::ExplainState,
    statement: *mut pg_sys::PlannedStmt,
    found: *mut pg_sys::Node,
);

/// Adds the option with this name to EXPLAIN, if the version has options of extensions. To be called once, while the
/// library is preloaded. Both functions are guarded.
pub fn add_explain_option(name: &'static CStr, look: Look, show: Show) {
    #[cfg(not(feature = "since_18"))]
    let _ = (name, look, show);
    #[cfg(feature = "since_18")]
    since_18::add(name, look, show);
}

#[cfg(feature = "since_18")]
mod since_18 {
    use std::ffi::{c_char, c_int, c_void};

    use super::*;
    use crate::pg::hooks;
    use crate::pg::plain::unguarded;

    unguarded! {
        fn standard_ExplainOneQuery(
            query: *mut pg_sys::Query,
            options: c_int,
            into: *mut pg_sys::IntoClause,
            state: *mut pg_sys::ExplainState,
            source: *const c_char,
            params: pg_sys::ParamListInfo,
            environment: *mut pg_sys::QueryEnvironment,
        );
        fn GetExplainExtensionState(state: *mut pg_sys::ExplainState, id: c_int) -> *mut c_void;
        fn SetExplainExtensionState(state: *mut pg_sys::ExplainState, id: c_int, note: *mut c_void);
        fn defGetBoolean(option: *mut pg_sys::DefElem) -> bool;
        fn makeString(text: *mut c_char) -> *mut pg_sys::String;
    }

    #[cfg(feature = "since_19")]
    unguarded! {
        /// Checks the option's value in a setting of auto_explain.
        fn GUCCheckBooleanExplainOption(
            name: *const c_char,
            value: *const c_char,
            kind: pg_sys::NodeTag,
        ) -> bool;
    }

    struct Added {
        id: c_int,
        look: Look,
        show: Show,
    }

    static mut ADDED: Option<Added> = None;
    static mut BEFORE_QUERY: pg_sys::ExplainOneQuery_hook_type = None;
    static mut AFTER_PLAN: pg_sys::explain_per_plan_hook_type = None;

    pub fn add(name: &'static CStr, look: Look, show: Show) {
        // SAFETY: on the one thread, before anybody explains a query. The name lives as long as the server.
        unsafe {
            let id = pg_sys::GetExplainExtensionId(c"pg_anker".as_ptr());
            ADDED = Some(Added { id, look, show });
            pg_sys::RegisterExtensionExplainOption(
                name.as_ptr(),
                Some(parse),
                #[cfg(feature = "since_19")]
                Some(GUCCheckBooleanExplainOption),
            );
        }
        hooks::install!(ExplainOneQuery_hook, BEFORE_QUERY, explain_query);
        hooks::install!(explain_per_plan_hook, AFTER_PLAN, explain_plan);
    }

    fn added() -> &'static Added {
        let added = &raw const ADDED;
        // SAFETY: written when the library was loaded, and never again.
        unsafe { (*added).as_ref() }.expect("the option was added before it is used")
    }

    /// Parses the option. The function owns nothing, so errors may jump over it.
    unsafe extern "C-unwind" fn parse(
        state: *mut pg_sys::ExplainState,
        option: *mut pg_sys::DefElem,
        _: *mut pg_sys::ParseState,
    ) {
        // SAFETY: called by EXPLAIN with its state and the option.
        unsafe {
            let note = if defGetBoolean(option) { makeString(c"".as_ptr().cast_mut()) } else { std::ptr::null_mut() };
            SetExplainExtensionState(state, added().id, note.cast());
        }
    }

    /// The hook that EXPLAIN calls for each query, before it is planned. The function owns nothing, so errors may jump
    /// over it.
    unsafe extern "C-unwind" fn explain_query(
        query: *mut pg_sys::Query,
        options: c_int,
        into: *mut pg_sys::IntoClause,
        state: *mut pg_sys::ExplainState,
        source: *const c_char,
        params: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
    ) {
        // SAFETY: called by EXPLAIN; the next function gets the same arguments.
        unsafe {
            let Added { id, look, .. } = added();
            if !GetExplainExtensionState(state, *id).is_null() {
                SetExplainExtensionState(state, *id, look(query, Asking::new(source, options, params)).cast());
            }
            BEFORE_QUERY.unwrap_or(standard_ExplainOneQuery)(query, options, into, state, source, params, environment);
        }
    }

    /// The hook that EXPLAIN calls below each plan. The function owns nothing, so errors may jump over it.
    unsafe extern "C-unwind" fn explain_plan(
        statement: *mut pg_sys::PlannedStmt,
        into: *mut pg_sys::IntoClause,
        state: *mut pg_sys::ExplainState,
        source: *const c_char,
        params: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
    ) {
        // SAFETY: called by EXPLAIN; the next function gets the same arguments. The note is null or one of ours.
        unsafe {
            let Added { id, show, .. } = added();
            let note = GetExplainExtensionState(state, *id);
            if !note.is_null() {
                show(state, statement, note.cast());
            }
            if let Some(next) = AFTER_PLAN {
                next(statement, into, state, source, params, environment);
            }
        }
    }
}
