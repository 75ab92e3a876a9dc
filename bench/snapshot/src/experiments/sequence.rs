//! AnKer's Figure 4: one write to each page in turn, and a snapshot after each.

use anker_report::{Report, median, rounded};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::clock::{self, Tick};
use crate::distribution::PAGE;
use crate::proc;
use crate::session::Session;
use crate::table::Table;
use crate::worker::{Job, Work, Worker};
use anker_report::found::Found;
use anker_report::page::{Grid, Scale, Section};

pub const NAME: &str = "sequence";

/// The number of points in the plot.
const POINTS: usize = 48;

pub struct Sequence {
    table: Table,
    pages: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
pub struct Request {
    /// The total time that all snapshots may take, in nanoseconds. If a snapshot after every write would take longer,
    /// snapshots follow only some of the writes.
    budget: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Answer {
    points: Vec<Point>,
    snapshots: usize,
    /// The number of writes after which the sequence ended early, and the reason.
    stopped: Option<(usize, String)>,
}

/// A part of the sequence; times are medians in nanoseconds.
#[derive(Serialize, Deserialize)]
struct Point {
    /// The number of the part's last write.
    writes: usize,
    create: Option<f64>,
    write: f64,
    mappings: usize,
}

impl Work for Sequence {
    const NAME: &'static str = NAME;
    type Request = Request;
    type Answer = Answer;

    fn begin(job: &Job) -> Result<Sequence> {
        let table = Table::new(job.subject, &job.pool(), job.run_bytes, &job.columns)?;
        let mut pages: Vec<_> = (0..job.columns[0] / PAGE).collect();
        pages.shuffle(&mut StdRng::seed_from_u64(4));
        Ok(Sequence { table, pages })
    }

    fn answer(&mut self, Request { budget }: Request) -> Result<Answer> {
        let all = self.pages.len();
        let mut answer = Answer { points: Vec::new(), snapshots: 0, stopped: None };
        let mut spent = 0.0;
        let mut snapshot = Some(self.table.snapshot(0..1)?);
        let (mut creates, mut writes) = (Vec::new(), Vec::new());
        for done in 0..all {
            let offset = self.pages[done] * PAGE;
            let start = Tick::now();
            let written = self.table.write(0, offset, &(done as u64).to_le_bytes());
            writes.push((start.elapsed() - clock::overhead()).max(0.0));
            let mut failed = written.err();
            if failed.is_none() && spent <= budget * (done + 1) as f64 / all as f64 {
                let start = Tick::now();
                let taken = self.table.snapshot(0..1);
                creates.push(start.elapsed());
                answer.snapshots += 1;
                // Keeps the previous snapshot until the next one exists. Otherwise the writer could write in place
                // between the two.
                match taken {
                    Ok(next) => snapshot = Some(next),
                    Err(error) => failed = Some(error),
                }
                spent += start.elapsed();
            }
            if failed.is_some() || (done + 1) * POINTS / all > done * POINTS / all {
                let create = (!creates.is_empty()).then(|| median(&creates));
                answer.points.push(Point {
                    writes: done + 1,
                    create,
                    write: median(&writes),
                    mappings: proc::mappings(),
                });
                (creates, writes) = (Vec::new(), Vec::new());
            }
            if let Some(error) = failed {
                answer.stopped = Some((done, error.to_string()));
                break;
            }
        }
        drop(snapshot);
        Ok(answer)
    }
}

pub fn run(session: &mut Session) {
    let bytes = session.options.column_bytes();
    let budget = session.options.effort.choose(0.4e9, 3e9, 30e9);
    for subject in session.subjects() {
        session.progress(&format!("{NAME}: {}", subject.name()));
        let params = json!({ "column_mb": bytes >> 20, "run_kb": session.options.run_kb });
        let job = session.job(subject, vec![bytes], 2 * bytes);
        let answer = job.and_then(|job| Worker::<Sequence>::start(&job)?.ask(Request { budget }));
        let Some(answer) = session.or_skip(NAME, subject.name(), params.clone(), answer) else { continue };
        for point in &answer.points {
            let mut params = params.clone();
            params["writes"] = point.writes.into();
            let mut row =
                |figure, value: f64, unit| session.row((NAME, figure), subject.name(), params.clone(), value, unit);
            if let Some(create) = point.create {
                row("sequence_create", create / 1e3, "µs");
            }
            row("sequence_write", point.write / 1e3, "µs");
            row("sequence_vmas", point.mappings as f64, "mappings");
        }
        session.row((NAME, "sequence_snapshots"), subject.name(), params.clone(), answer.snapshots, "snapshots");
        if let Some((writes, reason)) = answer.stopped {
            session.row((NAME, "sequence_stopped"), subject.name(), params.clone(), writes, "writes");
            session.skip(NAME, subject.name(), json!({ "from_write": writes }), &reason);
        }
    }
}

pub fn section(report: &Report) -> Section {
    let found = Found::new(report, NAME);
    let plot =
        |figure, title| found.figure(figure).lines(title, ("writes", "writes so far"), Scale::Linear, Scale::Log);
    let mut grid = Grid::new("Over the whole sequence");
    for column in
        ["snapshots taken", "create: first, µs", "last, µs", "a write: median, µs", "VMAs at the end", "ended after"]
    {
        grid.column(column);
    }
    for mechanism in found.subjects() {
        let of = found.subject(&mechanism);
        let values = |figure: &str| of.figure(figure).values();
        let (create, write) = (values("sequence_create"), values("sequence_write"));
        grid.row(
            &mechanism,
            vec![
                values("sequence_snapshots").first().map(|value| format!("{value}")),
                create.first().map(|value| rounded(*value)),
                create.last().map(|value| rounded(*value)),
                Some(rounded(median(&write))),
                values("sequence_vmas").last().map(|value| format!("{value}")),
                values("sequence_stopped").first().map(|writes| format!("{writes} writes")),
            ],
        );
    }
    let create = found.figure("sequence_create");
    let created: Vec<_> = create
        .subjects()
        .into_iter()
        .map(|name| format!("{name} {}", rounded(median(&create.subject(&name).values()))))
        .collect();
    Section {
        id: NAME,
        title: "AnKer, Figure 4: a write to each page, and a snapshot after each".into(),
        claim: "The paper: vm_snapshot stays level while rewiring rises with every page it has remapped, to 68 times \
                vm_snapshot's time; its writes are up to six times dearer."
            .into(),
        notes: vec![
            "One column, pages in random order, medians of neighbouring writes. The snapshot before lives until there \
             is the next. Where a snapshot is dear only some writes are followed by one, which leaves the course the \
             same: each page is written once, so each write finds its page shared. fork here is a process of this one \
             column."
                .into(),
        ],
        here: format!("Here, the median of all snapshots: {}.", created.join(", ") + " µs"),
        grids: vec![grid.named("sequence")],
        plots: vec![
            plot("sequence_create", "Time to create a snapshot, µs").named("sequence-create"),
            plot("sequence_write", "Time of a write to a shared page, µs").named("sequence-write"),
            plot("sequence_vmas", "Mappings of the process"),
        ],
    }
}
