//! Reads `anker.mirrored`, the list of mirrored tables, and removes the rows of tables that were dropped.
//!
//! No function here waits for a lock while it holds a snapshot, and DROP never waits at all. Because DROP may leave a
//! row behind, readers of the list skip rows of tables that no longer exist.

use std::ffi::CStr;

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::clean_snapshot;
use crate::layout::EXTENSION;
use crate::note::{Content, Note};
use crate::pg::descriptor::Tuple;
use crate::pg::process::{self, Extra};
use crate::pg::relation::{self, Lock, OpenRelation};
use crate::pg::rows::{self, Rows};
use crate::pg::{catalog, snapshot, transaction};

const SCHEMA: &CStr = c"anker";
const TABLE: &CStr = c"mirrored";
const PARENTS: &CStr = c"mirrored_parents";
const ANCHOR: &CStr = c"anchor";

/// The arguments of the worker that reads the list.
#[derive(Serialize, Deserialize)]
pub struct ListOrder {
    /// Distinguishes the note that the reader writes from notes for an earlier capture worker.
    pub token: u64,
    pub list: u32,
}

impl ListOrder {
    pub fn to_extra(&self) -> Extra {
        super::to_extra(self)
    }
}

/// The oid of `anker.mirrored`, if this database has the extension. Needs a transaction.
pub fn list_oid() -> Option<pg_sys::Oid> {
    own_table(TABLE)
}

/// The oid of `anker.mirrored_parents`. Needs a transaction.
pub fn parents_oid() -> Option<pg_sys::Oid> {
    own_table(PARENTS)
}

/// The oid of `anker.anchor`. Needs a transaction.
pub fn anchor_oid() -> Option<pg_sys::Oid> {
    own_table(ANCHOR)
}

fn own_table(name: &CStr) -> Option<pg_sys::Oid> {
    let (extension, schema) = (catalog::extension(EXTENSION)?, catalog::schema(SCHEMA)?);
    // A table with this name that does not belong to the extension is not the list.
    let ours = |list: &pg_sys::Oid| catalog::belongs_to(extension, pg_sys::RelationRelationId, *list);
    catalog::relation(schema, name).filter(ours)
}

/// Whether a list contains a table that exists; `None` if another process has the list locked. Needs a transaction, and
/// must not be called during decoding.
pub fn has_tables(list: pg_sys::Oid) -> Option<bool> {
    if !relation::try_lock(list, Lock::Read) {
        return None;
    }
    let mut any = false;
    visit(list, None, |_, _, relid| {
        any |= exists(relid);
        !any
    });
    relation::unlock(list, Lock::Read);
    Some(any)
}

/// Whether a list contains one of the tables now, even if this transaction's snapshot does not see the commit that
/// added it. Keeps no lock. `None` if another process has the list locked.
pub fn has_any_of(list: pg_sys::Oid, tables: &[pg_sys::Oid]) -> Option<bool> {
    if !relation::try_lock(list, Lock::Read) {
        return None;
    }
    let mut any = false;
    for &table in tables {
        visit(list, Some(table), |_, _, _| {
            any = true;
            false
        });
    }
    relation::unlock(list, Lock::Read);
    Some(any)
}

/// Removes the row of a table that is being dropped. Never waits: if another process has the list locked, the row
/// stays, and readers of the list skip it.
pub fn remove_from_list(relid: pg_sys::Oid) {
    for list in [TABLE, PARENTS].into_iter().filter_map(own_table).filter(|&list| list != relid) {
        if has_any_of(list, &[relid]) == Some(true) && relation::try_lock(list, Lock::Write) {
            visit(list, Some(relid), |relation, row, _| {
                rows::delete(relation, row);
                true
            });
        }
    }
}

/// Removes the rows that DROP has left. DROP leaves a row if it finds the list locked, or does not see the transaction
/// that wrote the row.
fn tidy(list: pg_sys::Oid) {
    if relation::try_lock(list, Lock::Write) {
        visit(list, None, |relation, row, relid| {
            if !exists(relid) {
                rows::delete(relation, row);
            }
            true
        });
    }
}

/// Visits the visible rows of the locked list, or only those of `table`, until `visit` returns false.
fn visit(
    list: pg_sys::Oid,
    table: Option<pg_sys::Oid>,
    mut visit: impl FnMut(&OpenRelation, Tuple<'_>, pg_sys::Oid) -> bool,
) {
    if let Some(relation) = OpenRelation::try_locked(list) {
        rows::visit_latest(&relation, table, |row| row.first_oid().is_none_or(|relid| visit(&relation, row, relid)));
    }
}

fn exists(relid: pg_sys::Oid) -> bool {
    catalog::class(relid, |_| ()).is_some()
}

/// The relations in the locked list that the active snapshot sees.
fn read(list: pg_sys::Oid) -> Vec<u32> {
    let mut relids = Vec::new();
    if let Some(relation) = OpenRelation::try_locked(list) {
        let mut rows = Rows::active(&relation);
        while let Some(row) = rows.next() {
            relids.extend(row.first_oid().map(|relid| relid.to_u32()));
        }
    }
    relids
}

/// Makes a commit that decoding takes for a change of the catalog, so that decoding reads the catalog again. The
/// catalog snapshot from the slot's creation may lack commits of that moment, and decoding would use it until the next
/// DDL.
fn renew_catalog(list: pg_sys::Oid) {
    transaction::run(|| {
        transaction::number();
        relation::make_plans_anew(list);
    });
}

/// The main function of the worker that reads the list. It writes the list into the stream, as a note to the capture
/// worker that asked for it.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_list_reader_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let order: ListOrder = super::from_extra(&process::my_extra());
    let list = pg_sys::Oid::from(order.list);
    // The commit must not wait for a synchronous standby, because without the list no table would be followed.
    transaction::never_wait_at_commit();
    renew_catalog(list);
    transaction::run(|| tidy(list));
    let mut told = false;
    let tell_once = |reason: &str| {
        if !std::mem::replace(&mut told, true) {
            log!("pg_anker: reading the list of mirrored tables: {reason}");
        }
    };
    // The lock is taken before the snapshot, so that the snapshot sees everything committed before the lock.
    clean_snapshot::begin(|| relation::lock(list, Lock::Read), tell_once);
    let relids = snapshot::with_active(|| read(list));
    Note { token: order.token, content: Content::List { relids } }.write();
    transaction::commit();
}
