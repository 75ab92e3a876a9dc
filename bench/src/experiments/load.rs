//! Measures how fast a table is loaded into the mirror: TPC-H's lineitem, from the call of `anker.mirror` until queries
//! can use the mirror.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::found::Found;
use anker_report::page::{Grid, Page, Plot, Scale, Section, Series};
use anker_report::{Report, median, rounded};
use serde_json::json;

use super::memory;
use crate::arguments::{Arguments, Parsed};
use crate::cluster::Cluster;
use crate::report::Findings;
use crate::server::Server;
use crate::sets::{self, Set};
use crate::{Output, Result, anker, os};

pub const USAGE: &str = "load [--quick] [--scale N] [--rounds N] [OUTPUT]";

const NAME: &str = "load";
const TABLE: &str = "lineitem";
const LIMIT: Duration = Duration::from_secs(600);

pub struct Options {
    scale: f64,
    rounds: u32,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut scale, mut rounds, mut output) = (false, None, None, Output::default());
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--scale" => scale = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--dsn" => return Err("--dsn: load looks at the processes of a server of its own".into()),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let scale = scale.unwrap_or(if quick { 0.05 } else { 1.0 });
        Ok(Options { scale, rounds: rounds.unwrap_or(if quick { 2 } else { 5 }), output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let set = Set::named("tpch").ok_or("no set")?;
    let mut findings = Findings::new(NAME);
    for (key, value) in [("scale", json!(options.scale)), ("rounds", json!(options.rounds))] {
        findings.report.set_meta(key, value);
    }
    let cluster = Cluster::start(server, &sets::cluster_options())?;
    eprintln!("loading {}, {} {}", set.name, set.scale_is, options.scale);
    set.create(&cluster.config(), options.scale)?;
    let mut client = cluster.connect()?;
    findings.report.set_meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    anker::create_extension(&mut client)?;
    // This makes the worker and the engine start.
    anker::mirror(&mut client, &["region"], LIMIT)?;
    let engine = anker::engine_pid(&mut client)?;
    let everybody = cluster.postmaster_pid()?;
    let rows: i64 = client.query_one(&format!("SELECT count(*) FROM {TABLE}"), &[])?.get(0);
    let cpu = || -> Result<[Duration; 2]> {
        let of_engine = os::cpu_time(engine).ok_or("the engine is gone")?;
        Ok([of_engine, os::cpu_time_of_tree(everybody).saturating_sub(of_engine)])
    };
    for round in 0..options.rounds {
        let params = json!({ "round": round + 1 });
        let (start, before) = (Instant::now(), cpu()?);
        anker::mirror(&mut client, &[TABLE], LIMIT)?;
        let (took, after) = (start.elapsed().as_secs_f64(), cpu()?);
        let us_a_row = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() * 1e6 / rows as f64;
        findings.row("rows_per_s", TABLE, &params, rows as f64 / took, "1/s");
        findings.row("engine_cpu", TABLE, &params, us_a_row(0), "us a row");
        findings.row("others_cpu", TABLE, &params, us_a_row(1), "us a row, loader and all others");
        memory::rows(&mut client, TABLE, "", &params, &mut findings)?;
        if let Some(first) = anker::verify(&mut client, TABLE)?.first() {
            return Err(format!("{TABLE}: heap and mirror differ: {first}").into());
        }
        client.execute("SELECT anker.unmirror($1::text::regclass)", &[&TABLE])?;
    }
    Ok(findings.report)
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "TPC-H's {TABLE} at scale {}, loaded {} times, from anker.mirror until it serves queries. PostgreSQL {}.",
        meta["scale"],
        meta["rounds"],
        meta["postgresql"].as_str().unwrap_or_default()
    );
    let mut grid = Grid::new("Medians of the rounds");
    let figures = [
        ("rows_per_s", "rows a second"),
        ("engine_cpu", "engine's CPU, µs a row"),
        ("others_cpu", "loader's and the others' CPU, µs a row"),
        ("memory_share", "memory, of the heap without indexes"),
        ("resident_share", "the engine's process, of the heap"),
    ];
    figures.iter().for_each(|(_, heading)| grid.column(heading));
    for table in found.subjects() {
        let of = |figure: &str| {
            let values = found.figure(figure).subject(&table).values();
            (!values.is_empty()).then(|| rounded(median(&values)))
        };
        grid.row(&table, figures.iter().map(|(figure, _)| of(figure)).collect());
    }
    let rates = found.figure("rows_per_s").values();
    let here = if rates.is_empty() { String::new() } else { format!("{} rows a second", rounded(median(&rates))) };
    let mut plot = Plot::lines("Rows a second", "round", Scale::Linear, Scale::Linear).named("load");
    plot.add(Series::dots(TABLE, found.figure("rows_per_s").points("round")));
    Page {
        title: "How fast a table comes into the mirror".into(),
        about: vec![report.machine(), about],
        sections: vec![Section {
            id: "load",
            title: "Loading".into(),
            claim: "Loader and engine each have a processor, if there are two.".into(),
            here,
            notes: Vec::new(),
            grids: vec![grid],
            plots: vec![plot],
        }],
        ..Page::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_how_many_rows_a_second() {
        let mut findings = Findings::new(NAME);
        for (round, rate) in [(1, 100.0), (2, 300.0), (3, 200.0)] {
            findings.row("rows_per_s", TABLE, &json!({ "round": round }), rate, "1/s");
        }
        let page = page(&findings.report);
        assert_eq!(page.sections[0].here, "200 rows a second");
    }
}
