//! Custom scan nodes: the executor's callbacks and structures on one side, a Rust value of ours on the other.
//!
//! The value is made when the executor starts, and is owned by the query's memory context: errors do not run the end
//! of a node. Everything that it gets from its [`Place`] belongs to the same query, and is useless elsewhere.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;
use protocol::Snapshot;

use super::delivery::Delivery;
use super::explain::Explain;
use super::memory::{in_context, own};
use super::relation::{self, Lock, OpenRelation};
use super::tree::{Node, Tree};
use super::{compat, make, snapshot, symbols};

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
        let node = N::begin(place, Flags(flags));
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
        node.next(place).0
    }
}

/// Returns the next row to ExecScan.
#[pg_guard]
unsafe extern "C-unwind" fn access<N: ScanNode>(scan: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the begun node of `execute`, which begins with its scan.
    let (node, place) = unsafe { parts::<N>(scan.cast()) };
    node.next(place).0
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

// -- what a node has to do with --------------------------------------------------------------------------------------

/// How the executor is started.
#[derive(Clone, Copy)]
pub struct Flags(i32);

impl Flags {
    /// Nothing will be run.
    pub fn explain_only(self) -> bool {
        self.has(pg_sys::EXEC_FLAG_EXPLAIN_ONLY)
    }

    /// Rows may be wanted again.
    pub fn rewind(self) -> bool {
        self.has(pg_sys::EXEC_FLAG_REWIND)
    }

    fn has(self, flag: u32) -> bool {
        self.0 & flag as i32 != 0
    }

    pub(super) fn bits(self) -> i32 {
        self.0
    }
}

/// A node's surroundings: its plan and its query.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    state: *mut pg_sys::CustomScanState,
    query: PhantomData<&'a ()>,
}

/// A row on its way up; empty, or none, at the end.
pub struct Slot<'a>(*mut pg_sys::TupleTableSlot, PhantomData<&'a ()>);

/// An expression of the plan, to be evaluated.
pub struct Expression(*mut pg_sys::ExprState);

impl<'a> Place<'a> {
    /// # Safety
    ///
    /// A custom scan's state in a query whose executor has been started, and is not ended during `'a`.
    unsafe fn new(state: *mut pg_sys::CustomScanState) -> Place<'a> {
        Place { state, query: PhantomData }
    }

    fn scan(&self) -> &pg_sys::ScanState {
        // SAFETY: by the promise of `new`; fields are read before anything else happens.
        unsafe { &(*self.state).ss }
    }

    pub(super) fn estate(&self) -> &pg_sys::EState {
        // SAFETY: as above.
        unsafe { &*self.scan().ps.state }
    }

    fn plan(self) -> &'a pg_sys::CustomScan {
        self.tree().required(self.scan().ps.plan).cast().expect("the plan of a custom scan")
    }

    /// The planner's message to the node.
    pub fn private(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.tree().list(self.plan().custom_private)
    }

    /// The plans below it.
    fn plans(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.tree().list(self.plan().custom_plans)
    }

    pub fn plan_count(self) -> usize {
        self.plans().len()
    }

    /// The expressions that it evaluates itself.
    pub fn expressions(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.tree().list(self.plan().custom_exprs)
    }

    fn tree(self) -> Tree<'a> {
        // SAFETY: used for plans of the query alone.
        unsafe { Tree::new() }
    }

    /// The query's snapshot; `None` if it is none that [`snapshot::from_pg`] can describe.
    pub fn snapshot(self) -> Option<Snapshot> {
        // SAFETY: the snapshot of a running query.
        unsafe { snapshot::from_pg(self.estate().es_snapshot) }
    }

    /// Whether the query is run to see how it is run, by EXPLAIN ANALYZE say.
    pub fn is_instrumented(self) -> bool {
        self.estate().es_instrument != 0
    }

    /// Whether rows are being checked again after a concurrent update.
    pub fn rechecks_rows(self) -> bool {
        !self.estate().es_epq_active.is_null()
    }

    /// A relation of the query, which the executor opens once and closes when it ends, by an error too.
    pub fn relation(self, relid: pg_sys::Oid) -> Option<ManuallyDrop<OpenRelation>> {
        let is_it = |e: &pg_sys::RangeTblEntry| e.rtekind == pg_sys::RTEKind::RTE_RELATION && e.relid == relid;
        // SAFETY: the range table stays as it is while the query runs, and its locks are held.
        unsafe {
            let position = Tree::new().list_of(self.estate().es_range_table).position(is_it)?;
            let relation = compat::range_table_relation(self.scan().ps.state, position as pg_sys::Index + 1);
            Some(OpenRelation::borrowed(relation))
        }
    }

    /// Whether the transaction may have written to a relation of the query, or to a part of one.
    pub fn may_have_written(self) -> bool {
        let is_locked = |relid| OpenRelation::try_locked(relid).is_some_and(|open| open.is_locked_by_me(Lock::Write));
        // SAFETY: as for `relation`.
        let mut entries = unsafe { Tree::new().list_of::<pg_sys::RangeTblEntry>(self.estate().es_range_table) };
        entries.any(|entry| match entry.rtekind == pg_sys::RTEKind::RTE_RELATION {
            true if entry.inh => relation::family(entry.relid, Lock::None).into_iter().any(is_locked),
            true => is_locked(entry.relid),
            false => false,
        })
    }

    /// Holds all relations of the query open until it ends, as a plan that reads them would: no DDL of this session
    /// changes them before.
    pub fn hold_all_relations(self) {
        let is_held = |entry: &pg_sys::RangeTblEntry| {
            entry.rtekind == pg_sys::RTEKind::RTE_RELATION && entry.relkind as u8 != pg_sys::RELKIND_VIEW
        };
        // SAFETY: as for `relation`.
        unsafe {
            let entries = Tree::new().list_of(self.estate().es_range_table);
            for (number, _) in (1..).zip(entries).filter(|(_, entry)| is_held(entry)) {
                compat::range_table_relation(self.scan().ps.state, number);
            }
        }
    }

    pub fn prepare(self) -> Vec<Expression> {
        // SAFETY: an expression of this node's plan.
        let init = |expr: Node<'_>| unsafe { pg_sys::ExecInitExpr(expr.as_ptr(), self.state.cast()) };
        self.expressions().map(|expr| Expression(init(expr))).collect()
    }

    /// The value of an expression of this node. A value that is passed by reference lives until the node's next row.
    pub fn value(self, expression: &Expression) -> Result<Option<pg_sys::Datum>, String> {
        let context = self.scan().ps.ps_ExprContext;
        let mut is_null = false;
        // SAFETY: made by `prepare`, of this node as it says, and evaluated with the context of the node.
        let datum = unsafe {
            assert!((*expression.0).parent == self.state.cast(), "an expression of this node");
            let function = (*expression.0).evalfunc.ok_or("parameter without a function")?;
            in_context((*context).ecxt_per_tuple_memory, || {
                pg_guard_ffi_boundary(|| function(expression.0, context, &mut is_null))
            })
        };
        Ok((!is_null).then_some(datum))
    }

    /// Puts a row into the node's own slot: `fill` writes its values, and which of them are null, or says that there is
    /// none.
    ///
    /// # Safety
    ///
    /// The values are of the types of the node's columns, and stay where they are until the next row.
    #[inline]
    pub unsafe fn store(self, fill: impl FnOnce(&mut [pg_sys::Datum], &mut [bool]) -> bool) -> Slot<'a> {
        // SAFETY: the slot is virtual, with room for as many values as it has columns; to store a row is to set its
        // fields.
        unsafe {
            let slot = (*self.state).ss.ss_ScanTupleSlot;
            if (*slot).tts_flags & (pg_sys::TTS_FLAG_SHOULDFREE as u16) != 0 {
                pg_sys::ExecClearTuple(slot);
            }
            let columns = (*(*slot).tts_tupleDescriptor).natts as usize;
            let values = std::slice::from_raw_parts_mut((*slot).tts_values, columns);
            let nulls = std::slice::from_raw_parts_mut((*slot).tts_isnull, columns);
            if fill(values, nulls) {
                (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
                (*slot).tts_nvalid = columns as i16;
            } else {
                pg_sys::ExecClearTuple(slot);
            }
            Slot(slot, PhantomData)
        }
    }

    /// Counts rows that the executor has not seen.
    pub(super) fn count_rows(self, rows: u64) {
        // SAFETY: the state of a running query.
        unsafe { (*self.scan().ps.state).es_processed += rows };
    }

    /// Whether its rows are those in its slot, without further conditions or projection.
    pub fn is_bare(self) -> bool {
        let state = &self.scan().ps;
        state.qual.is_null() && state.ps_ProjInfo.is_null()
    }

    /// The descriptor of its rows, and the memory that lives as long as the query.
    pub(super) fn rows_and_memory(self) -> (pg_sys::TupleDesc, pg_sys::MemoryContext) {
        (self.scan().ps.scandesc, self.estate().es_query_cxt)
    }
}

// -- nodes below -----------------------------------------------------------------------------------------------------

/// A node below ours.
pub struct Child {
    state: *mut pg_sys::PlanState,
    /// The statement that this is the top of, if it has one of its own; otherwise null.
    statement: *mut pg_sys::QueryDesc,
    /// Takes columns that only the child's own nodes need out of its rows; null if there are none.
    junk_filter: *mut pg_sys::JunkFilter,
}

impl<'a> Place<'a> {
    /// Starts one of the plans below, which EXPLAIN then shows instead of others.
    pub fn start(self, number: usize, flags: Flags) -> Child {
        let plan: *mut pg_sys::Plan = self.plans().nth(number).expect("a plan of this number").as_ptr();
        let estate = self.scan().ps.state;
        // SAFETY: a plan of this query, whose locks are held and permissions checked.
        unsafe {
            in_context(self.estate().es_query_cxt, || {
                let state = pg_sys::ExecInitNode(plan, estate, flags.0);
                (*self.state).custom_ps = make::list([state]);
                Child { state, statement: ptr::null_mut(), junk_filter: ptr::null_mut() }
            })
        }
    }

    /// EXPLAIN shows none of the plans below.
    pub(super) fn show_no_plans(self) {
        // SAFETY: by the promise of `new`.
        unsafe { (*self.state).custom_ps = ptr::null_mut() };
    }

    /// Sets what the executor compiles in plans that are started later, in the form of a statement's `jitFlags`.
    pub fn compile_from_now_on(self, flags: i32) {
        // SAFETY: the state of a running query.
        unsafe { (*self.scan().ps.state).es_jit_flags = flags };
    }

    /// Takes what only the child needs out of its rows from now on.
    pub fn without_junk(self, child: &mut Child) {
        let estate = self.scan().ps.state;
        // SAFETY: a started node of this query, which has its plan.
        unsafe {
            let targets = (*(*child.state).plan).targetlist;
            if !self.tree().list_of::<pg_sys::TargetEntry>(targets).any(|entry| entry.resjunk) {
                return;
            }
            child.junk_filter = in_context(self.estate().es_query_cxt, || {
                let slot = pg_sys::ExecInitExtraTupleSlot(estate, ptr::null_mut(), &raw const pg_sys::TTSOpsVirtual);
                pg_sys::ExecInitJunkFilter(targets, slot)
            });
        }
    }
}

impl Child {
    /// # Safety
    ///
    /// A started statement, within the query of the node that gets it below.
    pub(super) unsafe fn of_statement(statement: *mut pg_sys::QueryDesc) -> Child {
        // SAFETY: by the caller's promise.
        Child { state: unsafe { (*statement).planstate }, statement, junk_filter: ptr::null_mut() }
    }

    /// The statement that it is the top of, if it is a statement of its own.
    pub(super) fn statement(&self) -> Option<*mut pg_sys::QueryDesc> {
        (!self.statement.is_null()).then_some(self.statement)
    }

    /// The node and those below it on the left: each with its kind and the node below it.
    fn chain(&self) -> impl Iterator<Item = (*mut pg_sys::PlanState, pg_sys::NodeTag, *mut pg_sys::PlanState)> {
        let look = |state: *mut pg_sys::PlanState| {
            // SAFETY: null, or a started node.
            (!state.is_null()).then(|| unsafe { (state, (*state).type_, (*state).lefttree) })
        };
        std::iter::successors(look(self.state), move |&(_, _, below)| look(below))
    }

    /// Its next row. Not through pgrx's wrapper, which costs more than the call.
    ///
    /// # Safety
    ///
    /// The callers up to the executor own nothing that would have to be dropped: an error jumps over them.
    #[inline]
    pub unsafe fn next<'a>(&self, _place: Place<'a>) -> Slot<'a> {
        // SAFETY: a started node; the filter is for its rows.
        unsafe {
            if !(*self.state).chgParam.is_null() {
                pg_sys::ExecReScan(self.state);
            }
            let slot = (*self.state).ExecProcNode.expect("a started node")(self.state);
            let filtered = !self.junk_filter.is_null()
                && !slot.is_null()
                && (*slot).tts_flags & (pg_sys::TTS_FLAG_EMPTY as u16) == 0;
            Slot(if filtered { pg_sys::ExecFilterJunk(self.junk_filter, slot) } else { slot }, PhantomData)
        }
    }

    pub fn rescan(&self) {
        // SAFETY: a started node.
        unsafe { pg_sys::ExecReScan(self.state) };
    }

    /// No more rows are wanted. The executor sees to that for plans of its own statement.
    pub fn shut_down(&self) {
        if let Some(statement) = self.statement() {
            // SAFETY: a started statement. It has entered the mode for itself, in the same run of the one around it.
            unsafe {
                pg_sys::ExecShutdownNode(self.state);
                if std::mem::take(&mut (*(*statement).estate).es_use_parallel_mode) {
                    pg_sys::ExitParallelMode();
                }
            }
        }
    }

    pub fn end(self) {
        // SAFETY: a started node or statement, ended once.
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

    /// The kinds of the nodes above the last one of the chain.
    pub fn kinds_above_last(&self) -> impl Iterator<Item = pg_sys::NodeTag> {
        self.chain().take_while(|(_, _, below)| !below.is_null()).map(|(_, kind, _)| kind)
    }

    /// Whether its rows are those of a node without any below, as they are.
    pub fn is_last(&self) -> bool {
        self.junk_filter.is_null() && self.chain().count() == 1
    }

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
