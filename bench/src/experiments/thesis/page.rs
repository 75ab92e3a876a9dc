//! The page of the report: results in the form of the thesis' figures.

use anker_report::found::Found;
use anker_report::page::{Grid, Page, Plot, Scale, Section};
use anker_report::{Report, median, rounded};
use serde_json::{Value, json};

use super::NAME;
use crate::experiments::side_by_side::typical;

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "A stream of {} transactions of {} client(s), one after the other; after every {} of them an analytic query is injected, \
         on a session of its own. {} round(s), in which configurations take turns, each with a copy of the same rows. \
         PostgreSQL: {}.",
        meta["transactions"],
        meta["clients"],
        meta["every"],
        meta["rounds"],
        meta["settings"].as_str().unwrap_or_default()
    );
    let sections = [ycsb(&found), tpch(&found, meta["query"].as_str().unwrap_or_default())];
    let missing = meta["not_measured"].as_array().into_iter().flatten();
    Page {
        title: "Transactions around a snapshot (the thesis, chapter 5, on a server)".into(),
        about: vec![report.machine(), about],
        sections: sections.into_iter().flatten().collect(),
        left_out: missing.filter_map(|missing| Some(missing.as_str()?.to_owned())).collect(),
        ..Page::default()
    }
}

fn ycsb(found: &Found) -> Option<Section> {
    let found = found.with("workload", &json!("ycsb"));
    found.row()?;
    Some(Section {
        id: "ycsb",
        title: "YCSB: Figures 5.2, 5.3, 5.4 and 5.7".into(),
        claim: "The thesis, inside a storage engine: transactions spike after a snapshot and fall back as pages have been copied; \
                scoot is the fastest to create and the slowest to fall back (220 % above fork), mremap 23 % below fork; throughput \
                follows."
            .into(),
        notes: notes(
            "Records of ten fields of 100 characters, keys by YCSB's scattered Zipf. A, B, C: 50, 95 and 100 % read a record, \
             the others change one of its fields; F: the others read and change it in one transaction; a number is a share of \
             reads. The query adds up the lengths of all fields.",
        ),
        ..shown(&found, "ycsb", "records")
    })
}

fn tpch(found: &Found, query: &str) -> Option<Section> {
    let found = found.with("workload", &json!("tpch"));
    found.row()?;
    Some(Section {
        id: "tpch",
        title: "TPC-H with its updates: Figures 5.1, 5.5, 5.6 and 5.8".into(),
        claim: "The thesis, inside a storage engine: fork's analytic queries take 300 % longer than scoot's and 24 % longer than \
                mremap's; scoot's transactions are slowed most after the snapshot."
            .into(),
        notes: notes(&format!(
            "Nine transactions that copy values between rows of lineitem, orders and part (Figure A.1), drawn evenly; the query \
             is {query}."
        )),
        ..shown(&found, "tpch", "scale factor")
    })
}

fn notes(of: &str) -> Vec<String> {
    vec![
        of.to_owned(),
        "Client: what a transaction takes, for the session that asks for it. Apply: from its commit until the engine has it in \
         its columns, as the engine tells (commit_to_applied_us of anker.latest_delays()). In PostgreSQL transactions run on the heap and \
         never touch a page of a snapshot; what a snapshot costs falls on the engine, which applies them."
            .into(),
        "Before, after: means of a quarter of the time between two injections before one, and of a tenth of it after one. \
         Medians of the rounds; plots over time are of the first round, all injections laid over each other. The snapshot's \
         time is told by every second query (EXPLAIN ANALYZE), the query's latency is of the others."
            .into(),
    ]
}

/// Tables and plots of one workload.
fn shown(found: &Found, workload: &str, size_is: &str) -> Section {
    let (sizes, mixes) = (found.params("size"), found.params("mix"));
    let largest = sizes.last().cloned().unwrap_or_default();
    let mut grids: Vec<Grid> = sizes.iter().map(|size| summary(&found.with("size", size), size, size_is)).collect();
    grids.extend(sizes.iter().map(|size| engine(&found.with("size", size), size, size_is)));
    let mut plots = Vec::new();
    for mix in &mixes {
        let (of, mix) = (found.with("mix", mix), mix.as_str().unwrap_or_default());
        let named = |what: &str| format!("{NAME}-{workload}-{what}-{}", mix.replace([' ', '.'], "-"));
        plots.push(over_sizes(&of, "query", &format!("{mix}: analytic query, ms"), size_is).named(&named("query")));
        plots.push(
            over_sizes(&of, "throughput", &format!("{mix}: transactions/s"), size_is).named(&named("throughput")),
        );
        let at_largest = of.with("size", &largest);
        for (figure, whose) in [("client mean", "a client's transaction"), ("apply mean", "commit to applied")] {
            let title = format!("{mix}, {largest}: {whose}, mean, µs");
            let plot = at_largest.figure(figure).lines(&title, AT, Scale::Linear, Scale::Log);
            plots.push(plot.small().named(&named(figure.split(' ').next().unwrap_or_default())));
        }
    }
    let first = mixes.first().cloned().unwrap_or_default();
    let detailed = found.with("mix", &first).with("size", &largest);
    for (figure, whose) in [("client density", "a client's"), ("apply density", "commit to applied")] {
        let of = detailed.figure(figure);
        for config in of.subjects() {
            let title = format!("{config}: {whose}, µs");
            let name = format!("{NAME}-{workload}-{}-{config}", figure.replace(' ', "-"));
            let plot = of.subject(&config).heat(&title, AT, "latency_us").small();
            plots.push(plot.named(&name));
        }
    }
    let here = here(&detailed, &format!("{}, {size_is} {largest}", first.as_str().unwrap_or_default()));
    Section { id: "", title: String::new(), claim: String::new(), here, notes: Vec::new(), grids, plots }
}

const AT: (&str, &str) = ("at_ms", "ms since the injection");

fn here(found: &Found, what: &str) -> String {
    let said = |config: &String| {
        let of = |figure: &str| typical(found, figure, config);
        let ratio = |of: &str| after_by_before(found, of, config).map(|ratio| format!("{ratio:.2}"));
        let snapshot = of("snapshot").map(|ms| format!(", snapshot {} ms", rounded(ms)));
        let apply = ratio("apply").map(|ratio| format!(", in the engine {ratio}"));
        Some(format!(
            "{config}: query {} ms{}; just after an injection a client's transaction takes {} times what it took before{}",
            rounded(of("query")?),
            snapshot.unwrap_or_default(),
            ratio("client")?,
            apply.unwrap_or_default()
        ))
    };
    let said: Vec<_> = found.subjects().iter().filter_map(said).collect();
    if said.is_empty() { String::new() } else { format!("{what}. {}", said.join("; ")) }
}

/// The mean latency just after an injection, divided by the mean before it: the median over the rounds.
fn after_by_before(found: &Found, of: &str, config: &str) -> Option<f64> {
    let value = |figure: &str, round: &Value| {
        found.figure(&format!("{of} {figure}")).subject(config).with("round", round).value().filter(|us| *us > 0.0)
    };
    let rounds = found.params("round").into_iter();
    let ratios: Vec<f64> =
        rounds.filter_map(|round| Some(value("after", &round)? / value("before", &round)?)).collect();
    (!ratios.is_empty()).then(|| median(&ratios))
}

fn summary(found: &Found, size: &Value, size_is: &str) -> Grid {
    const FIGURES: [(&str, &str); 10] = [
        ("query", "query, ms"),
        ("response", "from its injection, ms"),
        ("throughput", "transactions/s"),
        ("cpu per transaction", "CPU per transaction, µs"),
        ("client p50", "client p50, µs"),
        ("client p95", "p95"),
        ("client p99", "p99"),
        ("client max", "max"),
        ("client before", "before, µs"),
        ("client after", "after, µs"),
    ];
    let mut grid = Grid::new(&format!("{size_is} {size}: what clients see"));
    FIGURES.iter().for_each(|(_, heading)| grid.column(heading));
    grid.column("after by before");
    rows(found, &mut grid, |of, config| {
        let mut cells: Vec<_> = FIGURES.iter().map(|(figure, _)| typical(of, figure, config).map(rounded)).collect();
        cells.push(after_by_before(of, "client", config).map(|ratio| format!("{ratio:.2}")));
        Some(cells)
    });
    grid
}

/// A table of figures that the engine reports.
fn engine(found: &Found, size: &Value, size_is: &str) -> Grid {
    const FIGURES: [(&str, &str); 9] = [
        ("snapshot", "snapshot, ms"),
        ("wait", "wait before it, ms"),
        ("apply p50", "apply p50, µs"),
        ("apply p95", "p95"),
        ("apply p99", "p99"),
        ("apply max", "max"),
        ("apply before", "before, µs"),
        ("apply after", "after, µs"),
        ("engine's cpu per transaction", "CPU per transaction, µs"),
    ];
    let mut grid = Grid::new(&format!("{size_is} {size}: what the engine tells"));
    FIGURES.iter().for_each(|(_, heading)| grid.column(heading));
    ["after by before", "answered by it"].iter().for_each(|heading| grid.column(heading));
    rows(found, &mut grid, |of, config| {
        let share = typical(of, "answered by the engine", config)?;
        let mut cells: Vec<_> = FIGURES.iter().map(|(figure, _)| typical(of, figure, config).map(rounded)).collect();
        cells.push(after_by_before(of, "apply", config).map(|ratio| format!("{ratio:.2}")));
        cells.push(Some(format!("{:.1} %", 100.0 * share)));
        Some(cells)
    });
    grid
}

/// Adds a row to the table for each mix and configuration that was measured.
fn rows(found: &Found, grid: &mut Grid, cells: impl Fn(&Found, &str) -> Option<Vec<Option<String>>>) {
    for mix in found.params("mix") {
        let of = found.with("mix", &mix);
        for config in of.subjects() {
            if let Some(cells) = cells(&of, &config) {
                grid.row(&format!("{}, {config}", mix.as_str().unwrap_or_default()), cells);
            }
        }
    }
}

/// A plot of a figure by size: medians of each configuration.
fn over_sizes(of: &Found, figure: &str, title: &str, size_is: &str) -> Plot {
    let of = of.figure(figure);
    let mut plot = Plot::lines(title, size_is, Scale::Log, Scale::Log).small();
    for config in of.subjects() {
        let at = |size: Value| Some((size.as_f64()?, typical(&of.with("size", &size), figure, &config)?));
        plot.add(anker_report::page::Series::new(&config, of.params("size").into_iter().filter_map(at).collect()));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Findings;

    #[test]
    fn a_page_shows_courses_and_ratios_of_what_was_measured() {
        let mut findings = Findings::new(NAME);
        for (config, after) in [("heap", 300.0), ("epochs", 150.0)] {
            let mut params = json!({ "workload": "ycsb", "size": 2000, "mix": "A", "round": 1 });
            for (figure, value) in
                [("query", 5.0), ("throughput", 1000.0), ("client before", 100.0), ("client after", after)]
            {
                findings.row(figure, config, &params, value, "");
            }
            params["at_ms"] = json!(0.5);
            findings.row("client mean", config, &params, after, "us");
            params["latency_us"] = json!(64);
            findings.row("client density", config, &params, 7, "");
        }
        let page = page(&findings.report);
        assert_eq!(page.sections.len(), 1);
        let here = &page.sections[0].here;
        assert!(
            here.contains("heap: query 5.0 ms; just after an injection a client's transaction takes 3.00"),
            "{here}"
        );
        let drawn: Vec<_> = page.sections[0].plots.iter().filter(|plot| !plot.is_empty()).collect();
        assert_eq!(drawn.len(), 5, "two over sizes, one over time, two densities");
        assert!(!page.html().contains("NaN"));
    }
}
