//! One run of HammerDB: its throughput, the CPU time of all processes, and the stream of queries at the same time.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::installation::{Installation, Task};
use super::log::Said;
use super::place::{Place, USER};
use super::{Configuration, Options};
use crate::cluster::wait_until;
use crate::queries::Side;
use crate::streams::{Asked, Explain, Order, Plan, Streams};
use crate::tpcc::{self, Isolation};
use crate::{Result, anker, os, queries};

const LIVE: Duration = Duration::from_secs(600);
/// The number of AnKer's eight queries whose answers a run compares on heap and mirror. Each run compares other queries
/// than the previous one.
const COMPARED: usize = 3;

pub struct Run {
    pub nopm: f64,
    pub tpm: f64,
    /// CPU time while HammerDB counted; `None` for a server elsewhere.
    pub cpu: Option<Cpu>,
    pub stream: Option<Streamed>,
}

/// The queries of a stream.
pub struct Streamed {
    /// The number of all queries of the stream.
    pub asked: usize,
    /// The queries that began while HammerDB counted.
    pub counted: Vec<Asked>,
    /// The numbers of queries that the engine and the heap have answered, if the stream was meant for the mirror.
    pub answered: Option<Answered>,
}

/// The server's counters of queries that the engine has answered, and of those that were meant for it but ran on the
/// heap.
#[derive(Clone, Copy)]
pub struct Answered {
    pub served: i64,
    pub fallbacks: i64,
}

/// CPU time by process, in seconds a minute.
#[derive(Clone, Copy)]
pub struct Cpu {
    /// The backends of HammerDB's users.
    pub users: f64,
    /// The backend of the stream, without its parallel workers.
    pub stream: f64,
    pub worker: f64,
    pub engine: f64,
    /// The whole server, including the processes above.
    pub server: f64,
    /// HammerDB's own process.
    pub hammerdb: f64,
}

pub fn run(
    place: &Place,
    hammerdb: &Installation,
    options: &Options,
    configuration: &Configuration,
    round: u32,
) -> Result<Run> {
    let config = place.prepare(configuration)?;
    let mut client = config.connect(NoTls)?;
    if configuration.mirrored {
        anker::mirror(&mut client, &tpcc::TABLES, LIVE)?;
    }
    let mut settings = place.settings_of_a_run()?;
    settings.extend([
        ("driver", "timed".into()),
        // An error ends the virtual user, so that it is noticed.
        ("raiseerror", "true".into()),
        // Each user has warehouses of its own. With a random warehouse, both users could choose the same one.
        ("allwarehouse", "true".into()),
        ("rampup", options.ramp_up.to_string()),
        ("duration", options.minutes.to_string()),
    ]);
    let minutes = options.ramp_up + options.minutes;
    let limit = Duration::from_secs_f64(minutes * 60.0 + 120.0);
    let mut task = hammerdb.run(&settings, options.users, limit)?;
    if configuration.mirrored {
        await_users(&mut client, options.users)?;
        compare(&mut client, round)?;
    }
    let answered = Answered::so_far(&mut client, configuration)?;
    let plan = configuration.stream.map(|side| plan(side, options, round));
    let streams = plan.map(|plan| Streams::start(&config, &plan, Instant::now())).transpose()?;

    task.wait_for(&Said::CountingBegins)?;
    let before = Busy::now(place, &mut client, &streams, &task)?;
    let began = Instant::now();
    task.wait_for(&Said::CountingEnds)?;
    let ended = Instant::now();
    let after = Busy::now(place, &mut client, &streams, &task)?;
    let cpu = before.zip(after).map(|(before, after)| after.since(&before));

    let asked = streams.map(Streams::finish).transpose()?;
    let achieved = task.finish(|outcome| outcome.ran(options.users))?;
    let answered = answered.zip(Answered::so_far(&mut client, configuration)?).map(|(before, now)| now.since(before));
    if configuration.mirrored {
        verify(&mut client)?;
    }
    drop(client);
    place.discard()?;
    let stream = asked.map(|asked| Streamed {
        asked: asked.len(),
        counted: asked.into_iter().filter(|one| (began..ended).contains(&one.begun)).collect(),
        answered,
    });
    Ok(Run { nopm: achieved.nopm, tpm: achieved.tpm, cpu, stream })
}

/// Waits until all users are connected and one of them has ordered something.
fn await_users(client: &mut Client, users: u32) -> Result<()> {
    let orders: i64 = client.query_one("SELECT count(*) FROM orders", &[])?.get(0);
    let at_work = wait_until(Duration::from_secs(60), || {
        let sql = "SELECT (SELECT count(*) FROM pg_stat_activity WHERE usename = $1), (SELECT count(*) FROM orders)";
        let row = client.query_one(sql, &[&USER])?;
        Ok(row.get::<_, i64>(0) >= i64::from(users) && row.get::<_, i64>(1) > orders)
    })?;
    if at_work { Ok(()) } else { Err("HammerDB's users have not begun within a minute".into()) }
}

/// Compares the answers of heap and mirror to some of the queries under one snapshot, while the users run transactions.
fn compare(client: &mut Client, round: u32) -> Result<()> {
    for i in 0..COMPARED {
        let query = &queries::ANKER[(round as usize * COMPARED + i) % queries::ANKER.len()];
        let compared = queries::compare(client, query)?;
        if !compared.same() {
            return Err(format!("{}: different answers: {}", query.name, compared.difference()).into());
        }
    }
    Ok(())
}

fn verify(client: &mut Client) -> Result<()> {
    for table in tpcc::TABLES {
        let differences = anker::verify(client, table)?;
        if let Some(first) = differences.first() {
            return Err(format!("{table}: {} rows differ, {first} for one", differences.len()).into());
        }
    }
    Ok(())
}

/// The plan of queries of a round. It has the same queries for heap and mirror.
fn plan(side: Side, options: &Options, round: u32) -> Plan {
    Plan {
        queries: queries::ANKER.iter().map(|query| side.sql(query)).collect(),
        order: Order::Random,
        seed: round.into(),
        sessions: 1,
        every: options.pace,
        isolation: Isolation::ReadCommitted,
        route: "",
        explain: Explain::Never,
        numbers: 0,
    }
}

impl Answered {
    fn so_far(client: &mut Client, configuration: &Configuration) -> Result<Option<Answered>> {
        if configuration.stream != Some(Side::Mirror) {
            return Ok(None);
        }
        Ok(Some(Answered {
            served: anker::counter(client, "queries_served")?,
            fallbacks: anker::counter(client, "fallbacks")?,
        }))
    }

    fn since(self, before: Answered) -> Answered {
        Answered { served: self.served - before.served, fallbacks: self.fallbacks - before.fallbacks }
    }
}

/// The CPU time that each process has used so far.
struct Busy {
    at: Instant,
    users: Duration,
    stream: Duration,
    worker: Duration,
    engine: Duration,
    server: Duration,
    hammerdb: Duration,
}

impl Busy {
    fn now(place: &Place, client: &mut Client, streams: &Option<Streams>, task: &Task) -> Result<Option<Busy>> {
        let Some(postmaster) = place.postmaster()? else { return Ok(None) };
        let of = |pid: u32| os::cpu_time(pid).unwrap_or_default();
        let users = client.query("SELECT pid FROM pg_stat_activity WHERE usename = $1", &[&USER])?;
        let users = users.iter().map(|row| of(row.get::<_, i32>(0) as u32)).sum();
        let is_loaded: bool = client.query_one("SELECT to_regclass('anker.engine') IS NOT NULL", &[])?.get(0);
        let processes = if is_loaded { anker::processes(client)? } else { None };
        Ok(Some(Busy {
            at: Instant::now(),
            users,
            stream: streams.iter().flat_map(Streams::backends).map(|pid| of(*pid)).sum(),
            worker: processes.map_or(Duration::ZERO, |(worker, _)| of(worker)),
            engine: processes.map_or(Duration::ZERO, |(_, engine)| of(engine)),
            server: os::cpu_time_of_tree(postmaster),
            hammerdb: of(task.pid()),
        }))
    }

    fn since(&self, before: &Busy) -> Cpu {
        let minutes = (self.at - before.at).as_secs_f64() / 60.0;
        let spent = |of: fn(&Busy) -> Duration| of(self).saturating_sub(of(before)).as_secs_f64() / minutes;
        Cpu {
            users: spent(|busy| busy.users),
            stream: spent(|busy| busy.stream),
            worker: spent(|busy| busy.worker),
            engine: spent(|busy| busy.engine),
            server: spent(|busy| busy.server),
            hammerdb: spent(|busy| busy.hammerdb),
        }
    }
}
