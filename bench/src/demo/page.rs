//! The page of a demonstration.

use anker_report::found::Found;
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section, Series};
use anker_report::{Report, median, percentile, rounded};
use serde_json::json;

use super::{NAME, PHASES};
use crate::queries::ANKER;

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "TPC-C, {} warehouse(s), {} clients as fast as they can, for {} s: alone, with eight analytic queries in turn beside them \
         on the heap, and with the same on the mirror. synchronous_commit off, fsync off.",
        meta["warehouses"], meta["clients"], meta["seconds"]
    );
    let errors = meta["errors"].as_array().into_iter().flatten();
    let errors = errors.filter_map(|error| error.as_str().map(str::to_owned));
    Page {
        title: "pg_anker: transactions and queries side by side".into(),
        about: [report.machine(), about].into_iter().chain(errors).collect(),
        sections: vec![throughput(&found), latencies(&found), freshness(&found)],
        ..Page::default()
    }
}

fn throughput(found: &Found) -> Section {
    let mut grid = Grid::new("");
    ["new orders/min", "of those without queries", "queries answered"].iter().for_each(|h| grid.column(h));
    let mut plot = Plot::lines("New orders a minute", "second", Scale::Linear, Scale::Linear);
    let orders = |phase: &str| found.figure("new_orders").subject(phase).value();
    let share = |phase: &str| Some(orders(phase)? / orders(PHASES[0]).filter(|alone| *alone > 0.0)?);
    for phase in PHASES {
        let shown = |value: f64| format!("{value:.0}");
        let queries = found.figure("queries").subject(phase).value();
        grid.row(
            phase,
            vec![orders(phase).map(shown), share(phase).map(|share| format!("{share:.2}")), queries.map(shown)],
        );
        plot.add(Series::new(phase, found.figure("second").subject(phase).points("at")));
    }
    let said = |phase: &str| share(phase).map_or("–".into(), |share| format!("{share:.2}"));
    Section {
        id: "throughput",
        title: "Transactions over time".into(),
        claim: "Whoever asks without a pause takes processors from the transactions, on either side: new orders and answered \
                queries belong together."
            .into(),
        here: format!(
            "Of the new orders without queries, {} are left beside those on the heap, {} beside those on the mirror",
            said("heap"),
            said("mirror")
        ),
        notes: Vec::new(),
        grids: vec![grid],
        plots: vec![plot.named("demo-throughput")],
    }
}

fn latencies(found: &Found) -> Section {
    let mut grid = Grid::new("Median milliseconds to the last row at the client, beside the transactions");
    ["heap", "mirror", "times", "the mirror's answer", "by"].iter().for_each(|heading| grid.column(heading));
    let (mut groups, mut ratios) = (Vec::new(), Vec::new());
    for query in &ANKER {
        let of = found.figure("query").with("query", &json!(query.name));
        let typical = |side: &str| {
            let times = of.subject(side).values();
            (!times.is_empty()).then(|| median(&times))
        };
        let (heap, mirror) = (typical("heap"), typical("mirror"));
        let times = heap.zip(mirror).map(|(heap, mirror)| heap / mirror.max(f64::MIN_POSITIVE));
        let told = |figure: &str| found.figure(figure).subject(query.name).row().map(|row| row.value.clone());
        let same = told("same_answer").and_then(|same| same.as_bool());
        let same = same.map(|same| if same { "the heap's" } else { "DIFFERENT" }.to_owned());
        let by = told("by").and_then(|by| by.as_str().map(str::to_owned));
        let ms = |value: f64| format!("{value:.1}");
        grid.row(query.name, vec![heap.map(ms), mirror.map(ms), times.map(rounded), same, by]);
        let bars = [("heap", heap), ("mirror", mirror)].into_iter();
        let bars = bars.filter_map(|(side, time)| Some((side.to_owned(), time?))).collect();
        groups.push((query.name.to_owned(), bars));
        ratios.extend(times);
    }
    let plot =
        Plot::groups("Median latency of queries beside the transactions", "ms", Groups { scale: Scale::Log, groups });
    Section {
        id: "latencies",
        title: "Latency of the queries".into(),
        claim: "AnKer's eight queries: Q1 joins stock and warehouse, Q2, Q3, Q7 and Q8 aggregate large tables, Q4 and Q5 return \
                them, Q6 reads one page."
            .into(),
        here: format!("The mirror answers {} times as fast as the heap (median of the queries)", rounded(median(&ratios))),
        notes: Vec::new(),
        grids: vec![grid],
        plots: vec![plot.named("demo-latencies")],
    }
}

fn freshness(found: &Found) -> Section {
    let mut grid = Grid::new("Milliseconds");
    ["queries", "that lack nothing", "p99", "largest"].iter().for_each(|heading| grid.column(heading));
    let scores = found.figure("score");
    let fresh = |side: &str| {
        let scores = scores.subject(side).values();
        let zero = scores.iter().filter(|score| **score == 0.0).count() as f64;
        (!scores.is_empty()).then(|| format!("{:.1} %", 100.0 * zero / scores.len() as f64))
    };
    for side in scores.subjects() {
        let values = scores.subject(&side).values();
        let at = |share| Some(rounded(percentile(&values, share)));
        grid.row(&side, vec![Some(values.len().to_string()), fresh(&side), at(0.99), at(1.0)]);
    }
    Section {
        id: "freshness",
        title: "How old the answers are".into(),
        claim: "From when the first transaction committed that a query does not see until the query began: 0 if there is none."
            .into(),
        here: fresh("mirror").map_or(String::new(), |share| {
            format!("{share} of the answers of the mirror have every transaction that had committed when the query began")
        }),
        notes: Vec::new(),
        grids: vec![grid],
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Findings;

    #[test]
    fn the_three_phases_stand_beside_each_other() {
        let mut findings = Findings::new(NAME);
        for (at, (phase, rate)) in PHASES.into_iter().zip([1000.0, 500.0, 800.0]).enumerate() {
            findings.row("new_orders", phase, &json!(null), rate, "1/min");
            findings.row("second", phase, &json!({ "at": at }), rate, "");
        }
        for (side, ms) in [("heap", 30.0), ("mirror", 10.0)] {
            findings.row("query", side, &json!({ "query": "Q1" }), ms, "ms");
            findings.row("score", side, &json!({ "query": "Q1" }), 0.0, "ms");
        }
        let page = page(&findings.report);
        let here: Vec<&str> = page.sections.iter().map(|section| section.here.as_str()).collect();
        assert!(
            here[0].ends_with("0.50 are left beside those on the heap, 0.80 beside those on the mirror"),
            "{here:?}"
        );
        assert!(here[1].contains("answers 3.0 times") && here[2].starts_with("100.0 %"), "{here:?}");
        assert!(!page.html().contains("NaN"));
    }
}
