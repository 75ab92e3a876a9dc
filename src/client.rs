//! A connection from a backend or a loader to the engine.
//!
//! Never blocks without serving interrupts: every wait is for latch and socket together. The socket is closed when the
//! value is dropped, which cancels what the engine is doing for it; owners that live in PostgreSQL's memory drop it from
//! a memory context callback, since errors jump over everything else.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use protocol::frame::{self, HEADER, Kind};
use protocol::request::Hello;

/// Directory of the sockets, below the data directory, which is every server process's working directory. pg_basebackup
/// passes over names that begin as this one does, and pg_rewind over such files in a directory: it could not read a socket.
pub const SOCKET_DIRECTORY: &str = "pgsql_tmp_anker";

pub fn socket_path(database: pg_sys::Oid) -> String {
    format!("{SOCKET_DIRECTORY}/pgsql_tmp_{}.sock", database.to_u32())
}

pub struct Engine {
    stream: UnixStream,
    /// Bytes received, not handed out yet: `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// A frame as it came, or that the time was over first.
pub enum Received<'a> {
    Frame(Kind, &'a [u8]),
    TimedOut,
}

impl Engine {
    /// Connects and says hello. The error is a reason for EXPLAIN.
    pub fn connect(database: pg_sys::Oid) -> Result<Engine, String> {
        let stream = UnixStream::connect(socket_path(database)).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => "engine is not running".to_string(),
            _ => format!("engine cannot be reached: {e}"),
        })?;
        stream.set_nonblocking(true).map_err(|e| format!("engine cannot be reached: {e}"))?;
        let mut engine = Engine { stream, buffer: Vec::new(), start: 0, end: 0 };
        engine.send(&frame::encode(Kind::Hello, &Hello { version: protocol::VERSION }))?;
        Ok(engine)
    }

    /// Sends everything, waiting where the engine is slower than we are.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.wait(pg_sys::WL_SOCKET_WRITEABLE, None);
                }
                Err(e) => return Err(format!("connection to the engine broke: {e}")),
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
                Err(e) => return Err(format!("connection to the engine broke: {e}")),
            }
            if !last {
                self.wait(pg_sys::WL_SOCKET_WRITEABLE, Some(timeout));
            }
        }
        Ok(0)
    }

    /// The next frame. It may stand partly in the buffer already; a frame's bytes are valid until the next call.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Received<'_>, String> {
        let deadline = timeout.map(|t| Instant::now() + t);
        loop {
            if let Some((kind, length)) = self.complete_frame()? {
                let payload = self.start + HEADER;
                self.start = payload + length;
                return Ok(Received::Frame(kind, &self.buffer[payload..payload + length]));
            }
            if !self.fill()? {
                let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                if left == Some(Duration::ZERO) {
                    return Ok(Received::TimedOut);
                }
                self.wait(pg_sys::WL_SOCKET_READABLE, left);
            }
        }
    }

    /// Whether a whole frame stands in the buffer.
    fn complete_frame(&self) -> Result<Option<(Kind, usize)>, String> {
        let have = &self.buffer[self.start..self.end];
        let Some(header) = have.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let (kind, length) = frame::parse_header(*header).map_err(|e| e.to_string())?;
        Ok((have.len() >= HEADER + length).then_some((kind, length)))
    }

    /// Reads what is there; false if nothing is.
    fn fill(&mut self) -> Result<bool, String> {
        const PIECE: usize = 256 << 10;
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + PIECE {
            self.buffer.resize(self.end + PIECE, 0);
        }
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err("engine closed the connection".into()),
                Ok(n) => {
                    self.end += n;
                    return Ok(true);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("connection to the engine broke: {e}")),
            }
        }
    }

    fn wait(&self, socket_event: u32, timeout: Option<Duration>) {
        let mut events = socket_event | pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
        let mut milliseconds = -1;
        if let Some(t) = timeout {
            events |= pg_sys::WL_TIMEOUT;
            // Rounded up: a rest of less than a millisecond must not become a busy loop.
            milliseconds = t.as_micros().div_ceil(1000).min(i32::MAX as u128) as _;
        }
        // SAFETY: our own latch and an open socket, on the main thread.
        unsafe {
            let happened = pg_sys::WaitLatchOrSocket(
                pg_sys::MyLatch,
                events as i32,
                self.stream.as_raw_fd(),
                milliseconds,
                pg_sys::PG_WAIT_EXTENSION,
            );
            if happened as u32 & pg_sys::WL_LATCH_SET != 0 {
                pg_sys::ResetLatch(pg_sys::MyLatch);
            }
        }
        pgrx::check_for_interrupts!();
    }
}
