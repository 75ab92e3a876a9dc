//! A test harness that runs each test in a process of its own.
//!
//! So a test may set limits for its process and measure its memory, and a test that is killed by a signal counts as
//! failed. A test that cannot run here is skipped, and the reason is printed.
//!
//! `suite [--list] [--skip PART]... [PART]...` runs the tests whose name contains one of the parts, or all tests,
//! except those that contain a part to skip. `suite --exact NAME` runs one test in this process.

use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub struct Test {
    pub name: String,
    /// The test, or the reason why it cannot run on this system.
    pub run: Result<Box<dyn Fn() + Send + Sync>, String>,
}

/// Whether each test runs in a process of its own. Miri cannot start processes.
const ISOLATED: bool = cfg!(not(miri));

pub fn main(tests: Vec<Test>) -> ExitCode {
    let (mut list, mut wanted, mut skipped) = (false, Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("the option has a value");
        match argument.as_str() {
            "--exact" => {
                let name = value();
                let test = tests.iter().find(|test| test.name == name).expect("no test has this name");
                return exit_code(run_here(test).is_ok());
            }
            "--skip" => skipped.push(value()),
            "--list" => list = true,
            // Test runners pass their options to all tests, so unknown options are ignored.
            option if option.starts_with('-') => {}
            _ => wanted.push(argument),
        }
    }
    let has_one = |test: &Test, parts: &[String]| parts.iter().any(|part| test.name.contains(part));
    let chosen = |test: &Test| (wanted.is_empty() || has_one(test, &wanted)) && !has_one(test, &skipped);
    let tests: Vec<_> = tests.into_iter().filter(chosen).collect();
    if list {
        tests.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    run_all(&tests)
}

fn exit_code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(tests: &[Test]) -> ExitCode {
    println!("\nrunning {} tests", tests.len());
    let counts = [const { AtomicUsize::new(0) }; 3];
    let [next, failed, skipped] = &counts;
    let work = || {
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            match (&test.run, if ISOLATED { run_alone } else { run_here }) {
                (Err(reason), _) => {
                    println!("test {} ... SKIPPED: {reason}", test.name);
                    skipped.fetch_add(1, Ordering::Relaxed);
                }
                (Ok(_), run) => match run(test) {
                    Ok(()) => println!("test {} ... ok", test.name),
                    Err(how) => {
                        println!("test {} ... FAILED: {how}", test.name);
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                },
            }
        }
    };
    let workers = if ISOLATED { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let [_, failed, skipped] = counts.map(AtomicUsize::into_inner);
    let (result, passed) = (if failed == 0 { "ok" } else { "FAILED" }, tests.len() - failed - skipped);
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {skipped} ignored\n");
    exit_code(failed == 0)
}

fn run_here(test: &Test) -> Result<(), String> {
    let run = test.run.as_ref().map_err(String::clone)?;
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|_| "panicked".to_owned())
}

fn run_alone(test: &Test) -> Result<(), String> {
    let this = std::env::current_exe().expect("/proc is mounted");
    let ran = Command::new(this).args(["--exact", &test.name]).output().expect("processes can be started");
    if ran.status.success() {
        return Ok(());
    }
    let output = [ran.stdout, ran.stderr].concat();
    Err(format!("{}\n{}", ran.status, String::from_utf8_lossy(&output)))
}
