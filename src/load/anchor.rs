//! The anchor of the engine's checkpoints: a row in the database that names the last one.
//!
//! A checkpoint belongs to the database only if the database names it. The row is written after the checkpoint's files
//! are durable, as an ordinary transaction. So who sees the row has all WAL before it, and whatever he writes later has
//! later positions. Files that were copied, restored or rewound without the database, or the other way round, do not
//! match the row.

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::list;
use crate::note::{Content, Note};
use crate::pg::process::{self, Extra};
use crate::pg::relation::{self, Lock, OpenRelation};
use crate::pg::rows::Rows;
use crate::pg::{snapshot, transaction};

/// The arguments of the worker that writes the anchor.
#[derive(Serialize, Deserialize)]
pub struct AnchorOrder {
    /// Distinguishes the worker's note from notes for an earlier capture worker.
    pub token: u64,
    pub id: u128,
}

impl AnchorOrder {
    pub fn to_extra(&self) -> Extra {
        super::to_extra(self)
    }
}

/// The main function of the worker that writes the anchor. A note tells the capture worker that the row is durable.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_anchor_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let AnchorOrder { token, id } = super::from_extra(&process::my_extra());
    // The row must be durable here, but need not be on a standby, because checkpoints exist only here.
    transaction::wait_for_own_disk_at_commit();
    transaction::begin();
    transaction::allow_writes();
    let written = list::anchor_oid().is_some_and(|anchor| relation::try_lock(anchor, Lock::Write));
    if written {
        let uuid = pgrx::Uuid::from_bytes(id.to_be_bytes());
        let written = snapshot::with_active(|| {
            Spi::connect_mut(|client| {
                client.update("DELETE FROM anker.anchor", None, &[])?;
                client.update("INSERT INTO anker.anchor (checkpoint) VALUES ($1)", None, &[uuid.into()]).map(|_| ())
            })
        });
        written.unwrap_or_else(|error| error!("could not write the anchor of a checkpoint: {error}"));
    }
    transaction::commit();
    if written {
        Note { token, content: Content::Anchored { id } }.write();
    }
}

/// Locks the table of the anchor, if that is possible without waiting. To be called before a snapshot is taken.
pub fn try_lock() -> Option<pg_sys::Oid> {
    list::anchor_oid().filter(|anchor| relation::try_lock(*anchor, Lock::Read))
}

/// The checkpoint that the database names, as the active snapshot sees it. The table must be locked.
pub fn read(anchor: pg_sys::Oid) -> Option<u128> {
    let relation = OpenRelation::try_locked(anchor)?;
    let mut rows = Rows::active(&relation);
    let id = rows.next().and_then(|row| row.first_uuid());
    // With two rows, somebody else has written one of them.
    rows.next().is_none().then_some(id?).map(u128::from_be_bytes)
}
