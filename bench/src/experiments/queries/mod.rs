//! Runs a set of queries on the heap with its indexes, on the mirror, and on the peers that are installed. These take
//! turns, so that other load on the machine affects all of them.

mod bandwidth;
mod measured;
mod page;
mod scaling;

use std::sync::Arc;
use std::time::Duration;

use anker_report::Report;
use anker_report::found::Found;
use serde_json::json;

pub use page::page;

use super::memory;
use crate::arguments::{Arguments, Parsed};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::peers::{self, PEERS, Peer};
use crate::sets::{self, Set};
use crate::stage::Place;
use crate::{Output, Result, anker};

use measured::{LIMIT, NONE, Sides};

pub const USAGE: &str = "queries [--set anker|tpch|ch|ssb] [--quick] [--scale N] [--runs N] [--threads N,N...] [--dsn DSN] \
                         [OUTPUT]";

const NAME: &str = "queries";
const QUICK_COLUMN: u64 = 8 << 20;

pub struct Options {
    set: &'static Set,
    scale: f64,
    runs: u32,
    /// The size of a column in bytes. Summing the column is compared with only reading memory. `None` if this is not
    /// measured.
    column_bytes: Option<u64>,
    /// Numbers of threads of the engine; each query is timed with each of them.
    threads: Vec<u32>,
    /// The connection string of a given server, instead of a private one.
    dsn: Option<String>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut dsn, mut output) = (false, None, Output::default());
        let (mut set, mut scale, mut runs, mut threads) = (Set::named("anker"), None, None, Vec::new());
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--set" => set = Some(arguments.set()?),
                "--scale" => scale = Some(arguments.number()?),
                "--runs" => runs = Some(arguments.number()?),
                "--threads" => threads = arguments.numbers()?,
                "--dsn" => dsn = Some(arguments.value()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let set = set.ok_or("no set")?;
        let scale = scale.unwrap_or(if quick { set.quick_scale } else { set.scale });
        let runs = runs.unwrap_or(if quick { 2 } else { 5 });
        if dsn.is_some() && !threads.is_empty() {
            return Err("--threads changes settings, which a server that is given keeps as they are".into());
        }
        let column_bytes = (set.name == "anker").then(|| if quick { QUICK_COLUMN } else { bandwidth::column_bytes() });
        Ok(Options { set, scale, runs, column_bytes, threads, dsn, output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let Options { set, scale, runs, .. } = *options;
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("set", json!(set.name)),
        ("scale", json!(scale)),
        ("scale_is", json!(set.scale_is)),
        ("runs", json!(runs)),
        ("peer_threads", json!(peers::THREADS)),
    ] {
        findings.report.set_meta(key, value);
    }
    let place = Place::new(server, options.dsn.as_deref());
    let database = place.database(&sets::cluster_options())?;
    eprintln!("loading {}, {} {scale}", set.name, set.scale_is);
    set.create(&database.config(), scale)?;
    let mut client = database.connect()?;
    findings.report.set_meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, set.tables, Duration::from_secs(600))?;
    memory::rows(&mut client, set.name, "", &NONE, &mut findings)?;
    client.batch_execute(&format!("SET statement_timeout = '{} s'", LIMIT.as_secs()))?;

    let (there, missing): (Vec<&Peer>, Vec<&Peer>) = PEERS.iter().partition(|peer| peer.is_there());
    let told = |peer: &&Peer| format!("{}: python3 has no module {} (pip install {1})", peer.name, peer.module);
    findings.report.set_meta("not_measured", missing.iter().map(told).collect::<Vec<_>>());
    let mut peers = peers::start(&there, &mut client, set.tables, &server.home().join("peers"))?;
    for running in &peers {
        findings.report.set_meta(running.peer.figure, running.version.as_str());
    }
    let mut sides = Sides::connect(&database.config())?;
    for query in &set.queries(scale) {
        measured::query(&mut client, &mut sides, &mut peers, query, runs, &mut findings)?;
        findings.keep()?;
    }
    let found = Found::new(&findings.report, NAME).figure("same_answer");
    let differ = |name: &String| found.subject(name).row().is_some_and(|row| row.value == json!(false));
    let differing: Vec<String> = found.subjects().into_iter().filter(differ).collect();
    if !differing.is_empty() {
        return Err(format!("heap and mirror differ: {}", differing.join(", ")).into());
    }
    means(set.name, &there, &mut findings);
    drop((sides, peers));
    if let Some(bytes) = options.column_bytes {
        bandwidth::measure(&mut client, bytes, runs, &mut findings)?;
    }
    scaling::measure(&database.config(), options, &mut findings)?;
    drop(client);
    database.discard()?;
    Ok(findings.report)
}

/// Means over all queries for which both sides have a time.
fn means(set: &str, peers: &[&Peer], findings: &mut Findings) {
    let found = Found::new(&findings.report, NAME);
    let mean = |these: &str, those: &str| {
        let of = |figure: &str, query: &str| found.figure(figure).subject(query).value();
        let queries = found.figure("time_ms").subjects();
        let logarithms: Vec<f64> =
            queries.iter().filter_map(|query| Some((of(these, query)? / of(those, query)?).ln())).collect();
        (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
    };
    let times: Vec<_> =
        peers.iter().map(|peer| (*peer, mean("time_ms", &format!("{}_time_ms", peer.figure)))).collect();
    let geomean = mean("heap_ms", "time_ms");
    for (peer, times) in times {
        let unit = format!("{}'s time", peer.name);
        times.into_iter().for_each(|times| findings.row(&format!("{}_times", peer.figure), set, &NONE, times, &unit));
    }
    geomean.into_iter().for_each(|times| findings.row("geomean", set, &NONE, times, "times"));
}
