//! DaMoN'12, Figure 2: the cost of a fork by size of memory, number of query threads that are started in the child, and
//! size of pages.

use anker_report::{Report, percentile, rounded};
use serde::{Deserialize, Serialize};
use serde_json::json;
use snapmem::{ForkMemory, Pages};

use super::common::counted;
use crate::Result;
use crate::clock::Tick;
use crate::distribution::PAGE;
use crate::proc;
use crate::session::Session;
use crate::table::Subject;
use crate::worker::{Job, Work, Worker};
use anker_report::found::Found;
use anker_report::page::{Plot, Scale, Section, Series};

pub const NAME: &str = "fork_size";

const SMALLEST: usize = 1 << 20;
const QUERY_THREADS: [usize; 4] = [1, 2, 4, 8];

pub struct ForkSize {
    pool: snapmem::Pool,
}

#[derive(Serialize, Deserialize)]
pub struct Request {
    bytes: usize,
    huge: bool,
    threads: Vec<usize>,
    repeats: usize,
}

#[derive(Serialize, Deserialize)]
pub struct Answer {
    /// For each number of threads, the nanoseconds until fork returns, and until all threads of the child wait for
    /// work.
    times: Vec<(f64, f64)>,
    huge_bytes: u64,
}

impl Work for ForkSize {
    const NAME: &'static str = NAME;
    type Request = Request;
    type Answer = Answer;

    fn begin(job: &Job) -> Result<ForkSize> {
        Ok(ForkSize { pool: job.pool() })
    }

    fn answer(&mut self, request: Request) -> Result<Answer> {
        let mut memory = ForkMemory::new(&self.pool, if request.huge { Pages::Huge } else { Pages::Small })?;
        let region = memory.create();
        memory.grow(region, request.bytes)?;
        let mut measure = |threads| -> Result<(f64, f64)> {
            let (mut returned, mut ready) = (Vec::new(), Vec::new());
            for round in 0..request.repeats as u64 {
                for offset in (0..request.bytes).step_by(PAGE) {
                    memory.write(region, offset, &round.to_le_bytes())?;
                }
                let start = Tick::now();
                let snapshot = memory.snapshot(threads)?;
                returned.push(start.elapsed());
                snapshot.wait_until_ready()?;
                ready.push(start.elapsed());
            }
            Ok((percentile(&returned, 0.0), percentile(&ready, 0.0)))
        };
        let times = request.threads.iter().map(|&threads| measure(threads)).collect::<Result<_>>()?;
        Ok(Answer { times, huge_bytes: proc::huge_pages() })
    }
}

pub fn run(session: &mut Session) {
    let largest = session.options.effort.choose(256 << 20, 1 << 30, 4usize << 30);
    let repeats = session.options.effort.choose(3, 7, 11);
    session.progress(NAME);
    let name = Subject::Fork.name();
    for huge in [false, true] {
        let worker = session.job(Subject::Fork, vec![largest], 0).and_then(|job| Worker::<ForkSize>::start(&job));
        let Some(mut worker) = session.or_skip(NAME, name, json!({ "huge_pages": huge }), worker) else { continue };
        for bytes in
            std::iter::successors(Some(SMALLEST), |bytes| Some(bytes * 4)).take_while(|bytes| *bytes <= largest)
        {
            let params = json!({ "bytes": bytes, "huge_pages": huge });
            let answer = worker.ask(Request { bytes, huge, threads: QUERY_THREADS.to_vec(), repeats });
            let Some(answer) = session.or_skip(NAME, name, params.clone(), answer) else { continue };
            if huge && answer.huge_bytes == 0 {
                session.skip(NAME, name, params, "the kernel gave no huge pages");
                continue;
            }
            for (threads, (returned, ready)) in QUERY_THREADS.into_iter().zip(answer.times) {
                let mut params = params.clone();
                params["query_threads"] = threads.into();
                session.row((NAME, "fork_returns"), name, params.clone(), returned / 1e6, "ms");
                session.row((NAME, "fork_ready"), name, params, ready / 1e6, "ms");
            }
        }
    }
}

pub fn section(report: &Report) -> Section {
    let found = Found::new(report, NAME);
    let copied = Found::new(report, super::copy_rate::NAME).figure("copy_rate");
    let plot = |huge: bool, title: &str| {
        let mut plot = Plot::lines(title, "size, MB", Scale::Log, Scale::Log);
        let mb = |bytes: f64| bytes / (1 << 20) as f64;
        let of = found.figure("fork_ready").with("huge_pages", &json!(huge));
        for threads in of.params("query_threads") {
            let points = of.with("query_threads", &threads).points("bytes");
            let points = points.into_iter().map(|(bytes, ms)| (mb(bytes), ms)).collect();
            plot.add(Series::new(&format!("fork, {}", counted(&threads, "query thread")), points));
        }
        for threads in copied.params("threads") {
            let points = copied.with("threads", &threads).points("bytes");
            let points = points.into_iter().map(|(bytes, rate)| (mb(bytes), bytes / rate / 1e6)).collect();
            plot.add(Series::new(&format!("memcpy, {}", counted(&threads, "thread")), points));
        }
        plot
    };
    let mb = |bytes: Option<f64>| bytes.unwrap_or(0.0) / (1 << 20) as f64;
    let largest = found.params("bytes").pop().unwrap_or_default();
    let [small, huge] = [false, true].map(|huge| {
        let of = found.figure("fork_ready").with("bytes", &largest).with("query_threads", &json!(1));
        of.with("huge_pages", &json!(huge)).value().map_or("?".to_owned(), rounded)
    });
    Section {
        id: NAME,
        title: "DaMoN'12, Figure 2: forking, by size and query threads".into(),
        claim:
            "The paper: small snapshots are copied faster than forked; from half the cache on fork is faster, 4 to 5 \
                times at 2 GB. Threads that the child must start cost most where it is small; huge pages put the rise \
                off by a factor of 32."
                .into(),
        notes: vec![
            "From the call until all threads of the child wait for work, every page having been written to; the least \
             of several runs. Copying as in Figure 1."
                .into(),
        ],
        here: format!(
            "Here, {} MB with one query thread: {small} ms in pages of 4 KB, {huge} in huge ones.",
            mb(largest.as_f64())
        ),
        grids: vec![],
        plots: vec![
            plot(false, "Pages of 4 KB: time to a usable snapshot, ms").named("fork-size"),
            plot(true, "Huge pages: time to a usable snapshot, ms").named("fork-size-huge"),
        ],
    }
}
