//! Integration tests against real servers.
//!
//! ```text
//! cargo run --release -p anker-tests -- [--quick] [--filter TEXT] [--list] [--queries NUMBER] [--seed NUMBER]
//!                                        [--bless]
//! ```
//!
//! Every test starts clusters of its own, so that tests cannot influence each other. No test may make a server process
//! crash: at its end, the log of each cluster is searched for crashes.

mod activity;
mod answers;
mod auto;
mod backups;
mod beside;
mod casts;
mod chaos;
mod chunks;
mod columns;
mod configured;
mod cursors;
mod delivery;
mod described;
mod documented;
mod errors;
mod experiments;
mod explain;
mod faults;
mod flagged;
mod following;
mod forking;
mod generated;
mod hammerdb;
mod harness;
mod interrupts;
mod intervals;
mod loading;
mod locales;
mod long_rows;
mod many_tables;
mod mechanisms;
mod monitored;
mod nesting;
mod newer;
mod ordered;
mod parts;
mod patched_kernel;
mod powers;
mod ranges;
mod redefined;
mod refusals;
mod registered;
mod regress;
mod replaced;
mod reuse;
mod runner;
mod security;
mod sets;
mod shares;
mod silence;
mod snapshots;
mod spilling;
mod statements;
mod tpcc_live;
mod unplanned;
mod upgraded;
mod wide;
mod zones;

fn main() -> std::process::ExitCode {
    runner::main(&[
        ("harness", harness::TESTS),
        ("tpcc", tpcc_live::TESTS),
        ("sets", sets::TESTS),
        ("hammerdb", hammerdb::TESTS),
        ("zones", zones::TESTS),
        ("activity", activity::TESTS),
        ("answers", answers::TESTS),
        ("auto", auto::TESTS),
        ("generated", generated::TESTS),
        ("chunks", chunks::TESTS),
        ("columns", columns::TESTS),
        ("configured", configured::TESTS),
        ("casts", casts::TESTS),
        ("statements", statements::TESTS),
        ("cursors", cursors::TESTS),
        ("delivery", delivery::TESTS),
        ("described", described::TESTS),
        ("reuse", reuse::TESTS),
        ("intervals", intervals::TESTS),
        ("ordered", ordered::TESTS),
        ("powers", powers::TESTS),
        ("ranges", ranges::TESTS),
        ("refusals", refusals::TESTS),
        ("security", security::TESTS),
        ("errors", errors::TESTS),
        ("explain", explain::TESTS),
        ("unplanned", unplanned::TESTS),
        ("upgraded", upgraded::TESTS),
        ("beside", beside::TESTS),
        ("wide", wide::TESTS),
        ("spilling", spilling::TESTS),
        ("shares", shares::TESTS),
        ("silence", silence::TESTS),
        ("interrupts", interrupts::TESTS),
        ("documented", documented::TESTS),
        ("registered", registered::TESTS),
        ("following", following::TESTS),
        ("redefined", redefined::TESTS),
        ("snapshots", snapshots::TESTS),
        ("many_tables", many_tables::TESTS),
        ("mechanisms", mechanisms::TESTS),
        ("monitored", monitored::TESTS),
        ("nesting", nesting::TESTS),
        ("newer", newer::TESTS),
        ("forking", forking::TESTS),
        ("patched_kernel", patched_kernel::TESTS),
        ("locales", locales::TESTS),
        ("loading", loading::TESTS),
        ("long_rows", long_rows::TESTS),
        ("parts", parts::TESTS),
        ("faults", faults::TESTS),
        ("replaced", replaced::TESTS),
        ("backups", backups::TESTS),
        ("experiments", experiments::TESTS),
        ("regress", regress::TESTS),
    ])
}
