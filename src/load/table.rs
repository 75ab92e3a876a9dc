//! Loads tables one after the other. The rows of a table are read under a clean snapshot, encoded like the rows in the
//! stream, and sent to the engine's socket.

use std::time::{Duration, Instant};

use follow::LoadOrder;
use pgrx::prelude::*;
use protocol::frame::{self, Kind};
use protocol::request::{LoadRequest, Request};

use super::link::Link;
use super::{clean_snapshot, mark, orders};
use crate::layout;
use crate::pg::memory::Scratch;
use crate::pg::process;
use crate::pg::relation::{self, Lock, OpenRelation};
use crate::pg::rows::Rows;
use crate::pg::tuple::RowEncoder;
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
    let request = LoadRequest { relid: order.relid, generation: order.generation, fingerprint, snapshot };
    engine.send(&frame::encode(Kind::Request, &Request::Load(request)))?;
    engine.expect(Kind::Go)?;
    let mut encoder = RowEncoder::new(&described.layout, relation.descriptor(), relation.file());
    let rows = snapshot::with_active(|| send_rows(&relation, &mut encoder, &mut engine, scratch))?;
    loads::update(|load| load.phase = Phase::Finishing);
    engine.send(&frame::encode_raw(Kind::LoadEnd, &rows.to_le_bytes()))?;
    Ok(engine.expect(Kind::Loaded)?)
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

/// Sends all rows of the relation under the active snapshot, and returns their number. After each row, its detoasted
/// values are freed.
fn send_rows(
    relation: &OpenRelation,
    encoder: &mut RowEncoder,
    engine: &mut Link,
    scratch: Scratch,
) -> Result<u64, Failure> {
    let most_bytes = settings::max_row_bytes();
    let mut encoder = encoder.fitting(relation.descriptor(), most_bytes).ok_or("the table was altered")?;
    let mut rows = Rows::active(relation);
    let (mut sent, mut bytes) = (0u64, 0u64);
    let mut chunk = Vec::with_capacity(CHUNK_CAPACITY);
    let blocks = relation.blocks().into();
    loads::update(|load| (load.phase, load.blocks) = (Phase::Scanning, blocks));
    loop {
        let tuple = rows.next();
        let at_end = tuple.is_none();
        if let Some(tuple) = tuple {
            // SAFETY: a row's values are copied into the chunk.
            let encoded = unsafe {
                scratch.with(|| match encoder.by_address() {
                    true => encoder.row_at(tuple.address(), tuple, OnDisk::Fetch, &mut chunk),
                    false => encoder.row(tuple, OnDisk::Fetch, &mut chunk),
                })
            };
            encoded.map_err(|TooWide| Failure::TooWide)?;
            sent += 1;
        }
        if chunk.len() >= CHUNK_BYTES || at_end && !chunk.is_empty() {
            engine.send(&frame::encode_header(Kind::Rows, chunk.len()))?;
            engine.send(&chunk)?;
            bytes += chunk.len() as u64;
            let read = rows.blocks_read();
            loads::update(|load| (load.blocks_read, load.rows, load.bytes) = (read.into(), sent, bytes));
            chunk.clear();
            chunk.shrink_to(CHUNK_CAPACITY);
            pgrx::check_for_interrupts!();
        }
        if sent.is_multiple_of(64) {
            engine.give_way()?;
        }
        if at_end {
            return Ok(sent);
        }
    }
}

/// Shows in the views why the table is not live yet.
fn tell(database: pg_sys::Oid, order: LoadOrder, reason: &str) {
    shared::update_generation(database, order.relid.into(), order.generation, |t| t.reason = FixedText::new(reason));
}
