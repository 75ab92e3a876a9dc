//! This process as the server sees it: its database, user and settings. All functions must run on the main thread.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pgrx::prelude::*;

use super::plain::{calls, variable};
use super::tree::{List, Node};
use super::{catalog, symbols};

calls! {
    /// The number that the cluster got when it was made.
    system_identifier => GetSystemIdentifier() -> u64;
    /// Whether a transaction is open in which the catalog can be read.
    in_transaction => IsTransactionState() -> bool;
    /// Whether the session is within BEGIN … COMMIT.
    in_transaction_block => IsTransactionBlock() -> bool;
    /// Whether the server is a standby, or has not finished its recovery.
    in_recovery => RecoveryInProgress() -> bool;
    /// Makes all prepared statements of the session be planned again at their next execution.
    plan_anew => ResetPlanCache();
    /// Whether the query runs within a parallel query.
    in_parallel_mode => IsInParallelMode() -> bool;
    /// Whether the current user is a superuser. Needs a transaction.
    is_superuser => superuser() -> bool;
    /// The user who has connected. Neither `SET ROLE` nor a function that runs as its owner changes this user.
    user => GetSessionUserId() -> pg_sys::Oid;
    /// The current user, whose privileges hold.
    current_user => GetUserId() -> pg_sys::Oid;
    /// Makes the server compute ids of statements, unless `compute_query_id` is off. To be called while the library is
    /// preloaded.
    compute_query_ids => EnableQueryId();
    /// Counts one more open file that the server does not manage itself. Returns false, without counting it, if that
    /// would be too many.
    count_open_file => AcquireExternalFD() -> bool;
    /// Counts one open file less.
    count_closed_file => ReleaseExternalFD();
    /// Microseconds since the server's epoch.
    now => GetCurrentTimestamp() -> i64;
    /// The time at which the client sent the running statement, in microseconds since the server's epoch.
    statement_start => GetCurrentStatementStartTimestamp() -> i64;
    /// The encoding of the database, which does not change while the process is connected.
    encoding => GetDatabaseEncoding() -> i32;
}

/// Whether the current user may create databases. Needs a transaction.
pub fn may_create_databases() -> bool {
    // SAFETY: the function only reads a variable.
    is_superuser() || catalog::creates_databases(unsafe { pg_sys::GetUserId() })
}

/// Whether the session's transaction, or a subtransaction of it, has this number.
pub fn is_my_transaction(xid: pg_sys::TransactionId) -> bool {
    // SAFETY: the function accepts any number.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(xid) }
}

/// The database that the process is connected to.
pub fn database() -> pg_sys::Oid {
    variable!(MyDatabaseId)
}

pub fn pid() -> i32 {
    variable!(MyProcPid)
}

/// Whether the postmaster is loading `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    variable!(process_shared_preload_libraries_in_progress)
}

/// Whether CREATE or ALTER EXTENSION is running a script. It does not count under pg_upgrade, which restores existing
/// objects.
pub fn is_creating_extension() -> bool {
    variable!(creating_extension) && !is_upgrading()
}

/// Whether pg_upgrade has started the server.
pub fn is_upgrading() -> bool {
    variable!(IsBinaryUpgrade)
}

/// Whether the transaction is serializable and must be watched for conflicts. A read-only transaction with a safe
/// snapshot need not be watched, because no concurrent writer can make it inconsistent.
pub fn must_be_serialized() -> bool {
    variable!(XactIsoLevel) == pg_sys::XACT_SERIALIZABLE as i32 && !symbols::ShareSerializableXact().is_null()
}

/// Whether the client's statement is an EXPLAIN.
pub fn is_explaining() -> bool {
    let portal = variable!(ActivePortal);
    // SAFETY: null, or the portal that is running.
    unsafe { portal.as_ref() }.is_some_and(|portal| portal.commandTag == pg_sys::CommandTag::CMDTAG_EXPLAIN)
}

/// Whether the process is connected to a client. A parallel worker, for example, is not: it sends its rows to another
/// process of the server.
pub fn has_client_of_its_own() -> bool {
    !variable!(MyProcPort).is_null() && variable!(MyBackendType) == pg_sys::BackendType::B_BACKEND
}

/// Whether the rows of the query that is being planned go to the client, as far as can be told. They do if the client
/// has sent the query itself, or executes or explains it. The rows of queries in functions and in other commands do
/// not.
pub fn plans_for_client() -> bool {
    if variable!(whereToSendOutput) != pg_sys::CommandDest::DestRemote {
        return false;
    }
    let portal = variable!(ActivePortal);
    // SAFETY: null between the client's statements, or the portal that is running, with its statements as they were
    // parsed.
    let Some(statements) = (unsafe { portal.as_ref().map(|portal| List::<pg_sys::PlannedStmt>::new(portal.stmts)) })
    else {
        return true;
    };
    let command = statements.iter().next();
    let Some(command) = command.and_then(|command| command.utilityStmt()) else { return false };
    let explained = command.cast::<pg_sys::ExplainStmt>().and_then(|explain| explain.query().cast::<pg_sys::Query>());
    match explained {
        Some(query) if query.commandType == pg_sys::CmdType::CMD_SELECT => true,
        Some(query) => query.utilityStmt().is_some_and(executes),
        None => executes(command),
    }
}

fn executes(command: Node<'_>) -> bool {
    command.cast::<pg_sys::ExecuteStmt>().is_some()
}

/// The setting `temp_file_limit`, in bytes; `None` if there is no limit.
pub fn temp_file_limit() -> Option<u64> {
    Some(u64::try_from(variable!(temp_file_limit)).ok()? * 1024)
}

/// The setting `max_worker_processes`.
pub fn max_worker_processes() -> usize {
    variable!(max_worker_processes) as usize
}

/// The setting `work_mem`, in kB.
pub fn work_mem() -> i32 {
    variable!(work_mem)
}

/// Whether a statement's text comes from the client, and not from a function or from PREPARE. A statement that was
/// prepared by the protocol comes from the client each time that its parameters are bound.
pub fn is_clients(source: *const c_char) -> bool {
    std::ptr::eq(source, variable!(debug_query_string))
}

/// The planner's cost of one operation (the setting `cpu_operator_cost`).
pub fn cpu_operator_cost() -> f64 {
    variable!(cpu_operator_cost)
}

/// Whether the encoding of the database is UTF-8.
pub fn is_utf8() -> bool {
    encoding() == pg_sys::pg_enc::PG_UTF8 as i32
}

/// The directory of this library's file, as the server has found it by `dynamic_library_path`.
pub fn library_directory() -> PathBuf {
    let inside: fn() -> PathBuf = library_directory;
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the function accepts any address, and fills `found`, for which zeroes are valid, too. The name is a C
    // string as long as the library is loaded, which it is, because this code belongs to it.
    let path = unsafe {
        libc::dladdr(inside as *const c_void, found.as_mut_ptr());
        let name = found.assume_init().dli_fname;
        if name.is_null() { c"" } else { CStr::from_ptr(name) }
    };
    Path::new(OsStr::from_bytes(path.to_bytes())).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Random bytes that cannot be guessed; `None` if the system cannot make any.
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0u8; N];
    // SAFETY: the function fills the N bytes of the array.
    unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), N) }.then_some(bytes)
}

/// The current user, with the flags that restrict operations.
#[derive(Clone, Copy)]
pub struct Actor {
    user: pg_sys::Oid,
    context: i32,
}

pub fn actor() -> Actor {
    let mut actor = Actor { user: pg_sys::InvalidOid, context: 0 };
    // SAFETY: the function fills the fields of `actor`.
    unsafe { pg_sys::GetUserIdAndSecContext(&mut actor.user, &mut actor.context) };
    actor
}

/// Runs `work` as another user. After an error, the end of the transaction restores the previous user.
pub fn acting_as<T>(actor: Actor, work: impl FnOnce() -> T) -> T {
    let before = self::actor();
    // SAFETY: the previous user and flags are restored below.
    unsafe { pg_sys::SetUserIdAndSecContext(actor.user, actor.context) };
    let result = work();
    // SAFETY: these are the user and the flags from before.
    unsafe { pg_sys::SetUserIdAndSecContext(before.user, before.context) };
    result
}

/// Runs `work` as another user, restricted to operations whose effects end with `work`.
pub fn as_user<T>(user: pg_sys::Oid, work: impl FnOnce() -> T) -> T {
    let restricted = pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
    acting_as(Actor { user, context: actor().context | restricted as i32 }, work)
}

/// Runs `work` under other settings. After an error, the end of the transaction restores the previous settings.
pub fn with_settings<T>(settings: &[(&CStr, &CStr)], work: impl FnOnce() -> T) -> T {
    use pg_sys::{GucAction::GUC_ACTION_SAVE, GucContext::PGC_USERSET, GucSource::PGC_S_SESSION};
    // SAFETY: names and values are C strings. The end of the nesting level restores the settings.
    let level = unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            let (name, value) = (name.as_ptr(), value.as_ptr());
            pg_sys::set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
        }
        level
    };
    let result = work();
    // SAFETY: the nesting level from above.
    unsafe { pg_sys::AtEOXact_GUC(true, level) };
    result
}
