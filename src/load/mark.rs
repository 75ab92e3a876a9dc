//! Marks of tables that are being loaded. A mark is a file, because a crash of the server loses its shared memory, and
//! with it every other trace of the loaders' work.
//!
//! A loader increments a table's mark before it reads the table, and removes the mark at the end of the load,
//! successful or not. A mark that is left from before the server's last start counts the server's crashes during loads
//! of the table. The loads need not have caused these crashes. Each mark names the server start after which it was set.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use pgrx::prelude::*;

use crate::client::FILE_DIRECTORY;
use crate::pg::process;
use crate::shared;

const ENDING: &str = ".loading";

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
    let mark = format!("{} {}", crashes(database, relid) + 1, shared::started());
    // A mark is never half written, so a crash at this moment does not lose the count. A failed write is ignored. It
    // only means that a crash goes unnoticed.
    let new = path.with_extension("new");
    let _ = fs::write(&new, mark).and_then(|()| fs::rename(&new, &path));
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
    let Ok(mark) = fs::read_to_string(path(database, relid)) else { return 0 };
    let mut parts = mark.split(' ');
    let count: u32 = parts.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    // A mark from the present run of the server belongs to a load that goes on or is ending, so it is no crash.
    let goes_on = parts.next().and_then(|started| started.parse().ok()) == Some(shared::started());
    count.saturating_sub(goes_on.into())
}

/// Forgets the table's crashes, so that it may be loaded again.
pub fn forget_crashes(database: pg_sys::Oid, relid: pg_sys::Oid) {
    let _ = fs::remove_file(path(database, relid));
}

/// Forgets the crashes during loads of a database's tables, except tables for which `is_mirrored` returns true.
pub fn retain_crashes(database: pg_sys::Oid, is_mirrored: impl Fn(u32) -> bool) {
    let beginning = format!("pgsql_tmp_{}_", database.to_u32());
    // If the directory does not exist, there are no marks.
    for file in fs::read_dir(FILE_DIRECTORY).into_iter().flatten().flatten() {
        let name = file.file_name();
        let relid = name.to_str().and_then(|name| name.strip_prefix(&beginning)?.strip_suffix(ENDING)?.parse().ok());
        if relid.is_some_and(|relid| !is_mirrored(relid)) {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn path(database: pg_sys::Oid, relid: pg_sys::Oid) -> PathBuf {
    format!("{FILE_DIRECTORY}/pgsql_tmp_{}_{}{ENDING}", database.to_u32(), relid.to_u32()).into()
}
