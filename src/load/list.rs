//! `anker.mirrored`, the list of mirrored tables: reading it, and removing tables that were dropped.
//!
//! Nothing here waits for a lock while it holds a snapshot, and DROP never waits at all. Readers of the list skip the
//! rows of tables that no longer exist.

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

/// The arguments of a reader of the list.
#[derive(Serialize, Deserialize)]
pub struct ListOrder {
    /// Distinguishes the note from notes to an earlier worker.
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

fn own_table(name: &CStr) -> Option<pg_sys::Oid> {
    let (extension, schema) = (catalog::extension(EXTENSION)?, catalog::schema(SCHEMA)?);
    // A table with this name that does not belong to the extension is not the list.
    let ours = |list: &pg_sys::Oid| catalog::belongs_to(extension, pg_sys::RelationRelationId, *list);
    catalog::relation(schema, name).filter(ours)
}

/// Whether a list contains a table that exists. Needs a transaction, outside of decoding. `None` if another process has
/// the list locked.
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

/// Whether a list contains one of the tables now. Commits of other transactions count, even if this transaction's
/// snapshot does not see them. Leaves no lock behind. `None` if another process has the list locked.
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

/// Removes the row of a table that is being dropped, unless another process is in the way. Never waits. Readers of the
/// list notice themselves that the table is gone.
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

/// Removes rows that DROP has left: it found the list locked, or did not see the transaction that had written the row.
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

/// Visits the visible rows of the locked list, or only those of one table, until `visit` says to stop.
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

/// The relations in the locked list, under the active snapshot.
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

/// Makes a commit that decoding takes for a change of the catalog, so that decoding reads the catalog anew. Its picture
/// from the slot's creation may lack the commits of that moment, and would be used until the next DDL.
fn renew_catalog(list: pg_sys::Oid) {
    transaction::run(|| {
        transaction::number();
        relation::make_plans_anew(list);
    });
}

/// Reads the list, and writes it into the stream as a note to the worker that asked for it.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_list_reader_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let order: ListOrder = super::from_extra(&process::my_extra());
    let list = pg_sys::Oid::from(order.list);
    // An absent standby must not keep anybody from reading the list.
    transaction::never_wait_at_commit();
    renew_catalog(list);
    transaction::run(|| tidy(list));
    let mut told = false;
    let tell_once = |reason: &str| {
        if !std::mem::replace(&mut told, true) {
            log!("pg_anker: reading the list of mirrored tables: {reason}");
        }
    };
    // The lock is taken before the snapshot.
    clean_snapshot::begin(|| relation::lock(list, Lock::Read), tell_once);
    let relids = snapshot::with_active(|| read(list));
    Note { token: order.token, content: Content::List { relids } }.write();
    transaction::commit();
}
