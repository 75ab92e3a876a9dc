//! Acts on utility statements that affect a database's capture worker.
//!
//! DROP DATABASE, RENAME and SET TABLESPACE need a database to which nobody is connected and that has no active slot.
//! CREATE DATABASE needs the same of its template. The database's worker is stopped before the statement, and restarted
//! after it.
//!
//! COMMIT PREPARED may commit the transaction that mirrors the first table of a database. The launcher must be woken
//! then, because the session that called `anker.mirror()` no longer can.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::load;
use crate::pg::tree::{List, Node, Ref};
use crate::pg::utility::{self, Watcher};
use crate::pg::wait::WaitFor;
use crate::pg::{catalog, compat, memory, process, session};
use crate::shared::{self, DatabaseState};

const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);

static OF_DATABASES: Watcher = Watcher { concerns: concerns_databases, before: Some(make_way), behind: None };
static OF_PREPARED: Watcher = Watcher { concerns: is_commit_prepared, before: None, behind: Some(look_for_tables) };

pub fn install() {
    utility::watch(&OF_DATABASES);
    utility::watch(&OF_PREPARED);
}

fn is_commit_prepared(statement: Node<'_>) -> bool {
    let kind = statement.cast::<pg_sys::TransactionStmt>().map(|transaction| transaction.kind);
    kind == Some(pg_sys::TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED)
}

/// Asks for a worker if this database has none but its list now has tables.
#[pg_guard]
unsafe extern "C-unwind" fn look_for_tables(_statement: *mut pg_sys::Node) {
    let database = session::database();
    let unfollowed = shared::database(database).is_none_or(|d| d.state == DatabaseState::Idle);
    let has_tables = || load::list_oid().is_some_and(|list| load::has_tables(list).unwrap_or(true));
    if unfollowed && session::in_transaction() && has_tables() {
        shared::want(database);
    }
}

fn concerns_databases(statement: Node<'_>) -> bool {
    use pg_sys::NodeTag::*;
    matches!(statement.tag(), T_DropdbStmt | T_RenameStmt | T_AlterDatabaseStmt | T_CreatedbStmt)
}

#[pg_guard]
unsafe extern "C-unwind" fn make_way(statement: *mut pg_sys::Node) {
    // SAFETY: nobody changes the statement's tree before the statement runs.
    if let Some(database) = database_in_the_way(unsafe { Node::new(statement) }) {
        suspend(database);
    }
}

/// The database that the statement needs for itself, if it has a worker and the user is permitted to run the statement.
fn database_in_the_way(statement: Node<'_>) -> Option<pg_sys::Oid> {
    let name = if let Some(drop) = statement.cast::<pg_sys::DropdbStmt>() {
        drop.dbname()
    } else if let Some(rename) = statement.cast::<pg_sys::RenameStmt>() {
        rename.subname().filter(|_| rename.renameType == pg_sys::ObjectType::OBJECT_DATABASE)
    } else if let Some(alter) = statement.cast::<pg_sys::AlterDatabaseStmt>() {
        option(alter.options(), c"tablespace").and(alter.dbname())
    } else if let Some(create) = statement.cast::<pg_sys::CreatedbStmt>() {
        option(create.options(), c"template").and_then(Ref::value).or(Some(c"template1"))
    } else {
        None
    }?;
    // In a transaction block, all these statements except RENAME fail anyway, so the worker need not be stopped.
    let will_fail = session::in_transaction_block() && statement.cast::<pg_sys::RenameStmt>().is_none();
    if !session::in_transaction() || will_fail {
        return None;
    }
    let database = catalog::database(name).filter(|&database| database != session::database())?;
    shared::database(database)?;
    let allowed = match statement.cast::<pg_sys::CreatedbStmt>() {
        // Users other than its owner may copy a template, too.
        Some(_) if catalog::is_template(database) => session::may_create_databases(),
        Some(_) => session::may_create_databases() && compat::owns_database(database),
        None => compat::owns_database(database),
    };
    allowed.then_some(database)
}

fn option<'a>(options: List<'a, pg_sys::DefElem>, name: &CStr) -> Option<Ref<'a, pg_sys::DefElem>> {
    options.iter().find(|element| element.defname() == Some(name))
}

/// Stops the database's worker, and prevents the launcher from starting another one until the statement has ended.
fn suspend(database: pg_sys::Oid) {
    memory::when_statement_ends(move || resume(database));
    let me = session::pid();
    shared::update_database(database, |d| {
        d.state = DatabaseState::Suspended;
        d.suspended_by = me;
    });
    let start = Instant::now();
    while let Some(pid) = shared::database(database).map(|d| d.worker_pid).filter(|&pid| pid != 0) {
        // The pid belongs to a living worker, because a worker clears its pid when it ends.
        process::terminate(pid);
        if start.elapsed() > LEAVE_TIMEOUT {
            // The statement itself will fail, and report that the database is in use.
            return;
        }
        process::sleep(10, WaitFor::WorkerEnd);
    }
}

fn resume(database: pg_sys::Oid) {
    let me = session::pid();
    // If the database no longer exists, the launcher will notice.
    shared::update_database(database, |d| {
        if d.state == DatabaseState::Suspended && d.suspended_by == me {
            d.state = DatabaseState::Wanted;
            d.suspended_by = 0;
        }
    });
    shared::wake_launcher();
}
