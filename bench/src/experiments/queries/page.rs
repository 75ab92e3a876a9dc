//! The page of the report: times of queries.

use anker_report::found::Found;
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section};
use anker_report::{Report, Row, rounded};
use serde_json::json;

use super::NAME;

/// The names of figures with times, and the side that each belongs to.
const SIDES: [(&str, &str); 4] =
    [("heap_ms", "heap"), ("time_ms", "mirror"), ("duckdb_time_ms", "DuckDB"), ("hyper_time_ms", "Hyper")];

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let text = |key: &str| meta[key].as_str().unwrap_or_default();
    let versions = |(key, name)| meta[key].as_str().map(|version| format!("{name} {version}"));
    let peers: Vec<_> = [("duckdb", "DuckDB"), ("hyper", "Hyper")].into_iter().filter_map(versions).collect();
    let beside = if peers.is_empty() {
        String::new()
    } else {
        format!(" Beside: {}, in memory, {} threads.", peers.join(", "), meta["peer_threads"])
    };
    let about = format!(
        "{}, {} {}; {} runs of each query on each side, in turns, of which the least counts. PostgreSQL {}.{beside}",
        text("set"),
        text("scale_is"),
        meta["scale"],
        meta["runs"],
        text("postgresql")
    );
    let missing = meta["not_measured"].as_array().into_iter().flatten();
    Page {
        title: format!("Queries alone: {}, {} {}", text("set"), text("scale_is"), meta["scale"]),
        about: vec![report.machine(), about],
        sections: vec![times(&found, text("set")), planning(&found)],
        left_out: missing.filter_map(|missing| Some(missing.as_str()?.to_owned())).collect(),
        ..Page::default()
    }
}

fn row<'a>(found: &Found<'a>, figure: &str, query: &str) -> Option<&'a Row> {
    found.figure(figure).subject(query).row()
}

fn shown(value: f64) -> String {
    if value < 1.0 { rounded(value) } else { format!("{value:.1}") }
}

/// The section of times. Only sides that were measured have a column.
fn times(found: &Found, set: &str) -> Section {
    let sides: Vec<_> = SIDES.into_iter().filter(|(figure, _)| found.figure(figure).row().is_some()).collect();
    let mut grid = Grid::new("Milliseconds to the last row at the client");
    sides.iter().for_each(|(_, name)| grid.column(name));
    ["times the heap", "rows", "by the engine", "same answer", "remarks"].iter().for_each(|h| grid.column(h));
    let mut groups = Vec::new();
    let queries = found.figure("time_ms").subjects();
    for query in &queries {
        let value = |figure: &str| found.figure(figure).subject(query).value();
        let time = |(figure, _): &(&str, &str)| {
            let row = row(found, figure, query)?;
            let stopped = if row.unit.contains("stopped") { ">" } else { "" };
            Some(format!("{stopped}{}", shown(row.number()?)))
        };
        let mut cells: Vec<_> = sides.iter().map(time).collect();
        let yes = |value: Option<bool>| value.map(|yes| if yes { "yes" } else { "NO" }.to_owned());
        cells.extend([
            value("speedup_vs_heap").map(rounded),
            value("rows").map(|rows| rows.to_string()),
            yes(value("engine").map(|by| by == 1.0)),
            yes(row(found, "same_answer", query).and_then(|row| row.value.as_bool())),
            row(found, "remarks", query).and_then(|row| Some(row.value.as_str()?.to_owned())),
        ]);
        grid.row(query, cells);
        let bars = sides.iter().filter_map(|(figure, name)| Some(((*name).to_owned(), value(figure)?))).collect();
        let times = value("speedup_vs_heap").map_or(String::new(), |times| format!("  × {}", rounded(times)));
        groups.push((format!("{query}{times}"), bars));
    }
    let title = format!("{set}: time to the last row at the client");
    let plot = Plot::groups(&title, "ms; × how many times as fast as the heap", Groups { scale: Scale::Log, groups });
    Section {
        id: "times",
        title: "Each query".into(),
        claim: "A query in the engine reads columns from memory, in parallel and in coded chunks; the heap has its indexes, and \
                the better of plans with and without parallel workers."
            .into(),
        here: here(found, queries.len()),
        notes: vec![format!(
            "By the engine: nothing but sorting, limiting and projecting above its scan. Same answer: rows of both routes under \
             one snapshot. A query that the heap does not answer in {} s is stopped (>).",
            super::LIMIT.as_secs()
        )],
        grids: vec![grid],
        plots: vec![plot.named(if set == "anker" { NAME } else { set })],
    }
}

fn here(found: &Found, queries: usize) -> String {
    let by_engine = found.figure("engine").values().iter().filter(|by| **by == 1.0).count();
    let differing = found.figure("same_answer").with_value(&json!(false));
    let share = |figure: &str| found.figure(figure).value();
    let mut said = vec![format!("{by_engine} of {queries} queries in the engine")];
    if differing > 0 {
        said.push(format!("{differing} DIFFERENT ANSWERS"));
    }
    for (figure, words) in [
        ("geomean", "times as fast as the heap (geometric mean)"),
        ("duckdb_times", "of DuckDB's time"),
        ("hyper_times", "of Hyper's time"),
        ("memory_share", "of the heap's size in memory"),
        ("resident_share", "of it the engine's whole process"),
        ("bandwidth_share", "of plain reading's speed in a sum of a column beyond the caches"),
    ] {
        said.extend(share(figure).map(|value| format!("{} {words}", rounded(value))));
    }
    said.join("; ")
}

fn planning(found: &Found) -> Section {
    let grid = found.figure("time_ms").subjects().into_iter().fold(headed(), |mut grid, query| {
        let value = |figure: &str| found.figure(figure).subject(&query).value();
        let auto = row(found, "auto", &query).and_then(|row| Some(row.value.as_str()?.to_owned()));
        let cells = [
            value("planning_ms").map(rounded),
            value("heap_planning_ms").map(rounded),
            value("engine_time_ms").map(rounded),
            value("scaling").map(rounded),
            auto,
            value("auto_regret").map(rounded),
        ];
        grid.row(&query, cells.into());
        grid
    });
    let chosen = found.figure("auto_regret").values();
    let right = chosen.iter().filter(|regret| **regret == 1.0).count();
    Section {
        id: "planning",
        title: "Planning, and the choice of a side".into(),
        claim: "With anker.route = auto a query goes where it is expected to cost less.".into(),
        here: format!("anker.route = auto takes the faster side for {right} of {} queries", chosen.len()),
        notes: vec!["Regret: the time of the side that is taken, by that of the faster one.".into()],
        grids: vec![grid],
        plots: Vec::new(),
    }
}

fn headed() -> Grid {
    let mut grid = Grid::new("Milliseconds");
    ["planning", "planning for the heap", "engine's own time", "times as fast by threads", "auto takes", "regret"]
        .iter()
        .for_each(|heading| grid.column(heading));
    grid
}

#[cfg(test)]
mod tests {
    use super::super::measured::NONE;
    use super::*;
    use crate::report::Findings;

    #[test]
    fn only_who_was_measured_has_a_column() {
        let mut findings = Findings::new(NAME);
        for (figure, value) in [
            ("heap_ms", json!(100.0)),
            ("time_ms", json!(10.0)),
            ("hyper_time_ms", json!(5.0)),
            ("speedup_vs_heap", json!(10.0)),
            ("engine", json!(1)),
            ("same_answer", json!(false)),
        ] {
            findings.query(figure, "Q1", &NONE, value, "ms");
        }
        findings.row("geomean", "some", &NONE, 10.0, "times");
        let page = page(&findings.report);
        let text = page.text();
        assert!(text.contains("Hyper") && !text.contains("DuckDB") && text.contains("NO"), "{text}");
        let here = &page.sections[0].here;
        assert!(here.starts_with("1 of 1 queries in the engine; 1 DIFFERENT ANSWERS; 10 times as fast"), "{here}");
        assert_eq!(page.sections[0].plots[0].svg().matches("<rect").count(), 3);
    }
}
