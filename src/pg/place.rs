//! A scan node's place in its query: gives access to the planner's message to the node, its expressions and its slot.
//!
//! Everything that a node gets from its [`Place`] belongs to that query, and must not be used in another query.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;
use protocol::Snapshot;

use super::memory::in_context;
use super::relation::{self, Lock, OpenRelation};
use super::tree::{List, Node, Ref};
use super::{compat, snapshot};

/// The flags that the executor is started with.
#[derive(Clone, Copy)]
pub struct Flags(i32);

impl Flags {
    pub(super) fn new(bits: i32) -> Flags {
        Flags(bits)
    }

    /// Whether the query is only explained, not run.
    pub fn explain_only(self) -> bool {
        self.has(pg_sys::EXEC_FLAG_EXPLAIN_ONLY)
    }

    /// Whether rows that were returned may be requested again, from the first one on.
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

/// The surroundings of a scan node: its plan and its query.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    state: *mut pg_sys::CustomScanState,
    query: PhantomData<&'a ()>,
}

/// A row that a node returns. An empty slot or a null pointer means that there are no more rows.
pub struct Slot<'a>(*mut pg_sys::TupleTableSlot, PhantomData<&'a ()>);

impl<'a> Slot<'a> {
    /// # Safety
    ///
    /// `pointer` is null, or a slot of a query that does not end during `'a`.
    pub(super) unsafe fn new(pointer: *mut pg_sys::TupleTableSlot) -> Slot<'a> {
        Slot(pointer, PhantomData)
    }

    pub(super) fn pointer(self) -> *mut pg_sys::TupleTableSlot {
        self.0
    }
}

/// An expression of the plan, ready to be evaluated.
pub struct Expression(*mut pg_sys::ExprState);

impl<'a> Place<'a> {
    /// # Safety
    ///
    /// `state` is a custom scan in a query that the executor has started, and that does not end during `'a`.
    pub(super) unsafe fn new(state: *mut pg_sys::CustomScanState) -> Place<'a> {
        Place { state, query: PhantomData }
    }

    pub(super) fn state(self) -> *mut pg_sys::CustomScanState {
        self.state
    }

    pub(super) fn scan(&self) -> &pg_sys::ScanState {
        // SAFETY: by the promise of `new`; fields are read before anything else happens.
        unsafe { &(*self.state).ss }
    }

    pub(super) fn estate(&self) -> &pg_sys::EState {
        // SAFETY: by the promise of `new`; fields are read before anything else happens.
        unsafe { &*self.scan().ps.state }
    }

    fn plan(self) -> Ref<'a, pg_sys::CustomScan> {
        // SAFETY: the plan of a custom scan, which stays as it is while the query runs.
        unsafe { Ref::new(self.scan().ps.plan.cast()) }
    }

    /// The range table of the query: the relations and other sources of rows that it reads.
    fn range_table(self) -> List<'a, pg_sys::RangeTblEntry> {
        // SAFETY: the range table does not change while the query runs.
        unsafe { List::new(self.estate().es_range_table) }
    }

    /// The planner's message to the node (`custom_private`).
    pub fn private(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.plan().custom_private().iter()
    }

    /// The plans below the node.
    pub(super) fn plans(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.plan().custom_plans().iter()
    }

    pub fn plan_count(self) -> usize {
        self.plans().len()
    }

    /// The expressions that the node evaluates itself.
    pub fn expressions(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.plan().custom_exprs().iter()
    }

    /// The query's snapshot; `None` if [`snapshot::from_pg`] cannot describe it.
    pub fn snapshot(self) -> Option<Snapshot> {
        // SAFETY: the snapshot of a running query.
        unsafe { snapshot::from_pg(self.estate().es_snapshot) }
    }

    /// The id that PostgreSQL has computed for the statement; 0 if it has computed none.
    pub fn query_id(self) -> i64 {
        // SAFETY: the statement of a running query.
        compat::query_id(unsafe { &*self.estate().es_plannedstmt })
    }

    /// Whether the executor measures the query, as for EXPLAIN ANALYZE.
    pub fn is_instrumented(self) -> bool {
        self.estate().es_instrument != 0
    }

    /// Whether the query is reading rows again after a concurrent update (EvalPlanQual).
    pub fn rechecks_rows(self) -> bool {
        !self.estate().es_epq_active.is_null()
    }

    /// Opens a relation of the query. The executor opens it only once, and closes it when the query ends, even after an
    /// error.
    pub fn relation(self, relid: pg_sys::Oid) -> Option<ManuallyDrop<OpenRelation>> {
        let is_it = |e: Ref<'_, pg_sys::RangeTblEntry>| e.rtekind == pg_sys::RTEKind::RTE_RELATION && e.relid == relid;
        let position = self.range_table().iter().position(is_it)?;
        // SAFETY: a relation of the query, whose locks are held.
        unsafe {
            let relation = compat::range_table_relation(self.scan().ps.state, position as pg_sys::Index + 1);
            Some(OpenRelation::borrowed(relation))
        }
    }

    /// Whether the transaction may have written to a relation of the query, or to one of its partitions or children.
    pub fn may_have_written(self) -> bool {
        let is_locked = |relid| OpenRelation::try_locked(relid).is_some_and(|open| open.is_locked_by_me(Lock::Write));
        self.range_table().iter().any(|entry| match entry.rtekind == pg_sys::RTEKind::RTE_RELATION {
            true if entry.inh => relation::family(entry.relid, Lock::None).into_iter().any(is_locked),
            true => is_locked(entry.relid),
            false => false,
        })
    }

    /// Holds all relations of the query open until it ends, as a plan that reads them would. So DDL of this session
    /// cannot change them before the end.
    pub fn hold_all_relations(self) {
        let is_held = |entry: &Ref<'_, pg_sys::RangeTblEntry>| {
            entry.rtekind == pg_sys::RTEKind::RTE_RELATION && entry.relkind as u8 != pg_sys::RELKIND_VIEW
        };
        for (number, _) in (1..).zip(self.range_table()).filter(|(_, entry)| is_held(entry)) {
            // SAFETY: as for `relation`.
            unsafe { compat::range_table_relation(self.scan().ps.state, number) };
        }
    }

    pub fn prepare(self) -> Vec<Expression> {
        // SAFETY: an expression of this node's plan.
        let init = |expr: Node<'_>| unsafe { pg_sys::ExecInitExpr(expr.as_ptr(), self.state.cast()) };
        self.expressions().map(|expr| Expression(init(expr))).collect()
    }

    /// The value of an expression of this node. A value that is passed by reference is valid until the node's next row.
    pub fn value(self, expression: &Expression) -> Result<Option<pg_sys::Datum>, String> {
        let context = self.scan().ps.ps_ExprContext;
        let mut is_null = false;
        // SAFETY: `prepare` has made the expression. It belongs to this node, as the assertion checks, and is evaluated
        // in this node's context.
        let datum = unsafe {
            assert!((*expression.0).parent == self.state.cast(), "an expression of this node");
            let function = (*expression.0).evalfunc.ok_or("parameter without a function")?;
            in_context((*context).ecxt_per_tuple_memory, || {
                pg_guard_ffi_boundary(|| function(expression.0, context, &mut is_null))
            })
        };
        Ok((!is_null).then_some(datum))
    }

    /// Stores a row in the node's own slot. `fill` writes the values and the null flags, and returns false if there is
    /// no row.
    ///
    /// # Safety
    ///
    /// The values have the types of the node's columns, and stay valid until the next row.
    #[inline]
    pub unsafe fn store(self, fill: impl FnOnce(&mut [pg_sys::Datum], &mut [bool]) -> bool) -> Slot<'a> {
        // SAFETY: the slot is virtual, and has room for as many values as columns; a row is stored by setting its
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

    /// Adds rows to the executor's count that were sent past the executor.
    pub(super) fn count_rows(self, rows: u64) {
        // SAFETY: the state of a running query.
        unsafe { (*self.scan().ps.state).es_processed += rows };
    }

    /// The rows that the statement has returned or changed in the executor's runs, which have ended; before PostgreSQL
    /// 16 in the last of them.
    pub fn rows_processed(self) -> u64 {
        compat::rows_processed(self.estate())
    }

    /// Whether the node returns the rows of its slot unchanged, without further conditions or a projection.
    pub fn is_bare(self) -> bool {
        let state = &self.scan().ps;
        state.qual.is_null() && state.ps_ProjInfo.is_null()
    }

    /// The descriptor of the node's rows, and the memory that lives as long as the query.
    pub(super) fn rows_and_memory(self) -> (pg_sys::TupleDesc, pg_sys::MemoryContext) {
        (self.scan().ps.scandesc, self.estate().es_query_cxt)
    }
}
