//! System calls that concern this process and its peers.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The value that makes the kernel end this process when memory runs out, long before any process of the server (0).
const OOM_SCORE_ADJ: &str = "800";

/// Prepares this process, which the worker has exec'ed: resets its signals, makes its files readable for their owner
/// only, and makes the process die with its parent.
///
/// `control` is the socketpair that the parent has made. The kernel has recorded in it which process the parent was.
pub fn settle(control: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // If the parent died before the flag was set, this process already has another parent, and would never get the
    // signal. SAFETY: has no preconditions.
    if unsafe { libc::getppid() } != peer(control)?.pid {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the worker that started this process is gone"));
    }
    reset_signals();
    // SAFETY: sets the mask of this process.
    unsafe { libc::umask(0o077) };
    raise_descriptor_limit();
    // The kernel may refuse this in a container. Then the process keeps the score that it has.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    Ok(())
}

/// Resets signals, because PostgreSQL's processes block and ignore some, and exec keeps both states.
///
/// SIGINT and SIGHUP stay ignored: a signal that cancels the worker's work reaches its whole process group, but is
/// meant for the worker.
fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        let ignored = matches!(signal, libc::SIGPIPE | libc::SIGINT | libc::SIGHUP);
        // SAFETY: `sigaction` is plain data, and all zeros are a valid value. Only signals that are ignored, or are to
        // be, are changed, so handlers that Rust installed (for stack overflows) stay. A signal that cannot be set
        // gives an error, which changes nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &mut action) == 0;
            if known && ignored != (action.sa_sigaction == libc::SIG_IGN) {
                libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
            }
        }
    }
    // SAFETY: sets an empty mask for this thread. No other threads exist yet, except the allocator's own.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Takes over the descriptor that an environment variable names.
pub fn inherit(variable: &str) -> io::Result<OwnedFd> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{variable} {what}"));
    let text = std::env::var(variable).map_err(|_| invalid("is not set"))?;
    let number: RawFd = text.parse().map_err(|_| invalid("is not a descriptor number"))?;
    // SAFETY: sets a flag of a descriptor; a number that is no open descriptor gives an error. Descriptors 0 to 2
    // belong to std.
    if number <= 2 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(invalid("is not an open descriptor"));
    }
    // SAFETY: the descriptor is open, and the worker passed it to this process alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The credentials of the process at the other end of a unix socket.
pub fn peer(socket: &impl AsRawFd) -> io::Result<libc::ucred> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `who`; the result is checked.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(who) } else { Err(io::Error::last_os_error()) }
}

/// The user that this process runs as.
pub fn user() -> libc::uid_t {
    // SAFETY: has no preconditions.
    unsafe { libc::geteuid() }
}

/// Whether the other end of a socket was closed, without reading from it.
pub fn hung_up(socket: &impl AsRawFd) -> bool {
    happened(socket, libc::POLLRDHUP, Duration::ZERO) != 0
}

/// Whether a socket takes some bytes at once.
pub fn writable(socket: &impl AsRawFd) -> bool {
    happened(socket, libc::POLLOUT, Duration::ZERO) & libc::POLLOUT != 0
}

/// Waits until a socket has something to read, or its other end is closed; false if the time runs out first.
pub fn readable(socket: &impl AsRawFd, limit: Duration) -> bool {
    happened(socket, libc::POLLIN, limit) != 0
}

/// Whether the other end of a socket has read everything that was sent.
pub fn all_read(socket: &impl AsRawFd) -> bool {
    let mut unread: libc::c_int = 0;
    // SAFETY: the kernel writes a number; after an error, `unread` keeps its old value.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) == 0 && unread == 0 }
}

fn happened(socket: &impl AsRawFd, events: libc::c_short, limit: Duration) -> libc::c_short {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // SAFETY: `poll` is one valid entry, as the number 1 says.
    if unsafe { libc::poll(&raw mut poll, 1, limit.as_millis() as libc::c_int) } == 1 { poll.revents } else { 0 }
}

/// The nice value with which the process was started.
#[derive(Clone, Copy)]
pub struct Nice(libc::c_int);

impl Nice {
    /// To be called by a thread that has not changed its own nice value.
    pub fn of_process() -> Nice {
        // SAFETY: the call has no preconditions, and does not fail for the calling process.
        Nice(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) })
    }

    /// This nice value, raised by `steps`; 0 steps change nothing.
    pub fn behind(self, steps: u32) -> Urgency {
        Urgency((steps > 0).then(|| self.0 + steps as libc::c_int))
    }
}

/// The nice value by which threads yield to others when processors are busy.
#[derive(Clone, Copy)]
pub struct Urgency(Option<libc::c_int>);

impl Urgency {
    /// Sets the calling thread's nice value for good, because a thread may not raise its priority again. A new thread
    /// inherits the value of its creator, but the value is absolute, so calling this again changes nothing.
    pub fn take(self) {
        if let Some(nice) = self.0 {
            // SAFETY: the call has no preconditions. On Linux, it sets the value of the calling thread alone, and a
            // failure changes nothing.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
        }
    }
}

/// Allows this process as many open files as possible, because every open cursor of the server is a connection.
fn raise_descriptor_limit() {
    // SAFETY: reads and writes a plain structure. A failure changes nothing; then connections beyond the old limit are
    // refused.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
