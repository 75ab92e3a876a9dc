//! Writes a node's properties into the output of EXPLAIN.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::time::Duration;

use pgrx::prelude::*;

use super::catalog;
use super::child::Child;
use super::make;
use super::session;
use super::tree::Node;

/// The state of EXPLAIN when it has reached a node.
pub struct Explain<'a> {
    state: *mut pg_sys::ExplainState,
    plan: *mut pg_sys::Plan,
    /// The plans above the node.
    ancestors: *mut pg_sys::List,
    used: PhantomData<&'a ()>,
}

/// The unit in which EXPLAIN shows memory.
const KILOBYTE: u64 = 1024;

impl Explain<'_> {
    /// # Safety
    ///
    /// The state is in use during `'a`, and EXPLAIN has reached the node of this plan, below these ancestors.
    pub(super) unsafe fn new(
        state: *mut pg_sys::ExplainState,
        plan: *mut pg_sys::Plan,
        ancestors: *mut pg_sys::List,
    ) -> Self {
        Explain { state, plan, ancestors, used: PhantomData }
    }

    /// The state of EXPLAIN below the plan of a statement. No node's expressions can be shown there.
    ///
    /// # Safety
    ///
    /// The state is in use during the lifetime of the value.
    pub unsafe fn below_plan(state: *mut pg_sys::ExplainState) -> Self {
        Explain { state, plan: std::ptr::null_mut(), ancestors: std::ptr::null_mut(), used: PhantomData }
    }

    pub fn is_text(&self) -> bool {
        self.options().format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT
    }

    pub fn is_verbose(&self) -> bool {
        self.options().verbose
    }

    /// Whether estimated figures are shown.
    pub fn shows_costs(&self) -> bool {
        self.options().costs
    }

    pub fn shows_times(&self) -> bool {
        self.options().timing
    }

    /// An expression of the node, printed as EXPLAIN prints expressions of its own nodes.
    pub fn expression(&self, node: Node<'_>) -> String {
        // SAFETY: the same call as EXPLAIN's own for this node; it returns a C string.
        unsafe {
            let context = pg_sys::set_deparse_context_plan(self.options().deparse_cxt, self.plan, self.ancestors);
            let shown = pg_sys::deparse_expression(node.as_ptr(), context, true, false);
            catalog::text(shown).unwrap_or_default()
        }
    }

    /// Shows properties as a group with a name.
    pub fn group(&self, label: &CStr, inner: impl FnOnce()) {
        self.line("", &format!("{}:", label.to_string_lossy()));
        self.indent(1);
        self.grouped(Some(label), true, inner);
        self.indent(-1);
    }

    /// Shows a node of the engine's plan. Only the text format shows `heading`.
    pub fn node(&self, heading: &str, inner: impl FnOnce()) {
        self.line("->  ", heading);
        self.indent(3);
        self.grouped(None, true, inner);
        self.indent(-3);
    }

    /// Shows the child nodes of a node.
    pub fn nodes(&self, inner: impl FnOnce()) {
        self.grouped(Some(c"Plans"), false, inner);
    }

    /// Opens a group, fills it, and closes it. In the text format, only the content appears.
    fn grouped(&self, label: Option<&CStr>, labeled: bool, inner: impl FnOnce()) {
        let kind = label.unwrap_or(c"Plan").as_ptr();
        let label = label.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: C strings, or no label.
        unsafe { pg_sys::ExplainOpenGroup(kind, label, labeled, self.state) };
        inner();
        // SAFETY: as above; the group was opened with the same arguments.
        unsafe { pg_sys::ExplainCloseGroup(kind, label, labeled, self.state) };
    }

    fn line(&self, arrow: &str, line: &str) {
        if !self.is_text() {
            return;
        }
        let (line, spaces) = (readable(&format!("{arrow}{line}\n")), self.options().indent * 2);
        // SAFETY: appends to the text that EXPLAIN has written so far.
        unsafe {
            pg_sys::appendStringInfoSpaces(self.options().str_, spaces);
            pg_sys::appendStringInfoString(self.options().str_, line.as_ptr());
        }
    }

    /// Changes the indentation of the text format.
    fn indent(&self, by: i32) {
        if self.is_text() {
            // SAFETY: by the promise of `new`; nobody else uses the state meanwhile.
            unsafe { (*self.state).indent += by };
        }
    }

    pub fn memory(&self, label: &CStr, bytes: u64) {
        let kilobytes = bytes.div_ceil(KILOBYTE) as i64;
        // SAFETY: two C strings.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), c"kB".as_ptr(), kilobytes, self.state) }
    }

    /// Whether the query was run (EXPLAIN ANALYZE).
    pub fn analyzes(&self) -> bool {
        self.options().analyze
    }

    pub fn property(&self, label: &CStr, value: &str) {
        let value = readable(value);
        // SAFETY: two C strings.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.state) }
    }

    pub fn number(&self, label: &CStr, value: u64) {
        // SAFETY: a C string, and no unit.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), value as i64, self.state) }
    }

    /// Shows a cost, if EXPLAIN shows costs.
    pub fn cost(&self, label: &CStr, value: f64) {
        if self.options().costs {
            // SAFETY: a C string, and no unit.
            unsafe { pg_sys::ExplainPropertyFloat(label.as_ptr(), std::ptr::null(), value, 2, self.state) }
        }
    }

    pub fn list(&self, label: &CStr, values: impl Iterator<Item = String>) {
        let list = make::list(values.map(|value| make::text(&readable(&value).to_string_lossy())));
        // SAFETY: a list of C strings.
        unsafe { pg_sys::ExplainPropertyList(label.as_ptr(), list, self.state) }
    }

    /// Shows a time, if EXPLAIN shows times.
    pub fn time(&self, label: &CStr, value: Duration) {
        if self.options().timing {
            let milliseconds = value.as_secs_f64() * 1000.0;
            // SAFETY: two C strings.
            unsafe { pg_sys::ExplainPropertyFloat(label.as_ptr(), c"ms".as_ptr(), milliseconds, 3, self.state) }
        }
    }

    /// Shows the plan of a child that is a statement of its own.
    pub fn statement(&self, child: &Child) {
        let Some(statement) = child.statement() else { return };
        // SAFETY: by the promise of `new`, and a started statement; the state of the outer statement is restored.
        unsafe {
            let around = *self.state;
            // EXPLAIN shows the settings once, for the outer statement, so they are not shown again for this statement.
            (*self.state).settings = false;
            pg_sys::ExplainPrintPlan(self.state, statement);
            if self.options().costs {
                pg_sys::ExplainPrintJITSummary(self.state, statement);
            }
            let pg_sys::ExplainState { str_, grouping_stack, workers_state, .. } = *self.state;
            *self.state = pg_sys::ExplainState { str_, grouping_stack, workers_state, ..around };
        }
    }

    fn options(&self) -> &pg_sys::ExplainState {
        // SAFETY: by the promise of `new`.
        unsafe { &*self.state }
    }
}

/// A text as a C string. Question marks replace zero bytes and, unless the database's encoding is UTF-8, all characters
/// that are not ASCII, because they may not exist in that encoding.
fn readable(text: &str) -> CString {
    let known = |c: char| if c != '\0' && (c.is_ascii() || session::is_utf8()) { c } else { '?' };
    CString::new(text.chars().map(known).collect::<String>()).unwrap_or_default()
}
