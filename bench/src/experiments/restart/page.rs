//! The page of a report.

use anker_report::found::{Found, Ratio};
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section};
use anker_report::{Report, rounded};

use super::beside::{WITH, WITHOUT};
use super::lost::{PHASES, STEPS};
use super::{BY_LOAD, FROM_CHECKPOINT, NAME, TPCC, TPCH};
use crate::experiments::must::{self, Bound, Must, alone};
use crate::experiments::side_by_side::typical;

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "TPC-H at scale {}, and TPC-C with {} warehouse(s) and {} clients; all tables mirrored; {} round(s), in which the \
         configurations take turns. PostgreSQL {}, fsync off.",
        meta["scale"],
        meta["warehouses"],
        meta["clients"],
        meta["rounds"],
        meta["postgresql"].as_str().unwrap_or_default(),
    );
    Page {
        title: "How soon the mirror is back, and what checkpoints cost".into(),
        about: vec![report.machine(), about],
        overview: vec![("What must be".into(), musts(&found))],
        sections: vec![
            live(&found),
            steps(&found),
            changed(&found, &meta["seconds"].to_string()),
            beside(&found, &meta["every"].to_string()),
            sizes(&found),
        ],
        ..Page::default()
    }
}

/// A set of tables, and a way in which its mirror was lost.
struct Case<'a> {
    data: String,
    loss: String,
    found: Found<'a>,
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{}, {}", self.data, self.loss)
    }
}

fn cases<'a>(found: &Found<'a>) -> Vec<Case<'a>> {
    let mut cases = Vec::new();
    for data in found.params("data") {
        let of_data = found.with("data", &data);
        for loss in of_data.params("loss") {
            let [data, name] = [&data, &loss].map(|value| value.as_str().unwrap_or_default().to_owned());
            cases.push(Case { data, loss: name, found: of_data.with("loss", &loss) });
        }
    }
    cases
}

/// The time from a checkpoint, relative to the time by a load.
fn ratio(case: &Case<'_>) -> Option<Ratio> {
    case.found.figure("live").ratio(FROM_CHECKPOINT, BY_LOAD)
}

fn musts(found: &Found) -> Grid {
    let cases = cases(found);
    let live = |data: &str, loss: &str, bound: f64| {
        let case = cases.iter().find(|case| case.data == data && case.loss == loss);
        let what = format!("{data}, {loss}: time until all tables are live, from a checkpoint by a load");
        Must::new(what, Bound::AtMost(bound), case.and_then(ratio))
    };
    let written = found.subject(WITH).figure("written, of rows").values();
    must::grid(vec![
        live(TPCH, "clean restart", 0.1),
        live(TPCH, "engine killed", 0.1),
        live(TPCC, "crash", 0.2),
        Must::new(
            "throughput of TPC-C beside checkpoints, by that without",
            Bound::AtLeast(0.98),
            found.figure("throughput").ratio(WITH, WITHOUT),
        ),
        Must::new("bytes written for each byte of changed rows", Bound::AtMost(3.0), alone(&written, 0.5)),
    ])
}

fn live(found: &Found) -> Section {
    let mut grid = Grid::new("Seconds, medians of the rounds; ratios are of the same round");
    for heading in [FROM_CHECKPOINT, BY_LOAD, "ratio", "before: the server's start", "ratio of CPU"] {
        grid.column(heading);
    }
    let mut ratios = Vec::new();
    for case in cases(found) {
        let of = |how: &str| typical(&case.found, "live", how).map(rounded);
        let ratio = ratio(&case).map(|ratio| ratio.to_string());
        let (name, start) = (case.name(), typical(&case.found, "start", FROM_CHECKPOINT).map(rounded));
        ratios.extend(ratio.iter().map(|ratio| format!("{name} {ratio}")));
        let cpu = case.found.figure("CPU").ratio(FROM_CHECKPOINT, BY_LOAD).map(|ratio| ratio.to_string());
        grid.row(&name, vec![of(FROM_CHECKPOINT), of(BY_LOAD), ratio, start, cpu]);
    }
    let plot = |data: &str, name: &str| {
        let bars = |case: &Case<'_>| {
            let bar = |how: &str| Some((how.to_owned(), typical(&case.found, "live", how)?));
            [FROM_CHECKPOINT, BY_LOAD].into_iter().filter_map(bar).collect()
        };
        let of_data = cases(found).into_iter().filter(|case| case.data == data);
        let groups = of_data.map(|case| (case.loss.clone(), bars(&case))).collect();
        let title = format!("{data}: time until all tables are live");
        Plot::groups(&title, "s", Groups { scale: Scale::Linear, groups }).named(name)
    };
    Section {
        id: "live",
        title: "Until all tables are live again".into(),
        claim: String::new(),
        here: if ratios.is_empty() {
            String::new()
        } else {
            format!("Time from a checkpoint, by that of a load: {}", ratios.join("; "))
        },
        notes: vec![
            "The time begins when the engine is killed, or when the server accepts connections again after its own start and \
             recovery. By a load: the database names no checkpoint."
                .into(),
            "Ratio of CPU: of the CPU time of the engine and the loaders until then. It depends less on other work of the machine."
                .into(),
            "TPC-C's clients write until the server crashes. When the engine is killed they go on. A clean restart has no \
             clients."
                .into(),
        ],
        grids: vec![grid],
        plots: vec![plot(TPCH, "restart-tpch"), plot(TPCC, "restart-tpcc")],
    }
}

fn steps(found: &Found) -> Section {
    const HEADINGS: [&str; 5] =
        ["until a worker is there", "engine's start", "slot and its start", "list of tables", "loads"];
    const CPU: [&str; 2] = ["engine's CPU", "loaders' CPU"];
    let mut grid = Grid::new("Seconds, medians of the rounds");
    HEADINGS.iter().for_each(|heading| grid.column(heading));
    PHASES.iter().for_each(|phase| grid.column(&format!("loaders: {phase}")));
    CPU.iter().for_each(|figure| grid.column(figure));
    for case in cases(found) {
        for how in [FROM_CHECKPOINT, BY_LOAD] {
            let figures = STEPS.iter().chain(&PHASES).chain(&CPU);
            let cells = figures.map(|figure| typical(&case.found, figure, how).map(rounded));
            grid.row(&format!("{}, {how}", case.name()), cells.collect());
        }
    }
    Section {
        id: "steps",
        title: "Where that time goes".into(),
        claim: String::new(),
        here: String::new(),
        notes: vec![
            "The first five columns follow each other. The next four are the time that both loaders together spent in each \
             phase of anker.loads, as a session saw it that looked every 10 ms."
                .into(),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

fn changed(found: &Found, seconds: &str) -> Section {
    let mut grid = Grid::new("Changed blocks, of all blocks of the heap");
    grid.column("share");
    let mut here = String::new();
    for case in cases(found) {
        let share = typical(&case.found, "changed", FROM_CHECKPOINT).map(|share| format!("{:.2} %", 100.0 * share));
        if case.data == TPCC && case.loss == "crash" {
            here = format!("After {seconds} s of TPC-C: {} of the blocks", share.as_deref().unwrap_or("–"));
        }
        grid.row(&case.name(), vec![share]);
    }
    Section {
        id: "changed",
        title: "Blocks that were read from the heap".into(),
        claim: String::new(),
        here,
        notes: vec![format!(
            "Before the crash, clients write for {seconds} s after the checkpoint; before the engine is killed, for five at \
             most. Without clients, blocks change by VACUUM and by reads that set hint bits or remove old row versions."
        )],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

fn beside(found: &Found, every: &str) -> Section {
    const FIGURES: [(&str, &str); 13] = [
        ("throughput", "transactions a second"),
        ("p50", "p50, ms"),
        ("p95", "p95, ms"),
        ("p99", "p99, ms"),
        ("max", "max, ms"),
        ("engine's CPU a second", "engine's CPU, s/s"),
        ("engine's CPU a transaction", "engine's CPU a transaction, µs"),
        ("WAL", "WAL, MB"),
        ("rows changed", "changed rows, MB"),
        ("written", "written by checkpoints, MB"),
        ("written, of WAL", "bytes for each byte of WAL"),
        ("written, of rows", "bytes for each byte of changed rows"),
        ("a checkpoint", "a checkpoint, s"),
    ];
    let mut grid = Grid::new("Medians of the turns");
    [WITHOUT, WITH].iter().for_each(|config| grid.column(config));
    grid.column("ratio");
    for (figure, heading) in FIGURES {
        let of = |config: &str| typical(found, figure, config).map(rounded);
        let ratio = found.figure(figure).ratio(WITH, WITHOUT).map(|ratio| ratio.to_string());
        grid.row(heading, vec![of(WITHOUT), of(WITH), ratio]);
    }
    let ratio =
        |figure: &str| found.figure(figure).ratio(WITH, WITHOUT).map_or("–".into(), |ratio| ratio.to_string());
    Section {
        id: "beside",
        title: "Transactions beside checkpoints".into(),
        claim: String::new(),
        here: format!(
            "With a checkpoint every {every} s: throughput {}, p99 {}, engine's CPU {} of those without",
            ratio("throughput"),
            ratio("p99"),
            ratio("engine's CPU a second"),
        ),
        notes: vec![
            "The same clients run all the time. A turn has three checkpoints, asked for by anker.checkpoint(), and so written at \
             full speed; checkpoints that nobody asks for are written more slowly."
                .into(),
            "Changed rows: rows that were inserted or updated, each as long as the statistics say that its values are. The WAL \
             also has indexes and whole pages."
                .into(),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

fn sizes(found: &Found) -> Section {
    const FIGURES: [(&str, &str); 8] = [
        ("rows", "rows"),
        ("checkpoint", "written, MB"),
        ("seconds", "seconds"),
        ("seconds, nothing to write", "seconds if nothing has changed"),
        ("rate", "written, MB/s"),
        ("disk, of memory", "of the mirror's memory"),
        ("disk, of heap", "of the heap without indexes"),
        ("read", "read back, MB/s"),
    ];
    let mut grid = Grid::new("A checkpoint of everything, medians of the rounds");
    FIGURES.iter().for_each(|(_, heading)| grid.column(heading));
    let mut here = Vec::new();
    for data in found.figure("checkpoint").subjects() {
        let of = |figure: &str| typical(found, figure, &data);
        let restarts = cases(found).into_iter().find(|case| case.data == data && case.loss == "clean restart");
        let loads = restarts.and_then(|case| typical(&case.found, "loads", FROM_CHECKPOINT));
        let cell = |figure: &str| match figure {
            "read" => of("disk").zip(loads).map(|(disk, seconds)| disk / seconds),
            _ => of(figure),
        };
        here.extend(cell("disk, of memory").map(|share| format!("{data} {} of the mirror's memory", rounded(share))));
        grid.row(&data, FIGURES.iter().map(|(figure, _)| cell(figure).map(rounded)).collect());
    }
    Section {
        id: "sizes",
        title: "A checkpoint of everything".into(),
        claim: String::new(),
        here: if here.is_empty() { String::new() } else { format!("On disk: {}", here.join(", ")) },
        notes: vec![
            "Even a checkpoint that has nothing to write waits until all tables are complete up to the present position of the \
             WAL. Read back: all files, in the time of the loads after a clean restart."
                .into(),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Findings;

    #[test]
    fn times_are_set_against_those_of_a_load() {
        let mut findings = Findings::new(NAME);
        for (how, round, seconds) in
            [(BY_LOAD, 1, 10.0), (FROM_CHECKPOINT, 1, 0.9), (BY_LOAD, 2, 20.0), (FROM_CHECKPOINT, 2, 1.4)]
        {
            let params = json!({ "round": round, "data": TPCH, "loss": "engine killed" });
            findings.row("live", how, &params, seconds, "s");
        }
        for (config, rate) in [(WITHOUT, 1000.0), (WITH, 990.0)] {
            findings.row("throughput", config, &json!({ "round": 1 }), rate, "");
        }
        let page = page(&findings.report);
        assert!(page.sections[0].here.ends_with("engine killed 0.08 (0.07 to 0.09)"), "{}", page.sections[0].here);
        let musts = page.overview[0].1.text();
        let verdict = |what: &str| musts.lines().find(|line| line.contains(what)).map(str::to_owned);
        for what in ["engine killed", "throughput"] {
            assert!(verdict(what).is_some_and(|line| line.ends_with("  met")), "{musts}");
        }
        assert!(!page.html().contains("NaN"));
    }
}
