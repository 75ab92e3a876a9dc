//! One query: bind its snapshot, queue for a place, run, stream the result.
//!
//! ```text
//!   connection's thread                      writer            query threads
//!   request -> Serve ----------------------> snapshot of S
//!   Ready  <-------------------------------- views
//!   wait for a place (max_queries)
//!   start  ------------------------------------------------->  plan, execute, encode
//!   Arrow  <------------------------------------------------   pieces, a few ahead of the client
//!   Done or Failed
//! ```
//!
//! A client that closes the connection cancels: whenever this thread waits it looks for that. A client that does not
//! read its result loses its place, so that open cursors neither starve other queries nor, all held by one session,
//! wait for each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use colstore::{TableRequest, TableView};
use futures::StreamExt;
use olap::{Cancellation, JoinOrder, Manner, Reservation, Running, Runtime};
use plan::{Literal, Plan, RelationColumn, Type};
use protocol::frame::{self, Kind};
use protocol::request::{Done, Failure, FailureKind, QueryRequest, Ready, Refusal, SentRows};
use protocol::tree::EnginePlan;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::encode::{Encoder, slices};
use crate::log;
use crate::peer::{Gone, Peer};
use crate::room::{self, LongRows};
use crate::server::{MAX_OPEN_QUERIES, Shared};
use crate::stats::Outcome;
use crate::writer::{Bound, Command, ServeRequest};

/// Pieces of a result that may wait for the client behind the one that is being sent.
const PIECES_AHEAD: usize = 1;
/// A longer row, with what Arrow says about it, could not be sent in one frame.
const LONGEST_ROW: usize = frame::MAX_PAYLOAD - (16 << 20);
/// Expressions nested deeper are refused: everybody walks them recursively.
const DEEPEST_EXPRESSION: usize = 256;
/// A wait that nobody can outlast, and that no clock overflows by.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Whole messages of the result.
struct Piece {
    bytes: Vec<u8>,
    /// Of a long row; given back when the piece was sent.
    _memory: Option<Reservation>,
}

/// How a request ends for a client that is still there.
enum End {
    Done(Done),
    Failed(Failure),
    Refused(Refusal),
}

/// Answers a request. An error means that the connection is of no use any more.
pub fn answer(peer: &mut Peer, shared: &Shared, request: QueryRequest) -> io::Result<()> {
    shared.stats.begin();
    let end = run(peer, shared, request);
    // Counted first: who has the answer finds it counted.
    shared.stats.end(match &end {
        Ok(End::Done(_)) => Outcome::Served,
        Ok(End::Failed(_)) => Outcome::Failed,
        Ok(End::Refused(_)) => Outcome::Refused,
        Err(Gone) => Outcome::Cancelled,
    });
    match end {
        Ok(End::Done(done)) => peer.send(Kind::Done, &done),
        Ok(End::Failed(failure)) => peer.send(Kind::Failed, &failure),
        Ok(End::Refused(refusal)) => peer.refuse(&refusal),
        Err(gone) => Err(gone.into()),
    }
}

fn run(peer: &mut Peer, shared: &Shared, request: QueryRequest) -> Result<End, Gone> {
    let arrived = Instant::now();
    let Ok(_open) = shared.open_queries.try_acquire() else {
        return Ok(End::Refused(Refusal::TooManyQueries { limit: MAX_OPEN_QUERIES as u32 }));
    };
    let Bound { served, waited, snapshot } = match bind(peer, shared, &request, arrived)? {
        Ok(bound) => bound,
        Err(refusal) => return Ok(End::Refused(refusal)),
    };
    let ready = Ready {
        mechanism: shared.mechanism.into(),
        waited_us: micros(waited),
        snapshot_us: micros(snapshot),
        undone_transactions: served.undone_transactions,
        undone_changes: served.undone_changes,
    };
    peer.send(Kind::Ready, &ready)?;
    let start = Instant::now();
    shared.stats.ready(micros(start - arrived));

    // The places are never closed.
    let mut place = peer.attend(shared.places.clone().acquire_owned())?.ok();
    let queued = start.elapsed();
    let _room = match room::usual(&shared.olap) {
        Ok(room) => room,
        Err(failure) => return Ok(End::Failed(failure)),
    };
    let scanned_rows = served.tables.iter().map(|t| t.row_count()).sum();
    let (pieces, result) = mpsc::channel(PIECES_AHEAD);
    let signs = Arc::<AtomicU32>::default();
    let limit = shared.settings.query_memory_bytes;
    let long_rows = LongRows { olap: shared.olap.clone(), limit, signs: signs.clone() };
    let cancellation = Cancellation::default();
    let manner = Manner { observed: request.observed, order: join_order(&request) };
    let QueryRequest { plan, params, sent, .. } = request;
    let work = Work { plan, params, tables: served.tables, sent, manner };
    let job = execute(shared.olap.clone(), work, long_rows, pieces, cancellation.clone());
    let mut job = shared.runtime.spawn(job);
    let relayed = relay(peer, result, &mut place, &signs);
    if relayed.is_err() {
        cancellation.cancel();
        job.abort();
    }
    // Aborted or not: when the job has ended its views are released.
    let ended = shared.runtime.block_on(&mut job);
    relayed?;
    Ok(match ended {
        Ok(Ok((rows, plan))) => {
            let (engine_us, queued_us) = (micros(start.elapsed()), micros(queued));
            End::Done(Done { rows, scanned_rows, engine_us, queued_us, plan: plan.map(Box::new) })
        }
        Ok(Err(failure)) => End::Failed(failure),
        Err(e) => End::Failed(internal(match e.try_into_panic() {
            Ok(panic) => format!("panic: {}", log::message(&*panic)),
            Err(e) => e.to_string(),
        })),
    })
}

/// Has the writer bind the request to its column snapshot.
pub fn bind(
    peer: &mut Peer,
    shared: &Shared,
    request: &QueryRequest,
    arrived: Instant,
) -> Result<Result<Bound, Refusal>, Gone> {
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
        deadline: arrived + Duration::from_millis(request.max_wait_ms).min(LONGEST_WAIT),
        reply,
    }));
    // Without an answer the writer is gone, and soon the process.
    peer.attend(answer)?.map_err(|_| Gone)
}

/// Passes the result on to the client as it comes.
fn relay(
    peer: &mut Peer,
    mut result: mpsc::Receiver<Piece>,
    place: &mut Option<OwnedSemaphorePermit>,
    signs: &AtomicU32,
) -> Result<(), Gone> {
    let taken = || _ = signs.fetch_add(1, Ordering::Relaxed);
    while let Some(piece) = peer.attend_counting(result.recv(), taken)? {
        peer.send_raw(Kind::Arrow, &piece.bytes, || drop(place.take()))?;
    }
    Ok(())
}

/// What the store is asked for, if the request makes sense.
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

/// The optimizer's, unless the request is for another.
pub fn join_order(request: &QueryRequest) -> JoinOrder {
    request.random_joins.map_or(JoinOrder::Cheapest, JoinOrder::Random)
}

/// A plan and what it reads.
struct Work {
    plan: Plan,
    params: Vec<Option<Literal>>,
    tables: Vec<Arc<dyn TableView>>,
    sent: Vec<SentRows>,
    manner: Manner,
}

/// Runs the plan and encodes its result; returns the number of rows and, if it is observed, what became of it.
async fn execute(
    olap: Arc<Runtime>,
    Work { plan, params, tables, sent, manner }: Work,
    long_rows: LongRows,
    pieces: mpsc::Sender<Piece>,
    cancellation: Cancellation,
) -> Result<(u64, Option<EnginePlan>), Failure> {
    let views = olap::views(&plan, tables, sent)?;
    let Running { schema, mut batches, observation } =
        olap.start_as(&plan, &params, views, &cancellation, manner).await?;
    let encoding = |e: arrow_schema::ArrowError| internal(format!("result cannot be encoded: {e}"));
    let mut encoder = Encoder::new(&schema).map_err(encoding)?;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|e| Runtime::failure(&e))?;
        for (slice, length) in slices(&batch) {
            if length > LONGEST_ROW {
                return Err(too_long(length));
            }
            // First where it goes to, then memory: who waits for a client that does not read holds no more.
            let Ok(slot) = pieces.reserve().await else {
                // Nobody receives: the query was cancelled.
                return Ok((encoder.rows(), None));
            };
            let mut memory = long_rows.room(length, encoder.rows() > 0).await?;
            let Some(bytes) = encoder.push(&slice).map_err(encoding)? else {
                continue;
            };
            if let Some(memory) = &mut memory {
                memory.shrink_to(bytes.len());
            }
            slot.send(Piece { bytes, _memory: memory });
        }
    }
    let _ = pieces.send(Piece { bytes: encoder.finish().map_err(encoding)?, _memory: None }).await;
    // What did not have to be read to its end counts no more.
    drop(batches);
    Ok((encoder.rows(), observation.and_then(|observation| observation.plan(true))))
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
