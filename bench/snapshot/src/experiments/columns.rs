//! AnKer's Table 1: the time of a snapshot of 1, 25 and 50 of 50 columns, after a number of pages of each column have
//! been modified. A second experiment takes a snapshot of one column, and then makes 10,000 random writes.

use anker_report::{Report, median, percentile, rounded};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::common::column_params;
use crate::Result;
use crate::clock::{self, Tick};
use crate::distribution::PAGE;
use crate::proc;
use crate::session::Session;
use crate::table::{Subject, Table};
use crate::worker::{Job, Work, Worker};
use anker_report::found::Found;
use anker_report::page::{Grid, Section};

pub const TABLE1: &str = "table1";
pub const WRITES: &str = "writes";

/// Columns in a snapshot, as in the paper.
const TAKEN: [usize; 3] = [1, 25, 50];
/// Numbers of modified pages in a column of 51,200 pages, as in the paper. In a smaller column, the same share is
/// modified.
const MODIFIED: [usize; 4] = [0, 500, 5_000, 50_000];
const PAPERS_PAGES: usize = 51_200;
const RANDOM_WRITES: usize = 10_000;

pub struct Columns {
    table: Table,
    subject: Subject,
    /// The order in which pages are modified.
    pages: Vec<usize>,
    /// The process's number of mappings before and after the columns were made.
    mappings: [usize; 2],
    random: StdRng,
    counter: u64,
}

#[derive(Serialize, Deserialize)]
pub enum Request {
    /// Writes to further pages of the first columns, each column under a snapshot of its own.
    Modify { columns: usize, from: usize, to: usize },
    /// Takes `repeats` snapshots of the first columns. Before each, every page is written to.
    Create { columns: usize, repeats: usize },
    /// Takes a snapshot of the first column and makes random writes to the column, all this `repeats` times.
    Write { repeats: usize },
    /// Creates the first columns anew.
    Renew { columns: usize },
}

/// Times in nanoseconds, one for each repetition.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    Done,
    Created { create: Vec<f64>, end: Vec<f64>, mappings_per_column: f64 },
    Written { total: Vec<f64>, singles: Singles },
}

/// Times of single writes, over all repetitions.
#[derive(Serialize, Deserialize)]
pub struct Singles {
    half: f64,
    most: f64,
    worst: f64,
}

impl Work for Columns {
    const NAME: &'static str = TABLE1;
    type Request = Request;
    type Answer = Answer;

    fn begin(job: &Job) -> Result<Columns> {
        let mappings_before = proc::mappings();
        let table = Table::new(job.subject, &job.pool(), job.run_bytes, &job.columns)?;
        let mut random = StdRng::seed_from_u64(1);
        let mut pages: Vec<_> = (0..job.columns[0] / PAGE).collect();
        pages.shuffle(&mut random);
        let mappings = [mappings_before, proc::mappings()];
        Ok(Columns { table, subject: job.subject, pages, mappings, random, counter: 0 })
    }

    fn answer(&mut self, request: Request) -> Result<Answer> {
        match request {
            Request::Modify { columns, from, to } => {
                (0..columns).try_for_each(|column| self.modify(column, from, to)).map(|()| Answer::Done)
            }
            Request::Create { columns, repeats } => self.create(columns, repeats),
            Request::Write { repeats } => self.write(repeats),
            Request::Renew { columns } => {
                (0..columns).try_for_each(|column| self.table.renew(column)).map(|()| Answer::Done)
            }
        }
    }
}

impl Columns {
    fn modify(&mut self, column: usize, from: usize, to: usize) -> Result<()> {
        let _snapshot = self.table.snapshot(column..column + 1)?;
        for i in from..to {
            self.counter += 1;
            self.table.write(column, self.pages[i] * PAGE, &self.counter.to_le_bytes())?;
        }
        Ok(())
    }

    fn create(&mut self, columns: usize, repeats: usize) -> Result<Answer> {
        let [before, made] = self.mappings.map(|mappings| mappings as f64);
        // Only these columns have been modified, so all additional mappings belong to them.
        let more = (proc::mappings() as f64 - made) / columns as f64;
        let mappings_per_column = (made - before) / self.table.columns() as f64 + more;
        let (mut create, mut end) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            self.touch(columns)?;
            let start = Tick::now();
            let taken = self.table.snapshot(0..columns)?;
            create.push(start.elapsed());
            let start = Tick::now();
            drop(taken);
            end.push(start.elapsed());
        }
        Ok(Answer::Created { create, end, mappings_per_column })
    }

    /// Writes to every page, so that the kernel finds all of them changed since the last snapshot.
    fn touch(&mut self, columns: usize) -> Result<()> {
        let columns = if self.subject == Subject::Fork { self.table.columns() } else { columns };
        for column in 0..columns {
            self.counter += 1;
            for offset in (0..self.table.len(column)).step_by(PAGE) {
                self.table.write(column, offset, &self.counter.to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn write(&mut self, repeats: usize) -> Result<Answer> {
        let (mut total, mut singles) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            total.push(self.go_on(Columns::write_all)?);
            singles.extend(self.go_on(Columns::write_singly)?);
        }
        let share = |share| percentile(&singles, share);
        Ok(Answer::Written { total, singles: Singles { half: share(0.5), most: share(0.99), worst: share(1.0) } })
    }

    /// Runs a measurement. If it fails, creates the column anew and tries again, because rewired may have run out of
    /// mappings after many writes.
    fn go_on<T>(&mut self, measure: fn(&mut Columns) -> Result<T>) -> Result<T> {
        measure(self).or_else(|_| {
            self.table.renew(0)?;
            measure(self)
        })
    }

    /// The time of a snapshot and all random writes together.
    fn write_all(&mut self) -> Result<f64> {
        let offsets = self.prepare_writes()?;
        let start = Tick::now();
        let _snapshot = self.table.snapshot(0..1)?;
        for offset in offsets {
            self.table.write(0, offset, &(offset as u64).to_le_bytes())?;
        }
        Ok(start.elapsed())
    }

    /// The time of each write. This is measured separately from the total, because reading the clock takes time, too.
    fn write_singly(&mut self) -> Result<Vec<f64>> {
        let offsets = self.prepare_writes()?;
        let _snapshot = self.table.snapshot(0..1)?;
        let timed = |offset: usize| {
            let start = Tick::now();
            self.table.write(0, offset, &(offset as u64).to_le_bytes())?;
            Ok((start.elapsed() - clock::overhead()).max(0.0))
        };
        offsets.into_iter().map(timed).collect()
    }

    fn prepare_writes(&mut self) -> Result<Vec<usize>> {
        self.touch(1)?;
        let items = self.table.len(0) / 8;
        Ok((0..RANDOM_WRITES).map(|_| 8 * self.random.random_range(0..items)).collect())
    }
}

pub fn run(session: &mut Session) {
    let (columns, bytes) = (session.options.columns, session.options.column_bytes());
    for subject in session.subjects() {
        session.progress(&format!("{TABLE1}: {} makes {columns} columns of {} MB", subject.name(), bytes >> 20));
        let job = session.job(subject, vec![bytes; columns], bytes);
        let worker = job.and_then(|job| Worker::<Columns>::start(&job));
        if let Some(mut worker) = session.or_skip(TABLE1, subject.name(), json!({}), worker) {
            let _ = table1(session, subject, &mut worker);
            writes(session, subject, &mut worker);
        }
    }
}

/// Measures each number of columns. If a step fails, goes on with the next number; returns `None` if the worker has
/// ended.
fn table1(session: &mut Session, subject: Subject, worker: &mut Worker<Columns>) -> Option<()> {
    let pages = session.options.column_bytes() / PAGE;
    let (one, many) = session.options.effort.choose((5, 2), (7, 3), (9, 5));
    let mut taken: Vec<_> = TAKEN.into_iter().filter(|&taken| taken <= session.options.columns).collect();
    if taken.last() != Some(&session.options.columns) {
        taken.push(session.options.columns);
    }
    for columns in taken {
        // The costs of `fork` (which copies all page tables) and `physical` (which copies all pages) do not depend on
        // the number of modified pages.
        let all_alike = ["fork", "physical"].contains(&subject.name());
        let modified = if all_alike { &MODIFIED[..1] } else { &MODIFIED[..] };
        let mut before = 0;
        for &modified in modified {
            let modified = modified * pages / PAPERS_PAGES;
            let mut params = column_params(session);
            (params["modified_pages"], params["columns_taken"]) = (modified.into(), columns.into());
            session.progress(&format!("{TABLE1}: {}, {columns} taken, {modified} pages modified", subject.name()));
            let repeats = if columns == 1 { one } else { many };
            let done = worker
                .ask(Request::Modify { columns, from: before, to: modified })
                .and_then(|_| worker.ask(Request::Create { columns, repeats }));
            before = modified;
            let Some(Answer::Created { create, end, mappings_per_column }) =
                session.or_skip(TABLE1, subject.name(), params.clone(), done)
            else {
                break;
            };
            params["vmas_per_column"] = mappings_per_column.round().max(1.0).into();
            params["median"] = (median(&create) / 1e6).into();
            let figure = format!("create_{columns}_of_n");
            session.row((TABLE1, &figure), subject.name(), params.clone(), percentile(&create, 0.0) / 1e6, "ms");
            let figure = format!("end_{columns}_of_n");
            session.row((TABLE1, &figure), subject.name(), params, percentile(&end, 0.0) / 1e6, "ms");
        }
        if !subject.is_fork() {
            let renewed = worker.ask(Request::Renew { columns });
            session.or_skip(TABLE1, subject.name(), json!({ "renewing": columns }), renewed)?;
        }
    }
    Some(())
}

fn writes(session: &mut Session, subject: Subject, worker: &mut Worker<Columns>) {
    session.progress(&format!("{WRITES}: {}", subject.name()));
    let repeats = session.options.effort.choose(5, 15, 25);
    let params = column_params(session);
    let answer = worker.ask(Request::Write { repeats });
    let Some(Answer::Written { total, singles }) = session.or_skip(WRITES, subject.name(), params.clone(), answer)
    else {
        return;
    };
    let mut row = |figure, value, unit| session.row((WRITES, figure), subject.name(), params.clone(), value, unit);
    row("write_10000", median(&total) / 1e6, "ms");
    row("write_10000_best", percentile(&total, 0.0) / 1e6, "ms");
    row("single_write_p50", singles.half / 1e3, "µs");
    row("single_write_p99", singles.most / 1e3, "µs");
    row("single_write_worst", singles.worst / 1e3, "µs");
}

pub fn section(report: &Report) -> Section {
    let found = Found::new(report, TABLE1);
    let mut grids = Vec::new();
    for taken in found.params("columns_taken") {
        let figure = format!("create_{taken}_of_n");
        let columns = found.figure(&figure).params("modified_pages");
        let mut grid = Grid::new(&format!("{taken} of the columns, ms (VMAs per column if more than one)"));
        for modified in &columns {
            grid.column(&format!("{modified} pages modified"));
        }
        for mechanism in found.figure(&figure).subjects() {
            let of = found.figure(&figure).subject(&mechanism);
            let cells = columns.iter().map(|modified| {
                of.with("modified_pages", modified).row().map(|row| {
                    let time = row.number().map(rounded).unwrap_or_default();
                    match row.params["vmas_per_column"].as_f64() {
                        Some(vmas) if vmas > 1.0 => format!("{time} ({vmas})"),
                        _ => time,
                    }
                })
            });
            grid.row(&mechanism, cells.collect());
        }
        grids.push(grid.named(&format!("create-{taken}")));
    }
    let one = found.figure("create_1_of_n").with("modified_pages", &json!(0));
    Section {
        id: TABLE1,
        title: "AnKer, Table 1: creating a snapshot".into(),
        claim: "The paper: forking costs the same however few columns are wanted (108 ms); rewiring one column takes \
                0.02 ms while it is one mapping, and 169 ms when every page is one, more than copying it (108 ms)."
            .into(),
        notes: vec![
            "Least of several runs; before each, every page is written to. Modified pages are the first 8 bytes of \
             pages in random order, written while a snapshot lives that then ends. fork and physical do not depend on them."
                .into(),
        ],
        grids,
        here: format!("Here: {} for one column, nothing modified.", one.spoken("ms")),
        plots: vec![
            one.bars("One of the columns, nothing modified: time to create a snapshot, ms (log scale)").named("create"),
        ],
    }
}

pub fn writes_section(report: &Report) -> Section {
    let found = Found::new(report, WRITES);
    let figures = [
        ("write_10000", "snapshot and writes, ms"),
        ("write_10000_best", "least, ms"),
        ("single_write_p50", "a write: median, µs"),
        ("single_write_p99", "99 of 100, µs"),
        ("single_write_worst", "worst, µs"),
    ];
    Section {
        id: WRITES,
        title: "A snapshot of one column, then 10,000 random writes to it".into(),
        claim: "AnKer, 5.3: a write to a page that a snapshot shares is up to six times dearer when user space copies \
                and remaps it than when the kernel does."
            .into(),
        notes: vec!["Median of several runs; single writes over all runs of their own.".into()],
        here: format!("Here, the median write: {}.", found.figure("single_write_p50").spoken("µs")),
        grids: vec![found.by_figure("", &figures).named("writes")],
        plots: vec![found.figure("write_10000").bars("Snapshot and 10,000 writes, ms (log scale)").named("writes")],
    }
}
