//! PostgreSQL's own regression and isolation tests, on a server with pg_anker and on one without. Their output must be
//! the same.
//!
//! `POSTGRESQL_TESTS` names a directory with `src/test` of PostgreSQL's source, and with the libraries of these tests
//! in `lib`. Without it, the tests here are skipped. `scripts/postgresql-tests.sh` makes the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench::cluster::Options;
use bench::server::{Server, run};
use bench::{Result, anker};

use crate::runner::{Context, Skipped, ensure, tests};

tests![regression_tests_answer_as_without_pg_anker, isolation_tests_answer_as_without_pg_anker];

struct Suite {
    folder: &'static str,
    driver: fn(&Server) -> Command,
    schedule: &'static str,
    database: &'static str,
    at_least: usize,
}

/// The output of each test, and the names of those whose output PostgreSQL does not expect.
struct Results {
    outputs: BTreeMap<String, String>,
    unexpected: BTreeSet<String>,
}

fn regression_tests_answer_as_without_pg_anker(context: &Context) -> Result<()> {
    both_ways(
        context,
        &Suite {
            folder: "regress",
            driver: Server::pg_regress,
            schedule: "parallel_schedule",
            database: "regression",
            at_least: 200,
        },
    )
}

fn isolation_tests_answer_as_without_pg_anker(context: &Context) -> Result<()> {
    both_ways(
        context,
        &Suite {
            folder: "isolation",
            driver: Server::pg_isolation_regress,
            schedule: "isolation_schedule",
            database: "isolation_regression",
            at_least: 100,
        },
    )
}

fn both_ways(context: &Context, suite: &Suite) -> Result<()> {
    let source = std::env::var_os("POSTGRESQL_TESTS").map(PathBuf::from);
    let source = source.ok_or(Skipped("POSTGRESQL_TESTS is not set, see scripts/postgresql-tests.sh"))?;
    let without = results(context, suite, &source, false)?;
    let with = results(context, suite, &source, true)?;
    let different: Vec<_> =
        without.outputs.iter().filter(|(name, output)| with.outputs.get(*name) != Some(output)).collect();
    println!(
        "       {}: {} tests without pg_anker, {} with it, {} of them with another output; not as PostgreSQL expects, \
         without pg_anker: {:?}, with it: {:?}",
        suite.folder,
        without.outputs.len(),
        with.outputs.len(),
        different.len(),
        without.unexpected,
        with.unexpected
    );
    let number = without.outputs.len();
    ensure!(number >= suite.at_least && with.outputs.len() == number, "only {number} and {} tests", with.outputs.len());
    let names: Vec<_> = different.iter().map(|(name, _)| name).collect();
    ensure!(
        different.is_empty(),
        "with pg_anker, these tests have another output, see {}: {names:?}",
        kept(suite)?.display()
    );
    Ok(())
}

/// Runs all tests of the suite on a server of their own.
fn results(context: &Context, suite: &Suite, source: &Path, with: bool) -> Result<Results> {
    let options = Options::default().set("max_prepared_transactions", "2").set("shared_buffers", "128MB");
    let options = if with { options } else { options.unset("shared_preload_libraries") };
    let cluster = context.cluster_with(&options)?;
    // A copy, because the user who runs the server may have no access to the source, and some tests write beside it.
    let copy = cluster.directory().join("tests");
    fs::create_dir(&copy)?;
    run(Command::new("cp").arg("-R").arg(source.join("src/test").join(suite.folder)).arg(&copy))?;
    run(Command::new("cp").arg("-R").arg(source.join("lib")).arg(&copy))?;
    let directory = copy.join(suite.folder);
    run(Command::new("chmod").args(["-R", "a+rwX"]).arg(&copy))?;
    let mut driver = (suite.driver)(cluster.server());
    driver.arg("--host").arg(cluster.directory()).arg(format!("--port={}", cluster.port())).arg("--user=postgres");
    driver.arg("--inputdir").arg(&directory).arg("--outputdir").arg(&directory);
    driver.arg("--dlpath").arg(copy.join("lib")).arg("--schedule").arg(directory.join(suite.schedule));
    driver.arg(format!("--dbname={}", suite.database)).arg("--max-connections=20");
    if with {
        driver.arg("--load-extension=pg_anker");
    }
    // The driver fails if one output is not as expected.
    let said = driver.output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let unexpected = said.lines().filter_map(failed).map(str::to_owned).collect();
    let mut outputs = BTreeMap::new();
    let kept = kept(suite)?.join(if with { "with" } else { "without" });
    fs::create_dir_all(&kept)?;
    fs::write(kept.join("log"), cluster.log())?;
    for entry in fs::read_dir(directory.join("results")).map_err(|e| format!("{e}; the driver said:\n{said}"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "out") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let output =
                String::from_utf8_lossy(&fs::read(&path)?).replace(&*cluster.directory().to_string_lossy(), "…");
            fs::write(kept.join(format!("{name}.out")), &output)?;
            outputs.insert(name, output);
        }
    }
    if with {
        let mut client = cluster.connect_to(suite.database)?;
        let version = anker::text_rows(&mut client, "SELECT extversion FROM pg_extension WHERE extname = 'pg_anker'")?;
        ensure!(version.len() == 1, "pg_anker is not in the database");
    }
    Ok(Results { outputs, unexpected })
}

/// The name of the test that a line of the driver reports as failed. The lines have another form since PostgreSQL 16.
fn failed(line: &str) -> Option<&str> {
    match line.strip_prefix("not ok ") {
        Some(rest) => rest.split_whitespace().find(|word| word.starts_with(char::is_alphabetic)),
        None => line
            .contains(" FAILED ")
            .then(|| line.trim_start().trim_start_matches("test ").split_whitespace().next())?,
    }
}

/// The directory beside the executable for the outputs.
fn kept(suite: &Suite) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("upstream").join(suite.folder))
}
