//! `pg_anker_engine` is the process that holds a database's columnar mirror, and runs queries on it.
//!
//! The capture worker starts and owns it. Descriptors and settings come through the environment (`protocol::env`), and
//! the change stream through the ring. When the worker ends, the engine ends, too.
//!
//! ```text
//!   ring ==> writer (main thread), owns the store   <--- connections (a thread each) <==> unix socket
//!                |  events                                   |  plans
//!   worker <== events thread                            query threads (tokio): DataFusion
//!   worker ==> control thread: exits with the worker
//! ```

mod activity;
mod admission;
mod by_table;
mod checkpoints;
mod control;
mod encode;
mod explain;
mod forked;
mod incoming;
mod load;
mod log;
mod memory;
mod peer;
mod process;
mod query;
mod room;
mod scribe;
mod server;
mod shared;
mod stats;
mod stream;
mod survey;
mod threads;
mod thresholds;
mod writer;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use activity::Activities;
use admission::{Admission, OpenQueries};
use checkpoints::Checkpoints;
use colstore::Mechanism;
use control::Control;
use protocol::control::{Settings, ToWorker};
use protocol::mechanism::FORK;
use protocol::ring::Consumer;
use protocol::{ProtocolError, env};
use shared::{Connections, Shared};
use stats::Stats;
use stream::StreamError;
use threads::Threads;
use writer::Writer;

fn main() {
    log::panics();
    // A panic of the writer leaves the store in an unknown state, and a panic of the setup leaves no engine. So both
    // end the process.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Err(error)) => log::line(format_args!("{error}")),
        Ok(Ok(error)) => log::line(format_args!("{error}")),
        Err(_) => {}
    }
    // The worker sees that the engine has ended, and starts a new one. Destructors must not run, because other threads
    // still use the values.
    std::process::exit(1);
}

/// Runs the engine. Returns when it cannot continue.
fn run() -> Result<StreamError, Box<dyn Error>> {
    let control = Control::new(process::inherit(env::CONTROL_FD)?);
    process::settle(control.socket())?;
    let greeting = ToWorker::Hello { version: protocol::VERSION, pid: std::process::id() };
    let ring = match Consumer::open(process::inherit(env::RING_FD)?) {
        // The greeting tells the worker why this engine is of no use.
        Err(ProtocolError::Version) => control.end_with(&greeting),
        opened => opened?,
    };
    let settings = Settings::from_text(&std::env::var(env::SETTINGS).map_err(|e| format!("{}: {e}", env::SETTINGS))?)?;
    let Snapshots { mechanism, forks } = snapshots(&settings.mechanism)
        .unwrap_or_else(|reason| control.end_with(&ToWorker::NoMechanism { name: settings.mechanism.clone(), reason }));
    let path_of = |name| std::env::var_os(name).map(PathBuf::from).ok_or_else(|| format!("{name} is not set"));
    let (path, disk_path) = (path_of(env::SOCKET)?, path_of(env::DISK)?);
    let listener = server::listen(&path).map_err(|e| format!("cannot listen at {}: {e}", path.display()))?;

    let threads = Threads::new(&settings)?;
    let options = olap::RuntimeOptions {
        memory_bytes: settings.query_memory_bytes,
        disk: (settings.query_disk_bytes > 0)
            .then(|| olap::DiskOptions::new(disk_path, settings.query_disk_bytes, settings.query_memory_bytes)),
        threads: settings.query_threads,
    };
    let olap = olap::Runtime::with_freed(options, Some(Arc::new(memory::FreePages)));
    let stats = Arc::new(Stats::default());

    // Hello is the first message. It goes through the same queue as the later events.
    let events = control.start()?;
    events.send(greeting)?;
    let (checkpoints, directory) = Checkpoints::open(&path_of(env::CHECKPOINTS)?, &settings);
    let checkpoints = Arc::new(checkpoints);
    let (writer, handle) = Writer::new(ring, &settings, mechanism, events.clone(), stats.clone(), checkpoints.clone());
    if let Some(directory) = directory {
        scribe::start(checkpoints.clone(), directory, handle.clone(), events, &settings)?;
    }
    let shared = Shared {
        mechanism: mechanism.name(),
        forks,
        writer: handle,
        olap: Arc::new(olap),
        threads,
        admission: Arc::new(Admission::new(settings.max_queries.max(1) as usize)),
        open_queries: OpenQueries::default(),
        activities: Activities::default(),
        connections: Connections::default(),
        checkpoints,
        stats,
        settings,
    };
    server::start(listener, Arc::new(shared))?;
    Ok(writer.run())
}

/// The way in which queries get their snapshots.
struct Snapshots {
    /// The mechanism that snapshots columns.
    mechanism: Mechanism,
    /// Whether a query forks the whole process instead.
    forks: bool,
}

/// The way in which queries get their snapshots, according to the setting `anker.mechanism`. An error if that does not
/// work on this system.
fn snapshots(name: &str) -> Result<Snapshots, String> {
    if name == FORK.text() {
        // A child has its own memory, so no snapshot of columns outlives the fork, and columns are written in place.
        return Ok(Snapshots { mechanism: Mechanism::Epochs, forks: true });
    }
    let mechanism = match name.parse() {
        Ok(Mechanism::Auto) => Mechanism::BEST,
        Ok(other) => other,
        Err(unknown) => return Err(unknown.to_string()),
    };
    mechanism.probe().map_err(|error| error.to_string())?;
    Ok(Snapshots { mechanism, forks: false })
}
