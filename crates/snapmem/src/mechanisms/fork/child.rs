//! A forked process that answers questions about memory as it was at the fork.
//!
//! A process may be forked while its other threads hold any lock. Therefore the child allocates nothing, locks nothing,
//! and ends by being killed. It starts its threads with pthread_create, which works after a fork, because glibc takes
//! or resets its own locks at the fork.

use std::ffi::c_void;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Mutex;

use super::board::Board;
use crate::memory::error::Error;
use crate::memory::sys;

/// A job for a child. Its arguments are the child's view of the regions, four numbers, and a buffer for the reply. It
/// returns a number.
///
/// It runs in a process that was forked from one with many threads, so it must not lock, allocate, print or panic. A
/// panic kills the child, or makes it hang if another thread held the lock of the standard error stream at the fork.
pub type Job = fn(&ForkView, [u64; 4], &mut [u8]) -> u64;

const REFUSED: &str = "the limit of processes is reached (ulimit -u, pids.max of the control group), or there is no \
                       memory for page tables (vm.overcommit_memory, ulimit -v)";
const NO_THREADS: &str = "the limit of processes and threads is reached (ulimit -u, pids.max of the control group)";

/// The regions as they were at the fork.
pub struct ForkView {
    regions: Vec<Option<Part>>,
}

#[derive(Clone, Copy)]
struct Part {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: addresses are only followed in the child, where nobody writes to them; the parent only looks at lengths.
unsafe impl Send for ForkView {}
// SAFETY: as above.
unsafe impl Sync for ForkView {}

impl ForkView {
    /// A view of the given regions; `None` stands for a region that the child does not get.
    ///
    /// # Safety
    ///
    /// In a child that is forked next, the given ranges are mapped, and nobody writes to them.
    pub(super) unsafe fn new(regions: impl Iterator<Item = Option<(*mut u8, usize)>>) -> ForkView {
        let part = |(start, bytes)| Part { start: NonNull::new(start).unwrap_or(NonNull::dangling()), bytes };
        ForkView { regions: regions.map(|region| region.map(part)).collect() }
    }

    /// The length of a region, if it is part of the snapshot.
    pub(super) fn len(&self, region: usize) -> Option<usize> {
        Some((*self.regions.get(region)?)?.bytes)
    }

    /// The bytes of a region, if it is part of the snapshot. Only jobs call this, which run in the child.
    pub fn region(&self, region: usize) -> Option<&[u8]> {
        let part = (*self.regions.get(region)?)?;
        // SAFETY: a view is given to jobs only, hence this is the child, where `new`'s caller vouches for the range.
        Some(unsafe { std::slice::from_raw_parts(part.start.as_ptr(), part.bytes) })
    }
}

/// A child, as the parent sees it. The child is killed when this is dropped.
pub struct Child {
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    Running(libc::pid_t),
    Ended(ExitStatus),
}

impl Child {
    /// Forks a child with a thread for each of the board's slots.
    pub fn fork(board: &Board, view: &ForkView) -> Result<Child, Error> {
        sys::faults::check("fork", REFUSED)?;
        let threads: Vec<_> = (0..board.slots()).map(|slot| Thread { board, view, slot }).collect();
        // SAFETY: reads a number.
        let parent = unsafe { libc::getpid() };
        // The parent's signal handlers must not run in the child, so all signals are blocked until the child sets its
        // own mask.
        let pid = sys::with_signals_blocked(|| {
            // SAFETY: the child does only what is safe there: see `live`, which never returns.
            match unsafe { libc::fork() } {
                0 => live(parent, &threads),
                pid => pid,
            }
        });
        if pid < 0 {
            return Err(Error::last("fork", REFUSED));
        }
        Ok(Child { state: Mutex::new(State::Running(pid)) })
    }

    /// The child's process id, unless the child is known to have ended.
    pub fn pid(&self) -> Option<u32> {
        match *self.state.lock() {
            State::Running(pid) => Some(pid as u32),
            State::Ended(_) => None,
        }
    }

    /// Sends the child a signal to end, and does not wait. Does nothing if the child is known to have ended.
    pub fn signal_to_end(&self) {
        let state = self.state.lock();
        if let State::Running(pid) = *state {
            // SAFETY: a child of ours that nobody has waited for: they would have to have the lock.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    /// Returns an error if the child has ended, and reaps it.
    pub fn check(&self, board: &Board) -> Result<(), Error> {
        let mut state = self.state.lock();
        if let State::Running(pid) = *state
            && let Some(status) = reap(pid, libc::WNOHANG)
        {
            *state = State::Ended(status);
        }
        match (*state, board.failure()) {
            (State::Running(_), _) => Ok(()),
            (_, Some(errno)) => {
                let source = io::Error::from_raw_os_error(errno);
                Err(Error::System { call: "pthread_create in the child", source, hint: NO_THREADS })
            }
            (State::Ended(status), None) => Err(Error::ChildEnded(status)),
        }
    }
}

impl Child {
    /// Ends the child, unless it has ended already, and waits until the kernel has freed its memory.
    pub fn kill(&mut self) {
        if let State::Running(pid) = *self.state.get_mut() {
            // If SIGCHLD is ignored, the kernel itself reaps a child that has ended. Then the process id may belong to
            // another process now, so it is not killed.
            if let Some(status) = reap(pid, libc::WNOHANG) {
                *self.state.get_mut() = State::Ended(status);
                return;
            }
            // SAFETY: a child of ours that has not ended, except in the moment since we looked.
            let killed = unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
            // The kernel refuses the signal if this process has changed its user since the fork. Then the child lives
            // until this process ends.
            if killed && let Some(status) = reap(pid, 0) {
                *self.state.get_mut() = State::Ended(status);
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the child, and returns the status with which it ended; `None` if it is still alive. If the parent ignores
/// SIGCHLD, the status is lost, and success is returned.
fn reap(pid: libc::pid_t, flags: i32) -> Option<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: a child of ours; the status is written to a place of ours.
        match unsafe { libc::waitpid(pid, &mut status, flags) } {
            0 => return None,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Some(ExitStatus::from_raw(status)),
        }
    }
}

/// The main function of the child.
fn live(parent: libc::pid_t, threads: &[Thread]) -> ! {
    until_the_end(|| {
        die_with(parent);
        leave_the_parents_files();
        let (first, others) = threads.split_first().expect("a child has a thread");
        if let Err(errno) = others.iter().try_for_each(Thread::start) {
            first.board.set_failure(errno);
            return;
        }
        first.serve()
    })
}

/// Runs the main function of a thread of the child, and then ends the child. A panic must not unwind into stack frames
/// of the parent.
fn until_the_end(live: impl FnOnce()) -> ! {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(live));
    // A Rust program that panics ends with status 101.
    let status = if ended.is_err() { 101 } else { 1 };
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(status) }
}

/// The data of a thread of the child. The parent allocates it, because the child must not allocate.
struct Thread<'a> {
    board: &'a Board,
    view: &'a ForkView,
    slot: usize,
}

impl Thread<'_> {
    fn serve(&self) -> ! {
        self.board.slot(self.slot).serve(|job, arguments, reply| {
            // SAFETY: the parent put a `Job` there, and this process has the same functions at the same addresses.
            let job = unsafe { std::mem::transmute::<*mut (), Job>(job) };
            job(self.view, arguments, reply)
        })
    }

    /// Starts the thread. Returns the `errno` if it could not be started.
    fn start(&self) -> Result<(), i32> {
        extern "C" fn run(thread: *mut c_void) -> *mut c_void {
            // SAFETY: `start` passes a thread, which lives as long as the process: `live` does not return.
            until_the_end(|| unsafe { &*thread.cast::<Thread>() }.serve())
        }
        sys::faults::check("pthread_create", "").map_err(|_| libc::ENOMEM)?;
        let mut id = 0;
        // SAFETY: `run` gets the pointer that it expects, and never unwinds.
        match unsafe { libc::pthread_create(&mut id, ptr::null(), run, ptr::from_ref(self).cast_mut().cast()) } {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}

static PARENT: AtomicI32 = AtomicI32::new(0);

/// Makes the kernel send the child a signal when the parent ends. The kernel also sends the signal when only the thread
/// that forked ends, so the signal's handler checks whether the parent still exists.
fn die_with(parent: libc::pid_t) {
    extern "C" fn leave_if_orphaned(_: libc::c_int) {
        // SAFETY: both calls are made for handlers.
        unsafe {
            if libc::getppid() != PARENT.load(Ordering::Relaxed) {
                libc::_exit(0);
            }
        }
    }
    PARENT.store(parent, Ordering::Relaxed);
    // SAFETY: all sets and structures are ours; the handler only makes calls that handlers may make.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = leave_if_orphaned as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGHUP, &action, ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGHUP);
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut blocked);
        libc::sigdelset(&mut blocked, libc::SIGHUP);
        libc::sigprocmask(libc::SIG_SETMASK, &blocked, ptr::null_mut());
    }
    // The parent may have ended before the signal was set up.
    leave_if_orphaned(0);
}

/// Closes the files that the child has inherited. Otherwise, a file that the parent closes would stay open in the
/// child. Only standard error stays open, for messages. Also disables core files, which would contain all of the
/// memory.
fn leave_the_parents_files() {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: nothing here uses the descriptors that are closed. Where the kernel has no close_range, they stay open.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &no_core);
        libc::syscall(libc::SYS_close_range, 0, 1, 0);
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
    }
}
