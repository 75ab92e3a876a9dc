//! `anker-bench demo`, `anker-bench capture`, `anker-bench queries`, `anker-bench orders`,
//! `anker-bench lookups`: see `./demo` and `bench/run`; `anker-bench server`
//! is a server to try things on.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anker_bench::cluster::{Cluster, Options};
use anker_bench::report::Report;
use anker_bench::server::{self, Server};
use anker_bench::sets::Set;
use anker_bench::{Result, chart, demo, experiments, os};

const USAGE: &str = "usage: anker-bench demo [--warehouses N] [--seconds N] [--clients N] [--keep]
       anker-bench capture [--quick] [--json FILE]
       anker-bench queries [--set anker] [--quick] [--runs N] [--json FILE] [--svg FILE]
       anker-bench queries --set tpch|ch|ssb [--quick] [--scale N] [--runs N] [--json FILE]
       anker-bench orders [--set tpch|ch|ssb] [--quick] [--scale N] [--orders N] [--json FILE]
       anker-bench lookups [--quick] [--json FILE]
       anker-bench server [NAME=VALUE ...]";

enum Command {
    Demo(demo::Options),
    Capture {
        quick: bool,
        json: Option<PathBuf>,
    },
    Lookups {
        quick: bool,
        json: Option<PathBuf>,
    },
    Queries(Queries),
    Orders {
        set: &'static Set,
        quick: bool,
        scale: Option<f64>,
        orders: u32,
        json: Option<PathBuf>,
    },
    /// With these settings, until interrupted.
    Server(Vec<(String, String)>),
}

#[derive(Default)]
struct Queries {
    /// AnKer's eight, unless it says otherwise.
    set: Option<&'static Set>,
    quick: bool,
    scale: Option<f64>,
    runs: Option<u32>,
    json: Option<PathBuf>,
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| ["--help", "-h"].contains(&argument.as_str())) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let command = match parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", anker_bench::describe(&*error));
            ExitCode::FAILURE
        }
    }
}

fn parse(mut given: impl Iterator<Item = String>) -> std::result::Result<Command, String> {
    let name = given.next().ok_or("no command")?;
    let mut options = demo::Options::default();
    let mut queries = Queries::default();
    let mut orders = 100;
    let mut settings = Vec::new();
    while let Some(argument) = given.next() {
        let mut number = || {
            let value = given.next().ok_or(format!("{argument} wants a number"))?;
            value.parse().ok().filter(|n| *n > 0).ok_or(format!("{argument}: {value} is not a number above 0"))
        };
        match (name.as_str(), argument.as_str()) {
            ("demo", "--warehouses") => options.warehouses = number()?,
            ("demo", "--seconds") => options.seconds = number()?,
            ("demo", "--clients") => options.clients = number()?,
            ("demo", "--keep") => options.keep = true,
            ("capture" | "lookups" | "queries" | "orders", "--quick") => queries.quick = true,
            ("capture" | "lookups" | "queries" | "orders", "--json") => {
                queries.json = Some(given.next().ok_or("--json wants a file")?.into())
            }
            ("queries", "--svg") => queries.svg = Some(given.next().ok_or("--svg wants a file")?.into()),
            ("queries", "--runs") => queries.runs = Some(number()?),
            ("queries" | "orders", "--scale") => queries.scale = Some(scale(given.next())?),
            ("orders", "--orders") => orders = number()?,
            ("queries" | "orders", "--set") => queries.set = set(given.next())?,
            ("server", setting) => {
                let (name, value) = setting.split_once('=').ok_or(format!("{setting} is not NAME=VALUE"))?;
                settings.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(format!("unknown argument {argument}")),
        }
    }
    match name.as_str() {
        "demo" => Ok(Command::Demo(options)),
        "lookups" => Ok(Command::Lookups { quick: queries.quick, json: queries.json }),
        "capture" => Ok(Command::Capture { quick: queries.quick, json: queries.json }),
        "orders" => {
            let Queries { set, quick, scale, json, .. } = queries;
            let set = set.or_else(|| Set::named("tpch")).ok_or("no set")?;
            Ok(Command::Orders { set, quick, scale, orders, json })
        }
        "queries" if queries.set.is_none() && queries.scale.is_some() => Err("--scale wants a --set".into()),
        "queries" if queries.set.is_some() && queries.svg.is_some() => Err("--svg draws --set anker alone".into()),
        "queries" => Ok(Command::Queries(queries)),
        "server" => Ok(Command::Server(settings)),
        _ => Err(format!("unknown command {name}")),
    }
}

fn scale(given: Option<String>) -> std::result::Result<f64, String> {
    let value = given.ok_or("--scale wants a number")?;
    value.parse().ok().filter(|n| *n > 0.0).ok_or(format!("--scale: {value} is not a number above 0"))
}

fn set(given: Option<String>) -> std::result::Result<Option<&'static Set>, String> {
    match given.ok_or("--set wants a name")?.as_str() {
        "anker" => Ok(None),
        name => Set::named(name).map(Some).ok_or(format!("--set: there is no {name}")),
    }
}

fn run(command: Command) -> Result<()> {
    server::remove_leftovers();
    let mut server = Server::install()?;
    if matches!(&command, Command::Demo(demo::Options { keep: true, .. })) {
        server.keep()?;
    }
    let home = server.home().to_owned();
    os::on_interrupt(move || server::remove(&home));
    let server = Arc::new(server);
    match command {
        Command::Demo(options) => demo::run(&server, &options),
        Command::Server(settings) => serve(&server, &settings),
        Command::Lookups { quick, json } => write(&experiments::lookups(&server, quick)?, json),
        Command::Capture { quick, json } => write(&experiments::capture(&server, quick)?, json),
        Command::Queries(Queries { set: Some(set), quick, scale, runs, json, .. }) => {
            let scale = scale.unwrap_or(if quick { set.quick_scale } else { 1.0 });
            let runs = runs.unwrap_or(if quick { 2 } else { 3 });
            write(&experiments::sets(&server, set, scale, runs)?, json)
        }
        Command::Orders { set, quick, scale, orders, json } => {
            let scale = scale.unwrap_or(if quick { set.quick_scale } else { 1.0 });
            write(&experiments::orders(&server, set, scale, orders)?, json)
        }
        Command::Queries(Queries { quick, runs, json, svg, .. }) => {
            let report = experiments::queries(&server, quick, runs)?;
            if let Some(path) = svg {
                std::fs::write(&path, chart::heap_against_mirror(&report))
                    .map_err(|e| format!("{}: {e}", path.display()))?;
            }
            write(&report, json)
        }
    }
}

fn write(report: &Report, json: Option<PathBuf>) -> Result<()> {
    json.map_or(Ok(()), |path| report.write(&path))
}

fn serve(server: &Arc<Server>, settings: &[(String, String)]) -> Result<()> {
    let options = settings.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
    let cluster = Cluster::start(server, &options)?;
    println!("psql \"{}\"\nlog: {}", cluster.conninfo("postgres"), cluster.log_path().display());
    loop {
        std::thread::park();
    }
}
