//! Loads tables one after the other. The rows of a table are read under a clean snapshot, encoded like the rows in the
//! stream, and sent to the engine's socket.

use std::time::{Duration, Instant};

use follow::LoadOrder;
use pgrx::prelude::*;
use protocol::frame::{self, Kind};
use protocol::request::{Changed, Go, LoadRequest, Request};

use super::link::Link;
use super::{anchor, clean_snapshot, mark, orders};
use crate::layout;
use crate::pg::address::ROWS_PER_BLOCK;
use crate::pg::blocks;
use crate::pg::memory::Scratch;
use crate::pg::process;
use crate::pg::relation::{self, Lock, OpenRelation};
use crate::pg::rows::Rows;
use crate::pg::tuple::{Fitting, RowEncoder};
use crate::pg::types::{OnDisk, TooWide};
use crate::pg::wait::WaitFor;
use crate::pg::{snapshot, transaction};
use crate::settings;
use crate::shared::loads::{self, Phase};
use crate::shared::{self, FixedText};

const CHUNK_BYTES: usize = 256 << 10;
const CHUNK_CAPACITY: usize = CHUNK_BYTES + (CHUNK_BYTES >> 2);
/// The time after which a loader leaves its remaining tables to the next loader.
const SHIFT: Duration = Duration::from_secs(1);
/// The rows of a checkpoint are not used if more than one in this many blocks has changed, and the changed blocks are
/// many. To replace rows costs the engine more than to load them.
const WORTH_KEEPING: u64 = 2;
const MANY_BLOCKS: u32 = 1024;
/// The number of runs of changed blocks that are sent at once.
const RUNS_AT_ONCE: usize = 1 << 16;
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_RETRY_MS: i64 = 10;

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_loader_main(database: pg_sys::Datum) {
    let database = pg_sys::Oid::from(database.value() as u32);
    process::begin();
    process::connect(database);
    mark::remove_at_exit();
    process::at_exit(loads::end);
    let start = Instant::now();
    let scratch = Scratch::lasting(c"pg_anker row");
    for order in orders::from_extra(&process::my_extra()) {
        if start.elapsed() > SHIFT {
            break;
        }
        load_and_tell(database, order, scratch);
    }
}

fn load_and_tell(database: pg_sys::Oid, order: LoadOrder, scratch: Scratch) {
    shared::update_generation(database, order.relid.into(), order.generation, |t| t.tried = order.generation);
    let blame = move |reason: &str| tell(database, order, reason);
    mark::set(database, order.relid.into());
    loads::begin(database, order.relid.into());
    let outcome = process::telling_errors(|| load(database, order, scratch), blame);
    // The transaction changed nothing, and aborting it releases everything that a half-done load still holds.
    transaction::abort();
    loads::end();
    mark::remove();
    match outcome {
        // Prepared statements were planned while the table had no mirror. If `anker.route` also routes unflagged
        // statements to the engine, they must be planned again.
        Ok(()) => transaction::run(|| relation::make_plans_anew(order.relid.into())),
        Err(Failure::Transient(reason)) => blame(&reason),
        Err(Failure::TooWide) => {
            shared::update_generation(database, order.relid.into(), order.generation, |t| {
                t.too_wide = order.generation
            });
        }
    }
}

/// The reason why a table was not loaded.
enum Failure {
    /// The load failed for this reason, which the view shows. The capture worker starts another load after a while.
    Transient(String),
    /// The table has a row that is too long for the mirror. The capture worker gives the table up.
    TooWide,
}

impl<T: Into<String>> From<T> for Failure {
    fn from(reason: T) -> Failure {
        Failure::Transient(reason.into())
    }
}

fn load(database: pg_sys::Oid, order: LoadOrder, scratch: Scratch) -> Result<(), Failure> {
    let start = Instant::now();
    let relid = pg_sys::Oid::from(order.relid);
    // The lock is taken before the snapshot, so that no DDL comes between them.
    let mut locked = true;
    let lock = || locked = locked && wait_for_lock(relid);
    let snapshot = clean_snapshot::begin(lock, |reason| tell(database, order, reason));
    if !locked {
        return Err("waits for a lock on the table".into());
    }
    let relation = OpenRelation::try_locked(relid).ok_or("the table was dropped")?;
    let described = layout::describe(&relation).map_err(|e| e.message)?;
    let mut engine = Link::connect(database, relid)?;
    // If the table was altered before the lock, its fingerprint differs from the one that the engine watches, and the
    // load is refused.
    let fingerprint = described.layout.fingerprint;
    let anchor = anchor::read();
    let request = LoadRequest { relid: order.relid, generation: order.generation, fingerprint, snapshot, anchor };
    engine.send(&frame::encode(Kind::Request, &Request::Load(request)))?;
    let go: Go = frame::parse(&engine.expect(Kind::Go)?).map_err(|e| e.to_string())?;
    let descriptor = relation.descriptor();
    let mut encoder = RowEncoder::new(&described.layout, descriptor, relation.file());
    let encoder = encoder.fitting(descriptor, settings::max_row_bytes()).ok_or("the table was altered")?;
    let mut sender = Sender::new(&relation, encoder, &mut engine, scratch);
    let rows = snapshot::with_active(|| match go.kept_from {
        None => sender.send_all(),
        Some(threshold) => sender.send_changed(threshold),
    })?;
    let compared = sender.compared;
    loads::update(|load| load.phase = Phase::Finishing);
    engine.send(&frame::encode_raw(Kind::LoadEnd, &rows.to_le_bytes()))?;
    engine.expect(Kind::Loaded)?;
    if let Some((changed, all)) = compared {
        let (relid, seconds) = (order.relid, start.elapsed().as_secs_f64());
        log!(
            "pg_anker: table {relid} was loaded from a checkpoint in {seconds:.1} s: {changed} of {all} blocks had \
             changed, with {rows} rows"
        );
    }
    Ok(())
}

/// Locks the table. Returns false if that fails within a short time, because other tables wait to be loaded after this
/// one.
fn wait_for_lock(relid: pg_sys::Oid) -> bool {
    let start = Instant::now();
    while !relation::try_lock(relid, Lock::Read) {
        if start.elapsed() > LOCK_PATIENCE {
            return false;
        }
        process::sleep(LOCK_RETRY_MS, WaitFor::LoadLock);
    }
    true
}

/// Sends rows of a relation to the engine, as the active snapshot sees them.
struct Sender<'a> {
    relation: &'a OpenRelation,
    encoder: Fitting<'a>,
    engine: &'a mut Link,
    /// The memory for detoasted values. It is emptied after each row.
    scratch: Scratch,
    /// Rows that were encoded, but not sent yet.
    chunk: Vec<u8>,
    rows: u64,
    bytes: u64,
    /// The number of blocks that had changed since a checkpoint, and of all blocks.
    compared: Option<(u32, u32)>,
}

impl<'a> Sender<'a> {
    fn new(relation: &'a OpenRelation, encoder: Fitting<'a>, engine: &'a mut Link, scratch: Scratch) -> Sender<'a> {
        let chunk = Vec::with_capacity(CHUNK_CAPACITY);
        Sender { relation, encoder, engine, scratch, chunk, rows: 0, bytes: 0, compared: None }
    }

    /// Sends all rows, and returns their number.
    fn send_all(&mut self) -> Result<u64, Failure> {
        let relation = self.relation;
        show_scan(relation.blocks());
        self.send(Rows::active(relation), 0)?;
        self.flush()?;
        Ok(self.rows)
    }

    /// Sends the list of blocks that were changed since the checkpoint's threshold, and the rows of these blocks.
    fn send_changed(&mut self, threshold: u64) -> Result<u64, Failure> {
        let (relation, all) = (self.relation, self.relation.blocks());
        loads::update(|load| (load.phase, load.blocks) = (Phase::Comparing, all.into()));
        let looked = |block: u32| {
            loads::update(|load| load.blocks_read = block.into());
            self.engine.give_way()
        };
        let runs = blocks::changed_since(relation, all, threshold, looked)?;
        let changed: u32 = runs.iter().map(|(_, count)| count).sum();
        if changed > MANY_BLOCKS && u64::from(changed) * WORTH_KEEPING > all.into() {
            // No block is kept.
            self.tell_changed(0, &[])?;
            return self.send_all();
        }
        self.tell_changed(all, &runs)?;
        self.compared = Some((changed, all));
        show_scan(changed);
        let mut before = 0;
        for (first, count) in runs {
            self.send(Rows::active_in(relation, first, count), before)?;
            before += count;
        }
        self.flush()?;
        Ok(self.rows)
    }

    fn tell_changed(&mut self, blocks: u32, runs: &[(u32, u32)]) -> Result<(), Failure> {
        let mut parts = runs.chunks(RUNS_AT_ONCE).peekable();
        loop {
            let runs = parts.next().unwrap_or_default().to_vec();
            let last = parts.peek().is_none();
            self.engine
                .send(&frame::encode(Kind::Changed, &Changed { blocks, rows_per_block: ROWS_PER_BLOCK, runs, last }))?;
            if last {
                return Ok(());
            }
        }
    }

    /// Encodes rows, and sends them in pieces. `blocks_before` blocks were read before.
    fn send(&mut self, mut rows: Rows<'_>, blocks_before: u32) -> Result<(), Failure> {
        while let Some(tuple) = rows.next() {
            let Sender { encoder, chunk, scratch, .. } = &mut *self;
            // SAFETY: a row's values are copied into the chunk.
            unsafe { scratch.with(|| encoder.row(tuple, tuple.address(), OnDisk::Fetch, chunk)) }
                .map_err(|TooWide| Failure::TooWide)?;
            self.rows += 1;
            if self.chunk.len() >= CHUNK_BYTES {
                self.flush()?;
                let read = u64::from(blocks_before) + u64::from(rows.blocks_read());
                let (sent, bytes) = (self.rows, self.bytes);
                loads::update(|load| (load.blocks_read, load.rows, load.bytes) = (read, sent, bytes));
            }
            if self.rows.is_multiple_of(64) {
                self.engine.give_way()?;
            }
        }
        Ok(())
    }

    /// Sends the rows that were encoded.
    fn flush(&mut self) -> Result<(), Failure> {
        if !self.chunk.is_empty() {
            self.engine.send(&frame::encode_header(Kind::Rows, self.chunk.len()))?;
            self.engine.send(&self.chunk)?;
            self.bytes += self.chunk.len() as u64;
            self.chunk.clear();
            self.chunk.shrink_to(CHUNK_CAPACITY);
            pgrx::check_for_interrupts!();
        }
        Ok(())
    }
}

/// Shows that the rows of this many blocks are being read.
fn show_scan(blocks: u32) {
    loads::update(|load| (load.phase, load.blocks, load.blocks_read) = (Phase::Scanning, blocks.into(), 0));
}

/// Shows in the views why the table is not live yet.
fn tell(database: pg_sys::Oid, order: LoadOrder, reason: &str) {
    shared::update_generation(database, order.relid.into(), order.generation, |t| t.reason = FixedText::new(reason));
}
