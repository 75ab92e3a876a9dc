//! The unix socket: a thread for each connection, requests one after the other.

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
use tokio::sync::{Semaphore, oneshot};

use crate::peer::Peer;
use crate::stats::Stats;
use crate::writer::{Command, WriterHandle};
use crate::{explain, load, log, query};

/// Stack of every thread that walks expressions: decoding and planning are recursive.
pub const STACK: usize = 16 << 20;
/// Queries that may be open at once, each with a thread, a connection and what it holds for its client. Cursors that
/// nobody reads are such queries, too.
pub const MAX_OPEN_QUERIES: usize = 400;
/// Connections beyond those: loaders, views, and queries that have to be told that there are too many.
const MORE_CONNECTIONS: usize = 100;
/// Pause after a failed accept, which is a lack of descriptors or memory, and between two lines in the log about it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// What all connections use.
pub struct Shared {
    pub settings: Settings,
    pub mechanism: &'static str,
    pub writer: WriterHandle,
    pub olap: Arc<olap::Runtime>,
    pub runtime: tokio::runtime::Runtime,
    /// Queries that may run at once; the others queue here in order of arrival.
    pub places: Arc<Semaphore>,
    /// As many as may be open.
    pub open_queries: Semaphore,
    pub stats: Arc<Stats>,
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
        let connections = Arc::new(Semaphore::new(MAX_OPEN_QUERIES + MORE_CONNECTIONS));
        loop {
            let error = match listener.accept() {
                // One client's failure is no reason to let the next one wait.
                Ok((stream, _)) => connect(stream, &connections, shared.clone()).err(),
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

fn connect(stream: UnixStream, connections: &Arc<Semaphore>, shared: Arc<Shared>) -> io::Result<()> {
    let mut peer = Peer::new(stream)?;
    let Ok(place) = connections.clone().try_acquire_owned() else {
        // A client that is gone again needs no answer.
        let _ = peer.refuse(&Refusal::TooManyQueries { limit: MAX_OPEN_QUERIES as u32 });
        return Ok(());
    };
    thread::Builder::new().name("anker client".into()).stack_size(STACK).spawn(move || {
        let _place = place;
        match converse(&mut peer, &shared) {
            // A client may go at any time.
            Ok(()) | Err(ProtocolError::Io(_)) => {}
            Err(error) => {
                let _ = peer.refuse(&Refusal::Protocol { what: error.to_string() });
            }
        }
    })?;
    Ok(())
}

fn converse(peer: &mut Peer, shared: &Shared) -> Result<()> {
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
        match frame::parse(&payload)? {
            Request::Query(request) => query::answer(peer, shared, *request)?,
            Request::Explain(request) => explain::answer(peer, shared, *request)?,
            Request::Load(request) => load::answer(peer, shared, request)?,
            Request::Status => status(peer, shared)?,
        }
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
        mechanism: store.mechanism.into(),
        memory_bytes: store.memory_bytes,
        memory_limit_bytes: shared.settings.memory_bytes,
        undo_bytes: store.undo_bytes,
        undo_transactions: store.undo_transactions,
        pending_transactions: store.pending_transactions,
        live_snapshots: store.live_snapshots,
        copied_bytes: store.copied_bytes,
        lsn: writer.lsn,
        transactions_applied: store.transactions_applied,
        changes_applied: store.changes_applied,
        tables: store.tables,
        ..Status::default()
    };
    shared.stats.report(&mut status);
    Ok(peer.send(Kind::Status, &status)?)
}
