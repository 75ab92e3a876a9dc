//! What stands against asking the engine, as far as this process knows.

use std::mem::ManuallyDrop;

use pgrx::prelude::*;

use crate::layout;
use crate::pg::compat;
use crate::pg::relation::{OpenRelation, relation_name};
use crate::pg::tree::Tree;
use crate::pg::wal;
use crate::shared::{self, DatabaseState, TableState};

/// The relations' fingerprints if nothing does. From here on the executor holds the relations open, as a heap plan would:
/// no DDL of this session changes them until it ends.
///
/// # Safety
///
/// `estate` is that of a query whose relations, those of the plan, are locked.
pub unsafe fn check(plan: &plan::Plan, estate: *mut pg_sys::EState) -> Result<Vec<u64>, String> {
    // SAFETY: by the caller's promise; a plain variable of this process.
    unsafe {
        check_transaction(estate)?;
        let database = pg_sys::MyDatabaseId;
        let relations = plan.relations.iter();
        relations.map(|relation| check_relation(database, pg_sys::Oid::from(relation.relid), estate)).collect()
    }
}

/// What stands against it whatever the tables.
unsafe fn check_transaction(estate: *mut pg_sys::EState) -> Result<(), String> {
    const SERIALIZABLE: i32 = pg_sys::XACT_SERIALIZABLE as i32;
    // SAFETY: plain variables of this process; the estate is alive by the caller's promise.
    unsafe {
        if pg_sys::RecoveryInProgress() {
            return Err("server is in recovery".into());
        }
        if pg_sys::IsInParallelMode() {
            return Err("query runs within a parallel query".into());
        }
        if !(*estate).es_epq_active.is_null() {
            return Err("rows are being checked again after a concurrent update".into());
        }
        if pg_sys::XactIsoLevel == SERIALIZABLE && !(pg_sys::XactReadOnly && pg_sys::XactDeferrable) {
            return Err("isolation level is serializable".into());
        }
    }
    Ok(())
}

/// Why shared memory has no entry of a table.
fn not_mirrored(database: pg_sys::Oid, relid: pg_sys::Oid) -> String {
    let name = relation_name(relid);
    match shared::database(database) {
        _ if !wal::is_logical() => format!("table \"{name}\" is not mirrored: {}", wal::NOT_LOGICAL),
        Some(d) if !matches!(d.state, DatabaseState::Idle | DatabaseState::Running) => {
            let why = if d.reason.as_str().is_empty() { d.state.name() } else { d.reason.as_str() };
            format!("table \"{name}\" is not mirrored as yet; the mirror of this database: {why}")
        }
        _ => format!("table \"{name}\" is not mirrored"),
    }
}

/// What stands against asking for a table; its fingerprint if nothing does.
unsafe fn check_relation(
    database: pg_sys::Oid,
    relid: pg_sys::Oid,
    estate: *mut pg_sys::EState,
) -> Result<u64, String> {
    let Some(entry) = shared::table(database, relid) else {
        return Err(not_mirrored(database, relid));
    };
    if entry.state != TableState::Live {
        let (name, state, why) = (relation_name(relid), entry.state.name(), entry.reason.as_str());
        return Err(match why {
            "" => format!("mirror of table \"{name}\" is {state}"),
            why => format!("mirror of table \"{name}\" is {state}: {why}"),
        });
    }
    // SAFETY: locked by the caller's promise, and open until the executor ends.
    let Some(relation) = (unsafe { held_open(relid, estate) }) else {
        return Err(format!("table \"{}\" does not stand in the query's range table", relation_name(relid)));
    };
    if relation.has_row_security() {
        return Err(format!("table \"{}\" has row-level security", relation_name(relid)));
    }
    if relation.is_locked_by_me(pg_sys::RowExclusiveLock) {
        return Err(format!("this transaction may have written to table \"{}\"", relation_name(relid)));
    }
    Ok(layout::fingerprint(&relation))
}

/// A relation of the query, which the executor opens once and closes when it ends, by an error too.
unsafe fn held_open(relid: pg_sys::Oid, estate: *mut pg_sys::EState) -> Option<ManuallyDrop<OpenRelation>> {
    // SAFETY: the estate's range table is that of the running statement, whose locks are held.
    unsafe {
        let mut entries = Tree::new().list_of::<pg_sys::RangeTblEntry>((*estate).es_range_table);
        let position = entries.position(|e| e.rtekind == pg_sys::RTEKind::RTE_RELATION && e.relid == relid)?;
        Some(OpenRelation::borrowed(compat::range_table_relation(estate, position as pg_sys::Index + 1)))
    }
}
