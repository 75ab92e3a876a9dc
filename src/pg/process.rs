//! Our background workers: how they are described, started, watched and stopped.

use std::cell::RefCell;
use std::ffi::CStr;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::time::Duration;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::compat;
use super::wait::{self, WaitFor};

/// The main function of a dynamic worker, which this library exports, and the worker's kind.
#[derive(Clone, Copy)]
pub struct Program {
    pub function: &'static CStr,
    /// The worker's backend_type in pg_stat_activity.
    pub kind: &'static CStr,
}

pub const LAUNCHER: Program = Program { function: c"anker_launcher_main", kind: c"pg_anker launcher" };
pub const CAPTURE: Program = Program { function: c"anker_capture_main", kind: c"pg_anker capture worker" };
pub const LOADER: Program = Program { function: c"anker_loader_main", kind: c"pg_anker loader" };
pub const LIST_READER: Program = Program { function: c"anker_list_reader_main", kind: c"pg_anker list reader" };
pub const ANCHOR: Program = Program { function: c"anker_anchor_main", kind: c"pg_anker checkpoint anchor" };

/// Additional data that a worker gets when it is started.
pub type Extra = [u8; 128];

/// A dynamic worker that was started.
pub struct Worker {
    handle: *mut pg_sys::BackgroundWorkerHandle,
}

thread_local! {
    /// The workers that this process has started and not dropped.
    static STARTED: RefCell<Vec<*mut pg_sys::BackgroundWorkerHandle>> = const { RefCell::new(Vec::new()) };
}

/// Makes every worker stop that this process has started.
pub fn terminate_started() {
    // SAFETY: handles of workers that were not dropped.
    STARTED.with_borrow(|all| all.iter().for_each(|&handle| unsafe { pg_sys::TerminateBackgroundWorker(handle) }));
}

impl Worker {
    /// Starts a worker; `None` if max_worker_processes is reached.
    pub fn start(program: Program, database: pg_sys::Oid, extra: &Extra) -> Option<Worker> {
        let mut worker = describe(program, pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished);
        worker.bgw_restart_time = pg_sys::BGW_NEVER_RESTART;
        worker.bgw_main_arg = database.into();
        worker.bgw_extra = extra.map(|b| b as _);
        // SAFETY: a plain variable of this process; the description is copied; the handle must outlive transactions.
        unsafe {
            worker.bgw_notify_pid = pg_sys::MyProcPid;
            let outer = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let mut handle = ptr::null_mut();
            let started = pg_sys::RegisterDynamicBackgroundWorker(&mut worker, &mut handle);
            pg_sys::MemoryContextSwitchTo(outer);
            // A `Worker` exists only if the worker was started, because dropping it frees the handle.
            if !started {
                return None;
            }
            STARTED.with_borrow_mut(|all| all.push(handle));
            Some(Worker { handle })
        }
    }

    /// Whether the worker has ended, or will never start.
    pub fn ended(&self) -> bool {
        let mut pid = 0;
        // SAFETY: the handle is ours until drop.
        let status = unsafe { pg_sys::GetBackgroundWorkerPid(self.handle, &mut pid) };
        matches!(status, pg_sys::BgwHandleStatus::BGWH_STOPPED | pg_sys::BgwHandleStatus::BGWH_POSTMASTER_DIED)
    }

    pub fn terminate(&self) {
        // SAFETY: the handle is ours until drop.
        unsafe { pg_sys::TerminateBackgroundWorker(self.handle) };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        STARTED.with_borrow_mut(|all| all.retain(|&handle| handle != self.handle));
        // SAFETY: allocated in TopMemoryContext by `start`, and not used again.
        unsafe { pg_sys::pfree(self.handle.cast()) };
    }
}

/// Asks a process to end.
pub fn terminate(pid: i32) {
    // SAFETY: a call without preconditions on memory.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

/// Sets the latch of the process with this index in the server's list; an unused entry is skipped. If another process
/// has taken the entry meanwhile, that process wakes up for nothing, which is harmless.
pub fn wake(number: i32) {
    // SAFETY: the list lives as long as the server, and its latches are meant to be set from anywhere.
    unsafe {
        let all = &*pg_sys::ProcGlobal;
        if (0..all.allProcCount as i32).contains(&number) {
            pg_sys::SetLatch(&raw mut (*all.allProcs.add(number as usize)).procLatch);
        }
    }
}

/// Whether a process of the server has this pid.
pub fn is_alive(pid: i32) -> bool {
    // SAFETY: looks into shared memory under the server's own lock.
    !unsafe { pg_sys::BackendPidGetProc(pid) }.is_null()
}

/// Registers the launcher, the only worker that the server itself starts and restarts. To be called only from
/// `_PG_init`.
pub fn register_launcher() {
    let mut worker = describe(LAUNCHER, pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished);
    worker.bgw_restart_time = 5;
    // SAFETY: within shared_preload_libraries; the description is copied.
    unsafe { pg_sys::RegisterBackgroundWorker(&mut worker) };
}

fn describe(program: Program, start: pg_sys::BgWorkerStartTime::Type) -> pg_sys::BackgroundWorker {
    let mut worker = pg_sys::BackgroundWorker::default();
    copy(&mut worker.bgw_name, program.kind);
    copy(&mut worker.bgw_type, program.kind);
    copy(&mut worker.bgw_library_name, c"pg_anker");
    copy(&mut worker.bgw_function_name, program.function);
    worker.bgw_flags = (pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION) as i32;
    worker.bgw_start_time = start;
    worker
}

fn copy(target: &mut [std::ffi::c_char], text: &CStr) {
    for (to, &from) in target.iter_mut().zip(text.to_bytes_with_nul()) {
        *to = from as _;
    }
}

/// Prepares a worker process. Every worker's main function calls it first.
///
/// SIGTERM is handled by `die`, as in an ordinary backend, so that it also ends waits inside the server, for example
/// for a lock.
pub fn begin() {
    compat::handle_signals();
    // SAFETY: the handlers are installed.
    unsafe { pg_sys::BackgroundWorkerUnblockSignals() };
}

/// Runs `work` when the process exits, unless the process is killed. Work that was registered later runs earlier. While
/// `work` runs, the process is still in the server's list.
pub fn at_exit<F: FnOnce() + 'static>(work: F) {
    #[pg_guard]
    unsafe extern "C-unwind" fn run<F: FnOnce()>(_code: std::ffi::c_int, work: pg_sys::Datum) {
        // SAFETY: made below; called once.
        let work = unsafe { Box::from_raw(work.cast_mut_ptr::<F>()) };
        work();
    }
    // SAFETY: the function only registers a callback.
    unsafe { pg_sys::on_shmem_exit(Some(run::<F>), Box::into_raw(Box::new(work)).into()) };
}

/// Calls `work` when this process exits with code 0, while shared memory still exists.
pub fn at_orderly_exit(work: fn()) {
    #[pg_guard]
    unsafe extern "C-unwind" fn run(code: std::ffi::c_int, work: pg_sys::Datum) {
        // SAFETY: made below; called once.
        let work = unsafe { Box::from_raw(work.cast_mut_ptr::<fn()>()) };
        if code == 0 {
            work();
        }
    }
    // SAFETY: the function only registers a callback.
    unsafe { pg_sys::on_shmem_exit(Some(run), Box::into_raw(Box::new(work)).into()) };
}

/// Connects to a database as the bootstrap superuser. With an invalid oid it connects to none, and only shared catalogs
/// can be read.
pub fn connect(database: pg_sys::Oid) {
    // SAFETY: this runs once, in a new worker; names and values are C strings.
    unsafe {
        // Timeouts in the configuration, or set for the database, are meant for clients. They must not end a worker.
        for timeout in TIMEOUTS.iter().map(|name| name.as_ptr()) {
            let (missing_ok, restricted) = (true, false);
            if !pg_sys::GetConfigOption(timeout, missing_ok, restricted).is_null() {
                let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_OVERRIDE);
                pg_sys::SetConfigOption(timeout, c"0".as_ptr(), context, source);
            }
        }
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0)
    };
}

/// The timeouts of statements, locks and transactions. The last one exists only from PostgreSQL 17 on.
const TIMEOUTS: [&CStr; 4] =
    [c"statement_timeout", c"lock_timeout", c"idle_in_transaction_session_timeout", c"transaction_timeout"];

/// Runs a worker's work. If it fails, `tell` gets the error's message before the error ends the process. So the views
/// can show the message, which otherwise only the server's log has.
pub fn telling_errors<T>(
    work: impl FnOnce() -> T + UnwindSafe,
    tell: impl Fn(&str) + UnwindSafe + RefUnwindSafe + Copy,
) -> T {
    let told = move |error: CaughtError| -> T {
        let (CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. }) = &error;
        tell(report.message());
        error.rethrow()
    };
    PgTryBuilder::new(work).catch_others(told).catch_rust_panic(told).execute()
}

/// The arguments that this worker was started with.
pub fn my_extra() -> Extra {
    // SAFETY: MyBgworkerEntry is set in every background worker.
    unsafe { (*pg_sys::MyBgworkerEntry).bgw_extra.map(|b| b as u8) }
}

/// Sleeps until the latch is set or the time is over. Serves interrupts. pg_stat_activity shows the reason.
pub fn sleep(milliseconds: i64, reason: WaitFor) {
    wait::wait(Duration::from_millis(milliseconds as u64), None, reason);
    pgrx::check_for_interrupts!();
}

/// Returns freed memory to the system. The allocator would keep it, and a process that has decoded one large
/// transaction would never shrink.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a call without preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reads changed settings. To be called only from a main loop, never while the server is decoding for us.
pub fn reload_settings() {
    // SAFETY: plain variables of this process, on its main thread.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Calls `visit` with the server's status of each backend.
pub fn for_each_backend(mut visit: impl FnMut(&pg_sys::LocalPgBackendStatus)) {
    // SAFETY: this process's copy of the list is made anew, and read before anything else can replace it.
    unsafe {
        pg_sys::pgstat_clear_backend_activity_snapshot();
        let places = 1..=pg_sys::pgstat_fetch_stat_numbackends();
        places.filter_map(|place| compat::backend_status(place).as_ref()).for_each(&mut visit);
    }
}
