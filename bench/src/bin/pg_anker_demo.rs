//! The program of the package pg-anker-demo: the demonstration on a PostgreSQL in which pg_anker is installed. Unlike
//! `anker-bench`, it contains no path of the tree that it was built from.

use std::process::ExitCode;
use std::sync::Arc;

use anker_bench::arguments::OUTPUT;
use anker_bench::server::{self, Server};
use anker_bench::{Result, demo, os};

const USAGE: &str =
    "usage: pg_anker_demo [--quick] [--warehouses N] [--seconds N] [--clients N] [--keep] [--svg FILE] [OUTPUT]";

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|argument| ["--help", "-h"].contains(&argument.as_str())) {
        println!("{USAGE}\n{OUTPUT}");
        return ExitCode::SUCCESS;
    }
    match demo::Options::parse(given.into_iter()).map(|options| run(&options)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{}", anker_bench::describe(&*error));
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}\n{USAGE}\n{OUTPUT}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &demo::Options) -> Result<()> {
    options.check()?;
    server::remove_leftovers();
    os::on_interrupt(server::remove_own);
    let mut server = Server::installed()?;
    if options.keep {
        server.keep()?;
    }
    demo::run(&Arc::new(server), options)
}
