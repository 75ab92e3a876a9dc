//! DaMoN'12, Figures 3 and 5: the time of a cycle, which is a snapshot and a number of updates of an array of 128 MB.
//!
//! The processes of all mechanisms exist at the same time and take turns. So a disturbance of the machine affects all
//! of them.

use anker_report::{Report, median};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Result;
use crate::clock::Tick;
use crate::distribution::{Distribution, Updates};
use crate::session::Session;
use crate::table::{Subject, Table, Taken};
use crate::worker::{Job, Work, Worker};
use anker_report::found::Found;
use anker_report::page::{Grid, Scale, Section};

pub const NAME: &str = "cycle";

const BYTES: usize = 128 << 20;
/// The number of rounds. Each round compares `auto` with the better of physical and fork.
const ROUNDS: usize = 20;
const WARM_UP: usize = 3;

pub struct Cycle {
    table: Table,
    snapshot: Option<Taken>,
    stream: Option<(Distribution, Updates)>,
    random: StdRng,
    written: u64,
}

#[derive(Serialize, Deserialize)]
pub struct Request {
    distribution: String,
    updates: usize,
}

impl Work for Cycle {
    const NAME: &'static str = NAME;
    type Request = Request;
    /// Nanoseconds.
    type Answer = f64;

    fn begin(job: &Job) -> Result<Cycle> {
        let table = Table::new(job.subject, &job.pool(), job.run_bytes, &job.columns)?;
        Ok(Cycle { table, snapshot: None, stream: None, random: StdRng::seed_from_u64(3), written: 0 })
    }

    fn answer(&mut self, request: Request) -> Result<f64> {
        let distribution = Distribution::named(&request.distribution).ok_or("an unknown distribution")?;
        if self.stream.as_ref().is_none_or(|(current, _)| *current != distribution) {
            self.snapshot = None;
            self.table.renew(0)?;
            self.stream = Some((distribution, Updates::new(distribution, self.table.len(0))));
        }
        let Some((_, stream)) = &mut self.stream else { return Err("no updates".into()) };
        let offsets: Vec<_> = (0..request.updates).map(|_| stream.next(&mut self.random)).collect();
        let start = Tick::now();
        // As in the paper, only one snapshot exists at a time, so the previous one is dropped first.
        self.snapshot = None;
        self.snapshot = Some(self.table.snapshot(0..1)?);
        for offset in offsets {
            self.written += 1;
            self.table.write(0, offset, &self.written.to_le_bytes())?;
        }
        Ok(start.elapsed())
    }
}

/// A mechanism's process, and the time of its cycle in each round.
struct Runner {
    subject: Subject,
    worker: Worker<Cycle>,
    times: Vec<Option<f64>>,
    /// Whether the mechanism has failed with this distribution.
    out: bool,
}

impl Runner {
    /// Whether the mechanism is `auto`, or one of the two mechanisms with which `auto` is compared.
    fn is_of_a_pair(&self) -> bool {
        ["physical", "fork", "auto"].contains(&self.subject.name())
    }

    fn median(&self) -> f64 {
        median(&self.times.iter().flatten().copied().collect::<Vec<_>>())
    }
}

pub fn run(session: &mut Session) {
    let frequencies: &[usize] = session.options.effort.choose(
        &[1_000, 10_000, 100_000],
        &[1_000, 10_000, 100_000, 1_000_000],
        &[1_000, 10_000, 100_000, 1_000_000, 10_000_000],
    );
    let mut runners = Vec::new();
    for subject in session.subjects() {
        let worker = session.job(subject, vec![BYTES], BYTES).and_then(|job| Worker::start(&job));
        if let Some(worker) = session.or_skip(NAME, subject.name(), json!({}), worker) {
            runners.push(Runner { subject, worker, times: Vec::new(), out: false });
        }
    }
    for distribution in Distribution::ALL {
        let name = distribution.name();
        session.progress(&format!("{NAME}: {name}"));
        runners.iter_mut().for_each(|runner| runner.out = false);
        for &updates in frequencies {
            let params = json!({ "distribution": name, "updates": updates });
            if session.or_skip(NAME, "all", params, session.time_left()).is_none() {
                return;
            }
            rounds(session, &mut runners, distribution, updates);
            rows(session, &runners, distribution, updates);
        }
    }
}

fn rounds(session: &mut Session, runners: &mut [Runner], distribution: Distribution, updates: usize) {
    // The other mechanisms are measured in fewer rounds, because their times need not be so exact.
    let others_every = session.options.effort.choose(7, 4, 1);
    runners.iter_mut().for_each(|runner| runner.times.clear());
    for round in 0..ROUNDS + WARM_UP {
        if round > WARM_UP && session.time_left().is_err() {
            break;
        }
        let turns: Vec<_> =
            if round % 2 == 0 { (0..runners.len()).collect() } else { (0..runners.len()).rev().collect() };
        for turn in turns {
            let runner = &mut runners[turn];
            if runner.out || !(runner.is_of_a_pair() || others_take_part(round, others_every)) {
                runner.times.push(None);
                continue;
            }
            let request = Request { distribution: distribution.name().to_owned(), updates };
            let params = json!({ "distribution": distribution.name(), "updates": updates });
            let name = runner.subject.name();
            let time = session.or_skip(NAME, name, params, runner.worker.ask(request));
            runner.out |= time.is_none();
            runner.times.push(time);
        }
    }
    runners.iter_mut().for_each(|runner| drop(runner.times.drain(..WARM_UP)));
}

/// Whether mechanisms other than `auto`, physical and fork are measured in this round. They have one warm-up round.
fn others_take_part(round: usize, every: usize) -> bool {
    round + 1 == WARM_UP || round.checked_sub(WARM_UP).is_some_and(|round| round.is_multiple_of(every))
}

fn rows(session: &mut Session, runners: &[Runner], distribution: Distribution, updates: usize) {
    let params = json!({
        "distribution": distribution.name(), "updates": updates, "array_mb": BYTES >> 20,
        "run_kb": session.options.run_kb,
    });
    let baselines =
        runners.iter().filter(|runner| ["physical", "fork"].contains(&runner.subject.name()) && !runner.out);
    let better = baselines.min_by(|a, b| a.median().total_cmp(&b.median()));
    for runner in runners.iter().filter(|runner| !runner.out) {
        let name = runner.subject.name();
        session.row((NAME, "cycle"), name, params.clone(), runner.median() / 1e6, "ms");
        let Some(better) = better else { continue };
        let pairs = runner.times.iter().zip(&better.times);
        let ratios: Vec<_> = pairs.filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?)).collect();
        let mut params = params.clone();
        (params["better"], params["pairs"]) = (better.subject.name().into(), ratios.len().into());
        let unit = "of the better of physical and fork";
        session.row((NAME, "cycle_ratio"), name, params, median(&ratios), unit);
    }
}

pub fn section(report: &Report) -> Section {
    let found = Found::new(report, NAME);
    let (mut grids, mut plots) = (Vec::new(), Vec::new());
    let ratios = found.figure("cycle_ratio");
    for updates in ratios.params("updates") {
        let of = ratios.with("updates", &updates);
        let mut grid = Grid::new(&format!("{updates} updates a cycle: time against the better of physical and fork"));
        for distribution in Distribution::ALL {
            grid.column(distribution.name());
        }
        for mechanism in of.subjects() {
            let cell = |distribution: Distribution| {
                let row = of.subject(&mechanism).with("distribution", &json!(distribution.name()));
                row.value().map(|ratio| format!("{ratio:.2}"))
            };
            grid.row(&mechanism, Distribution::ALL.map(cell).into());
        }
        grids.push(grid.named(&format!("cycle-{updates}")));
    }
    for distribution in Distribution::ALL {
        let title = format!("{}: time of a cycle, ms", distribution.name());
        let of = found.figure("cycle").with("distribution", &json!(distribution.name()));
        let plot = of.lines(&title, ("updates", "updates in a cycle"), Scale::Log, Scale::Log);
        plots.push(plot.small().named(&format!("cycle-{}", distribution.name().replace(' ', "-").to_lowercase())));
    }
    Section {
        id: NAME,
        title: "DaMoN'12, Figures 3 and 5: a snapshot and so many updates".into(),
        claim:
            "The paper: copying wins over forking for most distributions, even at 128 MB; forking wins where few pages \
                are hit: sorted and moving cluster."
                .into(),
        notes: vec![
            format!(
                "An array of {} MB; the distribution chooses the page, the item in it is random. One snapshot, replaced \
                 in every cycle. Processes take turns, in reverse order every other time; medians of {ROUNDS} rounds for \
                 physical, fork and auto (a ratio is the median of the rounds' ratios), of fewer for the others.",
                BYTES >> 20
            ),
            "Parameters after Cieslewicz and Ross: heavy hitter 50 %, Zipf exponent 0.5, self-similar 80-20, moving \
             cluster of 1,024 pages; sorted and moving cluster pass through all pages in one update per item."
                .into(),
        ],
        here: here(&ratios),
        grids,
        plots,
    }
}

/// Sentences that say which mechanism is fastest, for each number of updates.
fn here(ratios: &Found) -> String {
    let forks = |updates: &Value| {
        let of = ratios.with("updates", updates);
        let wins = |distribution: &Distribution| {
            let row = of.with("distribution", &json!(distribution.name())).row();
            row.is_some_and(|row| row.params["better"] == "fork")
        };
        let names: Vec<_> = Distribution::ALL.into_iter().filter(wins).map(Distribution::name).collect();
        format!("with {updates} updates {}", if names.is_empty() { "nowhere".to_owned() } else { names.join(", ") })
    };
    let wins: Vec<_> = ratios.params("updates").iter().map(forks).collect();
    let auto = ratios.subject("auto").values();
    let (least, most) = auto.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &ratio| (a.min(ratio), b.max(ratio)));
    let auto = if auto.is_empty() {
        String::new()
    } else {
        format!(" auto takes {least:.2} to {most:.2} of the better's time.")
    };
    format!("Here fork beats copying: {}.{auto}", wins.join("; "))
}
