//! Integration tests against real servers.
//!
//! ```text
//! cargo run --release -p anker-tests -- [--quick] [--filter TEXT] [--list]
//! ```
//!
//! Every test starts its own cluster, so none can spoil another. Whatever a test does, no server process may die of it:
//! the log of each cluster is searched for that at the end.

mod harness;
mod runner;

fn main() -> std::process::ExitCode {
    runner::main(&[("harness", harness::TESTS)])
}
