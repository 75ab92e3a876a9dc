//! Runs HammerDB's TPROC-C, a driver that others wrote. Measures the throughput of its users without pg_anker, with it,
//! and with an analytic stream on the mirror or on the heap.
//!
//! | file | holds |
//! |---|---|
//! | `installation` | HammerDB itself: a process for each task |
//! | `log` | its output |
//! | `place` | the server and the database, built once and copied for each run |
//! | `measured` | one run |
//! | `figures`, `page` | the figures of a run, and the results of all runs |

mod figures;
mod installation;
mod log;
mod measured;
mod page;
mod place;

use std::sync::Arc;
use std::time::Duration;

use anker_report::Report;
use serde_json::json;

pub use installation::Installation;
pub use page::page;
pub use place::Place;

use crate::arguments::{Arguments, Parsed};
use crate::queries::Side;
use crate::report::Findings;
use crate::server::Server;
use crate::{Output, Result};

/// One of the configurations that are compared.
pub struct Configuration {
    pub name: &'static str,
    /// Whether pg_anker is loaded and created, and `wal_level` is `logical`.
    pub library: bool,
    /// Whether all nine tables are in the mirror.
    pub mirrored: bool,
    pub stream: Option<Side>,
}

const PLAIN: &str = "plain";
const MIRROR_OFF: &str = "mirror off";
const MIRROR_STREAM: &str = "mirror stream";
const HEAP_STREAM: &str = "heap stream";

/// The configurations. With the stream on the heap, pg_anker is not loaded, as if it were not installed.
const CONFIGURATIONS: [Configuration; 5] = [
    Configuration { name: PLAIN, library: false, mirrored: false, stream: None },
    Configuration { name: MIRROR_OFF, library: true, mirrored: false, stream: None },
    Configuration { name: "mirror on", library: true, mirrored: true, stream: None },
    Configuration { name: MIRROR_STREAM, library: true, mirrored: true, stream: Some(Side::Mirror) },
    Configuration { name: HEAP_STREAM, library: false, mirrored: false, stream: Some(Side::Heap) },
];

pub struct Options {
    pub warehouses: u32,
    /// The number of users that work at once.
    pub users: u32,
    /// The minutes of each run that are counted, and the minutes before them.
    pub minutes: f64,
    pub ramp_up: f64,
    pub rounds: u32,
    /// The time between the beginnings of two queries of the stream.
    pub pace: Duration,
    /// The connection string of a given server, instead of a private one.
    pub dsn: Option<String>,
    pub output: Output,
}

pub const USAGE: &str =
    "hammerdb [--quick] [--warehouses N] [--users N] [--minutes N] [--rounds N] [--dsn DSN] [OUTPUT]";

const NAME: &str = "hammerdb";

impl Options {
    pub fn full() -> Options {
        let pace = Duration::from_millis(500);
        let output = Output::default();
        Options { warehouses: 5, users: 2, minutes: 1.0, ramp_up: 0.5, rounds: 5, pace, dsn: None, output }
    }

    /// Options for a run of two minutes, whose figures mean nothing. HammerDB can count no less than six seconds.
    pub fn quick() -> Options {
        Options { warehouses: 1, minutes: 0.1, ramp_up: 0.0, rounds: 1, ..Options::full() }
    }

    /// Reads the options. Those that are not given have the values of a full run or, with `--quick`, of a quick one.
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let given: Vec<String> = given.collect();
        let is_quick = |argument: &String| argument == "--quick";
        let mut options = if given.iter().any(is_quick) { Options::quick() } else { Options::full() };
        let mut arguments = Arguments::new(given.into_iter().filter(|argument| !is_quick(argument)));
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--warehouses" => options.warehouses = arguments.number()?,
                "--users" => options.users = arguments.number()?,
                "--minutes" => options.minutes = arguments.number::<u32>()?.into(),
                "--rounds" => options.rounds = arguments.number()?,
                "--dsn" => options.dsn = Some(arguments.value()?),
                _ if arguments.output(&mut options.output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        Ok(options)
    }
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let hammerdb = Installation::find(&server.home().join("hammerdb"))?;
    let place = match &options.dsn {
        Some(dsn) => Place::given(dsn)?,
        None => Place::private(server)?,
    };
    // An existing server is not restarted, so pg_anker is always loaded there.
    let configurations: Vec<&Configuration> =
        CONFIGURATIONS.iter().filter(|configuration| place.is_private() || configuration.name != PLAIN).collect();
    let mut findings = Findings::new(NAME);
    describe(&mut findings.report, options, &place, &hammerdb)?;
    eprintln!("{}\nbuilding {} warehouse(s)", hammerdb.versions, options.warehouses);
    place.build(&hammerdb, options.warehouses)?;

    for round in 0..options.rounds {
        // Each round begins with another configuration.
        for i in 0..configurations.len() {
            let configuration = configurations[(i + round as usize) % configurations.len()];
            let name = configuration.name;
            let run = measured::run(&place, &hammerdb, options, configuration, round)
                .map_err(|error| format!("{name}: {}", crate::describe(&*error)))?;
            eprintln!("round {} of {}: {name:<14}{:>9.0} NOPM", round + 1, options.rounds, run.nopm);
            figures::rows(&run, name, round, &mut findings);
            findings.keep()?;
        }
    }
    Ok(findings.report)
}

fn describe(report: &mut Report, options: &Options, place: &Place, hammerdb: &Installation) -> Result<()> {
    let version: String = place.connect()?.query_one("SHOW server_version", &[])?.get(0);
    report.set_meta("postgresql", version);
    report.set_meta("hammerdb", hammerdb.versions.as_str());
    report.set_meta("settings", place.described());
    for (key, value) in [
        ("warehouses", json!(options.warehouses)),
        ("users", json!(options.users)),
        ("minutes", json!(options.minutes)),
        ("ramp_up_minutes", json!(options.ramp_up)),
        ("rounds", json!(options.rounds)),
        ("query_every_ms", json!(options.pace.as_millis() as u64)),
    ] {
        report.set_meta(key, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> std::result::Result<Options, String> {
        Options::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_given_counts_and_the_rest_is_as_in_a_quick_or_a_full_run() {
        let options = parse("--minutes 2 --quick --users 4").unwrap();
        assert_eq!((options.minutes, options.users, options.warehouses, options.rounds), (2.0, 4, 1, 1));
        let options = parse("--rounds 3 --json x").unwrap();
        assert_eq!((options.minutes, options.warehouses, options.rounds), (1.0, 5, 3));
        for wrong in ["--users", "--users 0", "--warehouses few", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
