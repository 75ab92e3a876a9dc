//! Checks by this process whether the engine may be asked.

use pgrx::prelude::*;

use crate::layout;
use crate::pg::catalog::{function_name, relation_name};
use crate::pg::compat;
use crate::pg::place::Place;
use crate::pg::relation::Lock;
use crate::pg::session;
use crate::reason::{Reason, Why};
use crate::settings;
use crate::shared::{self, TableState};
use crate::spec::ScanSpec;

/// Checks whether the engine may be asked, and returns the fingerprints of the query's relations. The executor then
/// holds the relations open, as it does for a heap plan. So DDL of this session cannot change them until the query
/// ends.
pub fn check(spec: &ScanSpec, place: Place<'_>) -> Result<Vec<u64>, Reason> {
    check_transaction(place)?;
    // If a permission is missing, the query runs on the heap, because the heap's plan then raises the usual error.
    let forbidden = spec.functions.iter().map(|oid| pg_sys::Oid::from(*oid)).find(|oid| !compat::may_execute(*oid));
    if let Some(function) = forbidden {
        return Err(Why::Privilege.of(format!("function {} may not be executed", function_name(function))));
    }
    let database = session::database();
    spec.plan.tables().map(|table| check_relation(database, pg_sys::Oid::from(table.relid), place)).collect()
}

/// Makes the checks that do not depend on the tables.
fn check_transaction(place: Place<'_>) -> Result<(), Reason> {
    if session::in_recovery() {
        return Err(Why::Recovery.of("server is in recovery"));
    }
    if session::in_parallel_mode() {
        return Err(Why::Parallel.of("query runs within a parallel query"));
    }
    if place.rechecks_rows() {
        return Err(Why::Recheck.of("rows are being checked again after a concurrent update"));
    }
    if settings::query_limits().user_queries == Some(0) {
        return Err(Why::Busy.of("the engine may run no query of this user (anker.max_user_queries = 0)"));
    }
    if session::must_be_serialized() {
        return Err(Why::Serializable.of("isolation level is serializable"));
    }
    Ok(())
}

/// Checks one table and returns its fingerprint.
fn check_relation(database: pg_sys::Oid, relid: pg_sys::Oid, place: Place<'_>) -> Result<u64, Reason> {
    let Some(entry) = shared::table(database, relid) else {
        return Err(shared::why_not_mirrored(database, relid));
    };
    if entry.state != TableState::Live {
        return Err(shared::why_not_live(database, relid, &entry));
    }
    let Some(relation) = place.relation(relid) else {
        let text = format!("table \"{}\" does not stand in the query's range table", relation_name(relid));
        return Err(Why::PlanShape.of(text));
    };
    if relation.is_locked_by_me(Lock::Write) {
        let text = format!("this transaction may have written to table \"{}\"", relation_name(relid));
        return Err(Why::Written.of(text));
    }
    Ok(layout::fingerprint(&relation))
}
