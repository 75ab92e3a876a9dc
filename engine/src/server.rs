//! The unix socket. Each connection has a thread, which answers its requests one after the other.
//!
//! After an answer, the connection waits a little for the next request, because a new connection with a new thread
//! takes longer than a short query. Meanwhile, it counts as idle. Idle connections have a limit of their own, so busy
//! connections always find a place. A client whose idle connection was closed connects again.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use protocol::frame::{self, Kind};
use protocol::request::{Hello, Refusal, Request, Status};
use protocol::{ProtocolError, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::incoming::Sent;
use crate::peer::Peer;
use crate::shared::Shared;
use crate::threads::STACK;
use crate::writer::Command;
use crate::{explain, incoming, load, log, query, survey};

/// The pause after a failed accept. Accepting fails if descriptors or memory run out. The second constant is the pause
/// between two log lines about such failures.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Listens at `path`, replacing the socket of an engine that is gone.
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

/// Accepts connections forever, in a thread of its own.
pub fn start(listener: UnixListener, shared: Arc<Shared>) -> io::Result<()> {
    thread::Builder::new().name("anker accept".into()).spawn(move || {
        let mut complained: Option<Instant> = None;
        loop {
            let error = match listener.accept() {
                // The failure of one client must not delay the next one.
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
            // A client may leave at any time.
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
        return Ok(peer.refuse(&Refusal::Version)?);
    }
    // The rows sent along with the next request, or the reason why they were not read.
    let mut sent = Ok(Sent::default());
    while let Some((kind, length)) = peer.header()? {
        match kind {
            Kind::Sent => {
                sent = incoming::sent(peer, &shared.olap, length)?;
                continue;
            }
            Kind::Request => {}
            _ => return Ok(peer.refuse(&Refusal::Protocol { what: "a request is expected".into() })?),
        }
        let request = incoming::request(peer, &shared.olap, length)?;
        let sent = std::mem::replace(&mut sent, Ok(Sent::default()));
        match request.and_then(|request| Ok((request, sent?))) {
            Ok(((request, _room), sent)) => {
                if !answer(peer, shared, request, sent)? {
                    break;
                }
            }
            Err(failure) => query::fail(peer, shared, &failure)?,
        }
        place = match shared.connections.rest(peer, place) {
            Some(place) => place,
            None => break,
        };
    }
    Ok(())
}

/// Answers a request. Returns whether this thread may answer another one. After a query with a higher nice value than
/// usual, it may not, because it cannot return to the usual value.
fn answer(peer: &mut Peer, shared: &Shared, request: Request, sent: Sent) -> Result<bool> {
    match request {
        Request::Query(request) => {
            let nice = shared.threads.nice(request.limits.nice);
            // Threads inherit the priority of the thread that makes them, so they are made before this thread's own
            // priority is lowered.
            shared.threads.of(nice);
            // The priority is lowered only for queries, so that loads do not take longer.
            shared.threads.yielding(nice);
            query::answer(peer, shared, *request, sent)?;
            return Ok(shared.threads.is_usual(nice));
        }
        Request::Explain(request) => explain::answer(peer, shared, *request)?,
        Request::Load(request) => load::answer(peer, shared, request)?,
        Request::Survey(request) => survey::answer(peer, shared, request)?,
        Request::Status => status(peer, shared)?,
        Request::Checkpoint => {
            let written = peer.attend(shared.checkpoints.request()).map_err(io::Error::from)?;
            // Without an answer, the process will end soon.
            let written = written.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
            peer.send(Kind::Checkpoint, &written)?;
        }
        Request::Activity => peer.send(Kind::Activity, &shared.activities.list())?,
    }
    Ok(true)
}

fn status(peer: &mut Peer, shared: &Shared) -> Result<()> {
    let (reply, answer) = oneshot::channel();
    shared.writer.command(Command::Status(reply));
    // Without an answer, the writer is gone, and the process will end soon.
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
        checkpoint: shared.checkpoints.status(),
        ..Status::default()
    };
    shared.checkpoints.report(&mut status.tables);
    shared.stats.report(&mut status);
    Ok(peer.send(Kind::Status, &status)?)
}
