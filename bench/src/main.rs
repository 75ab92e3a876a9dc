//! The program behind `./demo` and `bench/run`; `anker-bench server` is a server to try things on.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anker_bench::arguments::{Arguments, OUTPUT, Parsed};
use anker_bench::cluster::{Cluster, Options};
use anker_bench::experiments::{self, Experiment, Planned};
use anker_bench::report;
use anker_bench::server::{self, Server};
use anker_bench::sets::{self, Set};
use anker_bench::{Output, Result, anker, databases, demo, os};
use anker_report::Report;
use anker_report::page::{Page, index};

const USAGE: &str = "usage: anker-bench EXPERIMENT ...
       anker-bench demo [--quick] [--warehouses N] [--seconds N] [--clients N] [--keep] [--svg FILE] [OUTPUT]
       anker-bench page REPORT [OUTPUT]    of a JSON file that an experiment has written
       anker-bench index DIRECTORY         index.html over the reports of a directory
       anker-bench server [--set anker|tpch|ch|ssb] [--scale N] [NAME=VALUE ...]
experiments:
";

const MEANING: &str = "DSN: a superuser's connection string to a server with pg_anker loaded; databases named anker_bench (hammerdb: anker_hammerdb) are made there and taken away.
";

enum Command {
    Demo(demo::Options),
    Experiment(&'static Experiment, Planned),
    /// Runs a server with these settings until it is interrupted.
    Server {
        settings: Vec<(String, String)>,
        /// The set that is loaded and mirrored.
        set: Option<&'static Set>,
        scale: Option<f64>,
    },
    /// Makes the page of a report that was written before.
    Page {
        report: String,
        output: Output,
    },
    Index(String),
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|argument| ["--help", "-h"].contains(&argument.as_str())) {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match parse(given).map(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{}", anker_bench::describe(&*error));
            ExitCode::FAILURE
        }
        Err(message) => {
            eprint!("{message}\n{}", usage());
            ExitCode::from(2)
        }
    }
}

fn usage() -> String {
    let experiments: String = experiments::ALL.iter().map(|one| format!("  {}\n", one.usage)).collect();
    format!("{USAGE}{experiments}{OUTPUT}\n{MEANING}")
}

fn parse(given: Vec<String>) -> Parsed<Command> {
    let mut given = given.into_iter();
    let name = given.next().ok_or("no command")?;
    match name.as_str() {
        "demo" => demo::Options::parse(given).map(Command::Demo),
        "server" => server_options(given),
        "page" => {
            let report = given.next().ok_or("page wants a report")?;
            let (mut arguments, mut output) = (Arguments::new(given), Output::default());
            while let Some(option) = arguments.option() {
                if !arguments.output(&mut output)? {
                    return Err(format!("unknown argument {option}"));
                }
            }
            Ok(Command::Page { report, output })
        }
        "index" => given.next().map(Command::Index).ok_or("index wants a directory".to_owned()),
        name => {
            let experiment = Experiment::named(name).ok_or(format!("unknown command {name}"))?;
            Ok(Command::Experiment(experiment, (experiment.plan)(given)?))
        }
    }
}

fn server_options(given: impl Iterator<Item = String>) -> Parsed<Command> {
    let (mut arguments, mut settings) = (Arguments::new(given), Vec::new());
    let (mut set, mut scale) = (None, None);
    while let Some(option) = arguments.option() {
        match option.as_str() {
            "--set" => set = Some(arguments.set()?),
            "--scale" => scale = Some(arguments.number()?),
            setting => {
                let (name, value) = setting.split_once('=').ok_or(format!("{setting} is not NAME=VALUE"))?;
                settings.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    Ok(Command::Server { settings, set, scale })
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Index(directory) => write_index(Path::new(&directory)),
        Command::Page { report, output } => page_of(Path::new(&report), &output),
        Command::Demo(options) => {
            options.check()?;
            demo::run(&installed(options.keep)?, &options)
        }
        Command::Server { settings, set, scale } => serve(&installed(false)?, &settings, set, scale),
        Command::Experiment(experiment, planned) => measured(experiment, planned),
    }
}

/// Runs the experiment and shows its report. If the run breaks off, the figures measured until then are kept in a file.
fn measured(experiment: &Experiment, Planned { output, run }: Planned) -> Result<()> {
    output.check()?;
    if let Some(json) = &output.json {
        report::keep_unfinished_beside(json);
    }
    let mut report = run(&installed(false)?).inspect_err(|_| {
        let told = |path: &Path| eprintln!("{} has what was measured before this:", path.display());
        report::unfinished().into_iter().for_each(told);
    })?;
    shown((experiment.page)(&report), &mut report, &output)?;
    report::unfinished().map_or(Ok(()), |path| Ok(std::fs::remove_file(path)?))
}

/// Installs a private copy of PostgreSQL. It is removed when the process ends, also by a signal, unless `keep` is set.
fn installed(keep: bool) -> Result<Arc<Server>> {
    server::remove_leftovers();
    os::on_interrupt(|| {
        databases::remove_made();
        server::remove_own();
    });
    let mut server = Server::install()?;
    if keep {
        server.keep()?;
    }
    Ok(Arc::new(server))
}

/// Shows the page in the terminal, and writes the files that were asked for.
fn shown(page: Page, report: &mut Report, output: &Output) -> Result<()> {
    print!("{}", page.text());
    output.write(&page, report)
}

/// The page over all reports of a directory.
fn write_index(directory: &Path) -> Result<()> {
    let reports = index::write(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    println!("{} leads to {reports} report(s)", directory.join("index.html").display());
    Ok(())
}

fn page_of(path: &Path, output: &Output) -> Result<()> {
    output.check()?;
    let mut report = Report::read(path)?;
    let name = report.rows().first().map_or("", |row| row.experiment.as_str());
    let page = match Experiment::named(name) {
        Some(experiment) => (experiment.page)(&report),
        None if name == demo::NAME => demo::page(&report),
        None => return Err(format!("{}: no report of an experiment that is known here", path.display()).into()),
    };
    shown(page, &mut report, output)
}

fn serve(server: &Arc<Server>, settings: &[(String, String)], set: Option<&Set>, scale: Option<f64>) -> Result<()> {
    let options = if set.is_some() { sets::cluster_options() } else { Options::default() };
    let options = settings.iter().fold(options, |options, (name, value)| options.set(name, value));
    let cluster = Cluster::start(server, &options)?;
    if let Some(set) = set {
        set.create(&cluster.config(), scale.unwrap_or(set.scale))?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        anker::mirror(&mut client, set.tables, Duration::from_secs(600))?;
    }
    println!("psql \"{}\"\nlog: {}", cluster.conninfo("postgres"), cluster.log_path().display());
    loop {
        std::thread::park();
    }
}
