//! Marks of tables that are being loaded. They are files: a crash of the server takes its memory, and with it every
//! trace of the loaders' work.
//!
//! A loader counts a table's mark up before it reads the table, and removes it when it is done, well or not. A mark
//! that is there while nobody loads says how often the server went down over the table, or by chance at that time.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use pgrx::prelude::*;

use crate::client::FILE_DIRECTORY;
use crate::pg::process;

thread_local! {
    /// The mark that this process has set.
    static SET: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Once in a process that sets marks: they go with it, unless it is killed.
pub fn remove_at_exit() {
    process::at_exit(remove);
}

/// Marks a table, for as long as it is loaded.
pub fn set(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let path = path(database, relid);
    // Where no file can be written, a crash is not remembered.
    let _ = fs::write(&path, (crashes(database, relid) + 1).to_string());
    SET.set(Some(path));
}

/// The table is not loaded any more.
pub fn remove() {
    if let Some(path) = SET.take() {
        let _ = fs::remove_file(path);
    }
}

/// How often the server went down while the table was loaded.
pub fn crashes(database: pg_sys::Oid, relid: pg_sys::Oid) -> u32 {
    fs::read_to_string(path(database, relid)).ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The table is to be loaded as if nothing had happened.
pub fn forget_crashes(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let _ = fs::remove_file(path(database, relid));
}

fn path(database: pg_sys::Oid, relid: pg_sys::Oid) -> PathBuf {
    format!("{FILE_DIRECTORY}/pgsql_tmp_{}_{}.loading", database.to_u32(), relid.to_u32()).into()
}
