//! Utility statements that concern us.
//!
//! DROP, RENAME, SET TABLESPACE of a database, and CREATE DATABASE from it as a template, want nobody connected to it
//! and no active slot in it. Ours gets out of the way first, and comes back afterwards.
//!
//! COMMIT PREPARED may be what mirrors the first table of a database: the session that called `anker.mirror()` cannot
//! wake the launcher then.

use std::ffi::{CStr, c_char, c_void};
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::load;
use crate::pg::compat;
use crate::pg::process;
use crate::pg::symbols;
use crate::shared::{self, DatabaseState};

const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);

static mut PREVIOUS: pg_sys::ProcessUtility_hook_type = None;

pub fn install() {
    // SAFETY: while the library is preloaded, single-threaded.
    unsafe {
        PREVIOUS = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(hook);
    }
}

/// Every utility statement of the server comes through here, and so do its errors. pgrx's guards would rebuild them
/// without position, context and names, so the statement itself runs outside of any: an error jumps over this frame,
/// which owns nothing.
unsafe extern "C-unwind" fn hook(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by the server with a valid statement; everything is passed on as it came.
    unsafe {
        if concerns_databases((*statement).utilityStmt) {
            make_way((*statement).utilityStmt);
        }
        let commits_prepared = is_commit_prepared((*statement).utilityStmt);
        PREVIOUS.unwrap_or(symbols::standard_ProcessUtility)(
            statement,
            query,
            read_only_tree,
            context,
            parameters,
            environment,
            receiver,
            completion,
        );
        if commits_prepared {
            look_for_tables();
        }
    }
}

unsafe fn is_commit_prepared(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: a parse node, cast by its tag.
    unsafe {
        (*statement).type_ == pg_sys::NodeTag::T_TransactionStmt
            && (*statement.cast::<pg_sys::TransactionStmt>()).kind
                == pg_sys::TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED
    }
}

/// If nobody follows this database, and its list has tables now, somebody is to.
#[pg_guard]
unsafe extern "C-unwind" fn look_for_tables() {
    // SAFETY: plain variables of this process.
    let (database, in_transaction) = unsafe { (pg_sys::MyDatabaseId, pg_sys::IsTransactionState()) };
    let unfollowed = shared::database(database).is_none_or(|d| d.state == DatabaseState::Idle);
    if unfollowed && in_transaction && load::list_oid().is_some_and(|list| load::has_tables(list).unwrap_or(true)) {
        shared::want(database);
    }
}

unsafe fn concerns_databases(statement: *mut pg_sys::Node) -> bool {
    use pg_sys::NodeTag::*;
    // SAFETY: a parse node.
    matches!(unsafe { (*statement).type_ }, T_DropdbStmt | T_RenameStmt | T_AlterDatabaseStmt | T_CreatedbStmt)
}

#[pg_guard]
unsafe extern "C-unwind" fn make_way(statement: *mut pg_sys::Node) {
    // SAFETY: the caller's statement.
    if let Some(database) = unsafe { database_in_the_way(statement) } {
        suspend(database);
    }
}

/// The database that the statement needs for itself, if it has a worker of ours and the user may do this at all.
unsafe fn database_in_the_way(statement: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: a parse node, cast by its tag; names in it are C strings or null.
    unsafe {
        let name = match (*statement).type_ {
            pg_sys::NodeTag::T_DropdbStmt => (*statement.cast::<pg_sys::DropdbStmt>()).dbname,
            pg_sys::NodeTag::T_RenameStmt => {
                let rename = &*statement.cast::<pg_sys::RenameStmt>();
                if rename.renameType != pg_sys::ObjectType::OBJECT_DATABASE {
                    return None;
                }
                rename.subname
            }
            pg_sys::NodeTag::T_AlterDatabaseStmt => {
                let alter = &*statement.cast::<pg_sys::AlterDatabaseStmt>();
                option(alter.options, c"tablespace")?;
                alter.dbname
            }
            pg_sys::NodeTag::T_CreatedbStmt => {
                let create = &*statement.cast::<pg_sys::CreatedbStmt>();
                match option(create.options, c"template") {
                    Some(template) => pg_sys::defGetString(template),
                    None => c"template1".as_ptr().cast_mut(),
                }
            }
            _ => return None,
        };
        if name.is_null() || !pg_sys::IsTransactionState() {
            return None;
        }
        let database = pg_sys::get_database_oid(name, true);
        if database == pg_sys::InvalidOid || database == pg_sys::MyDatabaseId {
            return None;
        }
        shared::database(database)?;
        compat::owns_database(database).then_some(database)
    }
}

unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<*mut pg_sys::DefElem> {
    // SAFETY: a list of DefElem nodes, whose names are C strings.
    unsafe {
        let list = options.as_ref()?;
        (0..list.length as usize)
            .map(|i| (*list.elements.add(i)).ptr_value.cast::<pg_sys::DefElem>())
            .find(|&element| CStr::from_ptr((*element).defname) == name)
    }
}

/// Stops the database's worker and keeps the launcher from starting another until the statement has ended, however it
/// ends: its memory goes in any case.
fn suspend(database: pg_sys::Oid) {
    // SAFETY: a plain variable of this process; the callback and its memory belong to the context that calls it.
    unsafe {
        let me = pg_sys::MyProcPid;
        let statement = match pg_sys::PortalContext.is_null() {
            true => pg_sys::CurrentMemoryContext,
            false => pg_sys::PortalContext,
        };
        let size = size_of::<pg_sys::MemoryContextCallback>();
        let callback = pg_sys::MemoryContextAllocZero(statement, size).cast::<pg_sys::MemoryContextCallback>();
        (*callback).func = Some(resume);
        (*callback).arg = database.to_u32() as usize as *mut c_void;
        pg_sys::MemoryContextRegisterResetCallback(statement, callback);
        shared::update_database(database, |d| {
            d.state = DatabaseState::Suspended;
            d.suspended_by = me;
        });
    }
    let start = Instant::now();
    while let Some(pid) = shared::database(database).map(|d| d.worker_pid).filter(|&pid| pid != 0) {
        // SAFETY: a living worker of ours: it clears its pid when it ends.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        if start.elapsed() > LEAVE_TIMEOUT {
            // The statement will fail by itself, and say that somebody is connected.
            return;
        }
        process::sleep(10);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn resume(database: *mut c_void) {
    let database = pg_sys::Oid::from(database as usize as u32);
    // SAFETY: a plain variable of this process.
    let me = unsafe { pg_sys::MyProcPid };
    // If the database is no more, the launcher finds that out.
    shared::update_database(database, |d| {
        if d.state == DatabaseState::Suspended && d.suspended_by == me {
            d.state = DatabaseState::Wanted;
            d.suspended_by = 0;
        }
    });
    shared::wake_launcher();
}
