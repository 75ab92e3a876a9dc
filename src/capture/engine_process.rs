//! The engine as a child process. It inherits only two descriptors, and its end is noticed.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pgrx::prelude::*;
use protocol::control::{Settings, ToWorker};
use protocol::env;

use super::executable;
use super::state::give_up;
use crate::client::{FILE_DIRECTORY, checkpoints_path, disk_path, socket_path};

/// The size of the buffer for a packet, far above the longest message on the control channel.
const PACKET_BYTES: usize = 64 << 10;
/// The engine's score for the kernel's out-of-memory killer. The engine should be killed first, because a lost engine
/// costs a rebuild of the mirror, but a lost backend a restart of the server.
const OOM_SCORE: &[u8] = b"500";

pub struct EngineProcess {
    child: Child,
    control: UnixDatagram,
    inbox: VecDeque<ToWorker>,
}

impl EngineProcess {
    /// Starts the engine with the ring's descriptor. The engine sends Hello when it listens on its socket.
    pub fn start(database: pg_sys::Oid, settings: &Settings, ring: &OwnedFd) -> Result<EngineProcess, String> {
        match DirBuilder::new().mode(0o700).create(FILE_DIRECTORY) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("could not create directory \"{FILE_DIRECTORY}\": {e}"));
            }
            _ => {}
        }
        let (control, theirs) = packet_pair().map_err(|e| format!("could not create a socket pair: {e}"))?;
        let path = executable::path();
        let inherited = [ring.as_raw_fd(), theirs.as_raw_fd()];
        let parent = std::process::id();
        let mut command = Command::new(&path);
        command
            .env(env::RING_FD, inherited[0].to_string())
            .env(env::CONTROL_FD, inherited[1].to_string())
            .env(env::SOCKET, socket_path(database))
            .env(env::DISK, disk_path(database))
            .env(env::CHECKPOINTS, checkpoints_path(database))
            .env(env::SETTINGS, settings.to_text())
            .stdin(Stdio::null());
        // SAFETY: between fork and exec only async-signal-safe calls are made, and no memory is allocated.
        unsafe { command.pre_exec(move || become_engine(parent, inherited)) };
        let child = command.spawn().map_err(|e| format!("could not start \"{}\": {e}", path.display()))?;
        let engine = EngineProcess { child, control, inbox: VecDeque::new() };
        executable::check()?;
        Ok(engine)
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// A descriptor that is readable when the engine has sent something, or has ended.
    pub fn control_fd(&self) -> RawFd {
        self.control.as_raw_fd()
    }

    /// A pulse of the engine, for code that must notice the engine's end but does not read its messages.
    pub fn pulse(&self) -> Result<Pulse, String> {
        self.control.try_clone().map(Pulse).map_err(|e| format!("could not duplicate a descriptor: {e}"))
    }

    /// Reads the engine's messages. If the engine has ended, this process ends, too, because nothing is left to do. The
    /// launcher then starts another worker.
    pub fn hear(&mut self) {
        if let Err(reason) = self.poll() {
            give_up(&reason);
        }
    }

    /// Reads the engine's messages into the inbox. The error says that the engine has ended, and how.
    fn poll(&mut self) -> Result<(), String> {
        let mut packet = [0u8; PACKET_BYTES];
        loop {
            match self.control.recv(&mut packet) {
                Ok(0) => return Err(self.epitaph()),
                Ok(n) => {
                    let message = ToWorker::decode(&packet[..n])
                        .map_err(|e| format!("the engine sent a message that cannot be read: {e}"))?;
                    self.inbox.push_back(message);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(self.epitaph()),
                Err(e) => return Err(format!("the engine's control channel broke: {e}")),
            }
        }
    }

    pub fn next_message(&mut self) -> Option<ToWorker> {
        self.inbox.pop_front()
    }

    fn epitaph(&mut self) -> String {
        match self.child.try_wait() {
            Ok(Some(status)) => format!("the engine ended ({status})"),
            _ => "the engine closed its control channel".to_string(),
        }
    }
}

/// The means to test whether the engine still runs.
pub struct Pulse(UnixDatagram);

impl Pulse {
    /// Ends this process if the engine has ended.
    pub fn check(&self) {
        // With no events requested, poll reports only that the other end is closed.
        let mut end = libc::pollfd { fd: self.0.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: `end` is the only entry, and its descriptor is open; the call does not wait.
        if unsafe { libc::poll(&mut end, 1, 0) } > 0 {
            give_up("the engine closed its control channel");
        }
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        // Killing fails if the engine has ended already, which is what is wanted here, so the error is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes our end of the control channel, which does not block, and the engine's end. Each message is one packet. An
/// empty packet means that the other end is closed.
fn packet_pair() -> io::Result<(UnixDatagram, OwnedFd)> {
    let mut pair = [0; 2];
    // SAFETY: the array has room for two descriptors, which nobody else owns.
    let (ours, theirs) = unsafe {
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, pair.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1]))
    };
    let ours = UnixDatagram::from(ours);
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

/// Runs in the child before exec. Nothing of the server may remain in the engine, and the engine must not outlive its
/// worker.
fn become_engine(parent: u32, inherited: [RawFd; 2]) -> io::Result<()> {
    // SAFETY: the system calls get plain arguments and local buffers.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::getppid() as u32 != parent {
            // The worker died before the child asked the kernel to kill it at the worker's death.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        for signal in 1..=libc::SIGRTMAX() {
            // The call fails for SIGKILL and SIGSTOP, whose actions never change.
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());

        let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if score >= 0 {
            // A process may always raise its own score. If that fails, the engine is just not the first to be killed.
            libc::write(score, OOM_SCORE.as_ptr().cast(), OOM_SCORE.len());
            libc::close(score);
        }
        close_on_exec_from(3);
        for fd in inherited {
            if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// # Safety
///
/// To be called only in a process that is about to exec.
unsafe fn close_on_exec_from(first: RawFd) {
    // SAFETY: sets a flag of descriptors; those that are not open are skipped by the kernel.
    unsafe {
        let range = libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        if range == 0 {
            return;
        }
        // Kernels before 5.11 have no system call for this.
        for fd in first..libc::sysconf(libc::_SC_OPEN_MAX).clamp(1024, 1 << 20) as RawFd {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
