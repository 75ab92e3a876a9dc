//! A connection from a backend or a loader to the engine.
//!
//! When all requests on it were answered, a backend keeps its connection for the next request. Meanwhile, the engine
//! may close the connection, or end. So a request on a kept connection is sent once more, on a new connection, if the
//! engine has not begun to answer it.
//!
//! Every wait on the connection serves interrupts and has a limit: it waits for latch and socket together, and gives up
//! an engine that sends no keep-alive message. Dropping the value closes the socket, which cancels the engine's work
//! for it. A value that lies in PostgreSQL's memory is dropped by a memory context callback, because errors jump over
//! all other code.

use std::cell::RefCell;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use protocol::ProtocolError;
use protocol::frame::{self, Inbox, Kind};
use protocol::request::{Hello, Phase, Refusal};

use crate::pg::catalog::relation_name;
use crate::pg::session;
use crate::pg::wait::{self, WaitFor};

/// The directory of the sockets, below the data directory, which is the working directory of every server process. It
/// is PostgreSQL's own directory, and PostgreSQL's programs skip its contents. pg_rewind could neither copy nor remove
/// a socket in a directory of our own.
const SOCKET_DIRECTORY: &str = "pg_stat_tmp";
/// The beginning and the end of a socket's name, with the database between them.
const SOCKET_NAME: [&str; 2] = ["pgsql_tmp_anker_", ".sock"];
/// The directory of the extension's files. pg_basebackup skips files whose names have this prefix, and pg_rewind
/// removes them.
pub const FILE_DIRECTORY: &str = "pgsql_tmp_anker";
/// The time after which an engine counts as hung if it has neither sent anything nor taken anything. A busy engine
/// sends a keep-alive message every second ([`frame::ALIVE_INTERVAL`]).
const SILENCE: Duration = Duration::from_secs(10);
/// The longest single wait. If a wait took [`STANDSTILL`] longer than planned, this process was stopped, and perhaps
/// the engine was, too. Then the engine gets its full time again.
const WAIT: Duration = Duration::from_secs(1);
const STANDSTILL: Duration = Duration::from_secs(1);
/// The pause before the next attempt to connect while the engine's listen queue is full.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

pub fn socket_path(database: pg_sys::Oid) -> String {
    let [beginning, end] = SOCKET_NAME;
    format!("{SOCKET_DIRECTORY}/{beginning}{}{end}", database.to_u32())
}

/// All engines' sockets in the directory. Their engines may be gone.
pub fn sockets() -> impl Iterator<Item = PathBuf> {
    let [beginning, end] = SOCKET_NAME;
    let ours = move |name: &str| name.starts_with(beginning) && name.ends_with(end);
    // If the directory does not exist, there are no sockets.
    let files = fs::read_dir(SOCKET_DIRECTORY).into_iter().flatten().flatten();
    files.filter(move |file| file.file_name().to_str().is_some_and(ours)).map(|file| file.path())
}

/// The directory in which the engine puts data that does not fit into its memory.
pub fn disk_path(database: pg_sys::Oid) -> String {
    format!("{FILE_DIRECTORY}/pgsql_tmp_{}.disk", database.to_u32())
}

const CHECKPOINTS_NAME: [&str; 2] = ["pgsql_tmp_", "_checkpoints"];

/// The directory for the checkpoints of the engine's columns.
pub fn checkpoints_path(database: pg_sys::Oid) -> String {
    let [beginning, end] = CHECKPOINTS_NAME;
    format!("{FILE_DIRECTORY}/{beginning}{}{end}", database.to_u32())
}

/// The databases for which there is a directory of checkpoints.
pub fn databases_with_checkpoints() -> Vec<u32> {
    let [beginning, end] = CHECKPOINTS_NAME;
    let files = fs::read_dir(FILE_DIRECTORY).into_iter().flatten().flatten();
    let database = |file: fs::DirEntry| {
        let name = file.file_name();
        name.to_str()?.strip_prefix(beginning)?.strip_suffix(end)?.parse().ok()
    };
    files.filter_map(database).collect()
}

/// Removes the checkpoints of a database whose tables are not mirrored any more. What cannot be removed now is removed
/// by a later call.
pub fn remove_checkpoints(database: pg_sys::Oid) {
    let _ = fs::remove_dir_all(checkpoints_path(database));
}

pub struct Connection {
    stream: UnixStream,
    /// The socket's entry in the server's count of open files. It must exist until the socket is closed. Fields are
    /// dropped in their order, so `stream` is closed first.
    _descriptor: Descriptor,
    inbox: Inbox,
    /// The time for which the engine may stay silent.
    pub patience: Duration,
    /// The time of the engine's last message, or of the last request to it.
    heard: Instant,
    database: pg_sys::Oid,
    /// The event that pg_stat_activity shows while this process waits for a frame.
    pub waits_for: WaitFor,
    /// The request on a kept connection, until the engine begins to answer it.
    again: Option<Again>,
}

/// A request that is repeated if the kept connection turns out to be closed.
struct Again {
    request: Vec<u8>,
    /// The time by which a new connection must exist.
    deadline: Instant,
}

/// The reason why nothing was received.
pub enum Lost {
    /// This process has no memory for the answer.
    NoMemory(String),
    Other(String),
}

impl From<Lost> for String {
    fn from(lost: Lost) -> String {
        match lost {
            Lost::NoMemory(text) | Lost::Other(text) => text,
        }
    }
}

impl From<String> for Lost {
    fn from(text: String) -> Lost {
        Lost::Other(text)
    }
}

impl From<&str> for Lost {
    fn from(text: &str) -> Lost {
        Lost::Other(text.into())
    }
}

impl From<ProtocolError> for Lost {
    fn from(error: ProtocolError) -> Lost {
        let text = error.to_string();
        if let ProtocolError::NoMemory(_) = error { Lost::NoMemory(text) } else { Lost::Other(text) }
    }
}

/// The reason why nothing can be sent or received any more.
enum Loss {
    /// The engine closed its end of the connection.
    Closed(String),
    Other(String),
}

impl Loss {
    fn of(error: io::Error) -> Loss {
        let text = format!("connection to the engine broke: {error}");
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Loss::Closed(text),
            _ => Loss::Other(text),
        }
    }
}

impl From<Loss> for String {
    fn from(loss: Loss) -> String {
        match loss {
            Loss::Closed(text) | Loss::Other(text) => text,
        }
    }
}

/// A connection that is kept between requests, with the process that owns it.
struct Kept {
    engine: Connection,
    process: u32,
}

thread_local! {
    /// The kept connection. `ManuallyDrop` prevents its drop at the end of the process, when the server's functions can
    /// no longer be called.
    static KEPT: RefCell<Option<ManuallyDrop<Kept>>> = const { RefCell::new(None) };
}

/// The outcome of waiting for a frame.
pub enum Received<'a> {
    Frame(Kind, &'a [u8]),
    TimedOut,
}

impl Connection {
    /// Connects and sends the greeting. The error's text is a reason that EXPLAIN shows.
    pub fn connect(database: pg_sys::Oid, limit: Duration) -> Result<Connection, String> {
        let descriptor = Descriptor::reserve().ok_or("session has too many files open (max_files_per_process)")?;
        let stream = connect(database, limit)?;
        let inbox = Inbox::default();
        let (patience, heard) = (SILENCE, Instant::now());
        let (waits_for, again) = (WaitFor::Answer, None);
        let mut engine =
            Connection { stream, _descriptor: descriptor, inbox, patience, heard, database, waits_for, again };
        engine.send(&hello())?;
        Ok(engine)
    }

    /// The kept connection or, if there is none, a new one.
    pub fn reach(database: pg_sys::Oid, limit: Duration) -> Result<Connection, String> {
        match Connection::kept(database) {
            Some(mut engine) => {
                engine.patience = SILENCE;
                engine.waits_for = WaitFor::Answer;
                engine.again = Some(Again { request: Vec::new(), deadline: Instant::now() + limit });
                Ok(engine)
            }
            None => Connection::connect(database, limit),
        }
    }

    fn kept(database: pg_sys::Oid) -> Option<Connection> {
        let Kept { mut engine, process } = KEPT.take().map(ManuallyDrop::into_inner)?;
        // After a fork, the child process must not use its parent's connection.
        let ours = process == std::process::id() && engine.database == database;
        // A kept connection has nothing to read, unless it was closed or the engine sent something unasked.
        (ours && matches!(engine.inbox.fill(&mut engine.stream), Ok(false))).then_some(engine)
    }

    /// Keeps the connection for the next request of this process. Called when the engine has answered the request
    /// completely.
    pub fn keep(self) {
        if self.inbox.is_drained() {
            let kept = Kept { engine: self, process: std::process::id() };
            // Another kept connection has been idle for longer, so it is closed.
            drop(KEPT.replace(Some(ManuallyDrop::new(kept))).map(ManuallyDrop::into_inner));
        }
    }

    /// Sends a whole request.
    pub fn request(&mut self, request: Vec<u8>) -> Result<(), String> {
        match (self.send_all(&request), self.again.take()) {
            (Ok(()), again) => self.again = again.map(|again| Again { request, ..again }),
            (Err(Loss::Closed(_)), Some(again)) => self.begin_again(&Again { request, ..again })?,
            (Err(loss), _) => return Err(loss.into()),
        }
        Ok(())
    }

    /// Repeats the request on a new connection. There is no further attempt.
    fn begin_again(&mut self, again: &Again) -> Result<(), String> {
        self.stream = connect(self.database, again.deadline.saturating_duration_since(Instant::now()))?;
        self.inbox = Inbox::default();
        self.send(&hello())?;
        self.send(&again.request)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        Ok(self.send_all(bytes)?)
    }

    /// Sends all bytes, and waits whenever the engine takes none.
    fn send_all(&mut self, mut bytes: &[u8]) -> Result<(), Loss> {
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
                        return Err(Loss::Other(self.silent()));
                    }
                    if wait_for(WaitFor::Request, pg_sys::WL_SOCKET_WRITEABLE, Some(&self.stream), left.min(WAIT)) {
                        since = Instant::now();
                    }
                }
                Err(e) => return Err(self.last_word().map_or_else(|| Loss::of(e), Loss::Other)),
            }
        }
        Ok(())
    }

    /// Sends some of the bytes, and returns their number; 0 if the engine takes none within the timeout.
    pub fn send_some(&mut self, bytes: &[u8], timeout: Duration) -> Result<usize, String> {
        for last in [false, true] {
            match self.stream.write(bytes) {
                Ok(n) => return Ok(n),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(self.last_word().unwrap_or_else(|| Loss::of(e).into())),
            }
            if !last {
                wait_for(WaitFor::LoadRows, pg_sys::WL_SOCKET_WRITEABLE, Some(&self.stream), timeout);
            }
        }
        Ok(0)
    }

    /// The next frame; its bytes are valid until the next call.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Received<'_>, Lost> {
        self.heard = Instant::now();
        let deadline = timeout.map(|t| self.heard + t);
        loop {
            match self.inbox.arrived()? {
                Some(Kind::Alive) => continue,
                Some(Kind::Phase) => {
                    self.waits_for = match frame::parse(self.inbox.payload())? {
                        Phase::Queued => WaitFor::Place,
                        _ => WaitFor::Answer,
                    };
                    continue;
                }
                Some(kind) => return Ok(Received::Frame(kind, self.inbox.payload())),
                None => {}
            }
            if self.listen()? {
                self.heard = Instant::now();
                continue;
            }
            let now = Instant::now();
            let silent = self.heard + self.patience;
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Received::TimedOut);
            }
            if silent <= now {
                return Err(self.silent().into());
            }
            let until = deadline.map_or(silent, |deadline| deadline.min(silent));
            let timeout = (until - now).min(WAIT);
            if wait_for(self.waits_for, pg_sys::WL_SOCKET_READABLE, Some(&self.stream), timeout) {
                self.heard = Instant::now();
            }
        }
    }

    /// Whether the engine has sent nothing for longer than a busy engine does.
    pub fn is_silent(&self) -> bool {
        self.heard.elapsed() >= 2 * frame::ALIVE_INTERVAL
    }

    /// Moves the payload of the last frame out of the connection.
    pub fn take_payload(&mut self) -> Vec<u8> {
        self.inbox.take_payload()
    }

    /// Reads the bytes that have arrived; false if there are none. If a kept connection turns out to be closed, the
    /// request is repeated on a new connection.
    fn listen(&mut self) -> Result<bool, String> {
        match self.fill() {
            Ok(false) => return Ok(false),
            Ok(true) => self.again = None,
            Err(Loss::Closed(why)) => {
                let again = self.again.take().ok_or(why)?;
                self.begin_again(&again)?;
            }
            Err(loss) => return Err(loss.into()),
        }
        Ok(true)
    }

    fn fill(&mut self) -> Result<bool, Loss> {
        self.inbox.fill(&mut self.stream).map_err(|e| match e {
            ProtocolError::Truncated => Loss::Closed("engine closed the connection".into()),
            ProtocolError::Io(e) => Loss::of(e),
            other => Loss::Other(other.to_string()),
        })
    }

    /// The refusal that the engine sent before it closed the connection, if it sent one.
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

fn hello() -> Vec<u8> {
    frame::encode(Kind::Hello, &Hello { version: protocol::VERSION })
}

/// A descriptor that is counted by the server. The server limits descriptors that it does not manage itself to a part
/// of those that a process may open.
struct Descriptor;

impl Descriptor {
    /// The number of descriptors that are left for other uses. The server's own waits need one, and raise an error if
    /// there is none. The number is small, because with the smallest `max_files_per_process` a process may have only 16
    /// descriptors.
    const SPARE: usize = 4;

    fn reserve() -> Option<Descriptor> {
        // A `Descriptor` exists only if it was counted, because its drop decrements the count.
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

/// Connects. While the engine's listen queue is full, tries again until the time limit.
fn connect(database: pg_sys::Oid, limit: Duration) -> Result<UnixStream, String> {
    let path = socket_path(database);
    let start = Instant::now();
    loop {
        let error = match connect_at_once(&path) {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Interrupted => {}
            ErrorKind::WouldBlock if start.elapsed() < limit => {
                _ = wait_for(WaitFor::Connection, 0, None, CONNECT_PAUSE)
            }
            ErrorKind::WouldBlock => return Err("engine accepts no connections".into()),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => return Err("engine is not running".into()),
            _ => return Err(format!("engine cannot be reached: {error}")),
        }
    }
}

/// Connects without waiting. The standard library's function would wait while the listen queue is full, and would not
/// serve interrupts.
fn connect_at_once(path: &str) -> io::Result<UnixStream> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    if path.len() >= address.sun_path.len() {
        return Err(ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the new descriptor is owned by the stream alone from here on; the address is complete.
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

/// Waits for the latch, the timeout, or a socket if one is given, and serves interrupts. Returns whether this process
/// was stopped meanwhile.
fn wait_for(reason: WaitFor, socket_event: u32, socket: Option<&UnixStream>, timeout: Duration) -> bool {
    let start = Instant::now();
    wait::wait(timeout, socket.map(|socket| (socket.as_fd(), socket_event)), reason);
    let stood_still = start.elapsed() > timeout + STANDSTILL;
    pgrx::check_for_interrupts!();
    stood_still
}
