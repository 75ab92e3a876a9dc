//! Primary keys. Each backend caches them, so that looking one up costs almost nothing.

use std::cell::Cell;

use pgrx::prelude::*;

use super::catalog;
use super::changes::{self, Cache};
use super::relation::{KeyColumn, OpenRelation};

/// The greatest number of columns in a cached key. A table with a longer key counts as a table without a key.
const MAX_COLUMNS: usize = 16;
/// The number of cache entries. Tables whose oids are equal modulo this number replace each other.
const SLOTS: usize = 64;

/// The primary key of one table. It has no columns if the table has no primary key, or if the key does not identify all
/// its rows.
#[derive(Clone, Copy)]
pub struct PrimaryKey {
    relid: pg_sys::Oid,
    length: usize,
    columns: [KeyColumn; MAX_COLUMNS],
}

/// An operator and an operator family, and whether the operator is the family's equality operator.
#[derive(Clone, Copy)]
struct Equality {
    operator: pg_sys::Oid,
    family: pg_sys::Oid,
    is_one: bool,
}

const NO_COLUMN: KeyColumn = KeyColumn { number: 0, family: pg_sys::InvalidOid };
const NO_KEY: PrimaryKey = PrimaryKey { relid: pg_sys::InvalidOid, length: 0, columns: [NO_COLUMN; MAX_COLUMNS] };
const NO_EQUALITY: Equality = Equality { operator: pg_sys::InvalidOid, family: pg_sys::InvalidOid, is_one: false };

/// The caches of keys and of equality operators. Changes of the catalog remove entries.
struct Remembered {
    keys: [Cell<PrimaryKey>; SLOTS],
    equalities: [Cell<Equality>; SLOTS],
}

// SAFETY: a backend has one thread.
unsafe impl Sync for Remembered {}

static REMEMBERED: Remembered =
    Remembered { keys: [const { Cell::new(NO_KEY) }; SLOTS], equalities: [const { Cell::new(NO_EQUALITY) }; SLOTS] };

impl PrimaryKey {
    /// The primary key of a table, which must be locked.
    pub fn of(relid: pg_sys::Oid) -> PrimaryKey {
        let slot = &REMEMBERED.keys[relid.to_u32() as usize % SLOTS];
        let known = slot.get();
        if known.relid == relid {
            return known;
        }
        let before = changes::count(&CACHE);
        let mut key = PrimaryKey { relid, ..NO_KEY };
        let found = OpenRelation::locked(relid).primary_key();
        if found.len() <= MAX_COLUMNS {
            key.columns[..found.len()].copy_from_slice(&found);
            key.length = found.len();
        }
        if changes::count(&CACHE) == before {
            slot.set(key);
        }
        key
    }

    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns[..self.length]
    }
}

/// Whether an operator is the equality operator of a B-tree operator family.
pub fn is_equality(operator: pg_sys::Oid, family: pg_sys::Oid) -> bool {
    let slot = &REMEMBERED.equalities[(operator.to_u32() ^ family.to_u32()) as usize % SLOTS];
    let known = slot.get();
    if (known.operator, known.family) == (operator, family) {
        return known.is_one;
    }
    let before = changes::count(&CACHE);
    let is_one = catalog::is_equality(operator, family);
    if changes::count(&CACHE) == before {
        slot.set(Equality { operator, family, is_one });
    }
    is_one
}

static CACHE: Cache = Cache { relation: forget, operators: forget_equalities };

/// Removes the key of a changed relation from the cache; with an invalid oid, removes all keys.
fn forget(relid: pg_sys::Oid) {
    match relid {
        pg_sys::InvalidOid => REMEMBERED.keys.iter().for_each(|slot| slot.set(NO_KEY)),
        _ => REMEMBERED.keys[relid.to_u32() as usize % SLOTS].set(NO_KEY),
    }
}

fn forget_equalities() {
    REMEMBERED.equalities.iter().for_each(|slot| slot.set(NO_EQUALITY));
}
