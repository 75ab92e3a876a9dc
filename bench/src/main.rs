//! `anker-bench demo`, `anker-bench capture`, `anker-bench queries`: see `./demo` and `bench/run`; `anker-bench server`
//! is a server to try things on.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anker_bench::cluster::{Cluster, Options};
use anker_bench::server::{self, Server};
use anker_bench::{Result, chart, demo, experiments, os};

const USAGE: &str = "usage: anker-bench demo [--warehouses N] [--seconds N] [--clients N] [--keep]
       anker-bench capture [--quick] [--json FILE]
       anker-bench queries [--quick] [--json FILE] [--svg FILE]
       anker-bench server [NAME=VALUE ...]";

enum Command {
    Demo(demo::Options),
    Experiment {
        run: experiments::Experiment,
        quick: bool,
        json: Option<PathBuf>,
        svg: Option<PathBuf>,
    },
    /// With these settings, until interrupted.
    Server(Vec<(String, String)>),
}

fn main() -> ExitCode {
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
    let (mut quick, mut json, mut svg, mut settings) = (false, None, None, Vec::new());
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
            ("capture" | "queries", "--quick") => quick = true,
            ("capture" | "queries", "--json") => json = Some(given.next().ok_or("--json wants a file")?.into()),
            ("queries", "--svg") => svg = Some(given.next().ok_or("--svg wants a file")?.into()),
            ("server", setting) => {
                let (name, value) = setting.split_once('=').ok_or(format!("{setting} is not NAME=VALUE"))?;
                settings.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(format!("unknown argument {argument}")),
        }
    }
    match name.as_str() {
        "demo" => Ok(Command::Demo(options)),
        "capture" => Ok(Command::Experiment { run: experiments::capture, quick, json, svg }),
        "queries" => Ok(Command::Experiment { run: experiments::queries, quick, json, svg }),
        "server" => Ok(Command::Server(settings)),
        _ => Err(format!("unknown command {name}")),
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
        Command::Experiment { run, quick, json, svg } => {
            let report = run(&server, quick)?;
            if let Some(path) = svg {
                std::fs::write(&path, chart::heap_against_mirror(&report))
                    .map_err(|e| format!("{}: {e}", path.display()))?;
            }
            json.map_or(Ok(()), |path| report.write(&path))
        }
    }
}

fn serve(server: &Arc<Server>, settings: &[(String, String)]) -> Result<()> {
    let options = settings.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
    let cluster = Cluster::start(server, &options)?;
    println!("psql \"{}\"\nlog: {}", cluster.conninfo("postgres"), cluster.log_path().display());
    loop {
        std::thread::park();
    }
}
