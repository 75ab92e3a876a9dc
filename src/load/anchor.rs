//! The anchor of the engine's checkpoints: a number in the database that names the last one.
//!
//! A checkpoint belongs to the database only if the database names it. The number is written after the checkpoint's
//! files are durable, and is in the WAL like any change. So whoever finds the number has all WAL before it, and
//! whatever he writes later has later positions. Files that were copied, restored or rewound without the database, or
//! the other way round, do not match the number.
//!
//! The number is the value of a sequence, because publications of all tables do not publish sequences.

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::list;
use crate::note::{Content, Note};
use crate::pg::process::{self, Extra};
use crate::pg::relation::{self, Lock};
use crate::pg::{sequence, transaction};

/// The arguments of the worker that writes the anchor.
#[derive(Serialize, Deserialize)]
pub struct AnchorOrder {
    /// Distinguishes the worker's note from notes for an earlier capture worker.
    pub token: u64,
    pub id: u64,
}

impl AnchorOrder {
    pub fn to_extra(&self) -> Extra {
        super::to_extra(self)
    }
}

/// The main function of the worker that writes the anchor. A note tells the capture worker that the anchor is durable.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_anchor_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let AnchorOrder { token, id } = super::from_extra(&process::my_extra());
    // The anchor must be durable here, but need not be on a standby, because checkpoints exist only here.
    transaction::wait_for_own_disk_at_commit();
    transaction::begin();
    transaction::allow_writes();
    let anchor = list::anchor_oid().filter(|anchor| relation::try_lock(*anchor, Lock::Write));
    anchor.into_iter().for_each(|anchor| sequence::set(anchor, id as i64));
    transaction::commit();
    if anchor.is_some() {
        Note { token, content: Content::Anchored { id } }.write();
    }
}

/// The checkpoint that the database names. `None` if it names none, or if the anchor is locked by another process.
pub fn read() -> Option<u64> {
    let anchor = list::anchor_oid().filter(|anchor| relation::try_lock(*anchor, Lock::Read))?;
    sequence::last(anchor).map(|id| id as u64)
}
