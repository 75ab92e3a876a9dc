//! `anker.mirrored`, the list of mirrored tables: reading it, and taking out tables that were dropped.
//!
//! Nobody waits here for a lock while he holds a snapshot, and DROP waits for nothing at all: a row of a table that is
//! no more is passed over by all who read the list.

use std::ffi::CStr;
use std::ptr;

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::clean_snapshot;
use crate::note::{Content, Note};
use crate::pg::catalog;
use crate::pg::process::{self, Extra};
use crate::pg::relation::OpenRelation;

const EXTENSION: &CStr = c"pg_anker";
const SCHEMA: &CStr = c"anker";
const TABLE: &CStr = c"mirrored";

const READ_LOCK: i32 = pg_sys::AccessShareLock as i32;
const WRITE_LOCK: i32 = pg_sys::RowExclusiveLock as i32;

/// What a reader of the list is started with.
#[derive(Serialize, Deserialize)]
pub struct ListOrder {
    pub worker: u64,
    pub list: u32,
}

impl ListOrder {
    pub fn to_extra(&self) -> Extra {
        super::to_extra(self)
    }
}

/// The oid of `anker.mirrored`, if this database has the extension. In a transaction.
pub fn list_oid() -> Option<pg_sys::Oid> {
    let (extension, schema) = (catalog::extension(EXTENSION)?, catalog::schema(SCHEMA)?);
    // A table of that name that is not ours is nobody's list.
    let ours = |list: &pg_sys::Oid| catalog::belongs_to(extension, pg_sys::RelationRelationId, *list);
    catalog::relation(schema, TABLE).filter(ours)
}

/// Whether a list has a table that is there. In a transaction, without decoding. `None`: somebody has the list locked.
pub fn has_tables(list: pg_sys::Oid) -> Option<bool> {
    // SAFETY: in a transaction, whose end would give the lock back too.
    unsafe {
        if !pg_sys::ConditionalLockRelationOid(list, READ_LOCK) {
            return None;
        }
        let mut any = false;
        scan(list, ptr::null_mut(), |_, row| {
            any |= exists(row.relid);
            !any
        });
        pg_sys::UnlockRelationOid(list, READ_LOCK);
        Some(any)
    }
}

/// A table is being dropped: its row goes too, if nobody is in the way. Never waits.
pub fn remove_from_list(relid: pg_sys::Oid) {
    let Some(list) = list_oid().filter(|&list| list != relid) else {
        return;
    };
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: in a transaction, which keeps the lock; the list's first column is a regclass.
    unsafe {
        if pg_sys::ConditionalLockRelationOid(list, WRITE_LOCK) {
            let equal = pg_sys::BTEqualStrategyNumber as u16;
            pg_sys::ScanKeyInit(&mut key, 1, equal, pg_sys::F_OIDEQ.into(), relid.into());
            scan(list, &mut key, |relation, row| {
                delete(relation, row);
                true
            });
        }
    }
}

/// Takes out what DROP has left: it found the list locked, or the row was written by a transaction that it did not see.
fn tidy(list: pg_sys::Oid) {
    // SAFETY: in a transaction, which keeps the lock.
    unsafe {
        if pg_sys::ConditionalLockRelationOid(list, WRITE_LOCK) {
            scan(list, ptr::null_mut(), |relation, row| {
                if !exists(row.relid) {
                    delete(relation, row);
                }
                true
            });
        }
    }
}

struct Row {
    relid: pg_sys::Oid,
    place: pg_sys::ItemPointerData,
}

/// Visits the rows that are visible now, all or those of one table, until told to stop.
///
/// # Safety
///
/// In a transaction that holds a lock on the list; `key` is null or compares the first column.
unsafe fn scan(list: pg_sys::Oid, key: pg_sys::ScanKey, mut visit: impl FnMut(&OpenRelation, Row) -> bool) {
    // SAFETY: by the caller's promise; relation, snapshot and scan are closed again, or by the transaction's end.
    unsafe {
        let Some(relation) = OpenRelation::try_locked(list) else {
            return;
        };
        let index = pg_sys::RelationGetReplicaIndex(relation.as_ptr());
        let by_index = index != pg_sys::InvalidOid && !key.is_null();
        let keys = !key.is_null() as i32;
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let scan = pg_sys::systable_beginscan(relation.as_ptr(), index, by_index, snapshot, keys, key);
        while let Some(tuple) = pg_sys::systable_getnext(scan).as_mut() {
            let mut null = false;
            let relid = pg_sys::heap_getattr(tuple, 1, relation.descriptor(), &mut null);
            let row = Row { relid: pg_sys::Oid::from(relid.value() as u32), place: tuple.t_self };
            if !null && !visit(&relation, row) {
                break;
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
    }
}

/// Deletes a row of the list, unless somebody else is about to.
///
/// # Safety
///
/// The list is open and locked, and the row visible.
unsafe fn delete(list: &OpenRelation, mut row: Row) {
    let mut failure = pg_sys::TM_FailureData::default();
    // SAFETY: by the caller's promise. There is no trigger to fire: whoever follows the list sees that the table is gone.
    unsafe {
        let command = pg_sys::GetCurrentCommandId(true);
        pg_sys::heap_delete(list.as_ptr(), &mut row.place, command, ptr::null_mut(), false, &mut failure, false);
    }
}

fn exists(relid: pg_sys::Oid) -> bool {
    catalog::class(relid, |_| ()).is_some()
}

/// The registered relations, under the active snapshot.
unsafe fn read(list: pg_sys::Oid) -> Vec<u32> {
    let mut relids = Vec::new();
    // SAFETY: the list's first column is a regclass; relation and scan are closed again. The caller holds a lock.
    unsafe {
        let Some(relation) = OpenRelation::try_locked(list) else {
            return relids;
        };
        let scan = pg_sys::table_beginscan(relation.as_ptr(), pg_sys::GetActiveSnapshot(), 0, ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let mut null = false;
            let relid = pg_sys::heap_getattr(tuple, 1, relation.descriptor(), &mut null);
            if !null {
                relids.push(relid.value() as u32);
            }
        }
        pg_sys::table_endscan(scan);
    }
    relids
}

/// Reads the list and writes it into the stream, as a note to the worker that asked.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_registry_reader_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let order: ListOrder = super::from_extra(&process::my_extra());
    let list = pg_sys::Oid::from(order.list);
    process::in_transaction(|| tidy(list));
    let mut told = false;
    let tell_once = |reason: &str| {
        if !std::mem::replace(&mut told, true) {
            log!("pg_anker: reading the list of mirrored tables: {reason}");
        }
    };
    // SAFETY: in the transaction that `begin` opens, before its snapshot is taken.
    clean_snapshot::begin(|| unsafe { pg_sys::LockRelationOid(list, READ_LOCK) }, tell_once);
    // SAFETY: the snapshot is active, and the list locked.
    let relids = unsafe { read(list) };
    Note { worker: order.worker, content: Content::Registry { relids } }.write();
    // SAFETY: the transaction that `begin` opened.
    unsafe {
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
    }
}
