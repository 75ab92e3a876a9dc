//! Loading one table: its rows under a clean snapshot, encoded as the stream's rows are, to the engine's socket.

use std::ptr;
use std::time::Duration;

use pgrx::prelude::*;
use protocol::frame::{self, Kind};
use protocol::request::{LoadRequest, Refusal, Request};
use serde::{Deserialize, Serialize};

use super::clean_snapshot;
use crate::client::{Engine, Received};
use crate::layout;
use crate::pg::process::{self, Extra};
use crate::pg::tuple::{OnDisk, RowEncoder};
use crate::shared::{self, Reason};

const CHUNK_BYTES: usize = 256 << 10;
/// The engine answers at once, but for the time it takes to apply what lies before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const LOCK: i32 = pg_sys::AccessShareLock as i32;

/// What a loader is started with.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct LoadOrder {
    pub relid: u32,
    pub generation: u64,
    pub fingerprint: u64,
}

impl LoadOrder {
    pub fn to_extra(self) -> Extra {
        super::to_extra(&self)
    }
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_loader_main(database: pg_sys::Datum) {
    let database = pg_sys::Oid::from(database.value() as u32);
    process::begin();
    process::connect(database);
    let order: LoadOrder = super::from_extra(&process::my_extra());
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
        let key = pg_sys::Datum::from(relid);
        let none = pg_sys::Datum::from(0);
        // SAFETY: in a transaction, whose end sends the message; looked up first, since an unknown relation is an error.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
            if pg_sys::SearchSysCacheExists(cache, key, none, none, none) {
                pg_sys::CacheInvalidateRelcacheByRelid(relid);
            }
        }
    });
}

/// The error is a reason for the view; the capture worker starts another load after a while.
fn load(database: pg_sys::Oid, order: LoadOrder) -> Result<(), String> {
    let relid = pg_sys::Oid::from(order.relid);
    // The lock comes before the snapshot, so that no DDL can come between them.
    let lock = || {
        // SAFETY: in a transaction.
        unsafe { pg_sys::LockRelationOid(relid, LOCK) };
    };
    let snapshot = clean_snapshot::begin(lock, |reason| tell(database, order, reason));
    // SAFETY: locked above; closed by the transaction's end.
    let relation = unsafe { pg_sys::try_relation_open(relid, pg_sys::NoLock as i32) };
    if relation.is_null() {
        return Err("the table was dropped".into());
    }
    // SAFETY: the relation is open and locked.
    let described = unsafe { layout::describe(relation) }.map_err(|e| e.message)?;
    if described.layout.fingerprint != order.fingerprint {
        return Err("the table was altered when its load began".into());
    }
    let mut engine = Engine::connect(database)?;
    let request =
        LoadRequest { relid: order.relid, generation: order.generation, fingerprint: order.fingerprint, snapshot };
    engine.send(&frame::encode(Kind::Request, &Request::Load(request)))?;
    expect(&mut engine, Kind::Go)?;
    // SAFETY: the relation is open, described by this layout, and the snapshot active.
    let rows = unsafe {
        let encoder = RowEncoder::new(&described.layout, (*relation).rd_att);
        send_rows(relation, encoder, &mut engine)?
    };
    engine.send(&frame::encode_raw(Kind::LoadEnd, &rows.to_le_bytes()))?;
    expect(&mut engine, Kind::Loaded)
}

/// Sends all rows of the relation under the active snapshot; returns their number.
unsafe fn send_rows(relation: pg_sys::Relation, mut encoder: RowEncoder, engine: &mut Engine) -> Result<u64, String> {
    let mut rows = 0u64;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 2));
    // SAFETY: the relation is open and its access method the heap, as for all ordinary tables that were described;
    // tuples are read before the scan moves on, and what was detoasted for one is freed behind it.
    unsafe {
        let scratch = pg_sys::AllocSetContextCreateInternal(
            pg_sys::CurrentMemoryContext,
            c"pg_anker row".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        let scan = pg_sys::table_beginscan(relation, pg_sys::GetActiveSnapshot(), 0, ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if !tuple.is_null() {
                let outer = pg_sys::MemoryContextSwitchTo(scratch);
                encoder.row(tuple, (*relation).rd_att, OnDisk::Fetch, &mut chunk);
                pg_sys::MemoryContextSwitchTo(outer);
                pg_sys::MemoryContextReset(scratch);
                rows += 1;
            }
            if chunk.len() >= CHUNK_BYTES || tuple.is_null() && !chunk.is_empty() {
                engine.send(&frame::encode_raw(Kind::Rows, &chunk))?;
                chunk.clear();
                pgrx::check_for_interrupts!();
                if somebody_waits_for(relation) {
                    return Err("the load gave way to a lock on the table".into());
                }
            }
            if tuple.is_null() {
                break;
            }
        }
        pg_sys::table_endscan(scan);
    }
    Ok(rows)
}

/// Whether some process waits for a lock on the relation, which we may be the one to hold up.
///
/// LockHasWaiters cannot tell: an AccessShareLock taken by the fast path has no entry in the lock table that it could
/// look at.
unsafe fn somebody_waits_for(relation: pg_sys::Relation) -> bool {
    // SAFETY: the PGPROCs and the locks that they wait for lie in shared memory that stays mapped. They are read without
    // a lock: at worst we give way for nothing, or one chunk later.
    unsafe {
        let id = (*relation).rd_lockInfo.lockRelId;
        let processes = &*pg_sys::ProcGlobal;
        (0..processes.allProcCount as usize).any(|i| {
            let lock = (&raw const (*processes.allProcs.add(i)).waitLock).read_volatile();
            let tag = lock.as_ref().map(|lock| (&raw const lock.tag).read_volatile());
            tag.is_some_and(|tag| {
                tag.locktag_type as u32 == pg_sys::LockTagType::LOCKTAG_RELATION
                    && tag.locktag_field1 == id.dbId.to_u32()
                    && tag.locktag_field2 == id.relId.to_u32()
            })
        })
    }
}

/// Waits for the engine's answer, which is `wanted` or a refusal.
fn expect(engine: &mut Engine, wanted: Kind) -> Result<(), String> {
    match engine.receive(Some(ANSWER_TIMEOUT))? {
        Received::Frame(kind, _) if kind == wanted => Ok(()),
        Received::Frame(Kind::Refused, payload) => {
            let refusal: Refusal = frame::parse(payload).map_err(|e| e.to_string())?;
            Err(refusal.reason())
        }
        Received::Frame(kind, _) => Err(format!("the engine answered a load with {kind:?}")),
        Received::TimedOut => Err("the engine did not answer in time".into()),
    }
}

/// Shows why the table is not live yet.
fn tell(database: pg_sys::Oid, order: LoadOrder, reason: &str) {
    let ours = |t: &shared::Table| t.generation == order.generation;
    // Looked for first: an update would make an entry for a table that was unmirrored meanwhile.
    if shared::table(database, order.relid.into()).is_some_and(|t| ours(&t)) {
        shared::update_table(database, order.relid.into(), |t| {
            if ours(t) {
                t.reason = Reason::new(reason);
            }
        });
    }
}
