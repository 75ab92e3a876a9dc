//! "Anker Engine": the scan of the engine's result, as the executor sees it.
//!
//! It is started and primed by the chooser above it.

use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use plan::Literal;

use super::attempt::attempt;
use super::conversation::Conversation;
use super::result::EngineResult;
use super::trouble::Trouble;
use super::{Methods, checks, explain};
use crate::pg::memory::{in_context, own};
use crate::pg::symbols;
use crate::pg::tree::{Node, Tree};
use crate::pg::value;
use crate::spec::{ENGINE, ScanSpec};

/// A longer text is no parameter: what waits to be sent would follow its length.
const LONGEST_PARAMETER: usize = 1 << 20;

#[repr(C)]
pub struct EngineNode {
    custom: pg_sys::CustomScanState,
    /// Owned by a callback of the query's memory context: errors do not run the end of a node.
    scan: *mut EngineScan,
}

pub struct EngineScan {
    pub spec: ScanSpec,
    params: Vec<*mut pg_sys::ExprState>,
    rewindable: bool,
    /// What the engine answers, once it was asked.
    pub result: Option<EngineResult>,
}

static METHODS: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    CustomName: ENGINE.as_ptr(),
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
        let node = pg_sys::palloc0(size_of::<EngineNode>()).cast::<EngineNode>();
        (*node).custom.ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
        (*node).custom.methods = &raw const METHODS.0;
        node.cast()
    }
}

/// The node behind a plan state, if it is one of ours.
pub unsafe fn from_state(state: *mut pg_sys::PlanState) -> Option<*mut EngineNode> {
    // SAFETY: a valid plan state by the caller's promise; the methods tell whose it is.
    unsafe {
        ((*state).type_ == pg_sys::NodeTag::T_CustomScanState
            && (*state.cast::<pg_sys::CustomScanState>()).methods == &raw const METHODS.0)
            .then(|| state.cast())
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(node: *mut pg_sys::CustomScanState, estate: *mut pg_sys::EState, eflags: i32) {
    // SAFETY: called by the executor with a node of ours and its estate.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let tree = Tree::new();
        let Some(spec) = ScanSpec::from_list(tree, (*plan).custom_private) else {
            error!("pg_anker: a plan node cannot be read");
        };
        let init = |expr: Node<'_>| pg_sys::ExecInitExpr(expr.as_ptr(), (&raw mut (*node).ss.ps).cast());
        let params = tree.list((*plan).custom_exprs).map(init).collect();
        let rewindable = eflags & pg_sys::EXEC_FLAG_REWIND as i32 != 0;
        let scan = Box::new(EngineScan { spec, params, rewindable, result: None });
        (*node.cast::<EngineNode>()).scan = own((*estate).es_query_cxt, scan);
    }
}

impl EngineNode {
    pub fn scan(&mut self) -> &mut EngineScan {
        // SAFETY: set by `begin`, which comes before everything else, and alive as long as the query.
        unsafe { &mut *self.scan }
    }

    /// What stands against asking the engine, as far as this process knows without asking.
    ///
    /// # Safety
    ///
    /// The node was begun in this query.
    pub unsafe fn check(&mut self) -> Result<(), String> {
        let estate = self.custom.ss.ps.state;
        // SAFETY: by the caller's promise.
        unsafe { checks::check(&self.scan().spec.plan, estate) }.map(drop)
    }

    /// Evaluates the parameters and sends the request.
    ///
    /// # Safety
    ///
    /// The node was begun in this running query.
    pub unsafe fn ask(&mut self) -> Result<(), String> {
        // SAFETY: by the caller's promise.
        unsafe {
            let context = self.custom.ss.ps.ps_ExprContext;
            let estate = self.custom.ss.ps.state;
            let plan = self.custom.ss.ps.plan.cast::<pg_sys::CustomScan>();
            let given = |expr: Node<'_>| expr.tag() == pg_sys::NodeTag::T_Param;
            let scan = self.scan();
            // First, so that nothing is evaluated in vain.
            let fingerprints = checks::check(&scan.spec.plan, estate)?;
            let evaluate_all = || {
                let params = scan.params.iter().zip(&scan.spec.plan.params);
                params.map(|(state, ty)| evaluate(*state, context, *ty)).collect::<Result<Vec<_>, _>>()
            };
            let values = match Tree::new().list((*plan).custom_exprs).all(given) {
                true => evaluate_all()?,
                false => attempt(AssertUnwindSafe(evaluate_all))?,
            };
            let conversation = Conversation::begin(&scan.spec.plan, values, fingerprints, estate)?;
            scan.result = Some(EngineResult::new(scan.spec.columns.clone(), conversation));
        }
        Ok(())
    }

    /// Waits for the engine: for its first rows, or for all of them. Afterwards it cannot refuse any more.
    ///
    /// # Safety
    ///
    /// The node was begun in this running query.
    pub unsafe fn prime(&mut self, whole: bool) -> Result<(), Trouble> {
        // SAFETY: begun, so that the scan slot and its descriptor are there, in the query's context.
        let (context, descriptor) = unsafe {
            ((*self.custom.ss.ps.state).es_query_cxt, (*self.custom.ss.ss_ScanTupleSlot).tts_tupleDescriptor)
        };
        let scan = self.scan();
        let whole = whole || scan.rewindable || scan.may_fail_late();
        let result = scan.result.as_mut().ok_or_else(|| "engine was not asked".to_string())?;
        if whole {
            // SAFETY: as above.
            unsafe { result.fetch_all(context, descriptor) }
        } else {
            result.begin()
        }
    }

    /// Lets go of the engine and its rows.
    pub fn release(&mut self) {
        if let Some(result) = &mut self.scan().result {
            result.release();
        }
    }
}

impl EngineScan {
    /// Whether the engine may yet fail on a value when its first rows are there.
    fn may_fail_late(&self) -> bool {
        self.spec.can_raise && self.spec.plan.grouping.is_none()
    }
}

unsafe fn evaluate(
    state: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
    ty: plan::Type,
) -> Result<Option<Literal>, String> {
    let mut is_null = false;
    // SAFETY: an initialised expression of type `ty` and its context, by the caller's promise.
    unsafe {
        let function = (*state).evalfunc.ok_or("parameter without a function")?;
        let datum = in_context((*context).ecxt_per_tuple_memory, || {
            pgrx::pg_sys::ffi::pg_guard_ffi_boundary(|| function(state, context, &mut is_null))
        });
        if is_null {
            return Ok(None);
        }
        let text = matches!(ty, plan::Type::Text | plan::Type::Char);
        if text && pg_sys::toast_raw_datum_size(datum) > LONGEST_PARAMETER {
            return Err("a value in it is longer than 1 MB".into());
        }
        value::literal(datum, ty).map(Some)
    }
}

/// The access method that ExecScan asks for rows.
#[pg_guard]
unsafe extern "C-unwind" fn next(node: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node of ours in a running query; the slot is virtual, so that storing a row is setting its fields.
    unsafe {
        let slot = (*node).ss_ScanTupleSlot;
        let scan = (*node.cast::<EngineNode>()).scan();
        if (*slot).tts_flags & (pg_sys::TTS_FLAG_SHOULDFREE as u16) != 0 {
            pg_sys::ExecClearTuple(slot);
        }
        let Some(result) = &mut scan.result else {
            error!("pg_anker: the engine was not asked");
        };
        if result.next_row(slot) {
            (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
            (*slot).tts_nvalid = scan.spec.columns.len() as i16;
        } else {
            pg_sys::ExecClearTuple(slot);
        }
        slot
    }
}

/// Rows are never checked again after a concurrent update: such queries run on the heap.
#[pg_guard]
unsafe extern "C-unwind" fn recheck(_node: *mut pg_sys::ScanState, _slot: *mut pg_sys::TupleTableSlot) -> bool {
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn execute(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: called by the executor with a node of ours.
    unsafe {
        let scan = &raw mut (*node).ss;
        if (*scan).ps.qual.is_null() && (*scan).ps.ps_ProjInfo.is_null() {
            return next(scan);
        }
        symbols::ExecScan(scan, Some(next), Some(recheck))
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a node of ours, once.
    unsafe { (*node.cast::<EngineNode>()).release() }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a node of ours.
    unsafe {
        pg_sys::ExecScanReScan(&raw mut (*node).ss);
        let result = &mut (*node.cast::<EngineNode>()).scan().result;
        if !result.as_mut().is_none_or(EngineResult::rewind) {
            error!("pg_anker: a result that was not kept cannot be read again");
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
    unsafe { explain::engine((*node.cast::<EngineNode>()).scan(), state) }
}
