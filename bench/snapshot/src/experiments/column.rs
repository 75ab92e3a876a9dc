//! Experiments of DaMoN'12 on a single column: the first write to a shared page (Figure 4), reading a snapshot, passing
//! a read to another thread or process (section 3.3), and memory (section 3.4).

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use anker_report::{Report, median, percentile, rounded};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::clock::{self, Tick};
use crate::distribution::PAGE;
use crate::proc;
use crate::query::{Query, sum};
use crate::session::Session;
use crate::table::{Answer as Read, Table, Taken, initial};
use crate::worker::{Job, Work, Worker};
use anker_report::found::Found;
use anker_report::page::{Grid, Section};

pub const FIRST_WRITE: &str = "first_write";
pub const READ: &str = "read";
pub const MEMORY: &str = "memory";

const SAMPLED_PAGES: usize = 4_000;
const RANDOM_WRITES: usize = 10_000;

pub struct Column {
    table: Table,
    random: StdRng,
}

#[derive(Serialize, Deserialize)]
pub enum Request {
    FirstWrite {
        repeats: usize,
    },
    /// Reads a snapshot and a plain array in turns. Before that, makes `writes` random writes while an older snapshot
    /// is alive.
    Read {
        writes: usize,
        repeats: usize,
    },
    HandOver {
        repeats: usize,
    },
    /// Takes a snapshot, and makes `writes` random writes while the snapshot is alive. `None` means one write to every
    /// page.
    Memory {
        writes: Option<usize>,
    },
}

#[derive(Serialize, Deserialize)]
pub enum Answer {
    /// Nanoseconds of first writes, and of second writes to the same places.
    Writes { first: Vec<f64>, second: Vec<f64> },
    /// Nanoseconds to read the whole column. `first`: the first read of the snapshot.
    Reads { first: f64, snapshot: Vec<f64>, plain: Vec<f64> },
    /// Nanoseconds from the request until the reader begins, and until its answer has arrived.
    HandOver { began: Vec<f64>, back: Vec<f64> },
    /// The growth of memory in bytes, as the pool counts it and as the kernel reports it.
    Memory { booked: i64, resident: i64 },
}

impl Work for Column {
    const NAME: &'static str = "column";
    type Request = Request;
    type Answer = Answer;

    fn begin(job: &Job) -> Result<Column> {
        let table = Table::new(job.subject, &job.pool(), job.run_bytes, &job.columns)?;
        Ok(Column { table, random: StdRng::seed_from_u64(2) })
    }

    fn answer(&mut self, request: Request) -> Result<Answer> {
        match request {
            Request::FirstWrite { repeats } => self.first_write(repeats),
            Request::Read { writes, repeats } => self.read(writes, repeats),
            Request::HandOver { repeats } => self.hand_over(repeats),
            Request::Memory { writes } => self.memory(writes),
        }
    }
}

impl Column {
    fn first_write(&mut self, repeats: usize) -> Result<Answer> {
        let mut pages: Vec<_> = (0..self.table.len(0) / PAGE).collect();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for round in 0..repeats as u64 {
            for page in &pages {
                self.table.write(0, page * PAGE, &round.to_le_bytes())?;
            }
            pages.shuffle(&mut self.random);
            let _snapshot = self.table.snapshot(0..1)?;
            for times in [&mut first, &mut second] {
                for page in pages.iter().take(SAMPLED_PAGES) {
                    let start = Tick::now();
                    self.table.write(0, page * PAGE, &round.to_le_bytes())?;
                    times.push((start.elapsed() - clock::overhead()).max(0.0));
                }
            }
        }
        Ok(Answer::Writes { first, second })
    }

    fn read(&mut self, writes: usize, repeats: usize) -> Result<Answer> {
        let older = (writes > 0).then(|| self.table.snapshot(0..1)).transpose()?;
        self.write_randomly(writes)?;
        let taken = self.table.snapshot(0..1)?;
        let plain: Vec<u8> = (0..self.table.len(0) / 8).flat_map(|i| initial(8 * i).to_le_bytes()).collect();
        let (mut first, mut snapshot_times, mut plain_times) = (None, Vec::new(), Vec::new());
        for _ in 0..=repeats {
            let start = Tick::now();
            let found = taken.ask(Query::Sum { column: 0 })?.value;
            let by_snapshot = start.elapsed();
            let start = Tick::now();
            let expected = std::hint::black_box(sum(&plain));
            let by_plain = start.elapsed();
            if writes == 0 && found != expected {
                return Err("a snapshot does not hold what was written".into());
            }
            // The first round warms up both sides.
            if first.is_some() {
                snapshot_times.push(by_snapshot);
                plain_times.push(by_plain);
            }
            first.get_or_insert(by_snapshot);
        }
        drop((older, taken));
        Ok(Answer::Reads { first: first.unwrap_or_default(), snapshot: snapshot_times, plain: plain_times })
    }

    fn hand_over(&mut self, repeats: usize) -> Result<Answer> {
        let taken = Arc::new(self.table.snapshot(0..1)?);
        let mut reader = Reader::start();
        let (mut began, mut back) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            let start = Tick::now();
            // With a fork, the waiting child reads the snapshot. With all other mechanisms, a waiting thread of this
            // process does.
            let read = if taken.is_fork() { taken.ask(Query::Nothing)? } else { reader.ask(&taken, Query::Nothing)? };
            back.push(start.elapsed());
            began.push(read.began.since(start));
        }
        Ok(Answer::HandOver { began, back })
    }

    fn memory(&mut self, writes: Option<usize>) -> Result<Answer> {
        let measure = |table: &Table| (table.pool().used() as i64, proc::memory_with_children() as i64);
        let (booked, resident) = measure(&self.table);
        let _snapshot = self.table.snapshot(0..1)?;
        match writes {
            Some(writes) => self.write_randomly(writes)?,
            None => {
                for offset in (0..self.table.len(0)).step_by(PAGE) {
                    self.table.write(0, offset, &1u64.to_le_bytes())?;
                }
            }
        }
        let after = measure(&self.table);
        Ok(Answer::Memory { booked: after.0 - booked, resident: after.1 - resident })
    }

    fn write_randomly(&mut self, writes: usize) -> Result<()> {
        let items = self.table.len(0) / 8;
        for i in 0..writes as u64 {
            self.table.write(0, 8 * self.random.random_range(0..items), &i.to_le_bytes())?;
        }
        Ok(())
    }
}

/// A thread that waits for snapshots and reads them, like a thread in a pool.
pub struct Reader {
    work: mpsc::Sender<(Arc<Taken>, Query)>,
    answers: mpsc::Receiver<std::result::Result<Read, String>>,
}

impl Reader {
    pub fn start() -> Reader {
        let (work, receive) = mpsc::channel::<(Arc<Taken>, Query)>();
        let (send, answers) = mpsc::channel();
        thread::spawn(move || {
            for (taken, query) in receive {
                // Sending fails if nobody waits for the answer any more. That does not matter.
                let _ = send.send(taken.ask(query).map_err(|error| error.to_string()));
            }
        });
        Reader { work, answers }
    }

    pub fn begin(&self, taken: &Arc<Taken>, query: Query) -> Result<()> {
        self.work.send((taken.clone(), query)).map_err(|_| "the reader is gone".into())
    }

    /// The answer to the read that was begun, if it has arrived.
    pub fn poll(&self) -> Option<Result<Read>> {
        Some(self.answers.try_recv().ok()?.map_err(Into::into))
    }

    pub fn wait(&self) -> Result<Read> {
        Ok(self.answers.recv()??)
    }

    pub fn ask(&mut self, taken: &Arc<Taken>, query: Query) -> Result<Read> {
        self.begin(taken, query)?;
        self.wait()
    }
}

pub fn run_first_write(session: &mut Session) {
    each(session, FIRST_WRITE, |session, name, worker, params| {
        let repeats = session.options.effort.choose(2, 5, 9);
        let answer = worker.ask(Request::FirstWrite { repeats });
        if let Some(Answer::Writes { first, second }) = session.or_skip(FIRST_WRITE, name, params.clone(), answer) {
            let mut row =
                |figure, value: f64| session.row((FIRST_WRITE, figure), name, params.clone(), value / 1e3, "µs");
            row("first_write", first.iter().sum::<f64>() / first.len() as f64);
            row("first_write_p50", median(&first));
            row("first_write_p99", percentile(&first, 0.99));
            row("second_write", second.iter().sum::<f64>() / second.len() as f64);
        }
    });
}

pub fn run_read(session: &mut Session) {
    each(session, READ, |session, name, worker, params| {
        let repeats = session.options.effort.choose(9, 15, 31);
        let bytes = session.options.single_column_bytes() as f64;
        for (state, writes) in [("fresh", 0), ("after_10000_writes", RANDOM_WRITES)] {
            let mut params = params.clone();
            params["snapshot"] = state.into();
            let answer = worker.ask(Request::Read { writes, repeats });
            if let Some(Answer::Reads { first, snapshot, plain }) = session.or_skip(READ, name, params.clone(), answer)
            {
                let ratios: Vec<_> = plain.iter().zip(&snapshot).map(|(plain, snapshot)| plain / snapshot).collect();
                let (snapshot, plain) = (median(&snapshot), median(&plain));
                let mut row = |figure, value: f64, unit| session.row((READ, figure), name, params.clone(), value, unit);
                row("read_rate", median(&ratios), "of a plain array");
                row("first_read_rate", plain / first, "of a plain array");
                row("read_gb_per_s", bytes / snapshot, "GB/s");
                row("plain_gb_per_s", bytes / plain, "GB/s");
            }
        }
        let answer = worker.ask(Request::HandOver { repeats: 2000 });
        if let Some(Answer::HandOver { began, back }) = session.or_skip(READ, name, params.clone(), answer) {
            session.row((READ, "hand_over_began"), name, params.clone(), median(&began) / 1e3, "µs");
            session.row((READ, "hand_over_back"), name, params, median(&back) / 1e3, "µs");
        }
    });
}

pub fn run_memory(session: &mut Session) {
    for (figure, writes) in [("memory_0", Some(0)), ("memory_10000", Some(RANDOM_WRITES)), ("memory_all_pages", None)] {
        // Each measurement gets a new process. Otherwise memory that a process keeps for its next snapshot would not be
        // counted.
        each(session, MEMORY, |session, name, worker, params| {
            let answer = worker.ask(Request::Memory { writes });
            if let Some(Answer::Memory { booked, resident }) = session.or_skip(MEMORY, name, params.clone(), answer) {
                let mut params = params;
                let mb = |bytes: i64| bytes as f64 / 1e6;
                (params["booked_mb"], params["resident_mb"]) = (mb(booked).into(), mb(resident).into());
                session.row((MEMORY, figure), name, params, mb(booked.max(resident)), "MB");
            }
        });
    }
}

/// Calls `measure` for every mechanism, with a worker process that has one column.
fn each(
    session: &mut Session,
    experiment: &str,
    measure: impl Fn(&mut Session, &str, &mut Worker<Column>, serde_json::Value),
) {
    let bytes = session.options.single_column_bytes();
    for subject in session.subjects() {
        session.progress(&format!("{experiment}: {}", subject.name()));
        let params = json!({ "column_mb": bytes >> 20, "run_kb": session.options.run_kb });
        let worker = session.job(subject, vec![bytes], 2 * bytes).and_then(|job| Worker::start(&job));
        if let Some(mut worker) = session.or_skip(experiment, subject.name(), params.clone(), worker) {
            measure(session, subject.name(), &mut worker, params);
        }
    }
}

pub fn first_write_section(report: &Report) -> Section {
    let found = Found::new(report, FIRST_WRITE);
    let figures = [
        ("first_write", "first write: mean, µs"),
        ("first_write_p50", "median"),
        ("first_write_p99", "99 of 100"),
        ("second_write", "second write: mean"),
    ];
    Section {
        id: FIRST_WRITE,
        title: "DaMoN'12, Figure 4: the first write to a shared page".into(),
        claim:
            "The paper: a copy-on-write takes some 2 µs on Intel machines, one to two orders of magnitude more than \
                an update of memory that is not shared."
                .into(),
        notes: vec![
            "8 bytes each into pages in random order; the second writes go to the same places in the same order."
                .into(),
        ],
        here: format!("Here: {}.", found.figure("first_write").spoken("µs")),
        grids: vec![found.by_figure("", &figures).named("first-write")],
        plots: vec![found.figure("first_write").bars("First write, mean, µs (log scale)").named("first-write")],
    }
}

pub fn read_section(report: &Report) -> Section {
    let found = Found::new(report, READ);
    let mut grid = Grid::new("");
    for column in [
        "plain array, GB/s",
        "fresh snapshot, GB/s",
        "of a plain array",
        "the first time",
        "after 10,000 writes, GB/s",
        "of a plain array",
        "reader begins after, µs",
        "answer is back, µs",
    ] {
        grid.column(column);
    }
    for mechanism in found.subjects() {
        let of = found.subject(&mechanism);
        let read = |figure: &str, state: &str| of.figure(figure).with("snapshot", &json!(state)).value();
        let values = [
            read("plain_gb_per_s", "fresh"),
            read("read_gb_per_s", "fresh"),
            read("read_rate", "fresh"),
            read("first_read_rate", "fresh"),
            read("read_gb_per_s", "after_10000_writes"),
            read("read_rate", "after_10000_writes"),
            of.figure("hand_over_began").value(),
            of.figure("hand_over_back").value(),
        ];
        grid.row(&mechanism, values.map(|value| value.map(rounded)).into());
    }
    Section {
        id: READ,
        title: "DaMoN'12, section 3.3: reading a snapshot".into(),
        claim: "The paper: reading virtual and physical snapshots is equally fast; handing a query to the child takes 10 \
                to 15 µs."
            .into(),
        notes: vec![
            "The sum of a column's 64-bit values over all runs, in turn with that over a plain array; medians, \
             but for \"the first time\", which meets the page faults and page tables that there are. \
             \"After 10,000 writes\": random ones, made under an older snapshot that still lives. Reads are handed to a \
             forked child through shared memory, in one process to a waiting thread through a channel."
                .into(),
        ],
        here: format!(
            "Here, of a plain array's rate: {}; the answer is back after: {}.",
            found.figure("read_rate").with("snapshot", &json!("fresh")).spoken("").trim_end(),
            found.figure("hand_over_back").spoken("µs"),
        ),
        grids: vec![grid.named("read")],
        plots: vec![],
    }
}

pub fn memory_section(report: &Report) -> Section {
    let found = Found::new(report, MEMORY);
    let figures = [
        ("memory_0", "nothing written, MB"),
        ("memory_10000", "10,000 random writes"),
        ("memory_all_pages", "a write to every page"),
    ];
    Section {
        id: MEMORY,
        title: "DaMoN'12, section 3.4: memory".into(),
        claim:
            "The paper: at best a virtual snapshot needs half of the memory that a physical one needs, at worst the \
                same."
                .into(),
        notes: vec![
            "What a snapshot of one column adds, and the writes while it lives: the larger of what the pool counts and \
             what the kernel counts (shares of pages, page tables, children included); the JSON has both."
                .into(),
        ],
        here: format!("Here, after 10,000 writes: {}.", found.figure("memory_10000").spoken("MB")),
        grids: vec![found.by_figure("", &figures).named("memory")],
        plots: vec![
            found
                .figure("memory_10000")
                .bars("Memory added by 10,000 writes under a live snapshot, MB (log scale)")
                .named("memory"),
        ],
    }
}
