//! Measures planning times: of queries that do not ask for the engine, with the library and without it, and of queries
//! that ask for the engine.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use anker_report::found::{Found, middle};
use anker_report::page::{Grid, Groups, Page, Plot, Scale, Section};
use anker_report::{Report, median, percentile, rounded};
use postgres::error::DbError;
use postgres::{Client, NoTls};
use serde_json::json;

use crate::arguments::{Arguments, Parsed};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::{self, Query, Route, Set};
use crate::stage::{Database, Place, Stage};
use crate::{Output, Result, os};

pub const USAGE: &str = "planning [--set anker|tpch|ch|ssb] [--quick] [--scale N] [--rounds N] [OUTPUT]";

const NAME: &str = "planning";
const BARE: &str = "no library";
const HINT: &str = "hint";

pub struct Options {
    set: &'static Set,
    scale: f64,
    rounds: u32,
    /// The number of times that each query is planned in a turn.
    times: u32,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut output) = (false, Output::default());
        let (mut set, mut scale, mut rounds) = (Set::named("tpch"), None, None);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--set" => set = Some(arguments.set()?),
                "--scale" => scale = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--dsn" => {
                    return Err("--dsn: planning compares servers with pg_anker and without; it needs its own".into());
                }
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let set = set.ok_or("no set")?;
        let scale = scale.unwrap_or(set.quick_scale);
        let rounds = rounds.unwrap_or(if quick { 3 } else { 25 });
        Ok(Options { set, scale, rounds, times: if quick { 5 } else { 40 }, output })
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let Options { set, scale, rounds, times, .. } = *options;
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("set", json!(set.name)),
        ("scale", json!(scale)),
        ("scale_is", json!(set.scale_is)),
        ("rounds", json!(rounds)),
        ("times", json!(times)),
    ] {
        findings.report.set_meta(key, value);
    }
    eprintln!("loading {}, {} {scale}", set.name, set.scale_is);
    // Both servers have the same statistics, so the plans are the same.
    let stage = Stage::load(Place::new(server, None), sets::cluster_options(), |config| set.create(config, scale))?;
    let (bare, with) = (stage.bare()?, stage.mirrored(set.tables)?);
    let mut queries = set.queries(scale);
    queries.push(Query { name: "count".into(), sql: format!("SELECT count(*) FROM {}", set.tables[0]) });

    let mut sessions = [Session::begin(BARE, &bare)?, Session::begin(HINT, &with)?];
    let mut asking = Asking::begin(&with)?;
    findings.report.set_meta("postgresql", asking.client.query_one("SHOW server_version", &[])?.get::<_, String>(0));
    for query in &queries {
        // The first plans load libraries and fill caches.
        sessions.iter_mut().try_for_each(|session| session.plan(query, times).map(|_| ()))?;
        asking.planning_time(query)?;
    }
    for round in 0..rounds as usize {
        eprintln!("round {} of {rounds}", round + 1);
        for query in &queries {
            // Each round begins with another session.
            for at in 0..sessions.len() {
                let session = &mut sessions[(at + round) % 2];
                let (cpu, time) = session.plan(query, times)?;
                let params = json!({ "round": round + 1, "server": session.name });
                findings.query("cpu", &query.name, &params, cpu, "us");
                findings.query("time", &query.name, &params, time, "us");
            }
            let params = json!({ "round": round + 1 });
            findings.query("flagged", &query.name, &params, asking.planning_time(query)?, "ms");
        }
    }
    Ok(findings.report)
}

struct Session {
    name: &'static str,
    client: Client,
    pid: u32,
}

impl Session {
    fn begin(name: &'static str, database: &Database) -> Result<Session> {
        let mut client = database.connect()?;
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        Ok(Session { name, client, pid: pid as u32 })
    }

    /// The microseconds for planning a query by EXPLAIN: CPU time of the backend, and elapsed time at the client.
    fn plan(&mut self, query: &Query, times: u32) -> Result<(f64, f64)> {
        let explain = format!("EXPLAIN (COSTS off) {}", query.sql);
        let before = os::cpu_time_of_thread(self.pid).ok_or("the backend is gone")?;
        let start = Instant::now();
        for _ in 0..times {
            self.client.simple_query(&explain)?;
        }
        let time = start.elapsed();
        let spent = os::cpu_time_of_thread(self.pid).ok_or("the backend is gone")? - before;
        Ok((spent.as_secs_f64() * 1e6 / f64::from(times), time.as_secs_f64() * 1e6 / f64::from(times)))
    }
}

/// A session whose queries the engine answers.
struct Asking {
    client: Client,
    /// The planning time that the server has reported since this was last read, in milliseconds.
    told: Arc<Mutex<f64>>,
}

impl Asking {
    fn begin(database: &Database) -> Result<Asking> {
        let told = Arc::new(Mutex::new(0.0));
        let heard = told.clone();
        let mut config = database.config();
        config.notice_callback(move |notice| *heard.lock().expect("no thread panics") += elapsed(&notice));
        let mut client = config.connect(NoTls)?;
        client.batch_execute(Route::Prefer.setting())?;
        client.batch_execute("SET client_min_messages = log; SET log_planner_stats = on")?;
        Ok(Asking { client, told })
    }

    /// Runs the query. Returns the time that PostgreSQL reports for planning it (`log_planner_stats`), in milliseconds.
    fn planning_time(&mut self, query: &Query) -> Result<f64> {
        self.client.simple_query(&query.sql)?;
        let told = std::mem::take(&mut *self.told.lock().expect("no thread panics"));
        if told > 0.0 { Ok(told) } else { Err(format!("{}: no planning time", query.name).into()) }
    }
}

/// The milliseconds of a message, if it reports the duration of planning.
fn elapsed(notice: &DbError) -> f64 {
    let seconds = |detail: &str| detail.split(" s elapsed").next()?.rsplit(' ').next()?.parse::<f64>().ok();
    let of_planner = notice.message() == "PLANNER STATISTICS";
    notice.detail().filter(|_| of_planner).and_then(seconds).map_or(0.0, |seconds| seconds * 1e3)
}

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "{}, {} {}: each query planned {} times in a turn, {} rounds of turns. PostgreSQL {}.",
        meta["set"].as_str().unwrap_or_default(),
        meta["scale_is"].as_str().unwrap_or_default(),
        meta["scale"],
        meta["times"],
        meta["rounds"],
        meta["postgresql"].as_str().unwrap_or_default()
    );
    Page {
        title: "What planning takes".into(),
        about: vec![report.machine(), about],
        sections: vec![section(&found)],
        ..Page::default()
    }
}

fn section(found: &Found) -> Section {
    let mut grid = Grid::new("Medians of the rounds; ratios of the same round, with the middle half of them");
    ["CPU without the library, µs", "CPU with it, of that", "time, of that", "planning for the engine, ms"]
        .iter()
        .for_each(|heading| grid.column(heading));
    let (mut cpu, mut longest) = (Vec::new(), 0.0f64);
    for query in found.subjects() {
        let of = |figure: &str| found.figure(figure).subject(&query);
        let without = median(&of("cpu").with("server", &json!(BARE)).values());
        let [of_cpu, of_time] = ["cpu", "time"].map(|figure| {
            let on = |server: &str| of(figure).with("server", &json!(server));
            on(HINT).ratios(&on(BARE))
        });
        let flagged = median(&of("flagged").values());
        longest = longest.max(flagged);
        cpu.push(median(&of_cpu));
        grid.row(
            &query,
            vec![Some(rounded(without)), Some(middle(&of_cpu)), Some(middle(&of_time)), Some(rounded(flagged))],
        );
    }
    let bars = |query: String| {
        let of = |server: &str| found.figure("cpu").subject(&query).with("server", &json!(server)).values();
        let bars = [BARE, HINT].into_iter().map(|server| (server.to_owned(), median(&of(server)))).collect();
        (query, bars)
    };
    let groups = Groups { scale: Scale::Log, groups: found.subjects().into_iter().map(bars).collect() };
    Section {
        id: NAME,
        title: "Each query".into(),
        claim: "Who does not ask for the engine plans as before; who does waits for the translation.".into(),
        here: format!(
            "With the library planning takes {:.3} of the CPU (median of the queries, at most {:.3}), for the engine at most {} ms",
            median(&cpu),
            percentile(&cpu, 1.0),
            rounded(longest)
        ),
        notes: vec![
            "Without the library and with it, where nothing asks for the engine: EXPLAIN, its text included. For the engine: what \
             PostgreSQL counts as planning (log_planner_stats) when the query is answered, for which nothing is planned for the heap; \
             the order of joins is the engine's business, and part of its own time."
                .into(),
        ],
        grids: vec![grid],
        plots: vec![Plot::groups("CPU of a plan", "µs", groups).named(NAME)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_with_themselves() {
        let mut findings = Findings::new(NAME);
        for (round, [without, with]) in [(1, [100.0, 110.0]), (2, [200.0, 220.0]), (3, [100.0, 130.0])] {
            for (server, cpu) in [(BARE, without), (HINT, with)] {
                let params = json!({ "round": round, "server": server });
                findings.query("cpu", "Q1", &params, cpu, "us");
                findings.query("time", "Q1", &params, cpu, "us");
            }
            findings.query("flagged", "Q1", &json!({ "round": round }), 0.5, "ms");
        }
        let here = &page(&findings.report).sections[0].here;
        assert!(
            here.contains(
                "takes 1.100 of the CPU (median of the queries, at most 1.100), for the engine at most 0.50 ms"
            ),
            "{here}"
        );
    }
}
