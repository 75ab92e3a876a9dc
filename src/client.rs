//! A connection from a backend or a loader to the engine.
//!
//! Never blocks without serving interrupts, and never without a limit: every wait is for latch and socket together, and
//! an engine that shows no sign of life is given up. The socket is closed when the value is dropped, which cancels what
//! the engine is doing for it; owners that live in PostgreSQL's memory drop it from a memory context callback, since
//! errors jump over everything else.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use protocol::ProtocolError;
use protocol::frame::{self, Inbox, Kind};
use protocol::request::{Hello, Refusal};

use crate::pg::catalog::relation_name;
use crate::pg::{session, wait};

/// Directory of the sockets, below the data directory, which is every server process's working directory. pg_basebackup
/// passes over names that begin as this one does, and pg_rewind over such files in a directory: it could not read a socket.
pub const SOCKET_DIRECTORY: &str = "pgsql_tmp_anker";
/// An engine that sends nothing for so long where we wait for it, or takes nothing of what we send, hangs. One that is
/// busy says that it is there once a second ([`frame::ALIVE_INTERVAL`]).
const SILENCE: Duration = Duration::from_secs(10);
/// The longest wait at a time. One that took [`STANDSTILL`] longer shows that this process did not run, and the engine
/// may not have run either: its silence counts anew.
const WAIT: Duration = Duration::from_secs(1);
const STANDSTILL: Duration = Duration::from_secs(1);
/// Pause before the next attempt to connect while the engine's listen queue is full.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

pub fn socket_path(database: pg_sys::Oid) -> String {
    format!("{SOCKET_DIRECTORY}/pgsql_tmp_{}.sock", database.to_u32())
}

pub struct Engine {
    stream: UnixStream,
    /// Given back when the socket is closed: fields are dropped in their order.
    _descriptor: Descriptor,
    inbox: Inbox,
    /// For how long the engine may show no sign of life.
    pub patience: Duration,
}

/// A frame as it came, or that the time was over first.
pub enum Received<'a> {
    Frame(Kind, &'a [u8]),
    TimedOut,
}

impl Engine {
    /// Connects and says hello. The error is a reason for EXPLAIN.
    pub fn connect(database: pg_sys::Oid, limit: Duration) -> Result<Engine, String> {
        let descriptor = Descriptor::reserve().ok_or("session has too many files open (max_files_per_process)")?;
        let stream = connect(&socket_path(database), limit).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => "engine is not running".to_string(),
            ErrorKind::WouldBlock => "engine accepts no connections".to_string(),
            _ => format!("engine cannot be reached: {e}"),
        })?;
        let mut engine = Engine { stream, _descriptor: descriptor, inbox: Inbox::default(), patience: SILENCE };
        engine.send(&frame::encode(Kind::Hello, &Hello { version: protocol::VERSION }))?;
        Ok(engine)
    }

    /// Sends everything, waiting where the engine is slower than we are.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let mut since = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => {
                    bytes = &bytes[n..];
                    since = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left = self.patience.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        return Err(self.silent());
                    }
                    if wait_for(pg_sys::WL_SOCKET_WRITEABLE, Some(&self.stream), left.min(WAIT)) {
                        since = Instant::now();
                    }
                }
                Err(e) => return Err(self.last_word().unwrap_or_else(|| broken(e))),
            }
        }
        Ok(())
    }

    /// Sends some of it, and returns how much: nothing if the engine takes nothing within the timeout.
    pub fn send_some(&mut self, bytes: &[u8], timeout: Duration) -> Result<usize, String> {
        for last in [false, true] {
            match self.stream.write(bytes) {
                Ok(n) => return Ok(n),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(self.last_word().unwrap_or_else(|| broken(e))),
            }
            if !last {
                wait_for(pg_sys::WL_SOCKET_WRITEABLE, Some(&self.stream), timeout);
            }
        }
        Ok(0)
    }

    /// The next frame; its bytes are valid until the next call.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Received<'_>, String> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut heard = Instant::now();
        loop {
            match self.inbox.arrived().map_err(|e| e.to_string())? {
                Some(Kind::Alive) => continue,
                Some(kind) => return Ok(Received::Frame(kind, self.inbox.payload())),
                None => {}
            }
            if self.fill()? {
                heard = Instant::now();
                continue;
            }
            let now = Instant::now();
            let silent = heard + self.patience;
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Received::TimedOut);
            }
            if silent <= now {
                return Err(self.silent());
            }
            let until = deadline.map_or(silent, |deadline| deadline.min(silent));
            if wait_for(pg_sys::WL_SOCKET_READABLE, Some(&self.stream), (until - now).min(WAIT)) {
                heard = Instant::now();
            }
        }
    }

    /// The bytes of the frame that came last, to keep.
    pub fn take_payload(&mut self) -> Vec<u8> {
        self.inbox.take_payload()
    }

    /// Reads what is there; false if nothing is.
    fn fill(&mut self) -> Result<bool, String> {
        self.inbox.fill(&mut self.stream).map_err(|e| match e {
            ProtocolError::Truncated => "engine closed the connection".into(),
            ProtocolError::Io(e) => broken(e),
            other => other.to_string(),
        })
    }

    /// Why the engine closed the connection, if it said so.
    fn last_word(&mut self) -> Option<String> {
        while self.fill().is_ok_and(|more| more) {
            if self.inbox.arrived().ok()? == Some(Kind::Refused) {
                let refusal: Refusal = frame::parse(self.inbox.payload()).ok()?;
                return Some(refusal.reason(|relid| relation_name(pg_sys::Oid::from(relid))));
            }
        }
        None
    }

    fn silent(&self) -> String {
        format!("engine has shown no sign of life for {} s", self.patience.as_secs())
    }
}

fn broken(error: io::Error) -> String {
    format!("connection to the engine broke: {error}")
}

/// The server counts what it does not manage itself, and keeps that below a part of what the process may open.
struct Descriptor;

impl Descriptor {
    /// So many stay for others: the server's own waits take one, and raise an error where there is none. Few, since with
    /// the smallest `max_files_per_process` a process may have 16.
    const SPARE: usize = 4;

    fn reserve() -> Option<Descriptor> {
        // Made only where it was counted: what is dropped is given back.
        let acquire = |_| if session::count_open_file() { Some(Descriptor) } else { None };
        let mut acquired: Vec<_> = (0..=Self::SPARE).map_while(acquire).collect();
        if acquired.len() > Self::SPARE { acquired.pop() } else { None }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        session::count_closed_file();
    }
}

/// Connects as soon as the engine's listen queue has room.
fn connect(path: &str, limit: Duration) -> io::Result<UnixStream> {
    let start = Instant::now();
    loop {
        match connect_at_once(path) {
            Err(e) if e.kind() == ErrorKind::WouldBlock && start.elapsed() < limit => {
                wait_for(0, None, CONNECT_PAUSE);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// std's connect would block while the listen queue is full, deaf to interrupts.
fn connect_at_once(path: &str) -> io::Result<UnixStream> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    if path.len() >= address.sun_path.len() {
        return Err(ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: makes a descriptor, which belongs to the stream from here on; the address is complete.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let stream = UnixStream::from_raw_fd(socket);
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        match libc::connect(socket, (&raw const address).cast(), length) {
            0 => Ok(stream),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Waits for the latch, for the time, and for a socket if there is one; serves interrupts. Returns whether this process
/// stood still meanwhile.
fn wait_for(socket_event: u32, socket: Option<&UnixStream>, timeout: Duration) -> bool {
    let start = Instant::now();
    wait::wait(timeout, socket.map(|socket| (socket.as_fd(), socket_event)));
    let stood_still = start.elapsed() > timeout + STANDSTILL;
    pgrx::check_for_interrupts!();
    stood_still
}
