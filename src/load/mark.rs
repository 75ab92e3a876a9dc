//! Marks of tables that are being loaded. A mark is a file, because a crash of the server loses its shared memory, and
//! with it every other trace of the loaders' work.
//!
//! A loader increments a table's mark before it reads the table, and removes the mark at the end of the load,
//! successful or not. If a mark exists while nobody loads, it counts the server crashes during loads of the table. The
//! load need not have caused them.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use pgrx::prelude::*;

use crate::client::FILE_DIRECTORY;
use crate::pg::process;

thread_local! {
    /// The path of the mark that this process has set.
    static SET: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Makes this process remove its mark when it exits, unless it is killed. To be called once.
pub fn remove_at_exit() {
    process::at_exit(remove);
}

/// Sets the mark of a table, before it is loaded.
pub fn set(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let path = path(database, relid);
    // A failed write is ignored. It only means that a crash goes unnoticed.
    let _ = fs::write(&path, (crashes(database, relid) + 1).to_string());
    SET.set(Some(path));
}

/// Removes the mark, after the load.
pub fn remove() {
    if let Some(path) = SET.take() {
        let _ = fs::remove_file(path);
    }
}

/// The number of server crashes while the table was loaded.
pub fn crashes(database: pg_sys::Oid, relid: pg_sys::Oid) -> u32 {
    fs::read_to_string(path(database, relid)).ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Forgets the table's crashes, so that it may be loaded again.
pub fn forget_crashes(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let _ = fs::remove_file(path(database, relid));
}

fn path(database: pg_sys::Oid, relid: pg_sys::Oid) -> PathBuf {
    format!("{FILE_DIRECTORY}/pgsql_tmp_{}_{}.loading", database.to_u32(), relid.to_u32()).into()
}
