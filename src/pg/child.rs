//! Plan nodes below one of our scan nodes: starts them, reads their rows, and ends them.

use std::ptr;

use pgrx::prelude::*;

use super::compat;
use super::make;
use super::memory::in_context;
use super::place::{Flags, Place, Slot};
use super::tree::Ref;

/// A plan node below one of ours.
pub struct Child {
    state: *mut pg_sys::PlanState,
    /// The statement of which this node is the top, if the child is a statement of its own; otherwise null.
    statement: *mut pg_sys::QueryDesc,
    /// The filter that removes columns which only the child's own nodes need; null if there are none.
    junk_filter: *mut pg_sys::JunkFilter,
}

impl<'a> Place<'a> {
    /// Starts one of the plans below the scan node. EXPLAIN then shows only this plan.
    pub fn start(self, number: usize, flags: Flags) -> Child {
        let plan: *mut pg_sys::Plan = self.plans().nth(number).expect("a plan of this number").as_ptr();
        let estate = self.scan().ps.state;
        // SAFETY: the plan is a part of this query, whose locks are held and whose permissions were checked.
        unsafe {
            in_context(self.estate().es_query_cxt, || {
                let state = pg_sys::ExecInitNode(plan, estate, flags.bits());
                (*self.state()).custom_ps = make::list([state]);
                Child { state, statement: ptr::null_mut(), junk_filter: ptr::null_mut() }
            })
        }
    }

    /// Makes EXPLAIN show none of the plans below the scan node.
    pub(super) fn show_no_plans(self) {
        // SAFETY: by the promise of `new`.
        unsafe { (*self.state()).custom_ps = ptr::null_mut() };
    }

    /// Sets the JIT flags (`jitFlags` of a statement) for plans that are started later.
    pub fn compile_from_now_on(self, flags: i32) {
        // SAFETY: the state of a running query.
        unsafe { (*self.scan().ps.state).es_jit_flags = flags };
    }

    /// From now on, removes from the child's rows the columns that only the child's own nodes need.
    pub fn without_junk(self, child: &mut Child) {
        let estate = self.scan().ps.state;
        // SAFETY: the child is a started node of this query, and a started node has a plan.
        unsafe {
            let targets = Ref::new((*child.state).plan).targetlist();
            if !targets.iter().any(|entry| entry.resjunk) {
                return;
            }
            child.junk_filter = in_context(self.estate().es_query_cxt, || {
                let slot = pg_sys::ExecInitExtraTupleSlot(estate, ptr::null_mut(), &raw const pg_sys::TTSOpsVirtual);
                pg_sys::ExecInitJunkFilter(targets.as_ptr(), slot)
            });
        }
    }
}

impl Child {
    /// # Safety
    ///
    /// `statement` was started, within the query of the scan node that gets it as a child.
    pub(super) unsafe fn of_statement(statement: *mut pg_sys::QueryDesc) -> Child {
        // SAFETY: by the caller's promise.
        Child { state: unsafe { (*statement).planstate }, statement, junk_filter: ptr::null_mut() }
    }

    /// Calls the `ExecutorRun` hooks for a child that was started while its query ran. When these hooks were called for
    /// the query, they could not see this child.
    ///
    /// # Safety
    ///
    /// The child belongs to the query of this place, which is being run. No caller up to the executor owns anything
    /// that must be dropped, because an error jumps over them.
    pub unsafe fn run_hooks(&self, place: Place<'_>) {
        let estate = place.scan().ps.state;
        // SAFETY: by the caller's promise, the child is a part of the running query. The query's state has all that the
        // fields of a statement need. The query's row count is restored, because a hook may change it.
        unsafe {
            let processed = (*estate).es_processed;
            let mut statement = pg_sys::QueryDesc {
                operation: pg_sys::CmdType::CMD_SELECT,
                plannedstmt: (*estate).es_plannedstmt,
                sourceText: (*estate).es_sourceText,
                snapshot: (*estate).es_snapshot,
                params: (*estate).es_param_list_info,
                queryEnv: (*estate).es_queryEnv,
                instrument_options: (*estate).es_instrument,
                tupDesc: pg_sys::ExecGetResultType(self.state),
                estate,
                planstate: self.state,
                ..Default::default()
            };
            compat::run_hooks_alone(&mut statement);
            (*estate).es_processed = processed;
        }
    }

    /// The statement of which this node is the top, if the child is a statement of its own.
    pub(super) fn statement(&self) -> Option<*mut pg_sys::QueryDesc> {
        (!self.statement.is_null()).then_some(self.statement)
    }

    /// This node and the chain of left children below it. Each comes with its kind and its own left child.
    pub(super) fn chain(
        &self,
    ) -> impl Iterator<Item = (*mut pg_sys::PlanState, pg_sys::NodeTag, *mut pg_sys::PlanState)> {
        let look = |state: *mut pg_sys::PlanState| {
            // SAFETY: the pointer is null, or leads to a started node.
            (!state.is_null()).then(|| unsafe { (state, (*state).type_, (*state).lefttree) })
        };
        std::iter::successors(look(self.state), move |&(_, _, below)| look(below))
    }

    /// The next row. The call avoids pgrx's guard, which costs more than the call itself.
    ///
    /// # Safety
    ///
    /// No frame between here and the executor owns anything that must be dropped, because an error jumps over these
    /// frames.
    #[inline]
    pub unsafe fn next<'a>(&self, _place: Place<'a>) -> Slot<'a> {
        // SAFETY: the child is a started node, and the filter was made for its rows.
        unsafe {
            if !(*self.state).chgParam.is_null() {
                pg_sys::ExecReScan(self.state);
            }
            let slot = (*self.state).ExecProcNode.expect("a started node")(self.state);
            let filtered = !self.junk_filter.is_null()
                && !slot.is_null()
                && (*slot).tts_flags & (pg_sys::TTS_FLAG_EMPTY as u16) == 0;
            Slot::new(if filtered { pg_sys::ExecFilterJunk(self.junk_filter, slot) } else { slot })
        }
    }

    pub fn rescan(&self) {
        // SAFETY: the node was started.
        unsafe { pg_sys::ExecReScan(self.state) };
    }

    /// Tells the child that no more rows are wanted. The executor does this itself for plans that belong to its
    /// statement.
    pub fn shut_down(&self) {
        if let Some(statement) = self.statement() {
            // SAFETY: the statement was started. If it is in parallel mode, it has entered this mode itself, in the
            // same run of the outer statement.
            unsafe {
                pg_sys::ExecShutdownNode(self.state);
                if std::mem::take(&mut (*(*statement).estate).es_use_parallel_mode) {
                    pg_sys::ExitParallelMode();
                }
            }
        }
    }

    pub fn end(self) {
        // SAFETY: the node or statement was started, and is ended once, because `end` consumes the value.
        unsafe {
            match self.statement() {
                None => pg_sys::ExecEndNode(self.state),
                Some(statement) => {
                    if (*(*statement).estate).es_top_eflags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 == 0 {
                        pg_sys::ExecutorFinish(statement);
                    }
                    pg_sys::ExecutorEnd(statement);
                    pg_sys::FreeQueryDesc(statement);
                }
            }
        }
    }

    /// The kinds of all nodes of the chain, without the last node.
    pub fn kinds_above_last(&self) -> impl Iterator<Item = pg_sys::NodeTag> {
        self.chain().take_while(|(_, _, below)| !below.is_null()).map(|(_, kind, _)| kind)
    }

    /// Whether the child is a single node without children and without a filter, so that its rows pass through
    /// unchanged.
    pub fn is_last(&self) -> bool {
        self.junk_filter.is_null() && self.chain().count() == 1
    }
}
