//! One suite for every mechanism: the properties of a region and its snapshots, under concurrency, at every limit, and
//! when system calls fail.
//!
//! A mechanism that this kernel does not support is skipped, and the suite says so. SNAPMEM_SCALE=0.1 does a tenth of
//! the repetitions; SNAPMEM_SEED=7 runs only the repetition with that seed.

mod common;
mod errands;
mod fork;
mod harness;
mod lazy;
mod model;
mod readers;
mod refusals;
mod returns;

use std::process::ExitCode;

use anker_snapmem::Mechanism;

use crate::common::{Subject, works_on_pages};
use crate::harness::Test;

type Property = (&'static str, fn(Subject));

/// Properties of every mechanism with every run length.
const CONTENT: [Property; 4] = [
    ("equals_plain_vectors", model::equals_plain_vectors),
    ("checksums_hold_while_the_writer_runs_flat_out", readers::checksums_hold_while_the_writer_runs_flat_out),
    ("what_lies_outside_panics", refusals::what_lies_outside_panics),
    ("at_the_limit_everything_stays_as_it_was", refusals::at_the_limit_everything_stays_as_it_was),
];

/// Properties that involve the process and the system.
const RESOURCES: [Property; 5] = [
    ("a_call_that_fails_leaves_everything_as_it_was", refusals::a_call_that_fails_leaves_everything_as_it_was),
    (
        "when_address_space_ends_everything_stays_as_it_was",
        refusals::when_address_space_ends_everything_stays_as_it_was,
    ),
    ("memory_returns_after_10_000_snapshots", returns::memory_returns_after_10_000_snapshots),
    ("an_old_snapshot_keeps_only_what_it_sees", returns::an_old_snapshot_keeps_only_what_it_sees),
    ("scattered_writes_work_or_name_the_limit", returns::scattered_writes_work_or_name_the_limit),
];

/// Properties that lazy snapshots have in addition to most of those above.
const LAZY: [Property; 1] =
    [("what_is_neither_read_nor_written_costs_nothing", lazy::what_is_neither_read_nor_written_costs_nothing)];

/// Properties of snapshots by fork, which are processes.
const FORK: [(&str, fn()); 17] = [
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
    ("an_old_child_is_charged_for_no_more_than_it_shares", fork::an_old_child_is_charged_for_no_more_than_it_shares),
    ("a_child_has_what_the_parent_had_and_keeps_it", errands::a_child_has_what_the_parent_had_and_keeps_it),
    ("children_that_end_are_errors", errands::children_that_end_are_errors),
    ("a_reply_is_never_longer_than_its_room", errands::a_reply_is_never_longer_than_its_room),
    ("calls_that_fail_leave_nothing_behind", errands::calls_that_fail_leave_nothing_behind),
];

fn main() -> ExitCode {
    let mut tests = Vec::new();
    if !cfg!(miri) {
        tests.extend(FORK.map(|(property, check)| Test { name: format!("fork_{property}"), run: Ok(Box::new(check)) }));
    }
    // Miri has neither processes nor mappings nor limits.
    for mechanism in Mechanism::ALL.into_iter().filter(|&mechanism| !cfg!(miri) || !works_on_pages(mechanism)) {
        match mechanism.probe() {
            Ok(()) => {
                tests.extend(run_lengths(mechanism).iter().flat_map(|&run_bytes| properties(mechanism, run_bytes)))
            }
            Err(reason) => tests.push(Test { name: mechanism.to_string(), run: Err(reason.to_string()) }),
        }
    }
    harness::main(tests)
}

fn properties(mechanism: Mechanism, run_bytes: usize) -> Vec<Test> {
    let test = |subject: Subject, (property, check): Property| Test {
        name: format!("{subject}_{property}"),
        run: Ok(Box::new(move || check(subject))),
    };
    let resources = if cfg!(miri) { &[] } else { &RESOURCES[..] };
    let subject = Subject { mechanism, run_bytes, lazy: false };
    let mut tests: Vec<_> = CONTENT.iter().chain(resources).map(|&property| test(subject, property)).collect();
    if run_bytes == SHORTEST_FOR_ARROW {
        let lazy = Subject { lazy: true, ..subject };
        let properties = CONTENT.iter().chain(&LAZY).chain(resources.iter().take(2));
        tests.extend(properties.map(|&property| test(lazy, property)));
    }
    tests
}

/// The shortest run that Arrow arrays use. Under Miri, which is thousands of times slower, it is shorter. That tests as
/// much, because a property that holds for few pages also holds for many.
const SHORTEST_FOR_ARROW: usize = if cfg!(miri) { 8 << 10 } else { 16 << 10 };

/// The run lengths to test: a short one for bitmaps, if the mechanism does not work on pages; the shortest one for
/// Arrow; and the usual one.
fn run_lengths(mechanism: Mechanism) -> &'static [usize] {
    match works_on_pages(mechanism) {
        _ if cfg!(miri) => &[1 << 10, SHORTEST_FOR_ARROW],
        true => &[SHORTEST_FOR_ARROW, 64 << 10],
        false => &[1 << 10, SHORTEST_FOR_ARROW, 64 << 10],
    }
}
