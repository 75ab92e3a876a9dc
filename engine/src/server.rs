//! The unix socket: a thread for each connection, requests one after the other.
//!
//! A connection that has its answer waits a little for the next request, since a new connection with a new thread
//! takes longer than a short query. Meanwhile it counts only as idle. Idle connections have a limit of their own, so
//! they are in nobody's way; a client whose connection was closed connects again.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use protocol::control::Settings;
use protocol::frame::{self, Kind};
use protocol::request::{Hello, Refusal, Request, Status};
use protocol::{ProtocolError, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::peer::Peer;
use crate::process::Urgency;
use crate::stats::Stats;
use crate::writer::{Command, WriterHandle};
use crate::{explain, load, log, query, survey};

/// Stack of every thread that walks expressions: decoding and planning are recursive.
pub const STACK: usize = 16 << 20;
/// Queries that may be open at once, each with a thread, a connection and what it holds for its client. Cursors that
/// nobody reads are such queries, too.
pub const MAX_OPEN_QUERIES: usize = 400;
/// Connections beyond those: loaders, views, and queries that have to be told that there are too many.
const MORE_CONNECTIONS: usize = 100;
const MAX_CONNECTIONS: usize = MAX_OPEN_QUERIES + MORE_CONNECTIONS;
/// Connections that may wait for another request, and for how long.
const MAX_IDLE: usize = 200;
const IDLE: Duration = Duration::from_secs(2);
/// Pause after a failed accept, which is a lack of descriptors or memory, and between two lines in the log about it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// State that all connections share.
pub struct Shared {
    pub settings: Settings,
    /// The mechanism of the columns' snapshots.
    pub mechanism: &'static str,
    /// Queries fork the engine instead of taking column snapshots.
    pub forks: bool,
    pub writer: WriterHandle,
    pub olap: Arc<olap::Runtime>,
    pub runtime: tokio::runtime::Runtime,
    /// Queries that may run at once; the others queue here in order of arrival.
    pub places: Arc<Semaphore>,
    /// Limits how many queries may be open.
    pub open_queries: Semaphore,
    pub connections: Connections,
    pub stats: Arc<Stats>,
    /// The priority of threads that answer queries.
    pub urgency: Urgency,
}

impl Shared {
    /// How a query gets its snapshot.
    pub fn snapshots_by(&self) -> &'static str {
        if self.forks { crate::FORK } else { self.mechanism }
    }
}

/// Limits on connections, busy and idle.
pub struct Connections {
    busy: Arc<Semaphore>,
    idle: Semaphore,
}

impl Default for Connections {
    fn default() -> Self {
        Connections { busy: Arc::new(Semaphore::new(MAX_CONNECTIONS)), idle: Semaphore::new(MAX_IDLE) }
    }
}

impl Connections {
    /// A place for one that has something to do, if the client need not be told that there are too many.
    fn admit(&self, peer: &mut Peer) -> Option<OwnedSemaphorePermit> {
        let place = self.busy.clone().try_acquire_owned().ok();
        if place.is_none() {
            // A client that is gone again needs no answer.
            let _ = peer.refuse(&Refusal::TooManyQueries { limit: MAX_OPEN_QUERIES as u32 });
        }
        place
    }

    /// Waits for another request; `None`: there will be none.
    fn rest(&self, peer: &mut Peer, place: OwnedSemaphorePermit) -> Option<OwnedSemaphorePermit> {
        let idle = self.idle.try_acquire().ok()?;
        drop(place);
        let speaks = peer.speaks_within(IDLE);
        drop(idle);
        if speaks { self.admit(peer) } else { None }
    }
}

/// Listens at `path`, in place of an engine that is gone.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(stale) if stale.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Accepts connections, for ever, in a thread of its own.
pub fn start(listener: UnixListener, shared: Arc<Shared>) -> io::Result<()> {
    thread::Builder::new().name("anker accept".into()).spawn(move || {
        let mut complained: Option<Instant> = None;
        loop {
            let error = match listener.accept() {
                // One client's failure is no reason to let the next one wait.
                Ok((stream, _)) => connect(stream, shared.clone()).err(),
                Err(error) => {
                    thread::sleep(ACCEPT_PAUSE);
                    Some(error)
                }
            };
            if let Some(error) = error
                && complained.is_none_or(|last| last.elapsed() > COMPLAINT_PAUSE)
            {
                log::line(format_args!("connection refused: {error}"));
                complained = Some(Instant::now());
            }
        }
    })?;
    Ok(())
}

fn connect(stream: UnixStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut peer = Peer::new(stream)?;
    let Some(place) = shared.connections.admit(&mut peer) else {
        return Ok(());
    };
    thread::Builder::new().name("anker client".into()).stack_size(STACK).spawn(move || {
        match converse(&mut peer, &shared, place) {
            // A client may go at any time.
            Ok(()) | Err(ProtocolError::Io(_)) => {}
            Err(error) => {
                let _ = peer.refuse(&Refusal::Protocol { what: error.to_string() });
            }
        }
    })?;
    Ok(())
}

fn converse(peer: &mut Peer, shared: &Shared, mut place: OwnedSemaphorePermit) -> Result<()> {
    let mut payload = Vec::new();
    match peer.read(&mut payload)? {
        Some(Kind::Hello) => {}
        Some(_) => return Ok(peer.refuse(&Refusal::Protocol { what: "no greeting".into() })?),
        None => return Ok(()),
    }
    if frame::parse::<Hello>(&payload)?.version != protocol::VERSION {
        return Ok(peer.refuse(&Refusal::Version { engine: protocol::VERSION })?);
    }
    while let Some(kind) = peer.read(&mut payload)? {
        if kind != Kind::Request {
            return Ok(peer.refuse(&Refusal::Protocol { what: "a request is expected".into() })?);
        }
        let request = frame::parse(&payload)?;
        // Rows may have come with it.
        payload = Vec::new();
        match request {
            Request::Query(request) => {
                // Not before: what a loader waits for is not put off.
                shared.urgency.take();
                query::answer(peer, shared, *request)?;
            }
            Request::Explain(request) => explain::answer(peer, shared, *request)?,
            Request::Load(request) => load::answer(peer, shared, request)?,
            Request::Survey(request) => survey::answer(peer, shared, request)?,
            Request::Status => status(peer, shared)?,
        }
        place = match shared.connections.rest(peer, place) {
            Some(place) => place,
            None => break,
        };
    }
    Ok(())
}

fn status(peer: &mut Peer, shared: &Shared) -> Result<()> {
    let (reply, answer) = oneshot::channel();
    shared.writer.command(Command::Status(reply));
    // Without an answer the writer is gone, and soon the process.
    let writer = answer.blocking_recv().map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
    let store = writer.store;
    let mut status = Status {
        pid: std::process::id(),
        mechanism: shared.snapshots_by().into(),
        memory_bytes: store.memory_bytes,
        memory_limit_bytes: shared.settings.memory_bytes,
        undo_bytes: store.undo_bytes,
        undo_transactions: store.undo_transactions,
        pending_transactions: store.pending_transactions,
        live_snapshots: store.live_snapshots,
        copied_bytes: store.copied_bytes,
        lsn: writer.lsn,
        changes_applied: store.changes_applied,
        spilled_bytes: shared.olap.spilled_bytes(),
        tables: store.tables,
        ..Status::default()
    };
    shared.stats.report(&mut status);
    Ok(peer.send(Kind::Status, &status)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_are_in_nobodys_way() {
        let connections = Connections { busy: Arc::new(Semaphore::new(1)), idle: Semaphore::new(1) };
        let pair = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (Peer::new(ours).unwrap(), theirs)
        };
        let ((mut one, mut client), (mut other, mut other_client)) = (pair(), pair());
        let mut payload = Vec::new();
        let place = connections.admit(&mut one).unwrap();
        thread::scope(|scope| {
            let resting = scope.spawn(|| connections.rest(&mut one, place).is_some());
            while connections.busy.available_permits() == 0 {
                thread::yield_now();
            }
            let place = connections.admit(&mut other).expect("the place of the one that rests");
            // Too many are idle.
            assert!(connections.rest(&mut other, place).is_none());
            let _place = connections.admit(&mut other).expect("its place again");
            // Who comes back is told like everybody else.
            frame::write(&mut client, Kind::Request, &Request::Status).unwrap();
            assert!(!resting.join().unwrap());
            assert_eq!(frame::read(&mut client, &mut payload).unwrap(), Some(Kind::Refused));
        });
        assert_eq!((connections.busy.available_permits(), connections.idle.available_permits()), (1, 1));
        // One that says something keeps its connection, one that hangs up or is silent does not.
        let place = connections.admit(&mut other).unwrap();
        frame::write(&mut other_client, Kind::Request, &Request::Status).unwrap();
        let place = connections.rest(&mut other, place).expect("a place for the next request");
        other.read(&mut payload).unwrap();
        assert!(connections.rest(&mut other, place).is_none());
        assert_eq!((connections.busy.available_permits(), connections.idle.available_permits()), (1, 1));
    }
}
