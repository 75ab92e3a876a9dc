//! DROP, RENAME, SET TABLESPACE of a database, and CREATE DATABASE from it as a template, want nobody connected to it
//! and no active slot in it. Ours gets out of the way first, and comes back afterwards.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use super::process;
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

#[pg_guard]
unsafe extern "C-unwind" fn hook(
    statement: *mut pg_sys::PlannedStmt,
    query: *const std::ffi::c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by the server with a valid statement; everything is passed on as it came.
    unsafe {
        let _suspension = database_in_the_way((*statement).utilityStmt).map(Suspension::begin);
        match PREVIOUS {
            Some(previous) => pg_sys::ffi::pg_guard_ffi_boundary(|| {
                previous(
                    statement,
                    query,
                    read_only_tree,
                    context,
                    parameters,
                    environment,
                    receiver,
                    completion,
                )
            }),
            None => pg_sys::standard_ProcessUtility(
                statement,
                query,
                read_only_tree,
                context,
                parameters,
                environment,
                receiver,
                completion,
            ),
        }
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
        pg_sys::pg_database_ownercheck(database, pg_sys::GetUserId()).then_some(database)
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

/// While it lives, the database has no worker. Ends with the statement, however that ends.
struct Suspension {
    database: pg_sys::Oid,
}

impl Suspension {
    fn begin(database: pg_sys::Oid) -> Suspension {
        // SAFETY: a plain variable of this process.
        let me = unsafe { pg_sys::MyProcPid };
        shared::update_database(database, |d| {
            d.state = DatabaseState::Suspended;
            d.suspended_by = me;
        });
        let suspension = Suspension { database };
        let start = Instant::now();
        loop {
            match shared::database(database).map_or(0, |d| d.worker_pid) {
                0 => return suspension,
                // SAFETY: a living worker of ours: it clears its pid when it ends.
                pid => unsafe { libc::kill(pid, libc::SIGTERM) },
            };
            if start.elapsed() > LEAVE_TIMEOUT {
                // The statement will fail by itself, and say that somebody is connected.
                return suspension;
            }
            process::sleep(10);
        }
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        // If the database is no more, the launcher finds that out.
        shared::update_database(self.database, |d| {
            if d.state == DatabaseState::Suspended {
                d.state = DatabaseState::Wanted;
                d.suspended_by = 0;
            }
        });
        shared::wake_launcher();
    }
}
