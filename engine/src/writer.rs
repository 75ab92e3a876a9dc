//! The writer: the only thread that owns the store.
//!
//! ```text
//!   each turn:  some of the ring, up to where a request waits -> store
//!               new requests; those whose L was reached       -> snapshots, to the query's thread
//!               one piece of a load                           -> store
//!               events                                        -> worker
//!   nothing to do: tidy, then sleep until the ring or another thread wakes us
//! ```
//!
//! So a request waits until the stream has reached its L, and for at most one piece of a load. It never waits for
//! changes beyond its L.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use colstore::{
    Forked, Lease, Limits, Mechanism, Served, Store, StoreStatus, Survey, TableImage, TableRequest, TableSnapshot,
    Undone,
};
use olap::Work;
use protocol::Snapshot;
use protocol::control::{Settings, ToWorker};
use protocol::request::{LoadRequest, Refusal};
use protocol::ring::{Consumer, Waker};
use protocol::survey::SurveyRequest;
use tokio::sync::oneshot;

use crate::checkpoints::{Checkpoints, Dropped, OwnedChunk};
use crate::stats::Stats;
use crate::stream::{Stream, StreamError};

/// The number of pieces of loads that may wait for the writer. A faster loader is blocked until there is room.
const LOAD_QUEUE: usize = 4;
/// The longest sleep. Nothing depends on it, but it limits the cost of a lost wake-up.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Requests of other threads to the writer.
pub enum Command {
    Serve(ServeRequest),
    Survey {
        request: SurveyRequest,
        reply: oneshot::Sender<Result<Survey, Refusal>>,
    },
    /// Asks for the image of a table, which may be held until the lease is revoked. The answer is `None` if the table
    /// is not live.
    Image {
        relid: u32,
        lease: Arc<Lease>,
        reply: oneshot::Sender<Option<Imaged>>,
    },
    Status(oneshot::Sender<WriterStatus>),
}

/// The image of a table.
pub struct Imaged {
    pub image: TableImage,
    /// The position up to which the image is complete, see [`crate::thresholds`].
    pub threshold: u64,
}

pub struct ServeRequest {
    pub snapshot: Snapshot,
    pub tables: Vec<TableRequest>,
    /// The LSN that the stream must have reached before the request is served.
    pub lsn: u64,
    pub arrived: Instant,
    pub deadline: Instant,
    pub lease: Arc<Lease>,
    /// The task of a forked child, if the request wants a child instead of views.
    pub fork: Option<Fork>,
    /// The channel for the answer. It is closed if the asking thread is gone.
    pub reply: oneshot::Sender<Result<ServeReply, Refusal>>,
}

/// A request to the writer to fork.
pub struct Fork {
    pub work: Box<Work>,
    pub reply_bytes: usize,
}

/// The writer's answer to a [`ServeRequest`].
pub struct ServeReply {
    pub taken: Taken,
    pub waited: Duration,
    pub snapshot: Duration,
}

/// The tables of a query, taken from the store.
pub enum Taken {
    Snapshots(Vec<TableSnapshot>),
    /// A child process that has the tables as S sees them.
    Child {
        child: Arc<Forked>,
        scanned_rows: u64,
        undone: Undone,
    },
}

pub struct WriterStatus {
    pub store: StoreStatus,
    pub lsn: u64,
    /// The position up to which the tables are complete, see [`crate::thresholds`].
    pub threshold: u64,
}

/// The steps of a load, in the order in which its connection sends them.
pub enum LoadStep {
    Begin {
        request: LoadRequest,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    /// The number of rows that are about to come from a checkpoint.
    Expect {
        relid: u32,
        generation: u64,
        rows: u64,
    },
    /// A chunk of a checkpoint. Rows whose address is dropped are left out.
    Chunk {
        relid: u32,
        generation: u64,
        chunk: OwnedChunk,
        dropped: Arc<Dropped>,
        refused: Sender<Refusal>,
    },
    Rows {
        relid: u32,
        generation: u64,
        rows: Vec<u8>,
        refused: Sender<Refusal>,
    },
    /// The loader has sent this many rows. The answer is the number of the table's rows, with those of a checkpoint.
    End {
        relid: u32,
        generation: u64,
        rows: u64,
        reply: oneshot::Sender<Result<u64, Refusal>>,
    },
    Abort {
        relid: u32,
        generation: u64,
    },
}

struct Beginning {
    request: LoadRequest,
    reply: oneshot::Sender<Result<(), Refusal>>,
    ring_bytes: u64,
}

/// The interface of the writer for other threads. Sending fails only when the process is about to end.
#[derive(Clone)]
pub struct WriterHandle {
    commands: Sender<Command>,
    loads: SyncSender<LoadStep>,
    waker: Waker,
}

impl WriterHandle {
    pub fn command(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }

    /// Passes on a step of a load. Blocks while [`LOAD_QUEUE`] steps are waiting.
    pub fn load(&self, step: LoadStep) {
        if self.loads.send(step).is_ok() {
            self.waker.wake();
        }
    }
}

pub struct Writer {
    ring: Consumer,
    stream: Stream,
    store: Store,
    commands: Receiver<Command>,
    loads: Receiver<LoadStep>,
    /// A load that must wait until the stream has handled all bytes that were in the ring when the load came, because
    /// these bytes probably contain the Watch message of the load's table.
    beginning: Option<Beginning>,
    /// Requests whose L was not reached yet, in the order of their arrival.
    waiting: Vec<ServeRequest>,
    events: Sender<ToWorker>,
    stats: Arc<Stats>,
    checkpoints: Arc<Checkpoints>,
}

impl Writer {
    pub fn new(
        ring: Consumer,
        settings: &Settings,
        mechanism: Mechanism,
        events: Sender<ToWorker>,
        stats: Arc<Stats>,
        checkpoints: Arc<Checkpoints>,
    ) -> (Writer, WriterHandle) {
        let (commands, command_queue) = channel();
        let (loads, load_queue) = sync_channel(LOAD_QUEUE);
        let handle = WriterHandle { commands, loads, waker: ring.waker() };
        let limits = Limits {
            memory_bytes: settings.memory_bytes,
            undo_bytes: settings.undo_bytes,
            undo_seconds: settings.undo_seconds,
        };
        let writer = Writer {
            ring,
            stream: Stream::default(),
            store: Store::new(limits, mechanism),
            commands: command_queue,
            loads: load_queue,
            beginning: None,
            waiting: Vec::new(),
            events,
            stats,
            checkpoints,
        };
        (writer, handle)
    }

    /// Runs the writer. Returns only on an error after which the stream cannot be followed any more.
    pub fn run(mut self) -> StreamError {
        loop {
            // The ticket is taken before the search for work, so that a wake-up between the two is not missed.
            let ticket = self.ring.ticket();
            match self.turn() {
                Ok(true) => {}
                Ok(false) if self.store.tidy() => {}
                Ok(false) => self.ring.wait(ticket, self.sleep()),
                Err(error) => return error,
            }
        }
    }

    /// Does a bounded amount of each kind of work. Returns whether more work may be waiting.
    fn turn(&mut self) -> Result<bool, StreamError> {
        let next = self.waiting.iter().map(|r| r.lsn).min();
        let mut busy = self.stream.turn(&mut self.ring, &mut self.store, next)?;
        if let Some(id) = self.stream.take_anchored() {
            self.checkpoints.anchored(id);
        }
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Serve(request) => self.waiting.push(request),
                Command::Survey { request, reply } => {
                    let _ = reply.send(self.store.survey(request.relid, request.fingerprint));
                }
                Command::Image { relid, lease, reply } => {
                    // A table that is not live has no image, and neither has one without memory for a snapshot.
                    let threshold = self.stream.threshold();
                    let imaged = self.store.image(relid, Some(lease)).ok().filter(|_| threshold > 0);
                    let _ = reply.send(imaged.map(|image| Imaged { image, threshold }));
                }
                Command::Status(reply) => {
                    self.note_applied();
                    // Here and below, sending fails only if the asking thread is gone, and then nobody needs the
                    // answer.
                    let _ = reply.send(WriterStatus {
                        store: self.store.status(),
                        lsn: self.stream.position(),
                        threshold: self.stream.threshold(),
                    });
                }
            }
        }
        self.serve_waiting();
        self.store.settle_forks();
        busy |= self.load();
        for relid in self.store.take_retired() {
            self.checkpoints.forget(relid, false);
        }
        for event in self.store.take_events() {
            if let ToWorker::Broken { relid, error, .. } = event {
                self.checkpoints.forget(relid, error);
            }
            // Sending fails only if the receiver is gone, and then the process is about to end.
            let _ = self.events.send(event);
        }
        self.note_applied();
        Ok(busy)
    }

    fn note_applied(&mut self) {
        self.stats.applied(self.store.take_apply_delays());
    }

    fn sleep(&self) -> Duration {
        let now = Instant::now();
        self.waiting.iter().map(|r| r.deadline.saturating_duration_since(now)).fold(LONGEST_SLEEP, Duration::min)
    }

    /// Answers the requests that can be answered now, in the order of their arrival.
    fn serve_waiting(&mut self) {
        let reached = self.stream.position();
        let due = |r: &mut ServeRequest| r.reply.is_closed() || r.lsn <= reached || r.deadline <= Instant::now();
        for request in self.waiting.extract_if(.., due).collect::<Vec<_>>() {
            if request.reply.is_closed() {
                continue;
            }
            let answer = if request.lsn <= reached {
                bind(&mut self.store, &request.snapshot, &request.tables, request.lease, request.fork, request.arrived)
            } else {
                Err(Refusal::TimedOut { reached, wanted: request.lsn })
            };
            let _ = request.reply.send(answer);
        }
    }

    /// Takes one step of a load. Returns whether there was one.
    fn load(&mut self) -> bool {
        if let Some(Beginning { request, reply, .. }) =
            self.beginning.take_if(|b| self.stream.has_handled(&self.ring, b.ring_bytes))
        {
            let _ = reply.send(self.store.load_begin(&request));
            return true;
        }
        if self.beginning.is_some() {
            return false;
        }
        let Ok(step) = self.loads.try_recv() else { return false };
        let store = &mut self.store;
        match step {
            LoadStep::Begin { request, reply } => {
                self.beginning = Some(Beginning { request, reply, ring_bytes: self.ring.written() });
            }
            // If there is no memory for a large index, the index grows with the rows.
            LoadStep::Expect { relid, generation, rows } => drop(store.load_expect(relid, generation, rows)),
            LoadStep::Chunk { relid, generation, chunk, dropped, refused } => {
                let loaded = store.load_chunk(relid, generation, &chunk.image(), |address| dropped.has(address));
                if let Err(refusal) = loaded {
                    store.load_abort(relid, generation);
                    let _ = refused.send(refusal);
                }
            }
            LoadStep::Rows { relid, generation, rows, refused } => {
                if let Err(refusal) = store.load_rows(relid, generation, &rows) {
                    // The load is aborted at once, so that no later step of it can succeed.
                    store.load_abort(relid, generation);
                    let _ = refused.send(refusal);
                }
            }
            LoadStep::End { relid, generation, rows, reply } => {
                let _ = reply.send(store.load_end(relid, generation, rows));
            }
            LoadStep::Abort { relid, generation } => store.load_abort(relid, generation),
        }
        true
    }
}

/// Binds a query to snapshots of its tables. A forked child must find the tables as S sees them. So before the fork,
/// changes that S does not see are undone in views of the tables. These views are dropped right after the fork, so that
/// the writer can write in place again.
fn bind(
    store: &mut Store,
    snapshot: &Snapshot,
    tables: &[TableRequest],
    lease: Arc<Lease>,
    fork: Option<Fork>,
    arrived: Instant,
) -> Result<ServeReply, Refusal> {
    let start = Instant::now();
    let waited = start.duration_since(arrived);
    let snapshots = store.bind(snapshot, tables, Some(lease))?;
    let taken = match fork {
        None => Taken::Snapshots(snapshots),
        Some(Fork { mut work, reply_bytes }) => {
            let Served { tables, undone } = Served::settled(snapshots)?;
            let scanned_rows = tables.iter().map(|table| table.row_count()).sum();
            tables.iter().try_for_each(|table| work.read(&**table))?;
            let child = store.fork(*work, reply_bytes)?;
            Taken::Child { child, scanned_rows, undone }
        }
    };
    Ok(ServeReply { taken, waited, snapshot: start.elapsed() })
}
