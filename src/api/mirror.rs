//! `anker.mirror`, `anker.unmirror`, `anker.wait_for_mirror`: the choice of mirrored tables.
//!
//! The rows of the table `anker.mirrored` say which tables are mirrored. Capture workers see its changes in the change
//! stream, as those of any other table. These functions write the rows. They also report early and clearly if something
//! cannot work, and wake the processes that must act.

use std::time::{Duration, Instant};

use pgrx::datum::Interval;
use pgrx::prelude::*;
use pgrx::spi::Spi;
use pgrx::{AllocatedByPostgres, PgXactCallbackEvent};

use super::{partitions, require_library};
use crate::layout::{self, NotMirrorable};
use crate::load;
use crate::pg::catalog::{self, relation_name};
use crate::pg::compat;
use crate::pg::decoding;
use crate::pg::error::Error;
use crate::pg::planning::{self, Place};
use crate::pg::process;
use crate::pg::relation::{Lock, OpenRelation};
use crate::pg::session;
use crate::pg::wait::WaitFor;
use crate::pg::wal;
use crate::shared::{self, DatabaseState, TableState};

const POLL_MS: i64 = 10;

#[pg_extern]
fn mirror(relation: pg_sys::Oid) {
    check_server();
    let whole = OpenRelation::lock(relation);
    check_owner(relation);
    match enlist(&whole) {
        Ok(new) if new.is_empty() => notice!("table \"{}\" is already mirrored", relation_name(relation)),
        Ok(_) => {}
        Err(NotMirrorable { message, hint }) => {
            report(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, &message, hint)
        }
    }
}

#[pg_extern]
fn unmirror(relation: pg_sys::Oid) {
    check_owner(relation);
    if !strike_out(relation) {
        notice!("table \"{}\" is not mirrored", relation_name(relation));
    }
}

/// Adds a locked table, or all its parts, to the list of mirrored tables. Returns the relations that are new in the
/// lists. The lock lasts until the transaction ends, so that the table cannot change between these checks and the
/// commit.
pub fn enlist(whole: &OpenRelation) -> Result<Vec<pg_sys::Oid>, NotMirrorable> {
    let relation = whole.oid();
    let parts = partitions::settled_parts(relation);
    let has_parts = parts.is_some();
    let listed = parts.unwrap_or_else(|| vec![relation]);
    listed.iter().try_for_each(|part| check_part(whole, *part))?;
    let mut new = Vec::new();
    if has_parts && partitions::remember(relation) {
        new.push(relation);
    }
    new.extend(listed.into_iter().filter(|part| partitions::list_part(*part)));
    Ok(new)
}

/// Removes a table and its parts from the list of mirrored tables. Returns whether any of them was there.
pub fn strike_out(relation: pg_sys::Oid) -> bool {
    let parts = partitions::parts(relation, Lock::None);
    // The relation may still be listed as a parent although it has lost all its children.
    let mut was_listed = partitions::forget(relation);
    for part in parts.unwrap_or_else(|| vec![relation]) {
        was_listed |= partitions::unlist_part(part);
    }
    was_listed
}

/// The trigger on `anker.mirrored`. So every writer of the table, even pg_restore, wakes the processes that must act.
///
/// A running worker finds the change in its stream. If there is no worker, the launcher has to start one.
#[pg_trigger]
fn mirrored_changed<'a>(
    _trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, std::convert::Infallible> {
    // Without the library, there is no process to wake. The list is read once the server is started with the library.
    if !shared::is_there() {
        return Ok(None);
    }
    let database = session::database();
    pgrx::register_xact_callback(PgXactCallbackEvent::Commit, move || {
        shared::want(database);
        shared::wake_worker(database);
    });
    Ok(None)
}

/// Waits until the table's mirror serves queries. Returns false if the time runs out first, and then names the first
/// part whose mirror does not.
#[pg_extern]
fn wait_for_mirror(relation: pg_sys::Oid, timeout: Interval) -> bool {
    require_library();
    // The parts are not locked, because another process may hold locks on them for longer than the timeout.
    let parts = partitions::parts(relation, Lock::None).unwrap_or_else(|| vec![relation]);
    parts.iter().for_each(|part| check_listed(relation, *part));
    let start = Instant::now();
    let timeout = Duration::from_micros(timeout.as_micros().clamp(0, u64::MAX as i128) as u64);
    let position = if timeout.is_zero() || session::in_recovery() { 0 } else { wal::flushed_position() };
    shared::wake_worker(session::database());
    loop {
        let behind = parts.iter().find_map(|part| Some((*part, behind(*part, position)?)));
        let Some((part, why)) = behind else { return true };
        if start.elapsed() >= timeout {
            let message = format!("mirror of {} does not serve queries yet", part_name(relation, part));
            Error::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message).detail(why).notice();
            return false;
        }
        process::sleep(POLL_MS, WaitFor::Mirror);
    }
}

/// The reason why the mirror of a table does not serve queries of its present definition, as a sentence; `None` if it
/// serves them.
///
/// The worker may not have followed DDL or TRUNCATE yet. The definition's fingerprint does not always show that,
/// because later DDL may restore the fingerprint, although the mirror has to be built anew. So the worker must also
/// have decoded the WAL up to `position`.
fn behind(relation: pg_sys::Oid, position: u64) -> Option<String> {
    let oid = session::database();
    // The position is read before the table's state, so that the state includes everything up to that position.
    let database = shared::database(oid);
    let Some(table) = shared::table(oid, relation) else {
        return Some(match database.map(|d| (d.state, d.reason)) {
            None | Some((DatabaseState::Idle | DatabaseState::Running, _)) => {
                "The capture worker has not found the table in anker.mirrored yet.".into()
            }
            Some((state, why)) => state_sentence("The mirror of this database", state.name(), why.as_str()),
        });
    };
    if table.state != TableState::Live {
        return Some(state_sentence("It", table.state.name(), table.reason.as_str()));
    }
    if database.is_none_or(|database| database.decoded_lsn < position) {
        return Some("The capture worker has not decoded all WAL that existed at the beginning of the call.".into());
    }
    match OpenRelation::glance(relation, |open| layout::fingerprint(open) == table.fingerprint) {
        Some(true) => None,
        Some(false) => Some("The mirror has not followed changes of the table's definition yet.".into()),
        None => Some("Another process has the table locked, or has dropped it.".into()),
    }
}

fn state_sentence(subject: &str, state: &str, why: &str) -> String {
    if why.is_empty() { format!("{subject} is {state}.") } else { format!("{subject} is {state}: {why}.") }
}

/// A table for messages. If it is only a part of the table that the user has named, both are named.
fn part_name(whole: pg_sys::Oid, part: pg_sys::Oid) -> String {
    let name = relation_name(part);
    match part == whole {
        true => format!("table \"{name}\""),
        false => format!("table \"{name}\", a part of \"{}\",", relation_name(whole)),
    }
}

/// Raises an error if waiting is useless. The table must be listed, by a transaction that has ended.
fn check_listed(whole: pg_sys::Oid, relation: pg_sys::Oid) {
    let statement = "SELECT m.xmin FROM anker.mirrored m WHERE m.relation OPERATOR(pg_catalog.=) $1";
    let listed_by = Spi::connect(|client| match client.select(statement, Some(1), &[relation.into()])?.next() {
        Some(row) => row.get::<pg_sys::TransactionId>(1),
        None => Ok(None),
    });
    const STATE: PgSqlErrorCode = PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
    match listed_by.map(|by| by.map(session::is_my_transaction)) {
        Ok(Some(false)) => {}
        Ok(Some(true)) => {
            report(STATE, "cannot wait for a mirror in the transaction that asks for it", Some("Commit first.".into()))
        }
        Ok(None) => {
            let message = format!("{} is not mirrored", part_name(whole, relation));
            let unfit = OpenRelation::glance(relation, |open| layout::describe_new(open).err()).flatten();
            match unfit {
                Some(unfit) => report(STATE, &format!("{message}: {}", unfit.message), unfit.hint),
                None => report(STATE, &message, Some("Call anker.mirror first.".into())),
            }
        }
        Err(e) => error!("could not read anker.mirrored: {e}"),
    }
}

/// Checks that the server as a whole can mirror tables.
pub fn check_server() {
    require_library();
    if session::in_recovery() {
        report(
            PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            "tables cannot be mirrored on a standby",
            Some("Mirror them on the primary server.".into()),
        );
    }
    if !wal::is_logical() {
        report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "mirroring needs wal_level = logical",
            Some("Set wal_level = logical in postgresql.conf and restart the server.".into()),
        );
    }
    if !decoding::is_plugin_allowed() {
        report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "mirroring needs pgoutput in output_plugin_libraries",
            Some("Add pgoutput to output_plugin_libraries in postgresql.conf and reload the settings.".into()),
        );
    }
}

/// Checks that a part of a table, or the table itself, can be mirrored. Reports the columns that the mirror leaves out.
fn check_part(whole: &OpenRelation, part: pg_sys::Oid) -> Result<(), NotMirrorable> {
    let relation = OpenRelation::lock(part);
    let of = |what: String| match part == whole.oid() {
        true => what,
        false => format!("\"{}\", a part of \"{}\": {what}", relation.name(), whole.name()),
    };
    let described = layout::describe_new(&relation)
        .map_err(|NotMirrorable { message, hint }| NotMirrorable { message: of(message), hint })?;
    if let Place::Elsewhere(how) = planning::place_of_rows(&relation) {
        let message = of(format!("heap of table \"{}\" may lack rows: {how}", relation.name()));
        return Err(NotMirrorable { message, hint: None });
    }
    for column in described.excluded {
        notice!("{}", of(format!("column \"{}\" is not mirrored: {}", column.name, column.reason)));
    }
    Ok(())
}

/// Requires the right to alter the table, because mirroring it costs memory and CPU.
fn check_owner(relid: pg_sys::Oid) {
    if !may_mirror(relid) {
        catalog::refuse_to_who_is_not_owner(relid);
    }
}

/// Whether the current user may decide if a table is mirrored.
pub fn may_mirror(relid: pg_sys::Oid) -> bool {
    session::is_superuser() || compat::owns_relation(relid)
}

/// Runs `work` as the owner of `anker.mirrored`, because only the owner may write that table.
pub fn as_owner_of_list<T>(work: impl FnOnce() -> T) -> T {
    let Some(list) = list() else {
        report(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            "table anker.mirrored is missing",
            Some("Create the extension anew: DROP EXTENSION pg_anker; CREATE EXTENSION pg_anker;".into()),
        );
    };
    session::as_user(OpenRelation::lock(list).class().relowner, work)
}

/// The table `anker.mirrored`, if this database has it.
pub fn list() -> Option<pg_sys::Oid> {
    load::list_oid()
}

/// Runs a statement with one relation as its parameter. Returns the number of rows that it changed.
pub fn run(statement: &str, relation: pg_sys::Oid) -> usize {
    let touched = Spi::connect_mut(|client| Ok(client.update(statement, None, &[relation.into()])?.len()));
    touched.unwrap_or_else(|e: pgrx::spi::Error| error!("could not use the list of mirrored tables: {e}"))
}

pub fn report(code: PgSqlErrorCode, message: &str, hint: Option<String>) -> ! {
    let error = Error::new(code, message);
    match hint {
        Some(hint) => error.hint(hint).raise(),
        None => error.raise(),
    }
}
