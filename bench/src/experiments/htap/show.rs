//! The page of the report: results in the form of the paper's figures and table.

use anker_report::found::Found;
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section, Series};
use anker_report::{Report, median, percentile, rounded};
use serde_json::{Value, json};

use super::NAME;
use super::measure::{BY_ENGINE, Part};
use crate::experiments::must::{self, Bound, Must};
use crate::experiments::side_by_side::{ALONE, answers, latencies, processors, typical};
use crate::queries::ANKER;
use crate::tpcc::Isolation;

pub fn page(report: &Report) -> Page {
    let found = Found::new(report, NAME);
    let mixed = found.with("part", &json!(Part::Mixed.name()));
    let warehouses = mixed.params("warehouses");
    let last = warehouses.last().cloned().unwrap_or_default();
    let at_last = mixed.with("warehouses", &last);
    let mut sections = vec![summary(&at_last)];
    for access in at_last.params("access") {
        let (of, access) = (at_last.with("access", &access), access.as_str().unwrap_or_default().to_owned());
        sections.push(figure_6(&of, &access));
        sections.push(figure_7(&of, &access));
        sections.push(latencies(NAME, &of, &access, ALONE));
    }
    sections.extend(figure_8(&found));
    if warehouses.len() > 1 {
        sections.push(table_2(&mixed, &warehouses));
    }
    sections.push(processors(&at_last));
    Page {
        title: title(report, &warehouses),
        about: vec![report.machine(), conditions(report, &last)],
        overview: vec![("What must be shown".into(), musts(report, &mixed, &at_last, &warehouses))],
        sections,
        left_out: words(&report.meta()["not_measured"]),
    }
}

/// The title of the page, with the conditions that differ between reports.
fn title(report: &Report, warehouses: &[Value]) -> String {
    let sizes = match warehouses {
        [one] => format!("{one} warehouse(s)"),
        several => format!("{} to {} warehouses", first(several), last(several)),
    };
    let rate = report.meta()["rate"].as_f64().map_or(String::new(), |rate| format!(", {rate} transactions a second"));
    format!("Transactions and queries side by side (AnKer, section 6), {sizes}{rate}")
}

fn words(list: &Value) -> Vec<String> {
    let words = |text: &Value| text.as_str().map(str::to_owned);
    list.as_array().into_iter().flatten().filter_map(words).collect()
}

/// The access (uniform or skewed) for comparing numbers of warehouses: the first access of the run, by default uniform.
fn usual_access(found: &Found) -> Value {
    found.params("access").first().cloned().unwrap_or_default()
}

/// The table of required results for each configuration with queries in the engine. A configuration is compared only
/// with others whose transactions have the same isolation level.
fn musts(report: &Report, mixed: &Found, at_last: &Found, warehouses: &[Value]) -> Grid {
    let access = usual_access(at_last);
    let (mixed, found) = (mixed.with("access", &access), at_last.with("access", &access));
    let throughput = found.figure("throughput");
    let is_fixed = !report.meta()["rate"].is_null();
    let mut musts = Vec::new();
    // Nothing is required of fork, which exists only for comparison, and answers only some of the queries.
    let must = |config: &&String| is_engine(&found, config) && !config.starts_with("fork,");
    for config in found.subjects().iter().filter(must) {
        let heap = beside_heap(config);
        let alone = alone_beside(config);
        // At a fixed rate all configurations have the same throughput.
        let ratio = throughput.ratio(config, &alone).filter(|_| !is_fixed);
        musts.push(Must::new(format!("{config}: transactions, of those of {alone}"), Bound::AtLeast(0.85), ratio));
        let ratio = throughput.ratio(config, &heap).filter(|_| !is_fixed);
        musts.push(Must::new(format!("{config}: transactions, of those of {heap}"), Bound::AtLeast(1.3), ratio));
        let shares = found.figure("answered by the engine").subject(config).values();
        musts.push(Must::new(
            format!("{config}: queries answered by the engine, least share"),
            Bound::AtLeast(0.99),
            must::alone(&shares, 0.0),
        ));
        let ratio = found.figure("p99, all").ratio(config, &alone).filter(|_| is_fixed);
        let what = format!("{config}: p99 of transactions at a fixed rate (--rate), of that of {alone}");
        musts.push(Must::new(what, Bound::AtMost(1.2), ratio));
        for beside in [&alone, &heap] {
            let slowdown = (warehouses.len() > 1).then(|| {
                must::relative_slowdown(&mixed.figure("throughput"), "warehouses", warehouses, config, beside)
            });
            let of = format!("{} to {} warehouses", first(warehouses), last(warehouses));
            let of = if slowdown.is_some() { of } else { "1 to 40 warehouses (--warehouses 1,...,40)".into() };
            let what = format!("{config}: slowdown from {of}, by that of {beside}");
            musts.push(Must::new(what, Bound::AtMost(1.05), slowdown.flatten()));
        }
    }
    must::grid(musts)
}

fn first(values: &[Value]) -> String {
    values.first().map_or(String::new(), Value::to_string)
}

fn last(values: &[Value]) -> String {
    values.last().map_or(String::new(), Value::to_string)
}

/// The configuration without queries with which `config` is compared. Both have the same isolation level, because
/// SERIALIZABLE costs something even without queries.
fn alone_beside(config: &str) -> String {
    let level = Isolation::Serializable.name();
    if config.ends_with(level) { format!("{ALONE}, {level}") } else { ALONE.into() }
}

/// The configuration with the queries on the heap, at the isolation level of a configuration of the engine.
fn beside_heap(config: &str) -> String {
    config.split_once(", ").map_or(String::new(), |(_, level)| format!("heap, {level}"))
}

fn conditions(report: &Report, warehouses: &Value) -> String {
    let meta = report.meta();
    let rate = if meta["rate"].is_null() { "as fast as they can".into() } else { format!("{} a second", meta["rate"]) };
    format!(
        "TPC-C, {warehouses} warehouse(s), {} clients, {rate}; mix: {}. Runs of {} s, queries from second {} on, one every {} \
         ms, each with a snapshot of its own; {} round(s), in which configurations take turns, each with a copy of the same \
         rows. PostgreSQL: {}.",
        meta["clients"],
        meta["mix"].as_str().unwrap_or_default(),
        meta["seconds"],
        meta["queries_from_s"],
        meta["query_every_ms"],
        meta["rounds"],
        meta["settings"].as_str().unwrap_or_default(),
    )
}

fn is_engine(found: &Found, config: &str) -> bool {
    found.figure("answered by the engine").subject(config).value().is_some()
}

fn summary(found: &Found) -> Section {
    let mut grids = Vec::new();
    let mut here = Vec::new();
    for access in found.params("access") {
        let of = found.with("access", &access);
        let throughput = of.figure("throughput");
        let mut grid = Grid::new(&format!("{} access", access.as_str().unwrap_or_default()));
        for heading in [
            "transactions/s",
            "of those without queries",
            "p99 of a transaction, ms",
            "queries answered",
            "by the engine",
            "median of a query, ms",
            "p95 from when it was due",
            "CPU per transaction, ms",
        ] {
            grid.column(heading);
        }
        for config in of.subjects() {
            let shown = |figure: &str| typical(&of, figure, &config).map(rounded);
            let queries = of.figure("query").subject(&config).values();
            let responses = of.figure("response").subject(&config).values();
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            grid.row(
                &config,
                vec![
                    shown("throughput"),
                    throughput.ratio(&config, &alone_beside(&config)).map(|ratio| ratio.to_string()),
                    shown("p99, all"),
                    shown("queries"),
                    typical(&of, "answered by the engine", &config).map(percent),
                    (!queries.is_empty()).then(|| rounded(median(&queries))),
                    (!responses.is_empty()).then(|| rounded(percentile(&responses, 0.95))),
                    shown("cpu per transaction"),
                ],
            );
        }
        for engine in of.subjects().iter().filter(|config| is_engine(&of, config)) {
            let of_alone = throughput.ratio(engine, &alone_beside(engine));
            if let (Some(alone), Some(heap)) = (of_alone, throughput.ratio(engine, &beside_heap(engine))) {
                let access = access.as_str().unwrap_or_default();
                here.push(format!("{access}, {engine}: {alone} of the throughput without queries, {heap} of that with them on the heap"));
            }
        }
        grids.push(grid);
    }
    Section {
        id: "summary",
        title: "At a glance".into(),
        claim: "A hybrid engine answers queries on snapshots, and transactions go on as if there were none.".into(),
        here: here.join("; "),
        notes: vec![
            "Heap at SERIALIZABLE, REPEATABLE READ, READ COMMITTED: the paper's SEE_FS, SEE_SI and a stand-in for SEE_RU, \
             which PostgreSQL does not have. The engine's snapshots by a mechanism, and the isolation level of the \
             transactions beside it: HEE. No queries, and all of the heap's: a server without pg_anker, wal_level replica, \
             unless it was given. One query in four is asked by EXPLAIN ANALYZE on either side, and sends no rows."
                .into(),
            "Medians of the rounds; ratios are of runs of the same round, with the least and the largest.".into(),
            answers(found),
        ],
        grids,
        plots: Vec::new(),
    }
}

fn figure_6(found: &Found, access: &str) -> Section {
    let of_query = |figure: &str, config: &str, query: &str| {
        found.figure(figure).subject(config).with("query", &json!(query)).values()
    };
    let queried: Vec<String> = found.figure("query").subjects();
    let bars = |figure: &str, title: &str, name: &str| {
        let of = |query: &str| {
            let medians = queried.iter().map(|config| (config.clone(), of_query(figure, config, query)));
            medians.filter(|(_, times)| !times.is_empty()).map(|(config, times)| (config, median(&times))).collect()
        };
        let groups = ANKER.iter().map(|query| (query.name.to_owned(), of(query.name))).collect();
        let plot = Plot::groups(&format!("{title}, {access}"), "ms", Groups { scale: Scale::Log, groups });
        plot.named(&format!("{NAME}-{name}-{access}"))
    };
    let mut grid = Grid::new("Latency in ms, p50 / p95 / max (of so many queries)");
    let mut taken =
        Grid::new("Snapshot in ms, p50 / p95 (of so many queries): taking it, and waiting until it can be taken");
    ANKER.iter().for_each(|query| grid.column(query.name));
    ANKER.iter().for_each(|query| taken.column(query.name));
    let shown = |values: &[f64], shares: &[f64]| {
        let at = shares.iter().map(|share| rounded(percentile(values, *share)));
        (!values.is_empty()).then(|| format!("{} ({})", at.collect::<Vec<_>>().join(" / "), values.len()))
    };
    for config in &queried {
        let by_heap = |query: &str| of_query(BY_ENGINE, config, query).contains(&0.0);
        let marked = |query: &str, text: String| if by_heap(query) { format!("{text} heap") } else { text };
        let cells = ANKER.iter().map(|query| {
            let text = shown(&of_query("query", config, query.name), &[0.5, 0.95, 1.0])?;
            Some(marked(query.name, text))
        });
        grid.row(config, cells.collect());
    }
    for config in found.figure("snapshot").subjects() {
        for (figure, name) in [("snapshot", "taken"), ("wait", "wait")] {
            let cells = ANKER.iter().map(|query| shown(&of_query(figure, &config, query.name), &[0.5, 0.95]));
            taken.row(&format!("{config}: {name}"), cells.collect());
        }
    }
    let snapshots = found.figure("snapshot");
    let told = |config: &String| {
        let taken = snapshots.subject(config).values();
        format!("{config} {} ms (p95 {})", rounded(median(&taken)), rounded(percentile(&taken, 0.95)))
    };
    let told: Vec<_> = snapshots.subjects().iter().map(told).collect();
    let here =
        if told.is_empty() { String::new() } else { format!("{access}, the engine's snapshot: {}", told.join(", ")) };
    Section {
        id: if access == "skewed" { "figure6b" } else { "figure6a" },
        title: format!("Figure 6: snapshot and latency of queries, {access} access"),
        claim: "Paper: the snapshot by vm_snapshot is so short that it is not visible, more than 100 times shorter than fork's; \
                SEE_FS and SEE_SI suffer from version chains (up to 2200 ms for Q3); Q6 to Q8 are 4.9 to 7.5 times faster than \
                with fork."
            .into(),
        here,
        notes: vec![
            "A latency ends with the last row at the client. heap: the mechanism cannot answer it, so the heap did (fork: all but \
             groups of one table). The snapshot's times are of one query in four, asked by EXPLAIN \
             ANALYZE, and part of its latency."
                .into(),
        ],
        grids: vec![grid, taken],
        plots: vec![
            bars("snapshot", "Median time of the snapshot", "figure6-snapshot"),
            bars("query", "Median latency of the query", "figure6-latency"),
        ],
    }
}

fn figure_7(found: &Found, access: &str) -> Section {
    let mut plot = Plot::lines(&format!("Transactions a second, {access}"), "second", Scale::Linear, Scale::Linear);
    for config in found.subjects() {
        let of = found.figure("second").subject(&config);
        let at = |second: Value| Some((second.as_f64()?, median(&of.with("at", &second).values())));
        plot.add(Series::new(&config, of.params("at").into_iter().filter_map(at).collect()));
    }
    Section {
        id: if access == "skewed" { "figure7b" } else { "figure7a" },
        title: format!("Figure 7: throughput of transactions, {access} access"),
        claim: "Paper (uniform): 60,000 to 70,000 a second without queries; then 28,000 (SEE_FS), 30,000 to 38,000 (HEE_fork), \
                42,000 (SEE_SI), 47,000 (HEE_AnKer). Skewed: lower for all, and steadier."
            .into(),
        here: String::new(),
        notes: vec!["Each point is the median of the rounds. A transaction of PostgreSQL goes through SQL, a client and a log.".into()],
        grids: Vec::new(),
        plots: vec![plot.named(&format!("{NAME}-figure7-{access}"))],
    }
}

fn figure_8(found: &Found) -> Option<Section> {
    let by_transactions = found.with("part", &json!(Part::TransactionStreams.name()));
    let by_queries = found.with("part", &json!(Part::QueryStreams.name()));
    by_transactions.row()?;
    let latency = |query: &str, part: &str| {
        let of = by_transactions.with("query", &json!(query)).figure("query");
        over_streams(&of, part, &format!("median of {query}, ms"), ("clients", "clients"), Scale::Log)
    };
    let param = ("streams", "streams of queries");
    let throughput = over_streams(&by_queries.figure("throughput"), "c", "transactions/s", param, Scale::Linear);
    let (grids, plots) = [latency("Q1", "a"), latency("Q6", "b"), throughput].into_iter().unzip();
    Some(Section {
        id: "figure8",
        title: "Figure 8: numbers of streams".into(),
        claim: "Paper: the hybrid engines' latency does not depend on the number of transactions' streams, that of SEE_FS and \
                SEE_SI does; from 1 to 6 streams of queries HEE_AnKer loses 11.6 % of its throughput, HEE_fork 67.6 %."
            .into(),
        here: String::new(),
        notes: vec![
            "(a), (b): two streams of Q1 and Q6, drawn by chance. (c): two clients, all eight queries; with twice as many streams queries come twice as often. With \
             more streams than cores all of them wait for each other, whatever the engine does."
                .into(),
        ],
        grids,
        plots,
    })
}

/// A table and a plot: medians of each configuration by the number of streams.
fn over_streams(of: &Found, part: &str, what: &str, (param, label): (&str, &str), y: Scale) -> (Grid, Plot) {
    let title = format!("({part}) {what}");
    let mut plot = Plot::lines(&title, label, Scale::Linear, y).small().named(&format!("{NAME}-figure8{part}"));
    let mut grid = Grid::new(&format!("{title}, by {label} (of so many)"));
    let streams = of.params(param);
    streams.iter().for_each(|streams| grid.column(&streams.to_string()));
    for config in of.subjects() {
        let at = |streams: &Value| {
            let values = of.subject(&config).with(param, streams).values();
            (!values.is_empty()).then(|| (median(&values), values.len()))
        };
        let cell = |streams| at(streams).map(|(value, of)| format!("{} ({of})", rounded(value)));
        grid.row(&config, streams.iter().map(cell).collect());
        let points = streams.iter().filter_map(|streams| Some((streams.as_f64()?, at(streams)?.0)));
        plot.add(Series::new(&config, points.collect()));
    }
    (grid, plot)
}

fn table_2(found: &Found, warehouses: &[Value]) -> Section {
    let found = found.with("access", &usual_access(found)).figure("throughput");
    let mut grid = Grid::new("Transactions a second");
    warehouses.iter().for_each(|count| grid.column(&format!("{count} WH")));
    grid.column("slowdown");
    grid.column("by that without queries");
    let mut plot =
        Plot::lines("Table 2: transactions/s, of those of the first", "warehouses", Scale::Linear, Scale::Linear);
    let mut here = Vec::new();
    for config in found.subjects() {
        let typical = |count: &Value| median(&found.with("warehouses", count).subject(&config).values());
        let (from, to) = (warehouses.first().map_or(0.0, typical), warehouses.last().map_or(0.0, typical));
        let relative = must::relative_slowdown(&found, "warehouses", warehouses, &config, &alone_beside(&config));
        let mut cells: Vec<_> = warehouses.iter().map(|count| Some(rounded(typical(count)))).collect();
        cells.push((to > 0.0).then(|| format!("{:.2}", from / to)));
        cells.push(relative.map(|ratio| ratio.to_string()));
        grid.row(&config, cells);
        let share = |count: &Value| Some((count.as_f64()?, typical(count) / from.max(f64::MIN_POSITIVE)));
        plot.add(Series::new(&config, warehouses.iter().filter_map(share).collect()));
        here.extend(relative.filter(|_| config != alone_beside(&config)).map(|ratio| format!("{config} {ratio}")));
    }
    let (from, to) = (first(warehouses), last(warehouses));
    let here = format!("Slowdown from {from} to {to} warehouses, by that without queries: {}", here.join(", "));
    Section {
        id: "table2",
        title: "Table 2: numbers of warehouses".into(),
        claim: "Paper, 1 to 40 warehouses: HEE_AnKer 1.07 times slower, HEE_fork 1.49, SEE_FS 1.18, SEE_SI 1.05."
            .into(),
        here,
        notes: vec!["The database may grow out of the buffers of PostgreSQL meanwhile: hence the last column.".into()],
        grids: vec![grid],
        plots: vec![plot.named(&format!("{NAME}-table2"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Findings;

    /// A report of two rounds, in which queries in the engine cost a tenth of the throughput.
    fn report() -> Report {
        let mut findings = Findings::new(NAME);
        for (part, clients) in
            [("mixed", 2), ("transaction streams", 1), ("transaction streams", 3), ("query streams", 2)]
        {
            for (config, rate) in [(ALONE, 1000.0), ("heap, read committed", 600.0), ("epochs, read committed", 900.0)]
            {
                for (round, warehouses) in [(1, 1), (2, 1), (1, 40), (2, 40)] {
                    let mut params = json!({
                        "part": part, "round": round, "access": "uniform", "warehouses": warehouses, "clients": clients,
                        "streams": 2,
                    });
                    findings.row("throughput", config, &params, rate / f64::from(warehouses), "");
                    if config.starts_with("epochs") {
                        findings.row("answered by the engine", config, &params, 1.0, "");
                    }
                    params["query"] = json!("Q1");
                    findings.row("query", config, &params, 5.0, "ms");
                    findings.row(BY_ENGINE, config, &params, u8::from(config != "epochs, read committed"), "");
                }
            }
        }
        findings.report
    }

    #[test]
    fn every_figure_and_table_has_its_section() {
        let page = page(&report());
        let ids: Vec<&str> = page.sections.iter().map(|section| section.id).collect();
        let expected = ["summary", "figure6a", "figure7a", "latency-uniform", "figure8", "table2", "cpu"];
        assert_eq!(ids, expected);
        let words =
            "0.90 (0.90 to 0.90) of the throughput without queries, 1.50 (1.50 to 1.50) of that with them on the heap";
        assert!(page.sections[0].here.ends_with(words), "{}", page.sections[0].here);
        let table = page.sections[5].grids[0].text();
        let engine = table.lines().last().unwrap_or_default();
        assert!(engine.contains(" 40.00 ") && engine.ends_with(" 1.00 (1.00 to 1.00)"), "{table}");
        let musts = page.overview[0].1.text();
        let slowdowns: Vec<&str> =
            musts.lines().filter(|line| line.contains("slowdown from 1 to 40 warehouses")).collect();
        assert!(
            slowdowns.len() == 2
                && slowdowns.iter().all(|line| line.ends_with(" met"))
                && musts.contains("p99")
                && musts.contains("at least 1.3"),
            "{musts}"
        );
        assert!(!page.html().contains("NaN"));
        let latencies = page.sections[1].grids[0].text();
        assert_eq!(latencies.matches(") heap").count(), 1, "{latencies}");
    }
}
