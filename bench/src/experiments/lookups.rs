//! What a transaction of pgbench's `-S` pays for pg_anker: one row by its key, without the library, with it, and with
//! `anker.route = auto`, which has to find out that the heap is cheaper.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::{Client, Statement};
use serde_json::json;

use crate::cluster::{Cluster, Options};
use crate::report::{Report, percentile};
use crate::server::Server;
use crate::{Result, anker, os};

const ROWS: i32 = 100_000;
/// Of each kind in a round: long enough for a clock of processes that ticks a hundred times a second.
const SECONDS: f64 = 1.0;

pub fn lookups(server: &Arc<Server>, quick: bool) -> Result<Report> {
    let rounds = if quick { 10 } else { 40 };
    let mut report = Report::new("lookups", json!({"rows": ROWS, "rounds": rounds, "seconds": SECONDS}));
    let bare = Cluster::start(server, &Options::default().unset("shared_preload_libraries"))?;
    let with = Cluster::start(server, &Options::default())?;
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
    report.meta("postgresql", client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    drop(client);

    for protocol in [Protocol::Simple, Protocol::Prepared] {
        let mut sessions = [
            Session::begin("no library", &bare, None, protocol)?,
            Session::begin("hint", &with, Some("hint"), protocol)?,
            Session::begin("auto", &with, Some("auto"), protocol)?,
        ];
        for round in 0..rounds {
            // Whoever comes first does so in turns.
            for at in 0..sessions.len() {
                let turn = (at + round) % sessions.len();
                sessions[turn].ask()?;
            }
        }
        let name = protocol.name();
        let [bare, hint, auto] = &sessions[..] else { return Err("three sessions are compared".into()) };
        for (session, base) in [(hint, bare), (auto, hint)] {
            let config = format!("{}, {name}", session.name);
            compared(&mut report, "cpu", &config, &session.cpu, &base.cpu, base.name);
            compared(&mut report, "time", &config, &session.time, &base.time, base.name);
        }
        report.config("us_per_lookup", &format!("{}, {name}", bare.name), percentile(&bare.time, 0.5), "us");
    }
    Ok(report)
}

/// The median of what a round took of what it took in the other session, and where half of the rounds lie.
fn compared(report: &mut Report, what: &str, config: &str, these: &[f64], those: &[f64], base: &str) {
    let ratios: Vec<f64> = these.iter().zip(those).map(|(a, b)| a / b).collect();
    let unit = format!("of {base}");
    report.config(&format!("{what}_ratio"), config, percentile(&ratios, 0.5), &unit);
    report.config(&format!("{what}_ratio_p25"), config, percentile(&ratios, 0.25), &unit);
    report.config(&format!("{what}_ratio_p75"), config, percentile(&ratios, 0.75), &unit);
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
    /// `None`: each query is a text of its own.
    statement: Option<Statement>,
    /// The next row.
    aid: i32,
    /// Microseconds for a row, of each round: of the backend's processor, and of the client's clock.
    cpu: Vec<f64>,
    time: Vec<f64>,
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
        let (cpu, time) = (Vec::new(), Vec::new());
        let mut session = Session { name, client, pid: pid as u32, statement, aid: 0, cpu, time };
        // What is loaded and cached with the first ones.
        (0..1000).try_for_each(|_| session.look_up())?;
        Ok(session)
    }

    fn ask(&mut self) -> Result<()> {
        let before = os::cpu_time(self.pid).ok_or("the backend is gone")?;
        let (start, mut asked) = (Instant::now(), 0.0);
        while start.elapsed().as_secs_f64() < SECONDS {
            (0..100).try_for_each(|_| self.look_up())?;
            asked += 100.0;
        }
        let time = start.elapsed();
        let spent = os::cpu_time(self.pid).ok_or("the backend is gone")? - before;
        self.cpu.push(spent.as_secs_f64() * 1e6 / asked);
        self.time.push(time.as_secs_f64() * 1e6 / asked);
        Ok(())
    }

    fn look_up(&mut self) -> Result<()> {
        // Far from the last one.
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
