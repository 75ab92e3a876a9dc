//! Custom scan nodes: the executor's callbacks and structures on one side, a Rust value of ours on the other.
//!
//! The value is made when the executor starts, and is owned by the query's memory context: errors do not run the end
//! of a node. Everything that it gets from its [`Place`] belongs to the same query, and is useless elsewhere.

use std::ffi::CStr;
use std::marker::PhantomData;

use pgrx::prelude::*;

use super::child::Child;
use super::delivery::Delivery;
use super::explain::Explain;
use super::memory::own;
use super::place::{Flags, Place, Slot};
use super::symbols;

pub trait ScanNode: Sized + 'static {
    const NAME: &'static CStr;
    /// Whether rows are made here, and the executor applies the plan's conditions and target list to them. Otherwise
    /// they are those of other nodes, whatever their slots are.
    const FILTERED: bool;

    fn methods() -> &'static Methods<Self>;

    fn begin(place: Place<'_>, flags: Flags) -> Self;
    /// The next row. Called for each, so that nothing is guarded here that need not be.
    fn next<'a>(&mut self, place: Place<'a>) -> Slot<'a>;
    /// Rows are asked for from now on: all of them, for the first time, if `all`. Only of a statement's topmost node.
    fn run(&mut self, all: bool);
    /// From now on rows may go past the executor to here, if anywhere.
    fn deliver(&mut self, to: Option<Delivery>);
    fn rescan(&mut self);
    /// No more rows are wanted of what runs in other processes.
    fn shut_down(&mut self);
    fn end(&mut self);
    fn explain(&self, place: Place<'_>, out: &Explain<'_>);
}

/// A node as the executor holds it.
#[repr(C)]
struct State<N> {
    custom: pg_sys::CustomScanState,
    /// Null before `begin`, which comes before everything else.
    node: *mut N,
}

/// PostgreSQL's tables of functions for a kind of node.
pub struct Methods<N> {
    scan: pg_sys::CustomScanMethods,
    executor: pg_sys::CustomExecMethods,
    node: PhantomData<fn() -> N>,
}

// SAFETY: never written after the library is built; the pointers inside are to constants.
unsafe impl<N> Sync for Methods<N> {}

impl<N: ScanNode> Methods<N> {
    pub const fn new() -> Methods<N> {
        let name = N::NAME.as_ptr();
        Methods {
            scan: pg_sys::CustomScanMethods { CustomName: name, CreateCustomScanState: Some(create_state::<N>) },
            executor: pg_sys::CustomExecMethods {
                CustomName: name,
                BeginCustomScan: Some(begin::<N>),
                ExecCustomScan: Some(execute::<N>),
                EndCustomScan: Some(end::<N>),
                ReScanCustomScan: Some(rescan::<N>),
                MarkPosCustomScan: None,
                RestrPosCustomScan: None,
                EstimateDSMCustomScan: None,
                InitializeDSMCustomScan: None,
                ReInitializeDSMCustomScan: None,
                InitializeWorkerCustomScan: None,
                ShutdownCustomScan: Some(shut_down::<N>),
                ExplainCustomScan: Some(explain::<N>),
            },
            node: PhantomData,
        }
    }

    /// While the library is loaded.
    pub fn register(&'static self) {
        // SAFETY: on the main thread; the methods are never freed.
        unsafe { pg_sys::RegisterCustomScanMethods(&raw const self.scan) };
    }
}

// -- callbacks -------------------------------------------------------------------------------------------------------

#[pg_guard]
unsafe extern "C-unwind" fn create_state<N: ScanNode>(_plan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: zeroes are a valid state before `begin`.
    unsafe {
        let state = pg_sys::palloc0(size_of::<State<N>>()).cast::<State<N>>();
        (*state).custom.ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
        (*state).custom.methods = &raw const N::methods().executor;
        state.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin<N: ScanNode>(
    state: *mut pg_sys::CustomScanState,
    _estate: *mut pg_sys::EState,
    flags: i32,
) {
    // SAFETY: called by the executor with a node of ours, whose query has a memory context.
    unsafe {
        if !N::FILTERED {
            (*state).ss.ps.resultopsfixed = false;
        }
        let place = Place::new(state);
        let node = N::begin(place, Flags::new(flags));
        (*state.cast::<State<N>>()).node = own(place.estate().es_query_cxt, Box::new(node));
    }
}

/// # Safety
///
/// A begun node of this kind, whose value nobody else borrows.
#[inline]
unsafe fn parts<'a, N: ScanNode>(state: *mut pg_sys::CustomScanState) -> (&'a mut N, Place<'a>) {
    // SAFETY: by the caller's promise; the value lives as long as the query.
    unsafe { (&mut *(*state.cast::<State<N>>()).node, Place::new(state)) }
}

#[pg_guard]
unsafe extern "C-unwind" fn execute<N: ScanNode>(state: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: called by the executor with a begun node of ours. ExecScan's errors jump over this frame, which owns
    // nothing.
    unsafe {
        let scan = &raw mut (*state).ss;
        if N::FILTERED && !((*scan).ps.qual.is_null() && (*scan).ps.ps_ProjInfo.is_null()) {
            return symbols::ExecScan(scan, Some(access::<N>), Some(recheck));
        }
        let (node, place) = parts::<N>(state);
        node.next(place).pointer()
    }
}

/// Returns the next row to ExecScan.
#[pg_guard]
unsafe extern "C-unwind" fn access<N: ScanNode>(scan: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the begun node of `execute`, which begins with its scan.
    let (node, place) = unsafe { parts::<N>(scan.cast()) };
    node.next(place).pointer()
}

/// Rows are never checked again after a concurrent update: such queries run on the heap.
#[pg_guard]
unsafe extern "C-unwind" fn recheck(_scan: *mut pg_sys::ScanState, _slot: *mut pg_sys::TupleTableSlot) -> bool {
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn end<N: ScanNode>(state: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a begun node of ours.
    unsafe { parts::<N>(state) }.0.end();
}

#[pg_guard]
unsafe extern "C-unwind" fn shut_down<N: ScanNode>(state: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a begun node of ours.
    unsafe { parts::<N>(state) }.0.shut_down();
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan<N: ScanNode>(state: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a begun node of ours.
    unsafe {
        if N::FILTERED {
            pg_sys::ExecScanReScan(&raw mut (*state).ss);
        }
        parts::<N>(state).0.rescan();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain<N: ScanNode>(
    state: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    out: *mut pg_sys::ExplainState,
) {
    // SAFETY: called by EXPLAIN with a begun node of ours, and with what it writes to.
    unsafe {
        let (node, place) = parts::<N>(state);
        node.explain(place, &Explain::new(out, (*state).ss.ps.plan, ancestors));
    }
}

/// Whether it is a node of this kind.
///
/// # Safety
///
/// Null, or a started node.
#[inline]
pub(super) unsafe fn is_of<N: ScanNode>(state: *const pg_sys::PlanState) -> bool {
    // SAFETY: a custom scan if its tag says so; the methods tell whose it is.
    unsafe {
        !state.is_null()
            && (*state).type_ == pg_sys::NodeTag::T_CustomScanState
            && std::ptr::eq((*state.cast::<pg_sys::CustomScanState>()).methods, &raw const N::methods().executor)
    }
}

/// # Safety
///
/// A begun node of this kind, whose value nobody else borrows.
pub(super) unsafe fn value_of<'a, N: ScanNode>(state: *mut pg_sys::PlanState) -> &'a mut N {
    // SAFETY: by the caller's promise.
    unsafe { parts::<N>(state.cast()).0 }
}

impl Child {
    /// The last node of the chain, if it is of this kind.
    pub fn last<N: ScanNode>(&self) -> Option<Below<N>> {
        let (last, ..) = self.chain().last()?;
        // SAFETY: a started node.
        unsafe { is_of::<N>(last) }.then_some(Below(last.cast(), PhantomData))
    }
}

/// A node of ours somewhere below.
pub struct Below<N>(*mut pg_sys::CustomScanState, PhantomData<fn() -> N>);

impl<N: ScanNode> Below<N> {
    /// # Safety
    ///
    /// Nobody else borrows the node's value: it is not running just now.
    pub unsafe fn parts(&mut self) -> (&mut N, Place<'_>) {
        // SAFETY: started by a `Child`, and by the caller's promise.
        unsafe { parts(self.0) }
    }
}
