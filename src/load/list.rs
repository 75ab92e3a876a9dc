//! Reading `anker.mirrored`.

use std::ffi::CStr;
use std::ptr;

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::clean_snapshot;
use crate::note::{Content, Note};
use crate::pg::process::{self, Extra};

const EXTENSION: &CStr = c"pg_anker";
const SCHEMA: &CStr = c"anker";
const TABLE: &CStr = c"mirrored";

/// What a reader of the list is started with.
#[derive(Serialize, Deserialize)]
pub struct ListOrder {
    pub worker: u64,
    pub list: u32,
}

impl ListOrder {
    pub fn to_extra(&self) -> Extra {
        super::to_extra(self)
    }
}

/// The oid of `anker.mirrored`, if this database has the extension. In a transaction.
pub fn list_oid() -> Option<pg_sys::Oid> {
    // SAFETY: catalog look-ups in a transaction, with constant names.
    unsafe {
        let extension = pg_sys::get_extension_oid(EXTENSION.as_ptr(), true);
        let schema = pg_sys::get_namespace_oid(SCHEMA.as_ptr(), true);
        if extension == pg_sys::InvalidOid || schema == pg_sys::InvalidOid {
            return None;
        }
        let list = pg_sys::get_relname_relid(TABLE.as_ptr(), schema);
        // A table of that name that is not ours is nobody's list.
        let ours =
            list != pg_sys::InvalidOid && pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, list) == extension;
        ours.then_some(list)
    }
}

/// The oid of `anker.mirrored`, if it is there and has a row. In a transaction, without decoding.
pub fn list_if_not_empty() -> Option<pg_sys::Oid> {
    let list = list_oid()?;
    // SAFETY: in a transaction; the snapshot stays active until after the scan.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let empty = read(list).is_empty();
        pg_sys::PopActiveSnapshot();
        (!empty).then_some(list)
    }
}

/// The registered relations, under the active snapshot.
unsafe fn read(list: pg_sys::Oid) -> Vec<u32> {
    let mut relids = Vec::new();
    // SAFETY: the list's first column is a regclass; relation and scan are closed again.
    unsafe {
        let relation = pg_sys::try_relation_open(list, pg_sys::AccessShareLock as i32);
        if relation.is_null() {
            return relids;
        }
        let scan = pg_sys::table_beginscan(relation, pg_sys::GetActiveSnapshot(), 0, ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let mut null = false;
            let relid = pg_sys::heap_getattr(tuple, 1, (*relation).rd_att, &mut null);
            if !null {
                relids.push(relid.value() as u32);
            }
        }
        pg_sys::table_endscan(scan);
        pg_sys::relation_close(relation, pg_sys::AccessShareLock as i32);
    }
    relids
}

/// Reads the list and writes it into the stream, as a note to the worker that asked.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_registry_reader_main(database: pg_sys::Datum) {
    process::begin();
    process::connect(pg_sys::Oid::from(database.value() as u32));
    let order: ListOrder = super::from_extra(&process::my_extra());
    let mut told = false;
    let tell_once = |reason: &str| {
        if !std::mem::replace(&mut told, true) {
            log!("pg_anker: reading the list of mirrored tables: {reason}");
        }
    };
    clean_snapshot::begin(|| {}, tell_once);
    // SAFETY: the snapshot is active.
    let relids = unsafe { read(order.list.into()) };
    Note { worker: order.worker, content: Content::Registry { relids } }.write();
    // SAFETY: the transaction that `begin` opened.
    unsafe {
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
    }
}
