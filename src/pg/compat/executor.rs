//! Running statements.

use pgrx::prelude::*;

use crate::pg::hooks;
use crate::pg::plain::unguarded;

unguarded! {
    fn ExecutorRun(
        query: *mut pg_sys::QueryDesc,
        direction: pg_sys::ScanDirection::Type,
        count: u64,
        #[cfg(not(feature = "since_18"))] once: bool,
    );
    fn standard_ExecutorRun(
        query: *mut pg_sys::QueryDesc,
        direction: pg_sys::ScanDirection::Type,
        count: u64,
        #[cfg(not(feature = "since_18"))] once: bool,
    );
}

/// Code around each run of the executor.
pub trait AroundRun {
    /// Calls `run`, which runs the query. An error of the server jumps over this function and `run`, so neither may own
    /// anything.
    ///
    /// # Safety
    ///
    /// The query was started, and may be run with these arguments.
    unsafe fn around(
        query: *mut pg_sys::QueryDesc,
        direction: pg_sys::ScanDirection::Type,
        count: u64,
        run: impl FnOnce(),
    );
}

static mut PREVIOUS: pg_sys::ExecutorRun_hook_type = None;

/// Installs the hook for each run of the executor. To be called once, while the library is preloaded.
pub fn run_around<A: AroundRun>() {
    hooks::install!(ExecutorRun_hook, PREVIOUS, run::<A>);
}

/// The executor's hook, which every query of the server calls.
unsafe extern "C-unwind" fn run<A: AroundRun>(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
    #[cfg(not(feature = "since_18"))] once: bool,
) {
    // SAFETY: called by the executor with a started query; the next function gets the same arguments.
    unsafe {
        let next = PREVIOUS.unwrap_or(standard_ExecutorRun);
        A::around(query, direction, count, || {
            next(
                query,
                direction,
                count,
                #[cfg(not(feature = "since_18"))]
                once,
            )
        });
    }
}

/// Runs a started statement from its beginning, until its receiver wants no more rows.
///
/// # Safety
///
/// The executor has started the statement, and has not run it yet.
pub unsafe fn run_statement(statement: *mut pg_sys::QueryDesc) {
    let forward = pg_sys::ScanDirection::ForwardScanDirection;
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_18"))]
        pg_sys::ExecutorRun(statement, forward, 0, true);
        #[cfg(feature = "since_18")]
        pg_sys::ExecutorRun(statement, forward, 0);
    }
}

/// Calls the `ExecutorRun` hooks for a statement whose nodes are asked for rows directly. Some libraries prepare their
/// nodes in these hooks. The executor itself runs nothing here.
///
/// # Safety
///
/// The statement was started and may be run. No caller up to the executor owns anything that must be dropped, because
/// an error of a hook jumps over them.
pub unsafe fn run_hooks_alone(statement: &mut pg_sys::QueryDesc) {
    // SAFETY: the statement was started, by the caller's promise. The new receiver is a constant of the server that
    // discards rows.
    unsafe {
        statement.dest = pg_sys::CreateDestReceiver(pg_sys::CommandDest::DestNone);
        ExecutorRun(
            statement,
            pg_sys::ScanDirection::NoMovementScanDirection,
            0,
            #[cfg(not(feature = "since_18"))]
            false,
        );
    }
}

/// The rows that a statement has returned or changed in all runs of the executor. Before PostgreSQL 16 only the last
/// run is known.
pub fn rows_processed(state: &pg_sys::EState) -> u64 {
    #[cfg(not(feature = "since_16"))]
    return state.es_processed;
    #[cfg(feature = "since_16")]
    return state.es_total_processed;
}

/// The id that PostgreSQL has computed for a statement; 0 if it has computed none. It is unsigned in some versions.
pub fn query_id(statement: &pg_sys::PlannedStmt) -> i64 {
    i64::from_ne_bytes(statement.queryId.to_ne_bytes())
}

/// Opens the relation with this number (from 1) in the range table of a running statement. The executor holds it open
/// until the statement ends.
///
/// # Safety
///
/// `estate` belongs to a running statement, and the entry with this number is a relation.
pub unsafe fn range_table_relation(estate: *mut pg_sys::EState, number: pg_sys::Index) -> pg_sys::Relation {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_18"))]
        return pg_sys::ExecGetRangeTableRelation(estate, number);
        // `false`: the relation is not the target of a change.
        #[cfg(feature = "since_18")]
        return pg_sys::ExecGetRangeTableRelation(estate, number, false);
    }
}

/// Marks the entry `number` (from 1) as always read, even if pruning at the start of the statement would remove it.
///
/// # Safety
///
/// The statement is finished, and the caller owns it.
pub unsafe fn is_always_read(statement: &mut pg_sys::PlannedStmt, number: usize) {
    #[cfg(not(feature = "since_18"))]
    let _ = (statement, number);
    // SAFETY: the caller owns the statement, and the set is a part of it.
    #[cfg(feature = "since_18")]
    unsafe {
        statement.unprunableRelids = pg_sys::bms_add_member(statement.unprunableRelids, number as i32);
    }
}
