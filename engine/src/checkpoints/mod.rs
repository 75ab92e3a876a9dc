//! Checkpoints: the columns of the live tables on disk, from which the mirror is made again after a restart.
//!
//! ```text
//!   timer, request -> image of each table -> pieces that changed -> files, manifest -> worker: anchor the id
//!                       (writer)                (this thread)                              | stream: Anchored
//!   load after a restart <- chunks <- files of the checkpoint that the database names <----+
//! ```
//!
//! A checkpoint counts only once the database names it: the worker makes its id the value of a sequence. Each load
//! reads that value, so files of other data are never used. `crates/checkpoint` writes and reads the files.
//!
//! | file | job |
//! |---|---|
//! | `mod` | the state that all threads share |
//! | `kept` | a table's rows in a checkpoint, for a load |
//!
//! The thread that writes checkpoints is in [`crate::scribe`].

mod kept;

use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use checkpoint::{Database, Directory, Error, Manifest, Place, Source, TableHead};
use parking_lot::{Condvar, Mutex};
use protocol::control::Settings;
use protocol::request::{CheckpointReport, CheckpointStatus, KeptStatus, LoadRequest, TableStatus};
use tokio::sync::oneshot;

pub use self::kept::{Dropped, Kept, OwnedChunk};
use crate::log;

/// The time to wait for an earlier engine that is ending, and still has the directory locked. It may have much memory
/// to give back. The worker waits longer for this engine's greeting.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(20);
const PREDECESSOR_PAUSE: Duration = Duration::from_millis(50);

/// The checkpoints of this database.
pub struct Checkpoints {
    pub state: Mutex<State>,
    /// Held while a load opens the files of a checkpoint, and while a checkpoint is withdrawn before its removal. The
    /// store's writer never takes it, because it must not wait for a disk.
    pub opening: Mutex<()>,
    /// Wakes the thread that writes checkpoints.
    pub woken: Condvar,
}

#[derive(Default)]
pub struct State {
    /// The checkpoints on disk, the newest first, and the means to read them. `None` if there can be no checkpoints.
    source: Option<Source>,
    pub manifests: Vec<Manifest>,
    /// The last id that the database is known to name.
    pub anchored: Option<u64>,
    /// The tables whose rows in the present checkpoints must not be used, because their mirror was given up since.
    /// Each has a number, which grows each time.
    pub forgotten: HashMap<u32, u64>,
    last_forgotten: u64,
    /// The tables that were loaded from a checkpoint.
    pub origins: HashMap<u32, Origin>,
    pub requests: Vec<oneshot::Sender<Result<CheckpointReport, String>>>,
    /// Whether a checkpoint must be written soon, even without a request.
    pub is_urgent: bool,
    pub status: CheckpointStatus,
}

/// The rows in a checkpoint from which a table was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The generation of the table that was loaded.
    pub generation: u64,
    /// The index of the rows in the checkpoint. It names them for certain, while generations are counted anew when the
    /// server starts.
    pub index: Place,
    kept: KeptStatus,
}

impl Checkpoints {
    /// The checkpoints in a directory, and the directory itself for [`crate::scribe`]. If there are to be none, the
    /// directory is not opened.
    pub fn open(path: &Path, settings: &Settings) -> (Checkpoints, Option<Directory>) {
        let with = |state| Checkpoints { state: Mutex::new(state), opening: Mutex::default(), woken: Condvar::new() };
        let none = || (with(State::default()), None);
        if settings.checkpoint_seconds == 0 || settings.checkpoint_bytes == 0 {
            // Files of an earlier engine would never be used. If they cannot be removed, they do no harm.
            let _ = std::fs::remove_dir_all(path);
            return none();
        }
        let database = Database { system: settings.system, oid: settings.database };
        let deadline = Instant::now() + PREDECESSOR_PATIENCE;
        let mut opened = Directory::open(path, database);
        while matches!(opened, Err(Error::Busy(_))) && Instant::now() < deadline {
            thread::sleep(PREDECESSOR_PAUSE);
            opened = Directory::open(path, database);
        }
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) => {
                log::line(format_args!("there will be no checkpoints: {error}"));
                return none();
            }
        };
        let state = State {
            source: Some(directory.source()),
            manifests: directory.remains().iter().filter(|manifest| is_of_this_build(manifest)).cloned().collect(),
            ..State::default()
        };
        (with(state), Some(directory))
    }

    /// The rows of a table in the checkpoint that the database names, if there are any for this load.
    pub fn offer(&self, request: &LoadRequest) -> Option<Kept> {
        let _opening = self.opening.lock();
        let mut state = self.state.lock();
        let id = request.anchor?;
        let manifest = state.manifests.iter().find(|manifest| manifest.id == id)?;
        let of_table = |head: &TableHead| head.relid == request.relid && head.fingerprint == request.fingerprint;
        let entry = manifest.tables.iter().find(|table| of_table(&table.head)).cloned();
        // Later ids come by the stream. The load may not see the last one yet.
        state.anchored.get_or_insert(id);
        if state.forgotten.contains_key(&request.relid) {
            return None;
        }
        let (entry, source) = (entry?, state.source.clone()?);
        drop(state);
        match source.table(&entry) {
            Ok(reader) => Some(Kept::new(&entry, reader)),
            Err(error) => {
                self.damaged(request.relid, &error);
                None
            }
        }
    }

    /// Records that a table has been loaded from the rows of a checkpoint.
    pub fn loaded(&self, relid: u32, generation: u64, index: Place, kept: KeptStatus) {
        self.state.lock().origins.insert(relid, Origin { generation, index, kept });
    }

    /// Completes the figures of tables that were loaded from a checkpoint.
    pub fn report(&self, tables: &mut [TableStatus]) {
        let state = self.state.lock();
        for table in tables {
            let origin = state.origins.get(&table.relid).filter(|origin| origin.generation == table.generation);
            table.kept = origin.map(|origin| origin.kept);
        }
    }

    /// Called when the mirror of a table was given up. If its rows were wrong, they may be wrong in the checkpoint as
    /// well.
    pub fn forget(&self, relid: u32, is_error: bool) {
        let mut state = self.state.lock();
        state.last_forgotten += 1;
        let number = state.last_forgotten;
        state.forgotten.insert(relid, number);
        if is_error {
            state.is_urgent = true;
            self.woken.notify_all();
        }
    }

    /// Called when the rows of a table in a checkpoint cannot be read.
    pub fn damaged(&self, relid: u32, error: &dyn std::fmt::Display) {
        log::line(format_args!("the rows of table {relid} in the checkpoint cannot be used: {error}"));
        self.forget(relid, true);
    }

    /// Called when the database names a checkpoint.
    pub fn anchored(&self, id: u64) {
        self.state.lock().anchored = Some(id);
        self.woken.notify_all();
    }

    /// Asks for a checkpoint now. The answer comes when the database names it.
    pub fn request(&self) -> oneshot::Receiver<Result<CheckpointReport, String>> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state.lock();
        match state.source {
            Some(_) => state.requests.push(reply),
            None => {
                let _ = reply.send(Err("there are no checkpoints (anker.checkpoint_interval, server log)".into()));
            }
        }
        self.woken.notify_all();
        answer
    }

    pub fn status(&self) -> CheckpointStatus {
        self.state.lock().status.clone()
    }
}

/// Whether this build has written a checkpoint. The form of images may differ between builds.
pub fn is_of_this_build(manifest: &Manifest) -> bool {
    manifest.extra == protocol::VERSION.to_le_bytes()
}
