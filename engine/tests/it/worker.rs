//! The capture worker's part: starts the engine, writes the stream, and reads the events.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use protocol::change::{Around, StreamMessage};
use protocol::control::{Settings, ToWorker};
use protocol::ring::Producer;
use protocol::{Snapshot, env};

use crate::accounts;
use crate::client::{Client, Load};

pub const PATIENCE: Duration = Duration::from_secs(30);
const RING: usize = 1 << 20;

pub struct Worker {
    ring: Producer,
    /// `None` once the worker has closed the channel.
    control: Option<UnixDatagram>,
    child: Child,
    dir: PathBuf,
    xid: u64,
    lsn: u64,
}

impl Worker {
    /// Starts an engine and takes its greeting.
    pub fn start(settings: &Settings) -> Worker {
        let mut worker = Worker::start_raw(&settings.to_text(), |_| {});
        match worker.event() {
            ToWorker::Hello { version, pid } => {
                assert_eq!((version, pid), (protocol::VERSION, worker.child.id()));
            }
            other => panic!("no greeting: {other:?}"),
        }
        worker
    }

    /// Starts an engine; `prepare` may change the command.
    pub fn start_raw(settings: &str, prepare: impl FnOnce(&mut Command)) -> Worker {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("pg_anker-engine-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (ring, ring_fd) = Producer::create(RING).unwrap();
        let (ours, theirs) = socketpair();
        let passed = [ring_fd.as_raw_fd(), theirs.as_raw_fd()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_pg_anker_engine"));
        command
            .current_dir(&dir)
            .stdin(Stdio::null())
            .env(env::RING_FD, passed[0].to_string())
            .env(env::CONTROL_FD, passed[1].to_string())
            .env(env::SOCKET, "engine.sock")
            .env(env::DISK, "engine.spilled")
            .env(env::CHECKPOINTS, "engine.checkpoints")
            .env(env::SETTINGS, settings);
        prepare(&mut command);
        // SAFETY: fcntl may be called between fork and exec; the descriptors are open until after the spawn.
        unsafe {
            command.pre_exec(move || {
                for fd in passed {
                    if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        Worker { ring, control: Some(ours), child, dir, xid: 100, lsn: 0x1000 }
    }

    /// Starts an engine with signals blocked and ignored, as a PostgreSQL process might start it.
    pub fn start_with_blocked_signals() -> Worker {
        Worker::start_raw(&Settings::default().to_text(), |command| {
            // SAFETY: both calls may be made between fork and exec, and concern the new process only.
            unsafe {
                command.pre_exec(|| {
                    let mut all: libc::sigset_t = std::mem::zeroed();
                    libc::sigfillset(&mut all);
                    libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
                    libc::signal(libc::SIGTERM, libc::SIG_IGN);
                    libc::signal(libc::SIGUSR2, libc::SIG_IGN);
                    Ok(())
                });
            }
        })
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the pid belongs to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The resident memory that the engine shares neither with a file nor with another process.
    pub fn private_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("engine.sock")
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// The next event.
    pub fn event(&mut self) -> ToWorker {
        let mut packet = [0; 4096];
        let n = self.control.as_ref().unwrap().recv(&mut packet).expect("an event");
        ToWorker::decode(&packet[..n]).unwrap()
    }

    /// Closes the control channel, as the worker's death would.
    pub fn hang_up(&mut self) {
        self.control = None;
    }

    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the engine does not end");
    }

    pub fn send(&mut self, messages: &[StreamMessage<'_>]) {
        let mut bytes = Vec::new();
        messages.iter().for_each(|m| m.encode(&mut bytes));
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, mut bytes: &[u8]) {
        let start = Instant::now();
        while !bytes.is_empty() {
            let n = self.ring.write(bytes);
            bytes = &bytes[n..];
            if n == 0 {
                assert!(start.elapsed() < 4 * PATIENCE, "the engine does not read the ring");
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// A snapshot that sees everything committed so far, and a position behind all of it.
    pub fn now(&self) -> (Snapshot, u64) {
        (Snapshot::new(self.xid, Vec::new()), self.lsn)
    }

    /// Commits one transaction with these encoded changes; returns its id.
    pub fn transaction(&mut self, changes: &[u8]) -> u64 {
        let xid = self.xid;
        self.xid += 1;
        self.lsn += 64 + changes.len() as u64;
        let mut bytes = Vec::with_capacity(changes.len() + 64);
        StreamMessage::Begin { xid }.encode(&mut bytes);
        bytes.extend_from_slice(changes);
        StreamMessage::Commit { xid, lsn: self.lsn, time: postgres_now() }.encode(&mut bytes);
        self.send_bytes(&bytes);
        xid
    }

    /// Sends a gate, up to which the engine may apply all transactions.
    pub fn gate(&mut self) {
        let (snapshot, lsn) = self.now();
        self.send(&[StreamMessage::Gate { snapshot, around: Around::default() }, StreamMessage::Position { lsn }]);
    }

    /// Watches a table of accounts and loads it.
    pub fn mirror(&mut self, relid: u32, generation: u64, rows: impl Iterator<Item = accounts::Account>) {
        self.watch(relid, generation);
        let (snapshot, _) = self.now();
        let mut load = Load::begin(self.client(), relid, generation, snapshot).expect("load is accepted");
        let mut expected = 0;
        for row in rows {
            load.row(&row);
            expected += 1;
        }
        load.end().expect("load is taken over");
        assert_eq!(self.event(), ToWorker::Live { relid, generation, rows: expected });
    }

    pub fn watch(&mut self, relid: u32, generation: u64) {
        let (_, lsn) = self.now();
        self.send(&[
            StreamMessage::Watch { generation, layout: accounts::layout(relid) },
            StreamMessage::Position { lsn },
        ]);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn socketpair() -> (UnixDatagram, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: the array has room for two descriptors; the result is checked.
    let result =
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) };
    assert_eq!(result, 0);
    // SAFETY: both were just created and belong to nobody else.
    unsafe { (OwnedFd::from_raw_fd(fds[0]).into(), OwnedFd::from_raw_fd(fds[1])) }
}

/// PostgreSQL's clock, in microseconds since 2000-01-01.
fn postgres_now() -> i64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    unix.as_micros() as i64 - 946_684_800_000_000
}
