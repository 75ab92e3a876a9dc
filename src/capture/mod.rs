//! Follows the heap: the launcher, the capture workers, and the hook that stops workers for the time of DDL on their
//! databases.
//!
//! ```text
//!  launcher --starts--> worker: decoding --> follower: registry, gate --outbox--> ring --> engine
//!                         |                                                                   |
//!                         `-- starts src/load's workers, hears the engine <-- control channel-'
//! ```

mod engine_process;
mod executable;
mod follower;
mod gate;
mod launcher;
mod outbox;
mod patience;
mod registry;
mod state;
mod utility;
mod worker;

/// Registers the launcher and installs the hook; called while the library is preloaded. A server that pg_upgrade runs
/// has no launcher: its tables have no rows yet, and sessions of workers would keep it from replacing databases.
pub fn init() {
    executable::remember();
    if !crate::pg::session::is_upgrading() {
        crate::pg::process::register_launcher();
    }
    utility::install();
}
