//! Section 6 of the AnKer paper: transactions and the eight queries at the same time, with the queries on the heap at
//! each isolation level, and in the engine with each of its mechanisms.
//!
//! Each run has its own copy of the loaded database. Configurations take turns, and each round begins with another one.

mod measure;
mod show;

use std::sync::Arc;
use std::time::Duration;

use anker_report::Report;
use anker_report::page::Page;
use serde_json::json;

use crate::arguments::{Arguments, Parsed};
use crate::cluster;
use crate::experiments::mechanisms::{self, Mechanisms, Wanted};
use crate::experiments::side_by_side::ALONE;
use crate::report::Findings;
use crate::server::Server;
use crate::stage::{Place, Stage};
use crate::tpcc::{self, Access, Isolation, Mix, Scale};
use crate::{Output, Result};

use measure::{Conditions, Part};

pub const USAGE: &str =
    "htap [--quick] [--warehouses N[,N...]] [--seconds N] [--rounds N] [--clients N] [--access uniform|skewed|both]
            [--mix anker|full] [--mechanisms all|NAME,...] [--levels serializable|read-committed|both] [--rate N]
            [--streams N,N...] [--dsn DSN] [OUTPUT]";

const NAME: &str = "htap";

const SETTINGS: &str = "synchronous_commit off, fsync off";
/// The configuration with a mirror that no query reads.
const MIRRORED: &str = "mirror, no queries";
/// The value of `max_pred_locks_per_transaction`. With the default of 64, SERIALIZABLE transactions would fail while a
/// query on the heap runs for seconds.
const PREDICATE_LOCKS: &str = "10000";

pub struct Options {
    pub quick: bool,
    /// Numbers of warehouses. Figures 6 to 8 are measured with the last one.
    pub warehouses: Vec<u32>,
    pub seconds: u32,
    pub rounds: u32,
    pub clients: u32,
    pub access: Vec<Access>,
    pub mix: Mix,
    /// Transactions a second; `None`: as many as possible.
    pub rate: Option<f64>,
    /// Mechanisms of the engine.
    pub mechanisms: Wanted,
    /// Isolation levels of transactions beside the engine.
    pub levels: Vec<Isolation>,
    /// Numbers of streams for Figure 8. If the list is empty, the figure is left out.
    pub streams: Vec<u32>,
    /// The connection string of a given server, instead of a private one.
    pub dsn: Option<String>,
    pub output: Output,
}

/// The side that answers the queries.
#[derive(Clone, PartialEq)]
enum Side {
    /// No queries run, and nothing is mirrored.
    Nowhere,
    Heap,
    /// The engine answers, with this mechanism for its snapshots.
    Engine(String),
    /// No queries run, but the tables are mirrored, with this mechanism.
    Idle(String),
}

struct Configuration {
    name: String,
    side: Side,
    isolation: Isolation,
}

/// The configurations to measure. With `apart`, they include one in which the tables are mirrored, but no queries run.
fn configurations(mechanisms: &[String], levels: &[Isolation], apart: bool) -> Vec<Configuration> {
    use Isolation::{ReadCommitted, RepeatableRead, Serializable};
    let one = |of: &str, side: Side, isolation: Isolation| {
        let name = format!("{of}, {}", isolation.name());
        Configuration { name, side, isolation }
    };
    let mut all = vec![Configuration { name: ALONE.into(), side: Side::Nowhere, isolation: ReadCommitted }];
    // Adds transactions alone at SERIALIZABLE, because this level costs something even without queries.
    if levels.contains(&Serializable) {
        all.push(one(ALONE, Side::Nowhere, Serializable));
    }
    if let Some(name) = mechanisms.first().filter(|_| apart) {
        all.push(Configuration { name: MIRRORED.into(), side: Side::Idle(name.clone()), isolation: ReadCommitted });
    }
    all.extend([Serializable, RepeatableRead, ReadCommitted].map(|level| one("heap", Side::Heap, level)));
    for name in mechanisms {
        all.extend(levels.iter().map(|level| one(name, Side::Engine(name.clone()), *level)));
    }
    all
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let mut options = Options {
            quick: false,
            warehouses: Vec::new(),
            seconds: 0,
            rounds: 0,
            clients: cores,
            access: Vec::new(),
            mix: Mix::Anker,
            rate: None,
            mechanisms: Wanted::usual(),
            levels: vec![Isolation::Serializable, Isolation::ReadCommitted],
            streams: Vec::new(),
            dsn: None,
            output: Output::default(),
        };
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => options.quick = true,
                "--warehouses" => options.warehouses = arguments.numbers()?,
                "--seconds" => options.seconds = arguments.number()?,
                "--rounds" => options.rounds = arguments.number()?,
                "--clients" => options.clients = arguments.number()?,
                "--rate" => {
                    let rate: f64 = arguments.number()?;
                    if !(1.0..=1e6).contains(&rate) {
                        return Err(format!("--rate: {rate} is not from 1 to 1000000 transactions a second"));
                    }
                    options.rate = Some(rate);
                }
                "--streams" => options.streams = arguments.numbers()?,
                "--access" => {
                    options.access = match arguments.value()?.as_str() {
                        "uniform" => vec![Access::Uniform],
                        "skewed" => vec![Access::Skewed],
                        "both" => vec![Access::Uniform, Access::Skewed],
                        other => return Err(format!("--access: {other} is not uniform, skewed or both")),
                    }
                }
                "--mix" => {
                    options.mix = match arguments.value()?.as_str() {
                        "anker" => Mix::Anker,
                        "full" => Mix::Full,
                        other => return Err(format!("--mix: {other} is not anker or full")),
                    }
                }
                "--mechanisms" => options.mechanisms = Wanted::parse(&arguments.value()?)?,
                "--levels" => {
                    options.levels = match arguments.value()?.as_str() {
                        "serializable" => vec![Isolation::Serializable],
                        "read-committed" => vec![Isolation::ReadCommitted],
                        "both" => vec![Isolation::Serializable, Isolation::ReadCommitted],
                        other => return Err(format!("--levels: {other} is not serializable, read-committed or both")),
                    }
                }
                "--dsn" => options.dsn = Some(arguments.value()?),
                _ if arguments.output(&mut options.output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        if options.dsn.is_some() && options.mechanisms != Wanted::usual() {
            return Err(mechanisms::NOT_GIVEN.into());
        }
        Ok(options.filled())
    }

    /// The options, with usual values for those that were not given.
    fn filled(mut self) -> Options {
        let usual = |quick, full| if self.quick { quick } else { full };
        let (warehouses, seconds, rounds) = (usual(1, 5), usual(3, 180), usual(1, 3));
        if self.access.is_empty() {
            self.access.push(Access::Uniform);
            if !self.quick {
                self.access.push(Access::Skewed);
            }
        }
        if self.warehouses.is_empty() {
            self.warehouses.push(warehouses);
        }
        if self.seconds == 0 {
            self.seconds = seconds;
        }
        if self.rounds == 0 {
            self.rounds = rounds;
        }
        self
    }

    fn scale(&self, warehouses: u32) -> Scale {
        if self.quick { Scale::small(warehouses) } else { Scale::standard(warehouses) }
    }

    /// The time of transactions alone, before the first query.
    fn quiet(&self) -> Duration {
        if self.quick { Duration::from_secs(1) } else { Duration::from_secs(5) }
    }

    /// Settings of the server, in addition to those of all experiments. At a fixed rate autovacuum is off: its ANALYZE
    /// would use a processor for a second, which would determine the p99 of that run.
    fn settings(&self) -> Vec<(&'static str, &'static str)> {
        let mut settings = vec![("shared_buffers", "1GB"), ("max_pred_locks_per_transaction", PREDICATE_LOCKS)];
        settings.extend(self.rate.map(|_| ("autovacuum", "off")));
        settings
    }

    /// The time from one query to the next.
    fn every(&self) -> Duration {
        if self.quick { Duration::from_millis(100) } else { Duration::from_millis(500) }
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let place = Place::new(server, options.dsn.as_deref());
    let mechanisms = match options.dsn {
        None => options.mechanisms.find(server)?,
        Some(_) => Mechanisms::given(),
    };
    let configurations = configurations(&mechanisms.there, &options.levels, options.rate.is_some());
    let settings = options.settings();
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("quick", json!(options.quick)),
        ("seconds", json!(options.seconds)),
        ("queries_from_s", json!(options.quiet().as_secs_f64())),
        ("query_every_ms", json!(options.every().as_millis() as u64)),
        ("rounds", json!(options.rounds)),
        ("clients", json!(options.clients)),
        ("mix", json!(format!("{:?}", options.mix).to_lowercase())),
        ("rate", json!(options.rate)),
        ("settings", json!(place.described(&format!("{SETTINGS}, {}", told(&settings))))),
        ("not_measured", json!(mechanisms.left_out())),
    ] {
        findings.report.set_meta(key, value);
    }
    let last = options.warehouses.last().copied();
    for &warehouses in &options.warehouses {
        eprintln!("loading TPC-C, {warehouses} warehouse(s)");
        let scale = options.scale(warehouses);
        let set = |all: cluster::Options, (name, value): &(&str, &str)| all.set(name, value);
        let server = settings.iter().fold(cluster::Options::default(), set);
        let stage = Stage::load(place, server, |config| tpcc::create(config, scale))?;
        let is_last = Some(warehouses) == last;
        for &access in options.access.iter().take(if is_last { 2 } else { 1 }) {
            let conditions = Conditions::usual(options, scale, access);
            rounds(&stage, &configurations, options.rounds, &conditions, &mut findings)?;
        }
        for &streams in options.streams.iter().filter(|_| is_last) {
            for part in [Part::TransactionStreams, Part::QueryStreams] {
                let conditions = Conditions::scaling(options, scale, part, streams);
                rounds(&stage, &configurations, options.rounds, &conditions, &mut findings)?;
            }
        }
    }
    Ok(findings.report)
}

fn told(settings: &[(&str, &str)]) -> String {
    settings.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Runs the configurations in turns. Each round begins with another configuration.
fn rounds(
    stage: &Stage,
    configurations: &[Configuration],
    rounds: u32,
    conditions: &Conditions,
    findings: &mut Findings,
) -> Result<()> {
    for round in 0..rounds as usize {
        for at in 0..configurations.len() {
            let configuration = &configurations[(at + round) % configurations.len()];
            let (what, round) = (conditions.told(), round + 1);
            eprintln!("{what}, round {round} of {rounds}: {}", configuration.name);
            measure::one(stage, configuration, conditions, round, findings)?;
            findings.keep()?;
        }
    }
    Ok(())
}

pub fn page(report: &Report) -> Page {
    show::page(report)
}
