//! DaMoN'12, Figure 1: how fast memory is copied, by size and number of threads.

use std::sync::Barrier;
use std::thread;

use anker_report::{Report, percentile, rounded};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::common::counted;
use crate::Result;
use crate::clock::Tick;
use crate::session::Session;
use crate::table::Subject;
use crate::worker::{Job, Work, Worker};
use anker_report::found::Found;
use anker_report::page::{Plot, Scale, Section, Series};

pub const NAME: &str = "copy_rate";

const SMALLEST: usize = 128 << 10;
/// The number of bytes that each thread copies at least, so that the time is long enough to be measured.
const AT_LEAST: usize = 256 << 20;

pub struct CopyRate {
    from: Vec<u8>,
    into: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub struct Request {
    bytes: usize,
    threads: usize,
}

impl Work for CopyRate {
    const NAME: &'static str = NAME;
    type Request = Request;
    /// The rate in GB/s.
    type Answer = f64;

    fn begin(job: &Job) -> Result<CopyRate> {
        Ok(CopyRate { from: vec![1; job.columns[0]], into: vec![2; job.columns[0]] })
    }

    fn answer(&mut self, Request { bytes, threads }: Request) -> Result<f64> {
        let part = bytes / threads;
        let repeats = (AT_LEAST / bytes).clamp(3, 200);
        let barrier = &Barrier::new(threads);
        let pairs = self.from[..bytes].chunks(part).zip(self.into[..bytes].chunks_mut(part));
        let times: Vec<Vec<(Tick, Tick)>> = thread::scope(|scope| {
            let threads: Vec<_> = pairs
                .map(|(from, into)| {
                    scope.spawn(move || {
                        let copy = |_| {
                            barrier.wait();
                            let start = Tick::now();
                            into.copy_from_slice(from);
                            (start, Tick::now())
                        };
                        (0..repeats).map(copy).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("copying does not fail")).collect()
        });
        let round = |i: usize| {
            let (first, last) =
                (times.iter().map(|times| times[i].0).min(), times.iter().map(|times| times[i].1).max());
            last.zip(first).map_or(f64::INFINITY, |(last, first)| last.since(first))
        };
        let rounds: Vec<_> = (0..repeats).map(round).collect();
        Ok(bytes as f64 / percentile(&rounds, 0.0))
    }
}

pub fn run(session: &mut Session) {
    let largest = session.options.effort.choose(128 << 20, 1 << 30, 2 << 30);
    let Some(physical) = session.subjects().into_iter().find(|subject| subject.name() == "physical") else { return };
    session.progress(NAME);
    let worker = start(session, physical, largest);
    let Some(mut worker) = session.or_skip(NAME, physical.name(), json!({}), worker) else { return };
    for threads in thread_counts() {
        let sizes =
            std::iter::successors(Some(SMALLEST), |bytes| Some(bytes * 2)).take_while(|bytes| *bytes <= largest);
        for bytes in sizes {
            let params = json!({ "bytes": bytes, "threads": threads });
            let rate = worker.ask(Request { bytes, threads });
            if let Some(rate) = session.or_skip(NAME, physical.name(), params.clone(), rate) {
                session.row((NAME, "copy_rate"), physical.name(), params, rate, "GB/s");
            }
        }
    }
}

fn start(session: &Session, physical: Subject, largest: usize) -> Result<Worker<CopyRate>> {
    Worker::start(&session.job(physical, vec![largest], largest)?)
}

/// The numbers of threads to measure: one, the number of CPUs, and twice that number.
fn thread_counts() -> Vec<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut counts: Vec<_> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|c| *c <= 2 * cores).collect();
    counts.dedup();
    counts
}

pub fn section(report: &Report) -> Section {
    let found = Found::new(report, NAME).figure("copy_rate");
    let mut plot = Plot::lines("Rate of copying, GB/s", "size, MB", Scale::Log, Scale::Linear);
    for threads in found.params("threads") {
        let points = found.with("threads", &threads).points("bytes");
        let points = points.into_iter().map(|(bytes, rate)| (bytes / (1 << 20) as f64, rate)).collect();
        plot.add(Series::new(&counted(&threads, "thread"), points));
    }
    let rates = found.values();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let largest = found.params("bytes").pop().unwrap_or_default();
    let last = found.with("bytes", &largest).values().into_iter().fold(0.0, f64::max);
    Section {
        id: NAME,
        title: "DaMoN'12, Figure 1: copying, by size and threads".into(),
        claim:
            "The paper: the rate rises until both copies leave the cache; from there on a thread per memory channel \
                reaches 76 to 88 % of the memory's bandwidth, and more threads bring nothing."
                .into(),
        notes: vec!["memcpy into memory that has been written to before; the best of several rounds.".into()],
        here: format!("Here: at most {} GB/s, {} at the largest size.", rounded(most), rounded(last)),
        grids: vec![],
        plots: vec![plot.named("copy-rate")],
    }
}
