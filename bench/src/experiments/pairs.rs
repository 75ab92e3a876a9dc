//! Compares two builds of pg_anker: a set's queries run on two servers with the same rows, in turns.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::found::{Found, middle};
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section};
use anker_report::{Report, median, rounded};
use postgres::Client;
use serde_json::json;

use crate::arguments::{Arguments, Parsed};
use crate::cluster::{Cluster, Stop};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::{self, Query, Route, Set};
use crate::{Output, Result, anker, os};

pub const USAGE: &str =
    "pairs [--base DIRECTORY] [--set anker|tpch|ch|ssb] [--quick] [--scale N] [--rounds N] [OUTPUT]";

const NAME: &str = "pairs";
const BASE: &str = "base";
const THIS: &str = "this build";

pub struct Options {
    /// The directory of the other build. Without it, the build is compared with itself.
    base: Option<PathBuf>,
    set: &'static Set,
    scale: f64,
    rounds: u32,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut base, mut output) = (false, None, Output::default());
        let (mut set, mut scale, mut rounds) = (Set::named("tpch"), None, None);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--base" => base = Some(arguments.value()?.into()),
                "--set" => set = Some(arguments.set()?),
                "--scale" => scale = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--dsn" => return Err("--dsn: pairs compares two builds; it needs its own servers".into()),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let set = set.ok_or("no set")?;
        let scale = scale.unwrap_or(if quick { set.quick_scale } else { set.scale });
        Ok(Options { base, set, scale, rounds: rounds.unwrap_or(if quick { 2 } else { 5 }), output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let Options { set, scale, rounds, .. } = *options;
    let base = match &options.base {
        Some(directory) => Arc::new(Server::install_other(directory)?),
        None => server.clone(),
    };
    let mut findings = Findings::new(NAME);
    let described = options.base.as_ref().map_or("this build".into(), |at| at.display().to_string());
    for (key, value) in [
        ("base", json!(described)),
        ("set", json!(set.name)),
        ("scale", json!(scale)),
        ("scale_is", json!(set.scale_is)),
        ("rounds", json!(rounds)),
    ] {
        findings.report.set_meta(key, value);
    }
    eprintln!("loading {}, {} {scale}", set.name, set.scale_is);
    // Both servers have copies of the same rows.
    let loaded = Cluster::start(server, &sets::cluster_options())?;
    set.create(&loaded.config(), scale)?;
    loaded.stop(Stop::Fast)?;
    let mut sides = [Side::start(BASE, &base, &loaded, set)?, Side::start(THIS, server, &loaded, set)?];
    for query in &set.queries(scale) {
        measure(&mut sides, query, rounds, &mut findings)?;
    }
    Ok(findings.report)
}

/// A build's server, with a session whose queries the engine answers.
struct Side {
    name: &'static str,
    client: Client,
    engine: u32,
    _cluster: Cluster,
}

impl Side {
    fn start(name: &'static str, server: &Arc<Server>, loaded: &Cluster, set: &Set) -> Result<Side> {
        let cluster = loaded.copy_for(server, &[])?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        anker::mirror(&mut client, set.tables, Duration::from_secs(600))?;
        client.batch_execute(Route::Prefer.setting())?;
        client.batch_execute("SET anker.fallback = off")?;
        let engine = anker::engine_pid(&mut client)?;
        Ok(Side { name, client, engine, _cluster: cluster })
    }

    /// Runs the query. Returns the elapsed time at the client and the engine's CPU time, in milliseconds.
    fn ask(&mut self, query: &Query) -> Result<[f64; 2]> {
        let spent = || os::precise_cpu_time(self.engine).ok_or("the engine is gone");
        let (before, start) = (spent()?, Instant::now());
        self.client.simple_query(&query.sql)?;
        let time = start.elapsed();
        Ok([time, spent()? - before].map(|duration| duration.as_secs_f64() * 1e3))
    }
}

fn measure(sides: &mut [Side; 2], query: &Query, rounds: u32, findings: &mut Findings) -> Result<()> {
    // The answers are compared in the run that fills the caches.
    let mut answers = Vec::new();
    for side in sides.iter_mut() {
        let mut rows = anker::text_rows(&mut side.client, &query.sql)?;
        rows.sort_unstable();
        answers.push(rows);
    }
    if answers[0] != answers[1] {
        return Err(format!("{}: the builds give different answers", query.name).into());
    }
    for round in 0..rounds {
        // Each round begins with another build.
        for at in 0..sides.len() {
            let side = &mut sides[(at + round as usize) % 2];
            let [time, cpu] = side.ask(query)?;
            let params = json!({ "round": round + 1, "build": side.name });
            findings.query("time", &query.name, &params, time, "ms");
            findings.query("cpu", &query.name, &params, cpu, "ms");
        }
    }
    Ok(())
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "{}, {} {}: each query on two servers in turns, {} rounds. The base: {}.",
        meta["set"].as_str().unwrap_or_default(),
        meta["scale_is"].as_str().unwrap_or_default(),
        meta["scale"],
        meta["rounds"],
        meta["base"].as_str().unwrap_or_default()
    );
    Page {
        title: "Two builds".into(),
        about: vec![report.machine(), about],
        sections: vec![section(&found)],
        ..Page::default()
    }
}

fn section(found: &Found) -> Section {
    let mut grid =
        Grid::new("Least times, and medians of the engine's CPU; ratios of the same round, with the middle half");
    ["time of the base, ms", "of this build, ms", "ratio", "ratios of the rounds", "CPU of the base, ms", "ratios"]
        .iter()
        .for_each(|heading| grid.column(heading));
    let (mut times, mut cpus) = (Vec::new(), Vec::new());
    let mut groups = Groups { scale: Scale::Log, groups: Vec::new() };
    for query in found.subjects() {
        let of = |figure: &str, build: &str| found.figure(figure).subject(&query).with("build", &json!(build));
        let [base, this] = [BASE, THIS].map(|build| least(&of("time", build).values()));
        let [rounds, cpu] = ["time", "cpu"].map(|figure| of(figure, THIS).ratios(&of(figure, BASE)));
        times.push(this / base);
        cpus.push(median(&cpu));
        grid.row(
            &query,
            vec![
                Some(rounded(base)),
                Some(rounded(this)),
                Some(format!("{:.3}", this / base)),
                Some(middle(&rounds)),
                Some(rounded(median(&of("cpu", BASE).values()))),
                Some(middle(&cpu)),
            ],
        );
        groups.groups.push((query, vec![(BASE.into(), base), (THIS.into(), this)]));
    }
    Section {
        id: NAME,
        title: "Each query".into(),
        claim: "A change of the code makes no query slower.".into(),
        here: format!(
            "This build takes {:.3} of the base's time and {:.3} of its engine's CPU (geometric means); the slowest query takes {:.3} of the time",
            geometric_mean(&times),
            geometric_mean(&cpus),
            times.iter().copied().fold(0.0, f64::max)
        ),
        notes: vec!["Disturbances only add time, so the least time of a query is compared.".into()],
        grids: vec![grid],
        plots: vec![Plot::groups("Time of a query", "ms", groups).named(NAME)],
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_times_are_compared_and_means_are_geometric() {
        let mut findings = Findings::new(NAME);
        for (query, times) in [("Q1", [[10.0, 20.0], [12.0, 40.0]]), ("Q2", [[8.0, 4.0], [9.0, 5.0]])] {
            for (round, pair) in times.iter().enumerate() {
                for (build, time) in [BASE, THIS].into_iter().zip(pair) {
                    let params = json!({ "round": round + 1, "build": build });
                    findings.query("time", query, &params, *time, "ms");
                    findings.query("cpu", query, &params, time * 2.0, "ms");
                }
            }
        }
        let here = &page(&findings.report).sections[0].here;
        assert!(here.contains("takes 1.000 of the base's time"), "{here}");
        assert!(here.contains("the slowest query takes 2.000"), "{here}");
    }
}
