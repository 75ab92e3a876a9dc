//! Rows and tables for the results that all experiments with concurrent transactions and queries have in common.

use anker_report::found::Found;
use anker_report::page::{Grid, Groups, Plot, Scale, Section};
use anker_report::{median, rounded};
use serde_json::{Value, json};

use crate::report::Findings;
use crate::tpcc::Kind;
use crate::trial::Outcome;

/// The configuration that others are compared with.
pub const ALONE: &str = "no queries";

/// Adds the results of a run to the report. `names` are the names of the queries.
pub fn rows(outcome: &Outcome, config: &str, names: &[&str], params: &Value, findings: &mut Findings) {
    let mut row = |figure: &str, value: Value, unit: &str| {
        findings.row(figure, config, params, value, unit);
    };
    let totals = &outcome.beside;
    row("throughput", json!(totals.per_second()), "transactions/s");
    row("new_orders", json!(totals.new_orders_per_minute()), "1/min");
    row("repeated", json!(totals.retries as f64 / (totals.transactions as f64).max(1.0)), "for each transaction");
    for (kind, histogram) in [("all", &totals.latency()), ("new order", totals.latency_of(Kind::NewOrder))] {
        let name = |figure: &str| format!("{figure}, {kind}");
        for (figure, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
            row(&name(figure), json!(histogram.percentile(share) / 1e3), "ms");
        }
    }
    if let Some(cpu) = &outcome.cpu {
        let others = cpu.server - cpu.transactions - cpu.analytics - cpu.worker - cpu.engine;
        for (of, seconds) in [
            ("transactions", cpu.transactions),
            ("queries' sessions", cpu.analytics),
            ("capture worker", cpu.worker),
            ("engine", cpu.engine),
            ("other processes", others),
            ("taken by the host", cpu.stolen),
        ] {
            row(&format!("cpu, {of}"), json!(seconds / totals.elapsed.as_secs_f64()), "CPU s/s");
        }
        row("cpu per transaction", json!(cpu.server * 1e3 / (totals.transactions as f64).max(1.0)), "ms");
    }
    row("queries", json!(outcome.asked.len()), "");
    if let Some(share) = outcome.engine_share {
        row("answered by the engine", json!(share), "of the queries");
    }
    // These rows are also written if queries ran on the mirror only in the check at the end.
    if outcome.engine_share.is_some() || outcome.checked.compared > 0 {
        row("compared", json!(outcome.checked.compared), "answers on both routes");
        row("differing", json!(outcome.checked.differences.len()), "answers");
    }
    for (second, transactions) in outcome.seconds.iter().enumerate() {
        let mut params = params.clone();
        params["at"] = json!(second + 1);
        findings.row("second", config, &params, *transactions, "transactions/s");
    }
    for asked in &outcome.asked {
        let mut params = params.clone();
        params["query"] = json!(names[asked.query]);
        let mut row = |figure, value: f64| findings.row(figure, config, &params, value, "ms");
        if let Some(snapshot) = &asked.snapshot {
            row("snapshot", snapshot.taken);
            row("wait", snapshot.wait);
        }
        if !asked.explained {
            row("query", asked.ms());
            row("response", asked.response_ms());
        }
    }
}

/// The median of a figure over rounds.
pub fn typical(found: &Found, figure: &str, config: &str) -> Option<f64> {
    let values = found.figure(figure).subject(config).values();
    (!values.is_empty()).then(|| median(&values))
}

/// The number of answers that were compared, in words.
pub fn answers(found: &Found) -> String {
    let sum = |figure| found.figure(figure).values().iter().sum::<f64>();
    let (compared, differing) = (sum("compared"), sum("differing"));
    format!(
        "While transactions ran, {compared} answers were asked for on both routes in one REPEATABLE READ transaction: {differing} differed."
    )
}

/// Latencies of transactions.
pub fn latencies(experiment: &str, found: &Found, access: &str, base: &str) -> Section {
    const SHARES: [&str; 4] = ["p50", "p95", "p99", "max"];
    let mut grid = Grid::new("Milliseconds, medians of the rounds");
    for of in ["all", "new order"] {
        SHARES.iter().for_each(|share| grid.column(&format!("{of}: {share}")));
    }
    grid.column(&format!("p99 by that of {base}"));
    grid.column("repeated, of all");
    for config in found.subjects() {
        let kinds = ["all", "new order"].into_iter();
        let names = kinds.flat_map(|of| SHARES.map(|share| format!("{share}, {of}")));
        let mut cells: Vec<_> = names.map(|name| typical(found, &name, &config).map(rounded)).collect();
        cells.push(found.figure("p99, all").ratio(&config, base).map(|ratio| ratio.to_string()));
        cells.push(typical(found, "repeated", &config).map(|share| format!("{:.2} %", 100.0 * share)));
        grid.row(&config, cells);
    }
    let p99 = found.figure("p99, all");
    let ratio = |config: &String| p99.ratio(config, base).map(|ratio| format!("{config} {ratio}"));
    let ratios: Vec<_> = found.subjects().iter().filter(|config| *config != base).filter_map(ratio).collect();
    let bars = |share: &str| {
        let bar = |config: String| Some((config.clone(), typical(found, &format!("{share}, all"), &config)?));
        (share.to_owned(), found.subjects().into_iter().filter_map(bar).collect())
    };
    let groups = Groups { scale: Scale::Log, groups: SHARES.map(bars).into() };
    let plot = Plot::groups(&format!("Latency of transactions, {access}"), "ms", groups);
    let here = if ratios.is_empty() {
        String::new()
    } else {
        format!("{access}, p99 of a transaction by that of {base}: {}", ratios.join(", "))
    };
    Section {
        id: if access == "skewed" { "latency-skewed" } else { "latency-uniform" },
        title: format!("Latency of transactions, {access} access"),
        claim: "Not in the paper.".into(),
        here,
        notes: vec![
            "At a fixed rate (--rate) a transaction's time counts from when it was due, so that one that keeps others waiting \
             is felt in theirs. Without a rate the next one is due when the last is done. A transaction that a conflict has \
             ended is repeated until it commits, and all of it counts."
                .into(),
        ],
        grids: vec![grid],
        plots: vec![plot.named(&format!("{experiment}-latency-{access}"))],
    }
}

pub fn processors(found: &Found) -> Section {
    const OF: [&str; 6] =
        ["transactions", "queries' sessions", "capture worker", "engine", "other processes", "taken by the host"];
    let mut grids = Vec::new();
    for access in found.params("access") {
        let of = found.with("access", &access);
        let mut grid = Grid::new(&format!("CPU seconds a second, {} access", access.as_str().unwrap_or_default()));
        OF.iter().for_each(|name| grid.column(name));
        for config in of.subjects() {
            let cells =
                OF.map(|name| typical(&of, &format!("cpu, {name}"), &config).map(|share| format!("{share:.2}")));
            grid.row(&config, cells.into());
        }
        grids.push(grid);
    }
    Section {
        id: "cpu",
        title: "Where the processors' time went".into(),
        claim: "Not in the paper.".into(),
        here: String::new(),
        notes: vec![
            "Other processes: parallel workers of queries on the heap, writers, vacuum. The benchmark's own clients run on the \
             same machine and are not counted."
                .into(),
            "Taken by the host: what a virtual machine was to run and could not, as its host had the processors elsewhere. Where \
             runs differ in it, they differ by it."
                .into(),
        ],
        grids,
        plots: Vec::new(),
    }
}
