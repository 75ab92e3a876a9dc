//! Sleeps until there is work: the latch is set, the engine has sent something, or the time has run out.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::time::Duration;

use pgrx::prelude::*;

use super::compat;
pub use super::compat::WaitFor;

/// A set of events to wait for. It is made only once, because the capture worker sleeps hundreds of times a second.
pub struct WaitSet {
    set: *mut pg_sys::WaitEventSet,
}

impl WaitSet {
    pub fn new(control: RawFd) -> WaitSet {
        let no_socket = pg_sys::PGINVALID_SOCKET;
        // SAFETY: latch and descriptor live as long as the process, and so does the set.
        unsafe {
            let set = pg_sys::CreateWaitEventSet(compat::no_owner(), 3);
            pg_sys::AddWaitEventToSet(set, pg_sys::WL_LATCH_SET, no_socket, pg_sys::MyLatch, ptr::null_mut());
            let parent = pg_sys::WL_EXIT_ON_PM_DEATH;
            pg_sys::AddWaitEventToSet(set, parent, no_socket, ptr::null_mut(), ptr::null_mut());
            pg_sys::AddWaitEventToSet(set, pg_sys::WL_SOCKET_READABLE, control, ptr::null_mut(), ptr::null_mut());
            WaitSet { set }
        }
    }

    pub fn wait(&self, time: Duration, reason: WaitFor) {
        let milliseconds = time.as_micros().div_ceil(1000).min(i32::MAX as u128);
        let mut event = pg_sys::WaitEvent::default();
        let class = compat::wait_event(reason);
        // SAFETY: this value owns the set; there is room for one event.
        unsafe {
            pg_sys::WaitEventSetWait(self.set, milliseconds as _, &mut event, 1, class);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        pgrx::check_for_interrupts!();
    }
}

/// Sleeps until the latch is set, the time runs out, or one of the events happens at the socket. Returns whether the
/// latch was set. `reason` is shown in pg_stat_activity meanwhile. Does not serve interrupts.
pub fn wait(time: Duration, socket: Option<(BorrowedFd<'_>, u32)>, reason: WaitFor) -> bool {
    let (descriptor, events) = match socket {
        Some((socket, events)) => (socket.as_raw_fd(), events),
        None => (pg_sys::PGINVALID_SOCKET, 0),
    };
    let events = events | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // The time is rounded up, because less than a millisecond would otherwise become no sleep at all, and the caller's
    // loop would be busy.
    let milliseconds = time.as_micros().div_ceil(1000).min(i32::MAX as u128);
    // SAFETY: our own latch and an open socket, on the main thread.
    unsafe {
        let (latch, class) = (pg_sys::MyLatch, compat::wait_event(reason));
        let happened = pg_sys::WaitLatchOrSocket(latch, events as i32, descriptor, milliseconds as _, class);
        let woken = happened as u32 & pg_sys::WL_LATCH_SET != 0;
        if woken {
            pg_sys::ResetLatch(latch);
        }
        woken
    }
}
