//! `anker.mirrored`, the list of mirrored tables: reading it, and taking out tables that were dropped.
//!
//! Nothing here waits for a lock while it holds a snapshot, and DROP waits for nothing at all. Readers of the list
//! skip the row of a table that does not exist any more.

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
    /// Tells the note from those to an earlier worker.
    pub token: u64,
    pub list: u32,
}

impl ListOrder {
    pub fn to_extra(&self) -> Extra {
        super::to_extra(self)
    }
}

/// The oid of `anker.mirrored`, if this database has the extension. In a transaction.
pub fn list_oid() -> Option<pg_sys::Oid> {
    own_table(TABLE)
}

/// The oid of `anker.mirrored_parents`; in the same way.
pub fn parents_oid() -> Option<pg_sys::Oid> {
    own_table(PARENTS)
}

fn own_table(name: &CStr) -> Option<pg_sys::Oid> {
    let (extension, schema) = (catalog::extension(EXTENSION)?, catalog::schema(SCHEMA)?);
    // A table of that name that is not ours is nobody's list.
    let ours = |list: &pg_sys::Oid| catalog::belongs_to(extension, pg_sys::RelationRelationId, *list);
    catalog::relation(schema, name).filter(ours)
}

/// Whether a list has a table that is there. In a transaction, without decoding. `None`: somebody has the list locked.
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

/// Whether a list has one of the tables, as it is just now: what others have committed counts, whatever the
/// transaction's snapshot sees. Leaves no lock behind. `None`: somebody has the list locked.
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

/// Removes the row of a table that is being dropped, if nobody is in the way. Never waits. Followers of the list see
/// that the table is gone.
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

/// Takes out what DROP has left: it found the list locked, or the row was written by a transaction that it did not see.
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

/// Visits the rows of the locked list that are visible now, all or those of one table, until told to stop.
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

/// The registered relations of the locked list, under the active snapshot.
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

/// A commit that changes the catalog, as far as decoding can tell. It makes decoding's picture of the catalog anew:
/// the one from when the slot was made may lack what was committed just then, and would be used until some DDL.
fn renew_catalog(list: pg_sys::Oid) {
    transaction::run(|| {
        transaction::number();
        relation::make_plans_anew(list);
    });
}

/// Reads the list and writes it into the stream, as a note to the worker that asked.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_list_reader_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let order: ListOrder = super::from_extra(&process::my_extra());
    let list = pg_sys::Oid::from(order.list);
    // A standby that is away keeps nobody from reading a list.
    transaction::never_wait_at_commit();
    renew_catalog(list);
    transaction::run(|| tidy(list));
    let mut told = false;
    let tell_once = |reason: &str| {
        if !std::mem::replace(&mut told, true) {
            log!("pg_anker: reading the list of mirrored tables: {reason}");
        }
    };
    // The lock comes before the snapshot.
    clean_snapshot::begin(|| relation::lock(list, Lock::Read), tell_once);
    let relids = snapshot::with_active(|| read(list));
    Note { token: order.token, content: Content::List { relids } }.write();
    transaction::commit();
}
