//! The cost of pg_anker for the query of `pgbench -S`, which finds one row by its key. It is measured without the
//! library, with it, and with `anker.route = auto`, for which pg_anker has to find out that the heap costs less.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::found::{Found, middle};
use anker_report::page::{Grid, Page, Plot, Scale, Section, Series};
use anker_report::{Report, median, rounded};
use postgres::{Client, Statement};
use serde_json::json;

use crate::arguments::{Arguments, Parsed};
use crate::cluster::{Cluster, Options as Settings};
use crate::report::Findings;
use crate::server::Server;
use crate::{Output, Result, anker, os};

pub const USAGE: &str = "lookups [--quick] [--rounds N] [OUTPUT]";

const NAME: &str = "lookups";
const ROWS: i32 = 100_000;
const BARE: &str = "no library";
const HINT: &str = "hint";
const AUTO: &str = "auto";

pub struct Options {
    rounds: u32,
    /// The duration of each configuration in a round. It is long enough for kernels that count CPU time only in
    /// hundredths of a second.
    seconds: f64,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut rounds, mut output) = (false, None, Output::default());
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--rounds" => rounds = Some(arguments.number()?),
                "--dsn" => {
                    return Err("--dsn: lookups compares servers with pg_anker and without; it needs its own".into());
                }
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let rounds = rounds.unwrap_or(if quick { 5 } else { 40 });
        Ok(Options { rounds, seconds: if quick { 0.3 } else { 1.0 }, output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let mut findings = Findings::new(NAME);
    for (key, value) in [("rows", json!(ROWS)), ("rounds", json!(options.rounds)), ("seconds", json!(options.seconds))]
    {
        findings.report.set_meta(key, value);
    }
    let bare = Cluster::start(server, &Settings::default().unset("shared_preload_libraries"))?;
    let with = Cluster::start(server, &Settings::default())?;
    for cluster in [&bare, &with] {
        let mut client = cluster.connect()?;
        client.batch_execute(&format!(
            "CREATE TABLE pgbench_accounts (aid integer PRIMARY KEY, bid integer, abalance integer, filler char(84));
             INSERT INTO pgbench_accounts SELECT i, 1, 0, '' FROM generate_series(1, {ROWS}) i"
        ))?;
        client.batch_execute("VACUUM ANALYZE pgbench_accounts")?;
    }
    let mut client = with.connect()?;
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, &["pgbench_accounts"], Duration::from_secs(120))?;
    findings.report.set_meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    drop(client);

    for protocol in [Protocol::Simple, Protocol::Prepared] {
        eprintln!("{} statements, {} rounds", protocol.name(), options.rounds);
        let mut sessions = [
            Session::begin(BARE, &bare, None, protocol)?,
            Session::begin(HINT, &with, Some(HINT), protocol)?,
            Session::begin(AUTO, &with, Some(AUTO), protocol)?,
        ];
        for round in 0..options.rounds as usize {
            let params = json!({ "round": round + 1, "protocol": protocol.name() });
            // Each round begins with another session.
            for at in 0..sessions.len() {
                let turn = (at + round) % sessions.len();
                let session = &mut sessions[turn];
                let (cpu, time) = session.ask(options.seconds)?;
                findings.row("cpu", session.name, &params, cpu, "us");
                findings.row("time", session.name, &params, time, "us");
            }
        }
    }
    Ok(findings.report)
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "pgbench's -S: one row of {} by its key, one after the other; {} rounds of {} s each, in which sessions take turns.          PostgreSQL {}.",
        meta["rows"],
        meta["rounds"],
        meta["seconds"],
        meta["postgresql"].as_str().unwrap_or_default()
    );
    let protocols = found.params("protocol").into_iter();
    let sections = protocols.filter_map(|name| Some(section(&found.with("protocol", &name), name.as_str()?)));
    Page {
        title: "What a row by its key pays for pg_anker".into(),
        about: vec![report.machine(), about],
        sections: sections.collect(),
        ..Page::default()
    }
}

/// Pairs of configurations to compare. A pair shows the cost of the first configuration relative to the second.
const BASES: [(&str, &str); 2] = [(HINT, BARE), (AUTO, HINT)];

fn section(found: &Found, protocol: &str) -> Section {
    let mut grid = Grid::new("Medians of the rounds; ratios of the same round, with the middle half of them");
    ["CPU of the backend, µs", "time, µs", "compared with", "CPU", "time"].iter().for_each(|h| grid.column(h));
    let mut here = Vec::new();
    for name in found.subjects() {
        let typical = |figure: &str| Some(rounded(median(&found.figure(figure).subject(&name).values())));
        let base = BASES.iter().find(|(of, _)| *of == name).map(|(_, base)| *base);
        let ratio = |figure: &str| {
            let of = found.figure(figure);
            Some(middle(&of.subject(&name).ratios(&of.subject(base?))))
        };
        grid.row(&name, vec![typical("cpu"), typical("time"), base.map(str::to_owned), ratio("cpu"), ratio("time")]);
        if let (Some(base), Some(cpu)) = (base, ratio("cpu")) {
            here.push(format!("{protocol}, {name}: {cpu} of the backend's CPU of {base}"));
        }
    }
    let mut plot = Plot::lines(&format!("CPU of a row, {protocol}, µs"), "round", Scale::Linear, Scale::Linear);
    for name in found.subjects() {
        plot.add(Series::new(&name, found.figure("cpu").subject(&name).points("round")));
    }
    Section {
        id: if protocol == "simple" { "simple" } else { "prepared" },
        title: format!("Statements: {protocol}"),
        claim: "Who asks for a row by its key pays next to nothing for a library that could answer other queries.".into(),
        here: here.join("; "),
        notes: vec![
            "no library: a server without pg_anker. hint: queries have to ask for the engine. auto: each query is looked at, and this one is seen to be the heap's before it is planned."
                .into(),
        ],
        grids: vec![grid],
        plots: vec![plot.named(&format!("{NAME}-{protocol}"))],
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Simple,
    Prepared,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Prepared => "prepared",
        }
    }
}

struct Session {
    name: &'static str,
    client: Client,
    pid: u32,
    /// The prepared statement; `None` if each query is sent as text.
    statement: Option<Statement>,
    /// The next row.
    aid: i32,
}

impl Session {
    fn begin(name: &'static str, cluster: &Cluster, route: Option<&str>, protocol: Protocol) -> Result<Session> {
        let mut client = cluster.connect()?;
        if let Some(route) = route {
            client.batch_execute(&format!("SET anker.route = {route}"))?;
        }
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let statement = match protocol {
            Protocol::Simple => None,
            Protocol::Prepared => Some(client.prepare("SELECT abalance FROM pgbench_accounts WHERE aid = $1")?),
        };
        let mut session = Session { name, client, pid: pid as u32, statement, aid: 0 };
        // The first queries load libraries and fill caches.
        (0..1000).try_for_each(|_| session.look_up())?;
        Ok(session)
    }

    /// The microseconds for a query: CPU time of the backend, and elapsed time at the client.
    fn ask(&mut self, seconds: f64) -> Result<(f64, f64)> {
        let before = os::cpu_time_of_thread(self.pid).ok_or("the backend is gone")?;
        let (start, mut asked) = (Instant::now(), 0.0);
        while start.elapsed().as_secs_f64() < seconds {
            (0..100).try_for_each(|_| self.look_up())?;
            asked += 100.0;
        }
        let time = start.elapsed();
        let spent = os::cpu_time_of_thread(self.pid).ok_or("the backend is gone")? - before;
        Ok((spent.as_secs_f64() * 1e6 / asked, time.as_secs_f64() * 1e6 / asked))
    }

    fn look_up(&mut self) -> Result<()> {
        // The next key is far from the last one, so that the row is on another page.
        self.aid = (self.aid + 7919) % ROWS;
        let aid = self.aid + 1;
        match &self.statement {
            Some(statement) => _ = self.client.query_one(statement, &[&aid])?,
            None => {
                _ = self.client.simple_query(&format!("SELECT abalance FROM pgbench_accounts WHERE aid = {aid}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_compared_with_what_it_adds_to() {
        let mut findings = Findings::new(NAME);
        for (round, cpu) in [(1, [10.0, 11.0, 11.0]), (2, [20.0, 22.0, 44.0])] {
            for (name, cpu) in [BARE, HINT, AUTO].into_iter().zip(cpu) {
                findings.row("cpu", name, &json!({ "round": round, "protocol": "simple" }), cpu, "us");
                findings.row("time", name, &json!({ "round": round, "protocol": "simple" }), cpu, "us");
            }
        }
        let page = page(&findings.report);
        let here = &page.sections[0].here;
        assert!(here.contains("simple, hint: 1.100 (1.100 to 1.100) of the backend's CPU of no library"), "{here}");
        assert!(here.contains("auto: 1.500 (1.000 to 2.000) of the backend's CPU of hint"), "{here}");
    }
}
