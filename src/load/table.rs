//! Loading tables, one after the other: the rows of each under a clean snapshot, encoded as the stream's rows are, to the
//! engine's socket.

use std::ptr;
use std::time::{Duration, Instant};

use follow::LoadOrder;
use pgrx::prelude::*;
use protocol::frame::{self, Kind};
use protocol::request::{LoadRequest, Request};

use super::link::Link;
use super::{clean_snapshot, orders};
use crate::layout;
use crate::pg::catalog;
use crate::pg::memory::Scratch;
use crate::pg::process;
use crate::pg::relation::OpenRelation;
use crate::pg::tuple::{OnDisk, RowEncoder};
use crate::shared::{self, Reason};

const CHUNK_BYTES: usize = 256 << 10;
/// A loader that has worked for so long leaves the tables that it has not come to to the next.
const SHIFT: Duration = Duration::from_secs(1);
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_RETRY_MS: i64 = 10;
const LOCK: i32 = pg_sys::AccessShareLock as i32;

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_loader_main(database: pg_sys::Datum) {
    let database = pg_sys::Oid::from(database.value() as u32);
    process::begin();
    process::connect(database);
    let start = Instant::now();
    for order in orders::from_extra(&process::my_extra()) {
        if start.elapsed() > SHIFT {
            break;
        }
        load_and_tell(database, order);
    }
}

fn load_and_tell(database: pg_sys::Oid, order: LoadOrder) {
    shared::update_generation(database, order.relid.into(), order.generation, |t| t.tried = order.generation);
    let blame = move |reason: &str| tell(database, order, reason);
    let outcome = process::telling_errors(|| load(database, order), blame);
    // SAFETY: the transaction that `load` opened; it changed nothing, and aborting releases whatever a half-done scan
    // still holds.
    unsafe { pg_sys::AbortCurrentTransaction() };
    match outcome {
        Ok(()) => make_plans_anew(order.relid.into()),
        Err(reason) => blame(&reason),
    }
}

/// Plans of prepared statements that were made without the mirror are thought over again, where `anker.route` routes
/// statements that are not flagged.
fn make_plans_anew(relid: pg_sys::Oid) {
    process::in_transaction(|| {
        // An unknown relation would be an error.
        if catalog::class(relid, |_| ()).is_some() {
            // SAFETY: in a transaction, whose end sends the message.
            unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relid) };
        }
    });
}

/// The error is a reason for the view; the capture worker starts another load after a while.
fn load(database: pg_sys::Oid, order: LoadOrder) -> Result<(), String> {
    let relid = pg_sys::Oid::from(order.relid);
    // The lock comes before the snapshot, so that no DDL can come between them.
    let mut locked = true;
    let lock = || locked = locked && wait_for_lock(relid);
    let snapshot = clean_snapshot::begin(lock, |reason| tell(database, order, reason));
    if !locked {
        return Err("waits for a lock on the table".into());
    }
    let relation = OpenRelation::try_locked(relid).ok_or("the table was dropped")?;
    let described = layout::describe(&relation).map_err(|e| e.message)?;
    let mut engine = Link::connect(database, relid)?;
    // If the table was altered meanwhile, its fingerprint is not that under which the engine watches it.
    let fingerprint = described.layout.fingerprint;
    let request = LoadRequest { relid: order.relid, generation: order.generation, fingerprint, snapshot };
    engine.send(&frame::encode(Kind::Request, &Request::Load(request)))?;
    engine.expect(Kind::Go)?;
    // SAFETY: the relation is open, described by this layout, and the snapshot active.
    let rows = unsafe {
        let encoder = RowEncoder::new(&described.layout, relation.descriptor());
        send_rows(&relation, encoder, &mut engine)?
    };
    engine.send(&frame::encode_raw(Kind::LoadEnd, &rows.to_le_bytes()))?;
    engine.expect(Kind::Loaded)
}

/// Whether the table could be locked, before long: tables that could be loaded wait behind this one.
fn wait_for_lock(relid: pg_sys::Oid) -> bool {
    let start = Instant::now();
    // SAFETY: in a transaction, which keeps the lock.
    while !unsafe { pg_sys::ConditionalLockRelationOid(relid, LOCK) } {
        if start.elapsed() > LOCK_PATIENCE {
            return false;
        }
        process::sleep(LOCK_RETRY_MS);
    }
    true
}

/// Sends all rows of the relation under the active snapshot; returns their number.
unsafe fn send_rows(relation: &OpenRelation, mut encoder: RowEncoder, engine: &mut Link) -> Result<u64, String> {
    let mut rows = 0u64;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 2));
    // SAFETY: the relation is open and its access method the heap, as for all ordinary tables that were described;
    // tuples are read before the scan moves on, and what was detoasted for one is freed behind it.
    unsafe {
        let scratch = Scratch::below(pg_sys::CurrentMemoryContext, c"pg_anker row");
        let scan = pg_sys::table_beginscan(relation.as_ptr(), pg_sys::GetActiveSnapshot(), 0, ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if !tuple.is_null() {
                scratch.with(|| encoder.row(tuple, relation.descriptor(), OnDisk::Fetch, &mut chunk));
                rows += 1;
            }
            if chunk.len() >= CHUNK_BYTES || tuple.is_null() && !chunk.is_empty() {
                engine.send(&frame::encode_header(Kind::Rows, chunk.len()))?;
                engine.send(&chunk)?;
                chunk.clear();
                pgrx::check_for_interrupts!();
            }
            if rows.is_multiple_of(64) {
                engine.give_way()?;
            }
            if tuple.is_null() {
                break;
            }
        }
        pg_sys::table_endscan(scan);
    }
    Ok(rows)
}

/// Shows why the table is not live yet.
fn tell(database: pg_sys::Oid, order: LoadOrder, reason: &str) {
    shared::update_generation(database, order.relid.into(), order.generation, |t| t.reason = Reason::new(reason));
}
