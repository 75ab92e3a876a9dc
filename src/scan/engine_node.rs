//! "Anker Engine": the scan of the engine's result.
//!
//! It is started and primed by the chooser above it. Usually rows go from the batch that came last straight into the
//! slot. Where the whole result must be there before the first row is handed out (a node above reads ahead, the engine
//! may yet fail, or the scan may be rewound) it is kept: as batches, or in a tuple store beyond `work_mem`.

use std::panic::{AssertUnwindSafe, UnwindSafe};

use arrow_array::RecordBatch;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::prelude::*;
use plan::Literal;
use protocol::request::{Failure, FailureKind};

use super::batch::Batch;
use super::request::{self, Conversation, Trouble};
use super::{Methods, explain};
use crate::pg::memory::{in_context, own};
use crate::pg::symbols;
use crate::pg::tree::Tree;
use crate::pg::value;
use crate::spec::{ENGINE, ScanSpec};

/// What the executor sees.
#[repr(C)]
pub struct EngineNode {
    custom: pg_sys::CustomScanState,
    /// Owned by a callback of the query's memory context: errors do not run the end of a node.
    scan: *mut EngineScan,
}

pub struct EngineScan {
    pub spec: ScanSpec,
    params: Vec<*mut pg_sys::ExprState>,
    context: pg_sys::MemoryContext,
    pub conversation: Option<Conversation>,
    batch: Batch,
    /// The whole result, if it had to be fetched ahead.
    kept: Option<Kept>,
    rewindable: bool,
    handed_out: bool,
    pub rows: u64,
}

enum Kept {
    Batches { batches: Vec<RecordBatch>, next: usize },
    Tuples { store: *mut pg_sys::Tuplestorestate, slot: *mut pg_sys::TupleTableSlot },
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
        let init =
            |expr: crate::pg::tree::Node<'_>| pg_sys::ExecInitExpr(expr.as_ptr(), (&raw mut (*node).ss.ps).cast());
        let params = tree.list((*plan).custom_exprs).map(init).collect();
        let scan = Box::new(EngineScan {
            spec,
            params,
            context: (*estate).es_query_cxt,
            conversation: None,
            batch: Batch::default(),
            kept: None,
            rewindable: eflags & pg_sys::EXEC_FLAG_REWIND as i32 != 0,
            handed_out: false,
            rows: 0,
        });
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
        unsafe { request::check(&self.scan().spec.plan, estate) }.map(drop)
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
            let given = |expr: crate::pg::tree::Node<'_>| expr.tag() == pg_sys::NodeTag::T_Param;
            let scan = self.scan();
            // First, so that nothing is evaluated in vain.
            let fingerprints = request::check(&scan.spec.plan, estate)?;
            let evaluate_all = || {
                let params = scan.params.iter().zip(&scan.spec.plan.params);
                params.map(|(state, ty)| evaluate(*state, context, *ty)).collect::<Result<Vec<_>, _>>()
            };
            let values = match Tree::new().list((*plan).custom_exprs).all(given) {
                true => evaluate_all()?,
                false => in_subtransaction(AssertUnwindSafe(evaluate_all))?,
            };
            scan.conversation = Some(Conversation::begin(&scan.spec.plan, values, fingerprints, estate)?);
        }
        Ok(())
    }

    /// Waits for the engine: for its first rows, or for all of them. Afterwards it cannot refuse any more.
    ///
    /// # Safety
    ///
    /// The node was begun in this running query.
    pub unsafe fn prime(&mut self, whole: bool) -> Result<(), Trouble> {
        // SAFETY: begun, so that the scan slot is there.
        let descriptor = unsafe { (*self.custom.ss.ss_ScanTupleSlot).tts_tupleDescriptor };
        let scan = self.scan();
        let conversation = scan.conversation.as_mut().ok_or_else(|| "engine was not asked".to_string())?;
        conversation.await_ready()?;
        if !(whole || scan.rewindable || scan.must_be_complete()) {
            scan.next_batch()?;
            return Ok(());
        }
        // SAFETY: the query's context and the slot's descriptor are alive.
        unsafe { scan.fetch_all(descriptor) }
    }

    /// Lets go of the engine; what it still computes is cancelled.
    pub fn release(&mut self) {
        let scan = self.scan();
        if let Some(conversation) = &mut scan.conversation {
            conversation.hang_up();
        }
        scan.batch = Batch::default();
    }
}

/// Does what PostgreSQL might not have come to do: an error in it is a reason for the heap, which raises it if need be.
///
/// # Safety
///
/// In a transaction that is not in parallel mode.
unsafe fn in_subtransaction<T>(work: impl FnOnce() -> Result<T, String> + UnwindSafe) -> Result<T, String> {
    // SAFETY: by the caller's promise; what a subtransaction replaces is put back after it, however it ends.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = PgTryBuilder::new(|| {
            let result = work();
            pg_sys::ReleaseCurrentSubTransaction();
            result
        })
        .catch_when(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, |error| error.rethrow())
        .catch_others(|error| {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            match error {
                CaughtError::PostgresError(error) | CaughtError::ErrorReport(error) => {
                    Err(format!("a value in it raises: {}", error.message()))
                }
                panic => panic.rethrow(),
            }
        })
        .execute();
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
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
        if is_null { Ok(None) } else { value::literal(datum, ty).map(Some) }
    }
}

impl EngineScan {
    /// Whether the engine may yet fail on a value when its first rows are there.
    fn must_be_complete(&self) -> bool {
        self.spec.can_raise && self.spec.plan.grouping.is_none()
    }

    /// The next batch that has rows, from the engine.
    fn receive(&mut self) -> Result<Option<RecordBatch>, Trouble> {
        let Some(conversation) = self.conversation.as_mut().filter(|c| c.done.is_none()) else {
            return Ok(None);
        };
        while let Some(batch) = conversation.next_batch()? {
            pgrx::check_for_interrupts!();
            if batch.num_rows() > 0 {
                self.rows += batch.num_rows() as u64;
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Makes the next batch the current one; false at the end.
    fn next_batch(&mut self) -> Result<bool, Trouble> {
        let batch = match &mut self.kept {
            Some(Kept::Batches { batches, next }) => {
                *next += 1;
                // Cheap: the columns are shared.
                batches.get(*next - 1).cloned()
            }
            _ => self.receive()?,
        };
        let Some(batch) = batch else {
            return Ok(false);
        };
        self.batch.load(&batch, &self.spec.columns)?;
        Ok(true)
    }

    /// # Safety
    ///
    /// `descriptor` is that of the scan's rows.
    unsafe fn fetch_all(&mut self, descriptor: pg_sys::TupleDesc) -> Result<(), Trouble> {
        // SAFETY: a plain setting.
        let limit = unsafe { pg_sys::work_mem } as usize * 1024;
        let mut batches = Vec::new();
        while let Some(batch) = self.receive()? {
            batches.push(batch);
            if self.conversation.as_ref().is_some_and(|c| c.received > limit) {
                // SAFETY: by the caller's promise.
                return unsafe { self.store_all(batches, descriptor) };
            }
        }
        self.kept = Some(Kept::Batches { batches, next: 0 });
        Ok(())
    }

    /// Moves what came and what will come to a tuple store.
    ///
    /// # Safety
    ///
    /// `descriptor` is that of the scan's rows.
    unsafe fn store_all(&mut self, came: Vec<RecordBatch>, descriptor: pg_sys::TupleDesc) -> Result<(), Trouble> {
        let columns = self.spec.columns.len();
        let mut values = vec![pg_sys::Datum::null(); columns];
        let mut nulls = vec![false; columns];
        // SAFETY: the query's context is alive; the store ends with it or with the node.
        let (store, slot) = unsafe {
            in_context(self.context, || {
                let store = pg_sys::tuplestore_begin_heap(true, false, pg_sys::work_mem);
                (store, pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple))
            })
        };
        let mut came = came.into_iter();
        loop {
            let batch = match came.next() {
                Some(batch) => batch,
                None => match self.receive()? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            self.batch.load(&batch, &self.spec.columns)?;
            // SAFETY: as many values as the descriptor has columns.
            unsafe {
                while self.batch.next_row(values.as_mut_ptr(), nulls.as_mut_ptr()) {
                    pg_sys::tuplestore_putvalues(store, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
                }
            }
        }
        self.kept = Some(Kept::Tuples { store, slot });
        Ok(())
    }

    /// Puts the next row into the slot; false at the end. From the first row on trouble is an error.
    #[inline]
    unsafe fn next_row(&mut self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: the slot is the scan's own, virtual, with room for its columns.
        unsafe {
            if let Some(Kept::Tuples { store, slot: stored }) = self.kept {
                if !pg_sys::tuplestore_gettupleslot(store, true, false, stored) {
                    return false;
                }
                let columns = self.spec.columns.len();
                pg_sys::slot_getsomeattrs_int(stored, columns as i32);
                std::ptr::copy_nonoverlapping((*stored).tts_values, (*slot).tts_values, columns);
                std::ptr::copy_nonoverlapping((*stored).tts_isnull, (*slot).tts_isnull, columns);
                return true;
            }
            loop {
                if self.batch.next_row((*slot).tts_values, (*slot).tts_isnull) {
                    return true;
                }
                match self.next_batch() {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(trouble) => raise(trouble),
                }
            }
        }
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
        scan.handed_out = true;
        if scan.next_row(slot) {
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
    unsafe {
        let node = &mut *node.cast::<EngineNode>();
        node.release();
        if let Some(Kept::Tuples { store, slot }) = node.scan().kept.take() {
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::tuplestore_end(store);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor with a node of ours.
    unsafe {
        pg_sys::ExecScanReScan(&raw mut (*node).ss);
        let scan = (*node.cast::<EngineNode>()).scan();
        match &mut scan.kept {
            Some(Kept::Tuples { store, .. }) => pg_sys::tuplestore_rescan(*store),
            Some(Kept::Batches { next, .. }) => {
                *next = 0;
                scan.batch = Batch::default();
            }
            None if scan.handed_out => error!("pg_anker: a result that was not kept cannot be read again"),
            None => {}
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

/// Raises what went wrong in the engine as PostgreSQL would have.
pub fn raise(trouble: Trouble) -> ! {
    let (code, message) = match &trouble {
        Trouble::Reason(reason) => {
            (PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("columnar engine: {reason}"))
        }
        Trouble::Failure(failure) => describe(failure),
    };
    ErrorReport::new(code, message, "raise").report(PgLogLevel::ERROR);
    unreachable!("ERROR does not return")
}

fn describe(failure: &Failure) -> (PgSqlErrorCode, String) {
    use PgSqlErrorCode::*;
    let (code, message) = match failure.kind {
        FailureKind::DivisionByZero => (ERRCODE_DIVISION_BY_ZERO, "division by zero"),
        FailureKind::SmallintOutOfRange => (ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "smallint out of range"),
        FailureKind::IntegerOutOfRange => (ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"),
        FailureKind::BigintOutOfRange => (ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"),
        FailureKind::FloatOverflow => (ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"),
        FailureKind::FloatUnderflow => (ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"),
        FailureKind::DateOutOfRange => (ERRCODE_DATETIME_FIELD_OVERFLOW, "date out of range"),
        FailureKind::TimestampOutOfRange => (ERRCODE_DATETIME_FIELD_OVERFLOW, "timestamp out of range"),
        FailureKind::DecimalTooWide => {
            return (
                ERRCODE_FEATURE_NOT_SUPPORTED,
                "columnar engine: a numeric result has more than 38 digits".to_string(),
            );
        }
        FailureKind::OutOfMemory => return (ERRCODE_OUT_OF_MEMORY, format!("columnar engine: {}", failure.message)),
        FailureKind::Internal => return (ERRCODE_INTERNAL_ERROR, format!("columnar engine: {}", failure.message)),
    };
    (code, message.to_string())
}
