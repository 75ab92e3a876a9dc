//! Removes the row of a dropped table from `anker.mirrored`, in the transaction that drops the table.
//!
//! PostgreSQL calls the hook for each dropped object, whatever the command was (CASCADE, DROP OWNED, DROP SCHEMA).

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::load;
use crate::pg::{catalog, hooks};

static mut PREVIOUS: pg_sys::object_access_hook_type = None;

pub fn install() {
    hooks::install!(object_access_hook, PREVIOUS, hook);
}

/// Called for each object that is created, altered, dropped or used. An error of the previous hook may jump over this
/// frame, because the frame owns nothing.
unsafe extern "C-unwind" fn hook(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: i32,
    argument: *mut c_void,
) {
    // SAFETY: the server calls this, and the previous hook gets the server's arguments unchanged.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(access, class, object, part, argument);
        }
        if access == pg_sys::ObjectAccessType::OAT_DROP && class == pg_sys::RelationRelationId && part == 0 {
            dropped(object);
        }
    }
}

/// Called for a dropped relation, whose catalog row still exists.
#[pg_guard]
unsafe extern "C-unwind" fn dropped(relid: pg_sys::Oid) {
    let could_be_mirrored = catalog::class(relid, |class| {
        let ordinary = matches!(class.relkind as u8, pg_sys::RELKIND_RELATION | pg_sys::RELKIND_PARTITIONED_TABLE);
        // A mirrored table may have become unlogged, and then still has its row.
        let temporary = class.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        ordinary && !temporary && relid.to_u32() >= pg_sys::FirstNormalObjectId
    });
    if could_be_mirrored == Some(true) {
        load::remove_from_list(relid);
    }
}
