//! Custom scan nodes: turns the executor's callbacks and structures into methods of a Rust value.
//!
//! The value is made when the executor starts. The query's memory context owns it, because the executor does not call a
//! node's end after an error. Everything that the value gets from its [`Place`] belongs to the same query, and must not
//! be used in another query.

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
    /// Whether the node makes rows itself, so that the executor must apply the plan's conditions and target list to
    /// them. Otherwise the node passes on the rows of other nodes, in their own slots.
    const FILTERED: bool;

    fn methods() -> &'static Methods<Self>;

    fn begin(place: Place<'_>, flags: Flags) -> Self;
    /// The next row. This method is called for each row, so it avoids guards that it does not need.
    fn next<'a>(&mut self, place: Place<'a>) -> Slot<'a>;
    /// Called before rows are requested, but only for a statement's topmost node. `all` says that the run starts with
    /// the first row and wants all rows.
    fn run(&mut self, all: bool);
    /// Called after a run, like [`run`](Self::run). `rows` is the number of rows that the statement has returned or
    /// changed in it.
    fn ran(&mut self, rows: u64);
    /// Called when rows may be sent to the client past the executor from now on, by this delivery. `None` ends that.
    fn deliver(&mut self, to: Option<Delivery>);
    fn rescan(&mut self);
    /// Called when no more rows are wanted, so that other processes may stop.
    fn shut_down(&mut self);
    fn end(&mut self, place: Place<'_>);
    fn explain(&self, place: Place<'_>, out: &Explain<'_>);
}

/// The state of a node as the executor holds it.
#[repr(C)]
struct State<N> {
    custom: pg_sys::CustomScanState,
    /// Null before `begin`, which is called before all other callbacks.
    node: *mut N,
}

/// PostgreSQL's tables of functions for one kind of node.
pub struct Methods<N> {
    scan: pg_sys::CustomScanMethods,
    executor: pg_sys::CustomExecMethods,
    node: PhantomData<fn() -> N>,
}

// SAFETY: the value is never written after the library is built, and its pointers point to constants.
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

    /// Registers the methods. To be called while the library is loaded.
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
/// `state` is a begun node of this kind, and nobody else borrows its value.
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
    // SAFETY: `execute` passes its begun node, and a node begins with its scan state.
    let (node, place) = unsafe { parts::<N>(scan.cast()) };
    node.next(place).pointer()
}

/// Would check a row again after a concurrent update. There is nothing to check, because queries that check rows again
/// run on the heap.
#[pg_guard]
unsafe extern "C-unwind" fn recheck(_scan: *mut pg_sys::ScanState, _slot: *mut pg_sys::TupleTableSlot) -> bool {
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn end<N: ScanNode>(state: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a begun node of ours.
    let (node, place) = unsafe { parts::<N>(state) };
    node.end(place);
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
    // SAFETY: called by EXPLAIN with a begun node of ours, and with its own output state.
    unsafe {
        let (node, place) = parts::<N>(state);
        node.explain(place, &Explain::new(out, (*state).ss.ps.plan, ancestors));
    }
}

/// Whether a node is of this kind.
///
/// # Safety
///
/// `state` is null, or a started node.
#[inline]
pub(super) unsafe fn is_of<N: ScanNode>(state: *const pg_sys::PlanState) -> bool {
    // SAFETY: the tag tells whether it is a custom scan; its methods tell whether it is ours.
    unsafe {
        !state.is_null()
            && (*state).type_ == pg_sys::NodeTag::T_CustomScanState
            && std::ptr::eq((*state.cast::<pg_sys::CustomScanState>()).methods, &raw const N::methods().executor)
    }
}

/// # Safety
///
/// `state` is a begun node of this kind, and nobody else borrows its value.
pub(super) unsafe fn value_of<'a, N: ScanNode>(state: *mut pg_sys::PlanState) -> &'a mut N {
    // SAFETY: by the caller's promise.
    unsafe { parts::<N>(state.cast()).0 }
}

impl Child {
    /// The last node of the chain, if it is of the kind `N`.
    pub fn last<N: ScanNode>(&self) -> Option<Below<N>> {
        let (last, ..) = self.chain().last()?;
        // SAFETY: the node was started.
        unsafe { is_of::<N>(last) }.then_some(Below(last.cast(), PhantomData))
    }
}

/// A node of the kind `N` somewhere below another node.
pub struct Below<N>(*mut pg_sys::CustomScanState, PhantomData<fn() -> N>);

impl<N: ScanNode> Below<N> {
    /// # Safety
    ///
    /// Nobody else borrows the node's value: the node is not running now.
    pub unsafe fn parts(&mut self) -> (&mut N, Place<'_>) {
        // SAFETY: a `Child` has started the node, and nobody else borrows its value, by the caller's promise.
        unsafe { parts(self.0) }
    }
}
