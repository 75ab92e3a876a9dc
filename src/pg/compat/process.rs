//! This process, and the server's list of processes.

use std::ffi::c_int;

use pgrx::prelude::*;

use crate::pg::plain::unguarded;
#[cfg(not(feature = "since_17"))]
use crate::pg::plain::variable;

/// The server's status entry of a backend, or null. The number counts from 1, in the list that this process has read
/// last.
#[cfg(not(feature = "since_16"))]
pub use pg_sys::pgstat_fetch_stat_local_beentry as backend_status;
#[cfg(feature = "since_16")]
pub use pg_sys::pgstat_get_local_beentry_by_index as backend_status;

#[cfg(not(feature = "since_18"))]
use pg_sys::pqsignal as handle_signal;
#[cfg(feature = "since_18")]
use pg_sys::pqsignal_be as handle_signal;

unguarded! {
    fn die(signal: c_int, #[cfg(feature = "since_19")] sender: *const pg_sys::pg_signal_info);
    fn SignalHandlerForConfigReload(
        signal: c_int,
        #[cfg(feature = "since_19")] sender: *const pg_sys::pg_signal_info,
    );
}

/// Installs the server's own handlers: SIGTERM ends the process as an ordinary backend, and SIGHUP reloads settings.
pub fn handle_signals() {
    // SAFETY: handlers of the server, which any of its processes may have.
    unsafe {
        handle_signal(pg_sys::SIGTERM as i32, Some(die));
        handle_signal(pg_sys::SIGHUP as i32, Some(SignalHandlerForConfigReload));
    }
}

/// The owner of a set of events that lives as long as the process: a memory context before PostgreSQL 17. From 17 on it
/// is null, because a resource owner would release the set earlier.
#[cfg(not(feature = "since_17"))]
pub fn no_owner() -> pg_sys::MemoryContext {
    variable!(TopMemoryContext)
}
#[cfg(feature = "since_17")]
pub fn no_owner() -> pg_sys::ResourceOwner {
    std::ptr::null_mut()
}

/// The oldest running transaction that has an id, in any database. If there is none, the next id that will be given
/// out.
pub fn oldest_running() -> pg_sys::TransactionId {
    // SAFETY: only reads the list of processes.
    unsafe {
        #[cfg(not(feature = "since_19"))]
        return pg_sys::GetOldestActiveTransactionId();
        // Transactions that are not committing count, too, and those of all databases.
        #[cfg(feature = "since_19")]
        return pg_sys::GetOldestActiveTransactionId(false, true);
    }
}

/// The index of this process in the server's list of processes.
pub fn own_process_number() -> i32 {
    // SAFETY: these are plain variables of this process, which is in the server's list.
    unsafe {
        #[cfg(not(feature = "since_17"))]
        return (*pg_sys::MyProc).pgprocno;
        #[cfg(feature = "since_17")]
        return pg_sys::MyProcNumber;
    }
}

/// Ends the process and runs its exit callbacks.
pub fn end_process(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { pg_sys::proc_exit(code) };
    #[cfg(feature = "since_18")]
    unreachable!("proc_exit does not return")
}
