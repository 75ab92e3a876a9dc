//! Tables that consist of other tables. A partitioned table, or a table from which others inherit, is mirrored by
//! mirroring all its parts.
//!
//! `anker.mirrored` lists the parts, and each is followed like any other table. `anker.mirrored_parents` lists the
//! whole tables, so that parts added later are mirrored, too. A table that becomes a part by CREATE TABLE, ATTACH
//! PARTITION or INHERIT is listed in the same transaction, if either list has one of its parents. So the first child of
//! a mirrored table is listed, too. A part that is detached stays in the list.
//!
//! A call of `anker.mirror` and a statement that makes a new part exclude each other. They use a lock of our own on
//! each parent, which lasts until the transaction ends. So the second of the two sees what the first one has committed.
//! Locks on the tables themselves would also exclude VACUUM.

use pgrx::prelude::*;

use super::mirror::{as_owner_of_list, list, run};
use crate::layout;
use crate::load;
use crate::pg::catalog::{self, relation_name};
use crate::pg::relation::{self, Lock, OpenRelation, Within, has_children};
use crate::pg::tree::{Node, Ref};
use crate::pg::utility::{self, Watcher};
use crate::pg::{session, transaction};
use crate::shared;

static OF_PARTS: Watcher = Watcher { concerns: makes_parts, before: None, behind: Some(follow_new_parts) };

pub fn install() {
    utility::watch(&OF_PARTS);
}

/// The tables that hold a relation's rows; `None` if the relation has neither partitions nor children.
pub fn parts(whole: pg_sys::Oid, lock: Lock) -> Option<Vec<pg_sys::Oid>> {
    let is_partitioned = |class: &pg_sys::FormData_pg_class| class.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE;
    let has_parts = catalog::class(whole, is_partitioned) == Some(true) || has_children(whole);
    has_parts.then(|| relation::family(whole, lock))
}

/// The parts of a relation, like [`parts`], but locked. Until the transaction ends, a statement that adds a part waits.
/// It then sees the list entries of this transaction.
pub fn settled_parts(whole: pg_sys::Oid) -> Option<Vec<pg_sys::Oid>> {
    // Other processes' locks on the parts are waited for first, because new parts wait for the lock on the whole.
    parts(whole, Lock::Read);
    if let Some(parents) = load::parents_oid() {
        relation::lock_within(parents, whole, Within::Alone);
    }
    parts(whole, Lock::Read)
}

/// Adds a relation to `anker.mirrored_parents`, so that parts that are added later are mirrored, too. Returns whether
/// the entry is new.
pub fn remember(whole: pg_sys::Oid) -> bool {
    if is_in(load::parents_oid(), whole) {
        return false;
    }
    let insert = "INSERT INTO anker.mirrored_parents (relation) VALUES ($1) ON CONFLICT DO NOTHING";
    as_owner_of_list(|| run(insert, whole)) > 0
}

pub fn forget(whole: pg_sys::Oid) -> bool {
    let delete = "DELETE FROM anker.mirrored_parents WHERE relation OPERATOR(pg_catalog.=) $1";
    as_owner_of_list(|| run(delete, whole)) > 0
}

fn makes_parts(statement: Node<'_>) -> bool {
    if let Some(create) = statement.cast::<pg_sys::CreateStmt>() {
        !create.inhRelations.is_null()
    } else if let Some(alter) = statement.cast::<pg_sys::AlterTableStmt>() {
        alter.cmds().iter().any(|command| added(alter, command).is_some())
    } else {
        false
    }
}

/// The partition that a command attaches, or the altered table, if the command makes that table a child.
fn added<'a>(
    alter: Ref<'a, pg_sys::AlterTableStmt>,
    command: Ref<'a, pg_sys::AlterTableCmd>,
) -> Option<Ref<'a, pg_sys::RangeVar>> {
    match command.subtype {
        pg_sys::AlterTableType::AT_AttachPartition => command.def()?.cast::<pg_sys::PartitionCmd>()?.name(),
        pg_sys::AlterTableType::AT_AddInherit => Some(alter.relation()),
        _ => None,
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn follow_new_parts(statement: *mut pg_sys::Node) {
    // SAFETY: the statement has run, and nobody changes its tree now.
    let statement = unsafe { Node::new(statement) };
    let mut names = Vec::new();
    if let Some(create) = statement.cast::<pg_sys::CreateStmt>() {
        names.push(create.relation());
    } else if let Some(alter) = statement.cast::<pg_sys::AlterTableStmt>() {
        names.extend(alter.cmds().iter().filter_map(|command| added(alter, command)));
    }
    if !session::in_transaction() {
        return;
    }
    // The extension's tables may belong to an older version, which has no list of parents.
    let (Some(parents), Some(list)) = (load::parents_oid(), list()) else { return };
    transaction::see_own_changes();
    for relid in names.into_iter().filter_map(relation::named) {
        let above = relation::ancestors(relid);
        above.iter().for_each(|whole| relation::lock_within(parents, *whole, Within::Together));
        if is_any_in(parents, &above) || is_any_in(list, &above) {
            mirror_part(relid);
        }
    }
}

/// Whether one of these tables is in a list. If another process has the list locked, waits for the lock only if shared
/// memory shows mirrored parts of the tables.
fn is_any_in(list: pg_sys::Oid, wholes: &[pg_sys::Oid]) -> bool {
    load::has_any_of(list, wholes).unwrap_or_else(|| {
        if !has_mirrored_parts(wholes) {
            return false;
        }
        relation::lock(list, Lock::Read);
        load::has_any_of(list, wholes).unwrap_or(true)
    })
}

/// Whether parts of one of these tables are mirrored, according to shared memory.
fn has_mirrored_parts(wholes: &[pg_sys::Oid]) -> bool {
    let is_mirrored = |part: pg_sys::Oid| shared::table(session::database(), part).is_some();
    wholes.iter().any(|&whole| relation::family(whole, Lock::None).into_iter().any(is_mirrored))
}

/// Lists a table that has become a part of a mirrored table, together with the parts of the listed table.
fn mirror_part(new: pg_sys::Oid) {
    for relid in relation::family(new, Lock::Read) {
        let described = layout::describe_new(&OpenRelation::locked(relid));
        match described {
            Ok(_) => _ = list_part(relid),
            Err(reason) => warning!("table \"{}\" is not mirrored: {}", relation_name(relid), reason.message),
        }
    }
}

/// Adds a table to the list. Returns whether it was not there before.
pub fn list_part(relid: pg_sys::Oid) -> bool {
    if is_in(list(), relid) {
        return false;
    }
    let insert = "INSERT INTO anker.mirrored (relation) VALUES ($1) ON CONFLICT DO NOTHING";
    let is_new = as_owner_of_list(|| run(insert, relid)) > 0;
    if is_new {
        // The table may have been in the list before, and may have been removed from it while no worker was running. No
        // worker has then forgotten the table's crashes.
        load::forget_crashes(session::database(), relid);
        // A cached plan from before the mirror would be kept: it knows no mirror that it could wait for.
        relation::make_plans_anew(relid);
    }
    is_new
}

/// Whether a list has a row for the relation. It is checked before INSERT, which would raise an error if a row exists
/// that this transaction's snapshot does not see.
fn is_in(list: Option<pg_sys::Oid>, relid: pg_sys::Oid) -> bool {
    list.is_some_and(|list| load::has_any_of(list, &[relid]) == Some(true))
}

/// Removes a table from the list. Returns whether it was there.
pub fn unlist_part(relid: pg_sys::Oid) -> bool {
    let delete = "DELETE FROM anker.mirrored WHERE relation OPERATOR(pg_catalog.=) $1";
    as_owner_of_list(|| run(delete, relid)) > 0
}
