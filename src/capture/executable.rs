//! The engine's executable. It must come from the same build as this library.
//!
//! A package brings both files. When a newer package replaces them, a running server keeps the library that it has
//! loaded, but a worker would start the new engine. So the file is remembered when the server loads the library, and an
//! engine that was started from another file is not used. This also catches a build whose messages are the same, but
//! whose answers may differ. The engine's greeting catches files that did not fit together from the beginning.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::pg::session;

const NAME: &str = "pg_anker_engine";
const REPLACED: &str = "the engine's executable was replaced while the server was running: restart the server";

/// The executable's file when the server loaded this library; `None` if there was none. All processes of the server
/// inherit the value.
static AT_START: OnceLock<Option<Identity>> = OnceLock::new();

/// Properties that tell a file from one that has replaced it, and that renaming does not change.
#[derive(Debug, PartialEq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let file = fs::metadata(path)?;
        let modified = (file.mtime(), file.mtime_nsec());
        Ok(Identity { device: file.dev(), inode: file.ino(), bytes: file.size(), modified })
    }
}

/// Remembers the file. To be called when the server loads this library.
pub fn remember() {
    AT_START.get_or_init(|| Identity::of(&path()).ok());
}

/// The executable is installed beside our library.
pub fn path() -> PathBuf {
    session::library_directory().join(NAME)
}

/// Checks that the file is still the one that was there when the server started. To be called after the engine was
/// started: a file that is still there now is the one that was executed.
pub fn check() -> Result<(), String> {
    match AT_START.get() {
        Some(Some(known)) if Identity::of(&path()).is_ok_and(|now| now == *known) => Ok(()),
        Some(Some(_)) => Err(REPLACED.into()),
        // Nothing is known about the file of a server that was started without one. The engine's greeting says whether
        // it fits.
        Some(None) | None => Ok(()),
    }
}
