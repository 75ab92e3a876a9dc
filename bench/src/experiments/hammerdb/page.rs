//! The page of the report.

use anker_report::found::Found;
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section, Series};
use anker_report::{Report, median, percentile, rounded};
use serde_json::{Value, json};

use super::{HEAP_STREAM, MIRROR_OFF, MIRROR_STREAM, NAME, PLAIN};
use crate::experiments::must::{self, Bound, Must};
use crate::experiments::side_by_side::typical;
use crate::queries;

pub fn page(report: &Report) -> Page {
    let found = Found::new(report, NAME);
    // On an existing server there are no runs without pg_anker.
    let base = if found.subject(PLAIN).row().is_some() { PLAIN } else { MIRROR_OFF };
    Page {
        title: format!("HammerDB beside the mirror, {} warehouse(s)", report.meta()["warehouses"]),
        about: vec![report.machine(), conditions(report.meta())],
        overview: vec![("What must be shown".into(), musts(&found, base))],
        sections: vec![orders(&found, base), stream(&found), processors(&found, base)],
        ..Page::default()
    }
}

fn conditions(meta: &Value) -> String {
    let text = |key: &str| meta[key].as_str().unwrap_or_default();
    format!(
        "{}, PostgreSQL {}, {}. {} warehouse(s), {} users; runs of {} minute(s) after {} that are not counted, each on a fresh \
         copy of the same database, {} round(s), in which configurations take turns. The stream: a random one of eight queries \
         every {} ms.",
        text("hammerdb"),
        text("postgresql"),
        text("settings"),
        meta["warehouses"],
        meta["users"],
        meta["minutes"],
        meta["ramp_up_minutes"],
        meta["rounds"],
        meta["query_every_ms"],
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The share of the stream's queries that the engine answered, over all rounds. At the end of a round, the engine may
/// answer a query that does not count as asked, so the share is limited to 1.
fn engine_share(found: &Found, config: &str) -> Option<f64> {
    let sum = |figure: &str| found.figure(figure).subject(config).values().iter().sum::<f64>();
    found.figure("served").subject(config).row().map(|_| (sum("served") / sum("asked")).min(1.0))
}

fn musts(found: &Found, base: &str) -> Grid {
    let nopm = found.figure("nopm");
    let share = engine_share(found, MIRROR_STREAM).and_then(|share| must::alone(&[share], 0.5));
    must::grid(vec![
        Must::new(
            format!("new orders beside the stream on the mirror, of {base}"),
            Bound::AtLeast(0.85),
            nopm.ratio(MIRROR_STREAM, base),
        ),
        Must::new(
            "new orders beside the stream on the mirror, of those beside it on the heap",
            Bound::AtLeast(1.3),
            nopm.ratio(MIRROR_STREAM, HEAP_STREAM),
        ),
        Must::new("share of the stream answered by the engine, all rounds", Bound::AtLeast(0.99), share),
    ])
}

fn orders(found: &Found, base: &str) -> Section {
    let nopm = found.figure("nopm");
    let mut grid = Grid::new("");
    let of_base = format!("of {base}");
    for heading in ["NOPM", &of_base, "queries", "by the engine", "p50 ms", "p95 ms", "p99 ms", "CPU per new order, µs"]
    {
        grid.column(heading);
    }
    let mut rounds = Plot::lines("New orders a minute", "round", Scale::Linear, Scale::Linear);
    for config in nopm.subjects() {
        let queries = found.figure("query").subject(&config).values();
        let latency = |share: f64| (!queries.is_empty()).then(|| rounded(percentile(&queries, share)));
        let asked = found.figure("asked").subject(&config).values();
        grid.row(
            &config,
            vec![
                typical(found, "nopm", &config).map(rounded),
                nopm.ratio(&config, base).map(|ratio| ratio.to_string()),
                (!asked.is_empty()).then(|| rounded(asked.iter().sum())),
                engine_share(found, &config).map(percent),
                latency(0.5),
                latency(0.95),
                latency(0.99),
                typical(found, "cpu per new order", &config).map(rounded),
            ],
        );
        let points = nopm.subject(&config).points("round").into_iter();
        rounds.add(Series::new(&config, points.map(|(round, rate)| (round + 1.0, rate)).collect()));
    }
    let mut here = Vec::new();
    if let Some(ratio) = nopm.ratio(MIRROR_STREAM, base) {
        here.push(format!("with the stream on the mirror {ratio} of {base}"));
    }
    if let Some(ratio) = nopm.ratio(MIRROR_STREAM, HEAP_STREAM) {
        here.push(format!("{ratio} times what the stream on the heap leaves"));
    }
    if let Some(share) = engine_share(found, MIRROR_STREAM) {
        here.push(format!("{} of the stream answered by the engine", percent(share)));
    }
    Section {
        id: "orders",
        title: "What HammerDB's users achieve".into(),
        claim: "Beside an analytic stream on the mirror, users should keep at least 0.85 of what they achieve where pg_anker is \
                not even loaded, and 1.3 times what the same stream on the heap leaves them; the engine should answer 99 % of it."
            .into(),
        here: here.join("; "),
        notes: vec![
            "plain, heap stream: as without pg_anker, wal_level replica. mirror off: loaded, wal_level logical. mirror on: all nine \
             tables. Medians of the rounds; ratios are of runs of the same round, with the least and the largest."
                .into(),
            "In each run on the mirror, three of the eight queries were asked on both routes under one snapshot beside the users, \
             before any was counted, and in the end every row was compared (anker.verify): what differs ends the experiment."
                .into(),
        ],
        grids: vec![grid],
        plots: vec![rounds.named("hammerdb-nopm")],
    }
}

fn stream(found: &Found) -> Section {
    let asked = found.figure("query");
    let times = |config: &str, query: &str| asked.subject(config).with("query", &json!(query)).values();
    let group = |query: &queries::Query| {
        let bar = |(name, config): (&str, &str)| {
            let times = times(config, query.name);
            (!times.is_empty()).then(|| (name.to_owned(), median(&times)))
        };
        let bars: Vec<_> = [("heap", HEAP_STREAM), ("mirror", MIRROR_STREAM)].into_iter().filter_map(bar).collect();
        (query.name.to_owned(), bars)
    };
    let groups = queries::ANKER.iter().map(group).filter(|(_, bars)| !bars.is_empty()).collect();
    Section {
        id: "stream",
        title: "The analytic stream".into(),
        claim: "A query on the mirror waits until that has caught up with its snapshot, and for a processor.".into(),
        here: String::new(),
        notes: vec!["To the last row at the client, while HammerDB counted, all rounds together.".into()],
        grids: Vec::new(),
        plots: vec![
            Plot::groups("Median latency", "ms", Groups { scale: Scale::Log, groups }).named("hammerdb-queries"),
        ],
    }
}

fn processors(found: &Found, base: &str) -> Section {
    const OF: [&str; 6] = ["users", "stream's session", "capture worker", "engine", "server", "HammerDB"];
    let mut grid = Grid::new("CPU seconds a minute, medians of the rounds");
    OF.iter().for_each(|name| grid.column(name));
    grid.column("server, per new order, µs");
    grid.column(&format!("of {base}"));
    let per_order = found.figure("cpu per new order");
    for config in per_order.subjects() {
        let mut cells: Vec<_> =
            OF.iter().map(|name| typical(found, &format!("cpu, {name}"), &config).map(rounded)).collect();
        cells.push(typical(found, "cpu per new order", &config).map(rounded));
        cells.push(per_order.ratio(&config, base).map(|ratio| ratio.to_string()));
        grid.row(&config, cells);
    }
    let ratio = per_order.ratio(MIRROR_STREAM, base);
    Section {
        id: "cpu",
        title: "Where the processors' time went".into(),
        claim: "Where the processors are the limit, this is what the rates show the other way round, with less noise.".into(),
        here: ratio.map_or(String::new(), |ratio| {
            format!("A new order beside the stream on the mirror costs the server {ratio} of what it costs as {base}.")
        }),
        notes: vec![
            "The server is all of its processes: parallel workers, writers and vacuum, too. HammerDB runs on the same machine."
                .into(),
        ],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Findings;

    #[test]
    fn a_page_shows_what_was_measured_and_nothing_else() {
        let mut findings = Findings::new(NAME);
        for (round, nopm) in [(0, 1000.0), (1, 2000.0)] {
            let params = json!({ "round": round });
            for (config, times) in [(PLAIN, 1.0), (MIRROR_STREAM, 0.9)] {
                findings.row("nopm", config, &params, nopm * times, "1/min");
            }
            for (figure, value) in [("asked", 200.0), ("served", 199.0)] {
                findings.row(figure, MIRROR_STREAM, &params, value, "queries");
            }
        }
        let page = page(&findings.report);
        assert_eq!(
            page.sections[0].here,
            "with the stream on the mirror 0.90 (0.90 to 0.90) of plain; 99.5 % of the stream answered by the engine"
        );
        assert!(page.sections[1].plots[0].is_empty());
        assert!(page.html().contains("mirror stream"));
    }
}
