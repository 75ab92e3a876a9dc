//! Runs a second statement inside a running one, under its snapshot and with its parameters. The second statement runs
//! all at once, or row by row as a child of one of the running statement's nodes.

use std::ptr;

use pgrx::prelude::*;

use super::child::Child;
use super::compat::{self, Asking, Planner};
use super::memory::{Scratch, in_context};
use super::place::{Flags, Place};
use super::session::{self, Actor};
use super::symbols;
use super::tree::Node;

/// Receives a row's values and null flags, and returns whether another row is wanted.
pub type TakeRow<'a> = &'a mut dyn FnMut(&[pg_sys::Datum], &[bool]) -> bool;

/// A receiver of the executor's rows.
#[repr(C)]
struct Receiver<'a> {
    base: pg_sys::DestReceiver,
    take: TakeRow<'a>,
    /// The memory that is emptied after each row.
    scratch: Scratch,
}

impl<'a> Place<'a> {
    /// The number of rows that the planner expects from a plan.
    pub fn expected_rows(self, statement: Node<'a>) -> f64 {
        statement.cast::<pg_sys::PlannedStmt>().map_or(0.0, |plan| plan.planTree().plan_rows)
    }

    /// Holds a plan's relations open until the query ends, as if the query read them itself. So DDL of this session
    /// cannot change them before the end. Not to be called within a subtransaction.
    pub fn hold_relations(self, statement: Node<'a>) {
        let Some(plan) = statement.cast::<pg_sys::PlannedStmt>() else { return };
        plan.rtable().iter().filter(|entry| entry.rtekind == pg_sys::RTEKind::RTE_RELATION).for_each(|entry| {
            self.relation(entry.relid);
        });
    }

    /// Runs a plan to its end, or until `take` wants no more rows.
    ///
    /// # Safety
    ///
    /// The plan is finished, its locks are held, and its rows have as many columns as `take` reads.
    pub unsafe fn run(self, statement: Node<'a>, take: TakeRow<'_>) {
        let base = pg_sys::DestReceiver {
            receiveSlot: Some(receive),
            rStartup: Some(start),
            rShutdown: Some(nothing),
            rDestroy: Some(nothing),
            mydest: pg_sys::CommandDest::DestNone,
        };
        let scratch = Scratch::within_current(c"rows for the engine");
        let mut receiver = Receiver { base, take, scratch };
        let estate = self.estate();
        let (none, params, environment) = (ptr::null_mut(), estate.es_param_list_info, estate.es_queryEnv);
        // SAFETY: by the caller's promise; the receiver outlives the run. After an error, the subtransaction or
        // transaction frees everything.
        unsafe {
            let plan = statement.as_ptr();
            pg_sys::PushActiveSnapshot(estate.es_snapshot);
            let (source, to) = (estate.es_sourceText, (&raw mut receiver).cast());
            let query = pg_sys::CreateQueryDesc(plan, source, estate.es_snapshot, none, to, params, environment, 0);
            pg_sys::ExecutorStart(query, 0);
            compat::run_statement(query);
            pg_sys::ExecutorFinish(query);
            pg_sys::ExecutorEnd(query);
            pg_sys::FreeQueryDesc(query);
            pg_sys::PopActiveSnapshot();
            scratch.delete();
        }
    }
}

/// The planner, options and user for a query that is planned only when its first row is wanted.
#[derive(Clone, Copy)]
pub struct Unplanned {
    planner: Planner,
    /// The cursor options that the planner gets.
    options: i32,
    /// The user under whom the surrounding statement was started.
    actor: Actor,
}

impl Unplanned {
    pub fn new(planner: Planner, options: i32) -> Unplanned {
        Unplanned { planner, options, actor: session::actor() }
    }
}

impl Place<'_> {
    /// Plans a query and starts it. `may_be_parallel` says that all its rows will be requested, and that the node will
    /// be shut down after that.
    ///
    /// # Safety
    ///
    /// `query` was rewritten, and its relations are locked. No frame between here and the executor owns anything that
    /// must be dropped, because errors of the planner jump over these frames.
    pub unsafe fn start_query(self, query: Node<'_>, how: Unplanned, flags: Flags, may_be_parallel: bool) -> Child {
        let estate = self.estate();
        let (none, params, environment) = (ptr::null_mut(), estate.es_param_list_info, estate.es_queryEnv);
        // SAFETY: by the caller's promise. Everything that is made here lives in the memory of the surrounding query.
        unsafe {
            symbols::PushActiveSnapshot(estate.es_snapshot);
            let statement = in_context(estate.es_query_cxt, || {
                session::acting_as(how.actor, || {
                    // The planner changes its input, and a cached plan needs the query again, so the planner gets a
                    // copy.
                    let query = symbols::copyObjectImpl(query.as_ptr()).cast::<pg_sys::Query>();
                    // This query is a part of a larger query, which other extensions count, so it gets no query id.
                    // PostgreSQL has checked the permissions of the larger query, so this plan checks none.
                    (*query).queryId = 0;
                    let plan = (how.planner)(query, Asking::new(estate.es_sourceText, how.options, params));
                    compat::without_rights(plan);
                    let statement = symbols::CreateQueryDesc(
                        plan,
                        estate.es_sourceText,
                        estate.es_snapshot,
                        none,
                        ptr::null_mut(),
                        params,
                        environment,
                        estate.es_instrument,
                    );
                    symbols::ExecutorStart(statement, flags.bits());
                    if !flags.explain_only() {
                        compat::run_hooks_alone(&mut *statement);
                    }
                    if may_be_parallel && (*plan).parallelModeNeeded {
                        symbols::EnterParallelMode();
                        (*(*statement).estate).es_use_parallel_mode = true;
                    }
                    statement
                })
            });
            symbols::PopActiveSnapshot();
            self.show_no_plans();
            Child::of_statement(statement)
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, receiver: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: called by the executor with a row, and with the receiver that it was given.
    unsafe {
        let receiver = &mut *receiver.cast::<Receiver<'_>>();
        pg_sys::slot_getallattrs(slot);
        let columns = (*slot).tts_nvalid as usize;
        let (values, nulls) = match columns {
            0 => (&[][..], &[][..]),
            _ => (
                std::slice::from_raw_parts((*slot).tts_values, columns),
                std::slice::from_raw_parts((*slot).tts_isnull, columns),
            ),
        };
        receiver.scratch.with(|| (receiver.take)(values, nulls))
    }
}

unsafe extern "C-unwind" fn start(_: *mut pg_sys::DestReceiver, _: i32, _: pg_sys::TupleDesc) {}

unsafe extern "C-unwind" fn nothing(_: *mut pg_sys::DestReceiver) {}
