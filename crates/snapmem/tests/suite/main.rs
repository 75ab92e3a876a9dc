//! One suite for every mechanism: what a region and its snapshots must hold, under concurrency, at every limit, and when
//! calls of the system fail.
//!
//! A mechanism that this kernel does not have is skipped, aloud. SNAPMEM_SCALE=0.1 does a tenth of the repetitions,
//! SNAPMEM_SEED=7 only those with that seed.

mod common;
mod fork;
mod harness;
mod limit;
mod model;
mod readers;

use std::process::ExitCode;

use anker_snapmem::Mechanism;

use crate::common::Subject;
use crate::harness::Test;

type Property = (&'static str, fn(Subject));

/// What holds for every mechanism with every run length.
const PROPERTIES: [Property; 3] = [
    ("equals_plain_vectors", model::equals_plain_vectors),
    ("checksums_hold_while_the_writer_runs_flat_out", readers::checksums_hold_while_the_writer_runs_flat_out),
    ("at_the_limit_everything_stays_as_it_was", limit::at_the_limit_everything_stays_as_it_was),
];

/// For snapshots that are processes.
const FORK: [(&str, fn()); 12] = [
    ("equals_plain_vectors_in_small_pages", fork::equals_plain_vectors_in_small_pages),
    ("equals_plain_vectors_in_huge_pages", fork::equals_plain_vectors_in_huge_pages),
    ("sums_hold_while_the_writer_runs_flat_out", fork::sums_hold_while_the_writer_runs_flat_out),
    ("a_child_that_dies_is_an_error_and_reaped", fork::a_child_that_dies_is_an_error_and_reaped),
    ("a_busy_child_ends_with_its_snapshot", fork::a_busy_child_ends_with_its_snapshot),
    ("signals_do_not_reach_the_child", fork::signals_do_not_reach_the_child),
    ("a_child_survives_the_thread_that_forked_it", fork::a_child_survives_the_thread_that_forked_it),
    ("children_end_with_their_parent", fork::children_end_with_their_parent),
    ("a_child_gets_what_it_is_asked_for", fork::a_child_gets_what_it_is_asked_for),
    ("refusals_leave_everything_as_it_was", fork::refusals_leave_everything_as_it_was),
    ("fork_failing_says_what_to_do", fork::fork_failing_says_what_to_do),
    ("memory_returns_after_10_000_snapshots", fork::memory_returns_after_10_000_snapshots),
];

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for (property, check) in FORK {
        tests.push(Test { name: format!("fork_{property}"), run: Ok(Box::new(check)) });
    }
    for mechanism in Mechanism::ALL {
        match mechanism.probe() {
            Ok(()) => tests.extend(run_lengths(mechanism).flat_map(|run_bytes| properties(mechanism, run_bytes))),
            Err(reason) => tests.push(Test { name: mechanism.to_string(), run: Err(reason.to_string()) }),
        }
    }
    harness::main(tests)
}

fn properties(mechanism: Mechanism, run_bytes: usize) -> impl Iterator<Item = Test> {
    let subject = Subject { mechanism, run_bytes };
    PROPERTIES.into_iter().map(move |(property, check)| Test {
        name: format!("{mechanism}_{}k_{property}", run_bytes >> 10),
        run: Ok(Box::new(move || check(subject))),
    })
}

/// A short one for bitmaps, where the mechanism does not work on pages; the shortest for Arrow; the usual one.
fn run_lengths(mechanism: Mechanism) -> impl Iterator<Item = usize> {
    let on_pages = !["physical", "frames", "epochs", "auto"].contains(&mechanism.name());
    [1 << 10, 16 << 10, 64 << 10].into_iter().skip(usize::from(on_pages))
}
