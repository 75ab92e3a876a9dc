//! Answers a query: binds its snapshot, queues for a place, runs it, and streams the result.
//!
//! ```text
//!   connection's thread                      writer            query threads
//!   request -> Serve ----------------------> snapshot of S
//!   Ready  <-------------------------------- views
//!   wait for a place (max_queries), no longer than anker.max_wait
//!   start  ------------------------------------------------->  plan, execute, encode
//!   Arrow  <------------------------------------------------   pieces, a few ahead of the client
//!   Done or Failed
//! ```
//!
//! The end of the result and Done are sent together, and the first rows are held back for a moment in case the end
//! follows at once. So a small result arrives completely or not at all. If this process is lost before the client has
//! rows, or a value raises an error, the heap can still answer.
//!
//! If the mirror lacks memory for old values that a snapshot needs, the query's lease on the snapshot may be revoked.
//! The query then fails, and the heap answers, unless the client already has rows.
//!
//! A client cancels by closing the connection, which this thread checks whenever it waits. A query whose client does
//! not read its result loses its place. So open cursors do not starve other queries, and cursors of one session do not
//! wait for each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use colstore::{Forked, Lease, Served, TableRequest, TableView, Undone};
use futures::StreamExt;
use futures::future::{Either, select};
use olap::{Cancellation, JoinOrder, Manner, Reservation, Running, Runtime, Usage};
use plan::{Literal, Plan, RelationColumn, Type};
use protocol::frame::{self, Kind};
use protocol::request::{Done, Failure, FailureKind, Limits, Phase, QueryRequest, Ready, Refusal};
use protocol::tree::EnginePlan;
use tokio::sync::{mpsc, oneshot};

use crate::activity::Activity;
use crate::admission::Place;
use crate::encode::{Encoder, slices};
use crate::forked::{Task, Unplanned};
use crate::incoming::Sent;
use crate::log;
use crate::peer::{Gone, Peer};
use crate::room::{self, LongRows};
use crate::shared::Shared;
use crate::stats::Outcome;
use crate::writer::{Command, Fork, ServeReply, ServeRequest, Taken};

/// The time for which the first rows are held back in case the end of the result follows.
const MOMENT: Duration = Duration::from_millis(1);
/// The number of pieces of a result that may wait while the previous one is being sent.
const PIECES_AHEAD: usize = 1;
/// The longest row: a longer one, with Arrow's metadata, would not fit into one frame.
const LONGEST_ROW: usize = frame::MAX_PAYLOAD - (16 << 20);
/// The deepest nesting of expressions. Deeper expressions are refused, because expressions are processed recursively.
const DEEPEST_EXPRESSION: usize = 256;
/// A wait that is practically infinite, but does not overflow a clock.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Whole Arrow messages of the result.
struct Piece {
    bytes: Vec<u8>,
    /// Whether it is the last piece of the result.
    is_last: bool,
    /// The memory reserved for a long row. It is released after the piece was sent.
    _memory: Option<Reservation>,
}

/// The tables of a query as its snapshot sees them: either views, or a forked child that has the tables.
pub struct QueryTables {
    pub views: Vec<Arc<dyn TableView>>,
    child: Option<Arc<Forked>>,
    scanned_rows: u64,
    undone: Undone,
    waited: Duration,
    snapshot: Duration,
}

impl QueryTables {
    /// Restores the values that the snapshot sees, unless the writer did that before a fork.
    fn of(ServeReply { taken, waited, snapshot }: ServeReply) -> Result<QueryTables, Refusal> {
        let start = Instant::now();
        Ok(match taken {
            Taken::Snapshots(snapshots) => {
                let Served { tables: views, undone } = Served::settled(snapshots)?;
                let scanned_rows = views.iter().map(|view| view.row_count()).sum();
                let snapshot = snapshot + start.elapsed();
                QueryTables { views, child: None, scanned_rows, undone, waited, snapshot }
            }
            Taken::Child { child, scanned_rows, undone } => {
                QueryTables { views: Vec::new(), child: Some(child), scanned_rows, undone, waited, snapshot }
            }
        })
    }
}

/// The outcome of a request whose client is still there.
enum End {
    Done(Last, Done),
    Failed(Failure),
    Refused(Refusal),
}

/// The last pieces, which were not sent yet, and the memory reserved for them.
struct Last {
    pieces: Vec<Piece>,
    _room: Reservation,
}

/// Answers a request for which there was no memory.
pub fn fail(peer: &mut Peer, shared: &Shared, failure: &Failure) -> io::Result<()> {
    shared.stats.begin();
    shared.stats.end(Outcome::Failed);
    peer.send(Kind::Failed, failure)
}

/// Answers a request. An error means that the connection can no longer be used.
pub fn answer(peer: &mut Peer, shared: &Shared, request: QueryRequest, sent: Sent) -> io::Result<()> {
    shared.stats.begin();
    let open = shared.open_queries.open(request.user);
    let QueryRequest { backend, query_id, user, limits, .. } = request;
    let threads = limits.threads.clamp(1, shared.settings.query_threads);
    let entry = shared.activities.begin(backend, query_id, user, threads);
    let activity = &entry.activity;
    let end = match &open {
        Ok(_) => run(peer, shared, request, sent, activity),
        Err(refusal) => Ok(End::Refused(refusal.clone())),
    };
    // The query is counted before the answer is sent, so that the count includes it once the client has the answer.
    shared.stats.end(match &end {
        Ok(End::Done(..)) => Outcome::Served,
        Ok(End::Failed(_)) => Outcome::Failed,
        Ok(End::Refused(_)) => Outcome::Refused,
        Err(Gone) => Outcome::Cancelled,
    });
    activity.enter(Phase::Sending);
    match end {
        Ok(End::Done(last, done)) => {
            peer.send_rest(last.pieces.iter().map(|piece| &piece.bytes[..]), Kind::Done, &done)
        }
        Ok(End::Failed(failure)) => peer.send(Kind::Failed, &log::without_details(failure)),
        Ok(End::Refused(refusal)) => peer.refuse(&refusal),
        Err(gone) => Err(gone.into()),
    }
}

fn run(
    peer: &mut Peer,
    shared: &Shared,
    request: QueryRequest,
    mut sent: Sent,
    activity: &Arc<Activity>,
) -> Result<End, Gone> {
    let arrived = Instant::now();
    let mut manner = manner(&request);
    if let Err(failure) = sent.take_from(&mut manner.memory_bytes) {
        return Ok(End::Failed(failure));
    }
    let task = match Task::of(shared, &request) {
        Ok(task) => task,
        Err(Unplanned::Refused(refusal)) => return Ok(End::Refused(refusal)),
        Err(Unplanned::Failed(failure)) => return Ok(End::Failed(failure)),
    };
    let lease = Arc::<Lease>::default();
    let tables = match bind(peer, shared, &request, arrived, &lease, task.as_ref().map(Task::fork))? {
        Ok(tables) => tables,
        Err(refusal) => return Ok(End::Refused(refusal)),
    };
    let ready = Ready {
        mechanism: task.as_ref().map_or(shared.mechanism, |_| shared.snapshots_by()).into(),
        waited_us: micros(tables.waited),
        snapshot_us: micros(tables.snapshot),
        undone_transactions: tables.undone.transactions,
        undone_changes: tables.undone.changes,
    };
    peer.send(Kind::Ready, &ready)?;
    let start = Instant::now();
    shared.stats.ready(micros(start - arrived));

    activity.enter(Phase::Queued);
    let mut place = match admit(peer, shared, &request, &lease)? {
        Ok(place) => Some(place),
        Err(end) => return Ok(end),
    };
    activity.enter(Phase::Running);
    let queued = start.elapsed();
    let room = match room::usual(&shared.olap) {
        Ok(room) => room,
        Err(failure) => return Ok(End::Failed(failure)),
    };
    let scanned_rows = tables.scanned_rows;
    let QueryRequest { mut plan, params, limits, .. } = request;
    let mut forked = None;
    if let (Some(task), Some(child)) = (task, tables.child) {
        match task.answer(peer, shared, child, scanned_rows)? {
            Ok((rest, told)) => (plan, sent, forked) = (rest.plan, Sent::of(vec![rest.groups]), Some(told)),
            Err(failure) => return Ok(End::Failed(failure)),
        }
    }
    let (pieces, result) = mpsc::channel(PIECES_AHEAD);
    let signs = Arc::<AtomicU32>::default();
    let limit = shared.settings.query_memory_bytes;
    let long_rows = LongRows { olap: shared.olap.clone(), limit, signs: signs.clone() };
    let cancellation = Cancellation::default();
    let work = Work { plan, params, tables: tables.views, sent, manner, activity: activity.clone() };
    let job = execute(shared.olap.clone(), work, long_rows, pieces, cancellation.clone());
    let threads = shared.threads.of(limits.nice);
    let mut job = threads.spawn(job);
    lease.when_revoked({
        let (cancellation, job) = (cancellation.clone(), job.abort_handle());
        move || {
            cancellation.cancel();
            job.abort();
        }
    });
    let relayed = relay(peer, result, &mut place, &signs, activity);
    if relayed.is_err() {
        cancellation.cancel();
        job.abort();
    }
    // The job is awaited even if it was aborted, because its views are released only when it has ended.
    let ended = threads.block_on(&mut job);
    let pieces = relayed?;
    Ok(match ended {
        Ok(Ok((rows, plan))) => {
            let (engine_us, queued_us) = (micros(start.elapsed()), micros(queued));
            let plan = plan.map(|plan| match &forked {
                Some(forked) => forked.whole(plan),
                None => plan,
            });
            let done = Done {
                rows,
                scanned_rows,
                engine_us,
                queued_us,
                peak_memory_bytes: activity.used(Usage::peak_memory_bytes),
                spilled_bytes: activity.used(Usage::spilled_bytes),
                plan: plan.map(Box::new),
            };
            End::Done(Last { pieces, _room: room }, done)
        }
        _ if lease.is_revoked() => End::Failed(given_up()),
        Ok(Err(failure)) => End::Failed(failure),
        Err(e) => End::Failed(internal(match e.try_into_panic() {
            Ok(panic) => format!("panic: {}", log::message(&*panic)),
            Err(e) => e.to_string(),
        })),
    })
}

/// Waits for a place among the running queries. If there is none in time, returns the end of the request.
fn admit(peer: &mut Peer, shared: &Shared, request: &QueryRequest, lease: &Lease) -> Result<Result<Place, End>, Gone> {
    let limit = request.limits.user_queries;
    let mut place = shared.admission.ask(request.user, limit);
    if let Ok(place) = place.try_recv() {
        return Ok(Ok(place));
    }
    peer.send(Kind::Phase, &Phase::Queued)?;
    let (revoke, revoked) = oneshot::channel();
    lease.when_revoked(move || _ = revoke.send(()));
    Ok(match peer.attend_for(patience(request), select(place, revoked))? {
        Some(Either::Left((place, _))) => {
            let place = place.map_err(|_| Gone)?;
            peer.send(Kind::Phase, &Phase::Running)?;
            Ok(place)
        }
        Some(Either::Right(_)) => Err(End::Failed(given_up())),
        None => Err(End::Refused(match limit {
            Some(places) if shared.admission.has_all(request.user, places) => Refusal::BusyOfUser { places },
            _ => Refusal::Busy { places: shared.settings.max_queries },
        })),
    })
}

/// The time that a request may wait for the mirror to catch up. After that, the request may wait for its place as long
/// again.
fn patience(request: &QueryRequest) -> Duration {
    Duration::from_millis(request.max_wait_ms).min(LONGEST_WAIT)
}

/// Makes the writer bind the request to a snapshot of columns, or fork a child for it.
pub fn bind(
    peer: &mut Peer,
    shared: &Shared,
    request: &QueryRequest,
    arrived: Instant,
    lease: &Arc<Lease>,
    fork: Option<Fork>,
) -> Result<Result<QueryTables, Refusal>, Gone> {
    let tables = match tables(request) {
        Ok(tables) => tables,
        Err(what) => return Ok(Err(Refusal::Protocol { what: what.into() })),
    };
    let (reply, answer) = oneshot::channel();
    shared.writer.command(Command::Serve(ServeRequest {
        snapshot: request.snapshot.clone(),
        tables,
        lsn: request.lsn,
        arrived,
        deadline: arrived + patience(request),
        lease: lease.clone(),
        fork,
        reply,
    }));
    // Without an answer, the writer is gone, and the process will end soon.
    let reply = peer.attend(answer)?.map_err(|_| Gone)?;
    Ok(reply.and_then(QueryTables::of))
}

/// Passes the result on to the client as it arrives. Returns the last piece instead of sending it, with the first piece
/// before it if that was held back.
fn relay(
    peer: &mut Peer,
    mut result: mpsc::Receiver<Piece>,
    place: &mut Option<Place>,
    signs: &AtomicU32,
    activity: &Activity,
) -> Result<Vec<Piece>, Gone> {
    let taken = || _ = signs.fetch_add(1, Ordering::Relaxed);
    let mut send = |peer: &mut Peer, piece: Piece| {
        activity.enter(Phase::Sending);
        let sent = peer.send_raw(Kind::Arrow, &piece.bytes, || drop(place.take()));
        activity.enter(Phase::Running);
        sent
    };
    let mut first = None;
    let mut begun = false;
    loop {
        let next = match first.is_some() {
            true => peer.attend_for(MOMENT, result.recv())?,
            false => Some(peer.attend_counting(result.recv(), taken)?),
        };
        match next {
            Some(Some(piece)) if piece.is_last => return Ok(first.into_iter().chain([piece]).collect()),
            Some(Some(piece)) if !begun => (begun, first) = (true, Some(piece)),
            // The result ended without its last piece, so the job has failed.
            Some(None) => return Ok(Vec::new()),
            more => {
                for piece in first.take().into_iter().chain(more.flatten()) {
                    send(peer, piece)?;
                }
            }
        }
    }
}

/// The tables that the request needs from the store; an error if the request is invalid.
fn tables(request: &QueryRequest) -> Result<Vec<TableRequest>, &'static str> {
    let plan = &request.plan;
    if request.fingerprints.len() != plan.tables().count() {
        return Err("as many fingerprints as tables are needed");
    }
    if request.params.len() != plan.params.len() {
        return Err("as many values as parameters are needed");
    }
    if plan.depth() > DEEPEST_EXPRESSION {
        return Err("an expression is nested too deeply");
    }
    let wanted = |columns: &[Type], attnums: &[i16]| {
        attnums.iter().zip(columns).map(|(&attnum, &ty)| RelationColumn { attnum, ty }).collect()
    };
    let parts = plan.relations.iter().flat_map(|relation| relation.tables().iter().map(move |table| (relation, table)));
    let tables = parts.zip(&request.fingerprints).map(|((relation, table), &fingerprint)| TableRequest {
        relid: table.relid,
        fingerprint,
        columns: wanted(&relation.columns, &table.attnums),
    });
    Ok(tables.collect())
}

/// The options for running the request's query. The optimizer chooses the join order, unless the request asks for a
/// random one.
pub fn manner(request: &QueryRequest) -> Manner {
    let Limits { threads, memory_bytes, disk_bytes, .. } = request.limits;
    let order = request.random_joins.map_or(JoinOrder::Cheapest, JoinOrder::Random);
    Manner { observed: request.observed, order, threads: Some(threads), memory_bytes, disk_bytes }
}

/// A plan and all that its execution needs.
struct Work {
    plan: Plan,
    params: Vec<Option<Literal>>,
    tables: Vec<Arc<dyn TableView>>,
    sent: Sent,
    manner: Manner,
    activity: Arc<Activity>,
}

/// Runs the plan and encodes its result. Returns the number of rows and, if the query is observed, the measured
/// figures.
async fn execute(
    olap: Arc<Runtime>,
    Work { plan, params, tables, sent, manner, activity }: Work,
    long_rows: LongRows,
    pieces: mpsc::Sender<Piece>,
    cancellation: Cancellation,
) -> Result<(u64, Option<EnginePlan>), Failure> {
    let (sent, mut sent_room) = sent.into_parts();
    let views = olap::views(&plan, tables, sent)?;
    sent_room.settle();
    let Running { schema, mut batches, observation, usage } =
        olap.start_as(&plan, &params, views, &cancellation, manner).await?;
    activity.uses(usage);
    let encoding = |e: arrow_schema::ArrowError| internal(format!("result cannot be encoded: {e}"));
    let mut encoder = Encoder::new(&schema).map_err(encoding)?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|e| Runtime::failure(&e))?;
        for (slice, length) in slices(&batch) {
            if length > LONGEST_ROW {
                return Err(too_long(length));
            }
            // The slot in the queue is taken before memory is reserved, so that a query whose client does not read
            // waits without holding memory.
            let Ok(slot) = pieces.reserve().await else {
                // Nobody receives: the query was cancelled.
                return Ok((encoder.rows(), None));
            };
            let mut memory = long_rows.room(length, encoder.rows() > 0).await?;
            let bytes = encoder.push(&slice).map_err(encoding)?;
            activity.has_rows(encoder.rows());
            let Some(bytes) = bytes else { continue };
            if let Some(memory) = &mut memory {
                memory.shrink_to(bytes.len());
            }
            slot.send(Piece { bytes, is_last: false, _memory: memory });
        }
    }
    let bytes = encoder.finish().map_err(encoding)?;
    let _ = pieces.send(Piece { bytes, is_last: true, _memory: None }).await;
    // Operators that were not read to their end stop measuring here, before their figures are read.
    drop(batches);
    Ok((encoder.rows(), observation.and_then(|observation| observation.plan(true))))
}

fn given_up() -> Failure {
    let kind = FailureKind::SnapshotGivenUp;
    Failure { kind, message: kind.message().into() }
}

fn too_long(bytes: usize) -> Failure {
    let message = format!("a row of {} MB is longer than the engine sends", bytes >> 20);
    Failure { kind: FailureKind::OutOfMemory, message }
}

fn internal(message: String) -> Failure {
    Failure { kind: FailureKind::Internal, message }
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}
