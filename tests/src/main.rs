//! Integration tests against real servers.
//!
//! ```text
//! cargo run --release -p anker-tests -- [--quick] [--filter TEXT] [--list] [--queries NUMBER] [--seed NUMBER]
//! ```
//!
//! Every test starts its own cluster, so none can spoil another. Whatever a test does, no server process may die of it:
//! the log of each cluster is searched for that at the end.

mod answers;
mod auto;
mod backups;
mod chaos;
mod cursors;
mod errors;
mod explain;
mod faults;
mod flagged;
mod following;
mod generated;
mod harness;
mod interrupts;
mod intervals;
mod loading;
mod locales;
mod powers;
mod ranges;
mod refusals;
mod registered;
mod regress;
mod reuse;
mod runner;
mod sets;
mod silence;
mod snapshots;
mod spilling;
mod statements;
mod tpcc_live;
mod wide;
mod zones;

fn main() -> std::process::ExitCode {
    runner::main(&[
        ("harness", harness::TESTS),
        ("tpcc", tpcc_live::TESTS),
        ("sets", sets::TESTS),
        ("zones", zones::TESTS),
        ("answers", answers::TESTS),
        ("auto", auto::TESTS),
        ("generated", generated::TESTS),
        ("statements", statements::TESTS),
        ("cursors", cursors::TESTS),
        ("reuse", reuse::TESTS),
        ("intervals", intervals::TESTS),
        ("powers", powers::TESTS),
        ("ranges", ranges::TESTS),
        ("refusals", refusals::TESTS),
        ("errors", errors::TESTS),
        ("explain", explain::TESTS),
        ("wide", wide::TESTS),
        ("spilling", spilling::TESTS),
        ("silence", silence::TESTS),
        ("interrupts", interrupts::TESTS),
        ("registered", registered::TESTS),
        ("following", following::TESTS),
        ("snapshots", snapshots::TESTS),
        ("locales", locales::TESTS),
        ("loading", loading::TESTS),
        ("faults", faults::TESTS),
        ("backups", backups::TESTS),
        ("regress", regress::TESTS),
    ])
}
