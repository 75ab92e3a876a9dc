//! `snapshot-bench`: see `bench/run snapshot`.

use std::fs::OpenOptions;
use std::process::ExitCode;

use anker_bench_snapshot::experiments::{self, ALL};
use anker_bench_snapshot::options::{Options, USAGE};
use anker_bench_snapshot::page::{self, Grid, Section};
use anker_bench_snapshot::session::Session;
use anker_bench_snapshot::{Result, bars, characteristics, kernel_calls, worker};
use anker_report::Report;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [first, name, job] = &arguments[..]
        && first == worker::ARGUMENT
    {
        return ended(serde_json::from_str(job).map_err(Into::into).and_then(|job| experiments::serve(name, &job)));
    }
    let names = ALL.map(|experiment| experiment.name);
    match Options::parse(arguments.into_iter(), &names) {
        Ok(options) => ended(run(options)),
        Err(message) => {
            eprint!("{message}\n{USAGE}Experiments: {}\n", names.join(", "));
            ExitCode::from(2)
        }
    }
}

fn ended(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    // What cannot be written is better known before anything is measured.
    for path in options.json.iter().chain(&options.html) {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        opened.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let report = match &options.from {
        Some(path) => Report::read(path)?,
        None => measure(options.clone()),
    };
    let mut overview = vec![
        ("What it must show", bars::grid(&report)),
        ("The thesis' six characteristics", characteristics::grid(&report)),
    ];
    overview.extend(kernel_calls::grid(&report).map(|grid| ("One column by vm_snapshot", grid)));
    let sections = experiments::sections(&report);
    show(&report, &overview, &sections);
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    if let Some(path) = &options.html {
        std::fs::write(path, page::html(&report, &overview, &sections))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if let Some(directory) = &options.docs {
        page::document::update(directory, &report, &overview, &sections)?;
    }
    Ok(())
}

fn measure(options: Options) -> Report {
    let only = options.only.clone();
    let mut session = Session::new(options);
    for experiment in ALL {
        if only.is_empty() || only.iter().any(|name| name == experiment.name) {
            experiment.run(&mut session);
        }
    }
    session.finish()
}

fn titled(grid: &Grid) -> String {
    if grid.title.is_empty() { grid.text() } else { format!("{}\n{}", grid.title, grid.text()) }
}

/// The tables, in the terminal.
fn show(report: &Report, overview: &[(&str, Grid)], sections: &[Section]) {
    page::about(report).iter().for_each(|line| println!("{line}"));
    overview.iter().for_each(|(heading, grid)| println!("\n{heading}\n{}", titled(grid)));
    for section in sections {
        println!("{}\n{}\n{}\n", section.title, section.claim, section.here);
        section.grids.iter().for_each(|grid| println!("{}", titled(grid)));
    }
}
