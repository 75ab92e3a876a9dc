//! The thread that writes checkpoints: see [`crate::checkpoints`].

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use checkpoint::{Checkpoint, Directory, Error, Limits, Manifest, Pace, Place, TableEntry, TableHead, TableIndex};
use colstore::{Lease, OutOfMemory, TableImage};
use protocol::control::{Settings, ToWorker};
use protocol::request::{CheckpointReport, CheckpointStatus};
use tokio::sync::oneshot;

use crate::checkpoints::{Checkpoints, Origin, is_of_this_build};
use crate::log;
use crate::process::Nice;
use crate::writer::{Command, Imaged, WriterHandle};

/// The greatest number of bytes that are written per second, so that the server's own writes do not have to wait long.
/// A checkpoint that somebody has asked for is written at full speed.
const BYTES_PER_SECOND: u64 = 64 << 20;
/// The priority of the thread, below that of the server's processes.
const NICE: u32 = 10;
/// The time for which the one who asked for a checkpoint waits until the database names it.
const ANCHOR_PATIENCE: Duration = Duration::from_secs(30);

/// The longest wait for tables that are complete up to the present position, and the pause between two looks at it.
const THRESHOLD_PATIENCE: Duration = Duration::from_secs(2);
const THRESHOLD_PAUSE: Duration = Duration::from_millis(50);

/// The reason why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Files(Error),
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    #[error("changes of the tables needed the memory that the checkpoint held (anker.memory)")]
    Revoked,
    #[error("the tables are still being loaded")]
    Loading,
    #[error(
        "the last checkpoint was written, but is not in use yet, because the process that names it in the database has \
         not ended: see the server log"
    )]
    Unanchored,
    #[error("the engine is ending")]
    Ending,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Cancelled => Failure::Revoked,
            error => Failure::Files(error),
        }
    }
}

/// The owner of the checkpoints' directory.
struct Scribe {
    checkpoints: Arc<Checkpoints>,
    directory: Directory,
    writer: WriterHandle,
    events: Sender<ToWorker>,
    limits: Limits,
    interval: Duration,
    /// The last checkpoint that this process has written.
    own: Option<u64>,
    /// The last id of which the directory was told that the database names it.
    confirmed: Option<u64>,
    /// For each table, the part of it that the last checkpoint has.
    bases: HashMap<u32, Base>,
}

/// The part of a table that a checkpoint has.
#[derive(Clone, Copy, Debug)]
struct Base {
    generation: u64,
    /// The place of the table's index in the checkpoint.
    index: Place,
    /// The checkpoint has all pieces whose stamp is not greater. Pieces that were loaded from it have the stamp 0.
    upto: u32,
}

impl From<Origin> for Base {
    fn from(Origin { generation, index, .. }: Origin) -> Base {
        Base { generation, index, upto: 0 }
    }
}

/// Starts the thread.
pub fn start(
    checkpoints: Arc<Checkpoints>,
    directory: Directory,
    writer: WriterHandle,
    events: Sender<ToWorker>,
    settings: &Settings,
) -> io::Result<()> {
    let (limits, interval) = (Limits::new(settings.checkpoint_bytes), Duration::from_secs(settings.checkpoint_seconds));
    let scribe = Scribe {
        checkpoints,
        directory,
        writer,
        events,
        limits,
        interval,
        own: None,
        confirmed: None,
        bases: HashMap::new(),
    };
    thread::Builder::new().name("anker checkpoint".into()).spawn(move || {
        Nice::of_process().behind(NICE).take();
        scribe.run();
    })?;
    Ok(())
}

impl Scribe {
    fn run(mut self) {
        let mut due = Instant::now() + self.interval;
        loop {
            let mut state = self.checkpoints.state.lock();
            while state.requests.is_empty()
                && !state.is_urgent
                && state.anchored == self.confirmed
                && !until(due).is_zero()
            {
                self.checkpoints.woken.wait_for(&mut state, until(due));
            }
            let requests = std::mem::take(&mut state.requests);
            let is_due = !requests.is_empty() || std::mem::take(&mut state.is_urgent) || until(due).is_zero();
            drop(state);
            self.confirm();
            if !is_due {
                continue;
            }
            let outcome = self.checkpoint(!requests.is_empty());
            due = Instant::now() + self.interval;
            if let Err(error) = &outcome {
                log::line(format_args!("no checkpoint was written: {error}"));
            }
            let is_awaited = !requests.is_empty();
            let outcome = outcome.and_then(|report| {
                if is_awaited {
                    self.wait_for_anchor()?;
                }
                Ok(report)
            });
            for request in requests {
                // Sending fails if nobody waits for the answer any more.
                let _ = request.send(outcome.as_ref().copied().map_err(ToString::to_string));
            }
        }
    }

    /// Removes what the checkpoint that the database names has replaced.
    fn confirm(&mut self) {
        let anchored = self.checkpoints.state.lock().anchored;
        if anchored == self.confirmed {
            return;
        }
        self.confirmed = anchored;
        // From here on, no load is offered a checkpoint that is removed below.
        let opening = self.checkpoints.opening.lock();
        self.checkpoints.state.lock().manifests.retain(|manifest| Some(manifest.id) == anchored);
        drop(opening);
        match anchored.map(|id| self.directory.confirm(id)) {
            // A load may have named a checkpoint that was replaced meanwhile.
            None | Some(Ok(()) | Err(Error::Unknown)) => {}
            Some(Err(error)) => log::line(format_args!("an old checkpoint cannot be removed: {error}")),
        }
        self.publish();
    }

    /// Waits until the database names the last checkpoint of this process.
    fn wait_for_anchor(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + ANCHOR_PATIENCE;
        let mut state = self.checkpoints.state.lock();
        while state.anchored != self.own {
            if self.checkpoints.woken.wait_until(&mut state, deadline).timed_out() {
                return Err(Failure::Unanchored);
            }
        }
        drop(state);
        self.confirm();
        Ok(())
    }

    /// Writes a checkpoint, and asks the worker to anchor it.
    fn checkpoint(&mut self, at_once: bool) -> Result<CheckpointReport, Failure> {
        let (began, started) = (Instant::now(), now());
        let mut status = CheckpointStatus { started, ..CheckpointStatus::default() };
        let forgotten = self.checkpoints.state.lock().forgotten.clone();
        let written = self.write(at_once, &forgotten, &mut status);
        status.elapsed_us = began.elapsed().as_micros() as u64;
        match &written {
            Ok(id) => {
                self.own = Some(*id);
                // Sending fails only if the process is about to end.
                let _ = self.events.send(ToWorker::Checkpoint { id: *id });
            }
            Err(error) => status.error = Some(error.to_string()),
        }
        self.publish();
        status.disk_bytes = self.directory.bytes().unwrap_or(0);
        let mut state = self.checkpoints.state.lock();
        if written.is_ok() {
            state.forgotten.retain(|relid, number| forgotten.get(relid) != Some(number));
        }
        state.status = status.clone();
        written?;
        Ok(CheckpointReport {
            tables: status.tables,
            rows: status.rows,
            bytes_written: status.bytes_written,
            elapsed_us: status.elapsed_us,
        })
    }

    /// Writes all live tables. Rows of `forgotten` tables in the checkpoint before this one are not used.
    fn write(
        &mut self,
        at_once: bool,
        forgotten: &HashMap<u32, u64>,
        status: &mut CheckpointStatus,
    ) -> Result<u64, Failure> {
        self.settle()?;
        let tables = self.tables()?;
        self.drop_strangers(tables.iter().any(|(_, is_live)| *is_live))?;
        let origins = self.checkpoints.state.lock().origins.clone();
        let mut bases = HashMap::new();
        let pace = Pace { bytes_per_second: (!at_once).then_some(BYTES_PER_SECOND), ..Pace::default() };
        // If there is no memory for changes, the checkpoint ends, and gives back the old values that it holds.
        let lease = Arc::<Lease>::default();
        let cancel = pace.cancel.clone();
        lease.when_revoked(move || cancel.store(true, Ordering::Relaxed));
        let mut checkpoint = self.directory.begin(self.limits, pace)?;
        let mut tables = tables;
        if self.own.is_none() {
            // Tables of an earlier process may not be followed yet.
            let earlier = self.checkpoints.state.lock().manifests.first().map_or(Vec::new(), |newest| newest.relids());
            let is_new = |relid: &u32| tables.iter().all(|(known, _)| known != relid);
            let unfollowed: Vec<_> = earlier.into_iter().filter(is_new).map(|relid| (relid, false)).collect();
            tables.extend(unfollowed);
        }
        for (relid, is_live) in tables {
            let (previous, lease) = (checkpoint.previous(relid).cloned(), lease.clone());
            match if is_live { ask(&self.writer, |reply| Command::Image { relid, lease, reply })? } else { None } {
                Some(imaged) => {
                    status.tables += 1;
                    status.rows += imaged.image.rows();
                    let generation = imaged.image.generation();
                    let of_now = |base: &Base| base.generation == generation;
                    let base = self.bases.get(&relid).copied().filter(of_now);
                    let base = base.or_else(|| origins.get(&relid).copied().map(Base::from).filter(of_now));
                    let previous = previous.filter(|_| !forgotten.contains_key(&relid));
                    let known = previous.zip(base).filter(|(entry, base)| entry.index == base.index);
                    let upto = add(&mut checkpoint, relid, &imaged, known)?;
                    bases.insert(relid, (generation, upto));
                }
                // A table that is being loaded keeps its rows of the last checkpoint, which the load may need again.
                None => previous.filter(|_| !forgotten.contains_key(&relid)).into_iter().for_each(|table| {
                    let head = table.head.clone();
                    checkpoint.keep(&table, head);
                }),
            }
        }
        let finished = checkpoint.finish(protocol::VERSION.to_le_bytes().to_vec())?;
        status.bytes_written = finished.bytes_written;
        let tables = self.directory.remains().first().map_or(&[][..], |newest| &newest.tables);
        let base = |table: &TableEntry| {
            let (generation, upto) = *bases.get(&table.head.relid)?;
            Some((table.head.relid, Base { generation, index: table.index, upto }))
        };
        self.bases = tables.iter().filter_map(base).collect();
        Ok(finished.id)
    }

    /// Waits until the database names the last checkpoint of this process, if it does not yet. Two checkpoints are kept
    /// at most, and the one before the last is needed until then.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.own.is_some() && self.own != self.confirmed {
            // The worker may have had no free process for it.
            self.own.into_iter().for_each(|id| drop(self.events.send(ToWorker::Checkpoint { id })));
            self.wait_for_anchor()?;
        }
        Ok(())
    }

    /// Removes checkpoints that an earlier process has left, if no load has found that the database names one of them.
    /// Before the first load has ended, that is not known.
    fn drop_strangers(&mut self, has_loaded: bool) -> Result<(), Failure> {
        let opening = self.checkpoints.opening.lock();
        let mut state = self.checkpoints.state.lock();
        let known = [self.own, state.anchored];
        let is_ours = |id: &u64| known.contains(&Some(*id));
        let remains = self.directory.remains();
        if remains.is_empty() || remains.iter().any(|manifest| is_ours(&manifest.id)) {
            return Ok(());
        }
        if !has_loaded {
            return Err(Failure::Loading);
        }
        state.manifests.clear();
        drop((state, opening));
        self.directory.clear()?;
        Ok(())
    }

    /// All tables that are followed, each with the answer to whether it is live. Waits until the tables are complete up
    /// to the present position, but not for long: an old transaction may hold that back.
    fn tables(&self) -> Result<Vec<(u32, bool)>, Failure> {
        let mut status = ask(&self.writer, Command::Status)?;
        let (wanted, deadline) = (status.lsn, Instant::now() + THRESHOLD_PATIENCE);
        // Sending fails only if the process is about to end.
        let _ = self.events.send(ToWorker::GatesWanted);
        while status.threshold < wanted && Instant::now() < deadline {
            thread::sleep(THRESHOLD_PAUSE);
            status = ask(&self.writer, Command::Status)?;
        }
        Ok(status.store.tables.iter().map(|table| (table.relid, table.live)).collect())
    }

    /// Lets loads find the checkpoints that are there now.
    fn publish(&self) {
        let of_this_build = |manifest: &&Manifest| is_of_this_build(manifest);
        let manifests = self.directory.remains().iter().filter(of_this_build).cloned().collect();
        self.checkpoints.state.lock().manifests = manifests;
    }
}

/// The writer's answer to a command.
fn ask<T>(writer: &WriterHandle, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Failure> {
    let (reply, answer) = oneshot::channel();
    writer.command(command(reply));
    answer.blocking_recv().map_err(|_| Failure::Ending)
}

/// Adds a table to a checkpoint. Pieces that have not changed since the one before, which is `known`, stay where they
/// are. Returns the greatest stamp of a piece that the checkpoint has now.
fn add(
    checkpoint: &mut Checkpoint<'_>,
    relid: u32,
    Imaged { image, threshold }: &Imaged,
    known: Option<(TableEntry, Base)>,
) -> Result<u32, Failure> {
    let (fingerprint, threshold, rows) = (image.fingerprint(), *threshold, image.rows());
    let head = TableHead { relid, fingerprint, threshold, rows, ..TableHead::default() };
    // If the index of the previous checkpoint cannot be read, everything is written anew.
    let known = known.and_then(|(entry, base)| Some((base.upto, checkpoint.index(&entry).ok()?, entry)));
    if let Some((upto, index, entry)) = &known
        && is_unchanged(image, *upto, index)
    {
        checkpoint.keep(entry, head);
        return Ok(*upto);
    }
    let mut table = checkpoint.table();
    let mut bytes = Vec::new();
    for chunk in 0..image.chunk_count() {
        let (slots, rows) = (image.slots_of(chunk) as u32, image.rows_of(chunk));
        table.chunk(slots, rows);
        let old = known.as_ref().and_then(|(upto, index, _)| {
            let old = index.chunks.get(chunk)?;
            (old.slots == slots && old.pieces.len() == image.column_count() + 1).then_some((*upto, &old.pieces))
        });
        // The first piece says which rows exist; the others are the columns.
        for piece in 0..=image.column_count() {
            let stamp = match piece.checked_sub(1) {
                None => image.live_stamp(chunk),
                Some(column) => image.column_stamp(chunk, column),
            };
            match old {
                Some((upto, pieces)) if stamp <= upto => table.keep(pieces[piece]),
                _ => {
                    bytes.clear();
                    match piece.checked_sub(1) {
                        None => image.encode_live(chunk, &mut bytes)?,
                        Some(column) => image.encode(chunk, column, &mut bytes)?,
                    }
                    table.write(stamp, &bytes)?;
                }
            }
        }
    }
    table.finish(head, image.generation(), image.stamp());
    Ok(image.stamp())
}

fn is_unchanged(image: &TableImage, upto: u32, index: &TableIndex) -> bool {
    let same = |chunk: usize| {
        index.chunks[chunk].slots as usize == image.slots_of(chunk)
            && image.live_stamp(chunk) <= upto
            && (0..image.column_count()).all(|column| image.column_stamp(chunk, column) <= upto)
    };
    index.chunks.len() == image.chunk_count() && (0..image.chunk_count()).all(same)
}

/// The time now, in microseconds since 2000-01-01, as PostgreSQL counts.
fn now() -> i64 {
    const POSTGRES_EPOCH: Duration = Duration::from_secs(946_684_800);
    let since = SystemTime::now().duration_since(UNIX_EPOCH + POSTGRES_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// The time until a moment; none if it is over.
fn until(moment: Instant) -> Duration {
    moment.saturating_duration_since(Instant::now())
}
