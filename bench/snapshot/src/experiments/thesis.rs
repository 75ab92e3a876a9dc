//! Rows, tables and plots for both workloads of the thesis.

use anker_report::{Report, rounded};
use serde_json::{Value, json};

use super::oltp::{Course, bucket_start};
use crate::session::Session;
use anker_report::found::Found;
use anker_report::page::{Grid, Plot, Scale, Section};

/// Adds the rows of one run to the report. If `detailed`, the distribution of latencies is added, too.
pub fn rows(session: &mut Session, experiment: &str, name: &str, params: &Value, course: &Course, detailed: bool) {
    let mut row = |figure, value: f64, unit| session.row((experiment, figure), name, params.clone(), value, unit);
    row("execution", course.execution / 1e3, "µs");
    row("dispatch", course.dispatch / 1e3, "µs");
    row("query_began", course.query_began / 1e3, "µs");
    row("olap_latency", course.query / 1e6, "ms");
    row("throughput", course.throughput, "transactions/s");
    row("oltp_before", course.mean_before / 1e3, "µs");
    row("oltp_spike", course.mean_spike / 1e3, "µs");
    row("oltp_worst", course.worst / 1e3, "µs");
    for piece in &course.pieces {
        let mut params = params.clone();
        params["at_ms"] = (piece.at / 1e6).into();
        let mut row = |figure, value: f64, unit| session.row((experiment, figure), name, params.clone(), value, unit);
        row("oltp_mean", piece.mean / 1e3, "µs");
        if !detailed {
            continue;
        }
        row("oltp_p50", piece.half / 1e3, "µs");
        row("oltp_p99", piece.most / 1e3, "µs");
        row("oltp_max", piece.worst / 1e3, "µs");
        for (bucket, count) in piece.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let mut params = params.clone();
            params["latency_us"] = (bucket_start(bucket) / 1e3).into();
            session.row((experiment, "oltp_density"), name, params, *count, "transactions");
        }
    }
}

/// A workload's tables and plots; `param` is the parameter that varies beside the size.
pub fn section(report: &Report, experiment: &'static str, param: &str) -> Section {
    let found = Found::new(report, experiment);
    let mut section = Section {
        id: experiment,
        title: String::new(),
        claim: String::new(),
        notes: vec![
            "A stream of transactions on one thread; after a fifth of them a snapshot is taken and an analytic query \
             on it handed to another thread, or to the child. Execution is the snapshot alone, dispatch until the \
             stream goes on. The spike is the mean of the tenth of the stream after the snapshot; times of single \
             transactions are read from the processor's counter, its cost taken off."
                .into(),
        ],
        here: String::new(),
        grids: Vec::new(),
        plots: Vec::new(),
    };
    let largest = found.params("size_mb").into_iter().next_back().unwrap_or(json!(0));
    for size in found.params("size_mb") {
        let of_size = found.with("size_mb", &size);
        let grid = summary(&of_size, &size, param);
        // The table of the largest size gets a name, so that a document can show it.
        section.grids.push(if size == largest { grid.named(experiment) } else { grid });
    }
    if param == "reads" {
        for (figure, title) in [("olap_latency", "analytic query, ms"), ("throughput", "transactions a second")] {
            for reads in found.params(param) {
                let of = found.figure(figure).with(param, &reads);
                let plot =
                    of.lines(&format!("{title}, {reads} reads"), ("size_mb", "size, MB"), Scale::Log, Scale::Log);
                section.plots.push(named_if(mixed(&reads), plot, &format!("{experiment}-{figure}")).small());
            }
        }
        for reads in found.params(param) {
            let of = found.figure("oltp_mean").with(param, &reads).with("size_mb", &largest);
            let title = format!("{reads} reads, {largest} MB: mean transaction, µs");
            let plot = of.lines(&title, AT, Scale::Linear, Scale::Log);
            section.plots.push(named_if(mixed(&reads), plot, &format!("{experiment}-latency")).small());
        }
    } else {
        for (figure, title) in [("olap_latency", "Analytic query, ms"), ("throughput", "Transactions a second")] {
            let of = found.figure(figure);
            let plot = of.lines(title, (param, "scale factor"), Scale::Log, Scale::Log);
            section.plots.push(plot.named(&format!("{experiment}-{figure}")).small());
        }
        for size in found.params("size_mb") {
            let of = found.figure("oltp_mean").with("size_mb", &size);
            let plot = of.lines(&format!("{size} MB: mean transaction, µs"), AT, Scale::Linear, Scale::Log);
            section.plots.push(named_if(size == largest, plot, &format!("{experiment}-latency")).small());
        }
    }
    let density = found.figure("oltp_density").with("size_mb", &largest);
    for mechanism in density.subjects() {
        let title = format!("{mechanism}, {largest} MB: transactions by time, µs");
        let plot = density.subject(&mechanism).heat(&title, AT, "latency_us").small();
        section.plots.push(plot.named(&format!("{experiment}-density-{mechanism}")));
    }
    let of = found.with("size_mb", &largest);
    let of = if param == "reads" { of.with(param, &json!(MIXED)) } else { of };
    section.here = format!(
        "Here, {largest} MB, the mean transaction in the tenth of the stream after the snapshot: {}; the analytic query: {}.",
        of.figure("oltp_spike").spoken("µs"),
        of.figure("olap_latency").spoken("ms"),
    );
    section
}

/// The share of reads for which the report has the most details.
pub const MIXED: f64 = 0.4;

fn mixed(reads: &Value) -> bool {
    *reads == json!(MIXED)
}

fn named_if(wanted: bool, plot: Plot, name: &str) -> Plot {
    if wanted { plot.named(name) } else { plot }
}

const AT: (&str, &str) = ("at_ms", "ms since the snapshot");

fn summary(of_size: &Found, size: &Value, param: &str) -> Grid {
    // If the share of reads varies, the table shows only the share for which the report has the most details.
    let of = if param == "reads" { of_size.with(param, &json!(MIXED)) } else { of_size.clone() };
    let title = if param == "reads" { format!("{size} MB, {MIXED} reads") } else { format!("{size} MB") };
    let mut grid = of.by_figure(
        &title,
        &[
            ("execution", "execution, µs"),
            ("dispatch", "dispatch, µs"),
            ("query_began", "query begins, µs"),
            ("olap_latency", "query, ms"),
            ("oltp_before", "transaction before, µs"),
            ("oltp_spike", "after, µs"),
            ("oltp_worst", "worst, µs"),
        ],
    );
    grid.column("throughput, 1,000/s");
    let throughput = of.figure("throughput");
    grid.extend(|mechanism| throughput.subject(mechanism).value().map(|value| rounded(value / 1e3)));
    grid
}
