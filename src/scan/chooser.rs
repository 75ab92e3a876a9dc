//! "Anker": engine or heap, decided once, before the first row.
//!
//! ```text
//!   begin    ask the engine, unless something stands against it
//!   1st row  wait until the engine cannot refuse any more; otherwise initialise the heap plan, under the same snapshot
//!   rows     those of the chosen side
//! ```

use std::ffi::c_char;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::engine_node::{self, EngineNode};
use super::trouble::Trouble;
use super::{Methods, explain};
use crate::pg::memory::in_context;
use crate::pg::tree::{Tree, push, text};
use crate::settings::{FALLBACK, ROUTE, Route};
use crate::shared;
use crate::spec::{CHOOSER, string_value};

#[repr(C)]
pub struct Chooser {
    custom: pg_sys::CustomScanState,
    eflags: i32,
    /// PostgreSQL's nodes over the engine's scan; null if the query could not be translated.
    engine_side: *mut pg_sys::PlanState,
    /// The engine's scan at their end.
    leaf: *mut EngineNode,
    /// Null until it is needed.
    heap: *mut pg_sys::PlanState,
    /// The chosen side; null: not chosen yet.
    active: *mut pg_sys::PlanState,
    /// Takes columns that only the chosen side's own nodes need out of its rows; null if there are none.
    junk_filter: *mut pg_sys::JunkFilter,
    /// Why it is the heap.
    pub reason: *mut c_char,
}

static METHODS: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    CustomName: CHOOSER.as_ptr(),
    BeginCustomScan: Some(begin),
    ExecCustomScan: Some(execute),
    EndCustomScan: Some(end),
    ReScanCustomScan: Some(rescan),
    MarkPosCustomScan: None,
    RestrPosCustomScan: None,
    EstimateDSMCustomScan: None,
    InitializeDSMCustomScan: None,
    ReInitializeDSMCustomScan: None,
    InitializeWorkerCustomScan: None,
    ShutdownCustomScan: None,
    ExplainCustomScan: Some(explain_node),
});

#[pg_guard]
pub unsafe extern "C-unwind" fn create_state(_plan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: zeroes are a valid state before `begin`.
    unsafe {
        let node = pg_sys::palloc0(size_of::<Chooser>()).cast::<Chooser>();
        (*node).custom.ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
        (*node).custom.methods = &raw const METHODS.0;
        node.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(node: *mut pg_sys::CustomScanState, estate: *mut pg_sys::EState, eflags: i32) {
    // SAFETY: called by the executor with a node of ours and its estate.
    unsafe {
        let chooser = &mut *node.cast::<Chooser>();
        chooser.eflags = eflags;
        // Rows are those of the chosen side, whatever their slots are.
        chooser.custom.ss.ps.resultopsfixed = false;
        let plan = &*(*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let tree = Tree::new();
        let running = eflags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 == 0;

        // A plan from before the setting was changed.
        if ROUTE.get() == Route::Off {
            return chooser.init_heap("anker.route is off");
        }
        if tree.list(plan.custom_plans).len() == 1 {
            let reason = string_value(tree, plan.custom_private).unwrap_or_default();
            if running {
                chooser.use_heap(Trouble::Reason(reason));
            } else {
                chooser.init_heap(&reason);
            }
            return;
        }

        let top = tree.list(plan.custom_plans).next().expect("a plan of two sides").as_ptr();
        chooser.engine_side = pg_sys::ExecInitNode(top, estate, eflags);
        push(&mut chooser.custom.custom_ps, chooser.engine_side);
        let mut bottom = chooser.engine_side;
        while !(*bottom).lefttree.is_null() {
            bottom = (*bottom).lefttree;
        }
        chooser.leaf = engine_node::from_state(bottom).expect("the engine's scan below its side");
        if running {
            if let Err(reason) = (*chooser.leaf).ask() {
                chooser.use_heap(Trouble::Reason(reason));
            }
        } else if let Err(reason) = (*chooser.leaf).check() {
            chooser.init_heap(&reason);
        }
    }
}

impl Chooser {
    /// # Safety
    ///
    /// The node was begun, for running.
    unsafe fn choose(&mut self) {
        // SAFETY: by the caller's promise; the leaf belongs to the engine's side.
        unsafe {
            let whole = reads_ahead(self.engine_side);
            match (*self.leaf).prime(whole) {
                Ok(()) => self.activate(self.engine_side),
                Err(trouble) => self.use_heap(trouble),
            }
        }
    }

    unsafe fn use_heap(&mut self, trouble: Trouble) {
        // SAFETY: begun, by the caller's promise.
        unsafe {
            if !FALLBACK.get() || ROUTE.get() == Route::Force {
                refuse(trouble);
            }
            if !self.leaf.is_null() {
                (*self.leaf).release();
            }
            count_fallback();
            self.init_heap(&trouble.reason());
        }
    }

    /// # Safety
    ///
    /// The node was begun; its query may be running already.
    unsafe fn init_heap(&mut self, reason: &str) {
        // SAFETY: by the caller's promise. The plan is the last of ours; its locks are held, its permissions checked.
        unsafe {
            let estate = self.custom.ss.ps.state;
            let plan = &*self.custom.ss.ps.plan.cast::<pg_sys::CustomScan>();
            let heap = Tree::new().list(plan.custom_plans).last().expect("a heap plan").as_ptr();
            in_context((*estate).es_query_cxt, || {
                self.reason = text(reason);
                self.heap = pg_sys::ExecInitNode(heap, estate, self.eflags);
                self.custom.custom_ps = std::ptr::null_mut();
                push(&mut self.custom.custom_ps, self.heap);
            });
            self.activate(self.heap);
        }
    }

    unsafe fn activate(&mut self, side: *mut pg_sys::PlanState) {
        // SAFETY: an initialised side, by the callers above.
        unsafe {
            let estate = self.custom.ss.ps.state;
            let targets = (*(*side).plan).targetlist;
            let has_junk = Tree::new().list_of::<pg_sys::TargetEntry>(targets).any(|entry| entry.resjunk);
            if has_junk {
                in_context((*estate).es_query_cxt, || {
                    let slot =
                        pg_sys::ExecInitExtraTupleSlot(estate, std::ptr::null_mut(), &raw const pg_sys::TTSOpsVirtual);
                    self.junk_filter = pg_sys::ExecInitJunkFilter(targets, slot);
                });
            }
            self.active = side;
        }
    }

    pub fn uses_heap(&self) -> bool {
        !self.heap.is_null()
    }
}

/// Whether a node above the engine's scan reads rows before it returns its first, so that the engine could still fail
/// when we have promised not to use the heap.
unsafe fn reads_ahead(side: *mut pg_sys::PlanState) -> bool {
    let mut state = side;
    // SAFETY: a chain of initialised nodes that ends with ours.
    unsafe {
        while !(*state).lefttree.is_null() {
            if !matches!((*state).type_, pg_sys::NodeTag::T_LimitState | pg_sys::NodeTag::T_ResultState) {
                return true;
            }
            state = (*state).lefttree;
        }
    }
    false
}

#[pg_guard]
unsafe extern "C-unwind" fn execute(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: called by the executor with a node of ours.
    unsafe {
        let chooser = &mut *node.cast::<Chooser>();
        if chooser.active.is_null() {
            chooser.choose();
        }
        // Not through pgrx's wrapper, which costs more than the call: nothing here needs to be dropped.
        let active = chooser.active;
        if !(*active).chgParam.is_null() {
            pg_sys::ExecReScan(active);
        }
        let slot = (*active).ExecProcNode.expect("an initialised node")(active);
        if chooser.junk_filter.is_null() || slot.is_null() || (*slot).tts_flags & (pg_sys::TTS_FLAG_EMPTY as u16) != 0 {
            return slot;
        }
        pg_sys::ExecFilterJunk(chooser.junk_filter, slot)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a node of ours, once; ending null is allowed.
    unsafe {
        let chooser = &*node.cast::<Chooser>();
        pg_sys::ExecEndNode(chooser.engine_side);
        pg_sys::ExecEndNode(chooser.heap);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a node of ours.
    unsafe {
        let active = (*node.cast::<Chooser>()).active;
        if !active.is_null() {
            pg_sys::ExecReScan(active);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain_node(
    node: *mut pg_sys::CustomScanState,
    _ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: called by EXPLAIN with a node of ours.
    unsafe { explain::chooser(&*node.cast::<Chooser>(), state) }
}

/// The heap is not wanted: an error that names the reason, or the query's own.
fn refuse(trouble: Trouble) -> ! {
    match trouble {
        Trouble::Failure(_) => trouble.raise(),
        Trouble::Reason(reason) => {
            ErrorReport::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the columnar engine cannot run this query",
                "refuse",
            )
            .set_detail(reason)
            .set_hint("Set anker.fallback to on, and anker.route to another value than force, to use the heap then.")
            .report(PgLogLevel::ERROR);
            unreachable!("ERROR does not return")
        }
    }
}

fn count_fallback() {
    // SAFETY: a plain variable of this process.
    let database = unsafe { pg_sys::MyDatabaseId };
    if shared::database(database).is_some() {
        shared::update_database(database, |entry| entry.fallbacks += 1);
    }
}
