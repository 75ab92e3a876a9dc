//! `snapshot-bench`: see `bench/run snapshot`.

use std::fs::OpenOptions;
use std::process::ExitCode;

use anker_bench_snapshot::experiments::{self, ALL};
use anker_bench_snapshot::options::{Options, USAGE};
use anker_bench_snapshot::session::Session;
use anker_bench_snapshot::{Result, about, bars, characteristics, document, kernel_calls, worker};
use anker_report::Report;
use anker_report::page::Page;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [first, name, job] = &arguments[..]
        && first == worker::ARGUMENT
    {
        return ended(serde_json::from_str(job).map_err(Into::into).and_then(|job| experiments::serve(name, &job)));
    }
    let names = ALL.map(|experiment| experiment.name);
    let usage = format!("{USAGE}Experiments: {}\n", names.join(", "));
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h")) {
        print!("{usage}");
        return ExitCode::SUCCESS;
    }
    match Options::parse(arguments.into_iter(), &names) {
        Ok(options) => ended(run(options)),
        Err(message) => {
            eprint!("{message}\n{usage}");
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
    // A path that cannot be written is reported before anything is measured.
    for path in options.json.iter().chain(&options.html) {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        opened.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let mut report = match &options.from {
        Some(path) => Report::read(path)?,
        None => measure(options.clone()),
    };
    let page = page(&report);
    print!("{}", page.text());
    page.write(&mut report, options.json.as_deref(), options.html.as_deref())?;
    if let Some(directory) = &options.docs {
        document::update(directory, &report, &page)?;
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

fn page(report: &Report) -> Page {
    let mut overview = vec![
        ("What it must show".to_owned(), bars::grid(report)),
        ("The thesis' six characteristics".to_owned(), characteristics::grid(report)),
    ];
    overview.extend(kernel_calls::grid(report).map(|grid| ("One column by vm_snapshot".to_owned(), grid)));
    Page {
        title: "Snapshots of memory, by mechanism".to_owned(),
        about: about::lines(report),
        overview,
        sections: experiments::sections(report),
        left_out: about::not_measured(report),
    }
}
