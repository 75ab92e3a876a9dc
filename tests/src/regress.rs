//! Runs the SQL files of `sql/` by PostgreSQL's own pg_regress, which compares their output with `expected/`.
//!
//! The first line of a file says how the file is run:
//!
//! - `-- engine: at least N`: once with `anker.route = off`, so that the heap answers everything, and once with
//!   `prefer`. With `prefer`, the engine must answer at least N queries. The output must be the same both times.
//! - `-- once, engine: at least N`: once, with the defaults of all settings. This is for files about routing itself.
//!
//! With `--bless`, the output of a file's first run is written to `expected/`. The heap produces this output, unless
//! the file runs only once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker, server};

use crate::runner::{Context, Skipped, Test, ensure, has_icu};

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(fn $name(context: &Context) -> Result<()> {
            run(context, stringify!($name))
        })*
        pub const TESTS: &[Test] = &[
            $(Test { name: stringify!($name), run: $name },)*
            Test { name: "every_file_is_run", run: every_file_is_run },
        ];
    };
}

files![
    aggregates,
    aggregates_bits,
    aggregates_float,
    aggregates_pairs,
    aggregates_spread,
    averages,
    lists,
    value_lists,
    range_joins,
    characters,
    computed_once,
    conditional,
    functions,
    joins,
    numeric,
    numeric_digits,
    dates,
    time_zones,
    intervals,
    text,
    text_functions,
    matching,
    conversions,
    documents,
    unfolded,
    bodies,
    text_orders,
    types,
    nulls,
    select,
    subqueries,
    correlated,
    limits,
    sent,
    partitions,
    windows,
    window_ranges,
    window_values,
    nested,
    rows,
    grouping_sets,
    inserts,
    groups_above,
    cursors,
    prepared,
    transactions,
    errors,
    ddl,
    views_and_rights,
    mirror,
    columns,
    explain,
];

/// The way in which a file is run, as its first line says.
struct Runs {
    routes: &'static [Route],
    by_engine: i64,
}

struct Route {
    /// The route's name, which is also that of the database.
    name: &'static str,
    options: &'static str,
    uses_engine: bool,
}

const BOTH: &[Route] = &[
    Route { name: "off", options: "-c anker.route=off", uses_engine: false },
    Route { name: "prefer", options: "-c anker.route=prefer", uses_engine: true },
];
const ONCE: &[Route] = &[Route { name: "hint", options: "", uses_engine: true }];

impl Runs {
    fn of(sql: &str) -> Result<Runs> {
        let first = sql.lines().next().unwrap_or_default();
        let wanted = "-- [once, ]engine: at least N";
        let rest = first.strip_prefix("-- ").ok_or_else(|| format!("the first line is not {wanted}: {first}"))?;
        let (routes, rest) = rest.strip_prefix("once, ").map_or((BOTH, rest), |rest| (ONCE, rest));
        let number = rest.strip_prefix("engine: at least ").and_then(|n| n.parse().ok());
        Ok(Runs { routes, by_engine: number.ok_or_else(|| format!("the first line is not {wanted}: {first}"))? })
    }
}

fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

fn every_file_is_run(_: &Context) -> Result<()> {
    for entry in fs::read_dir(source("sql"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(TESTS.iter().any(|test| test.name == name), "{} is not in the list of tests", path.display());
    }
    Ok(())
}

fn run(context: &Context, file: &str) -> Result<()> {
    let sql = fs::read_to_string(source("sql").join(format!("{file}.sql")))?;
    let runs = Runs::of(&sql)?;
    // On a busy machine, the mirror may be seconds behind. Queries wait long for it, because an answer of the heap
    // would not count towards the number that the engine must give.
    let options = Options::default()
        .set("anker.max_wait", "30s")
        .set("anker.explain_wait", "30s")
        .set("autovacuum", "off")
        .set("max_prepared_transactions", "2")
        .set("shared_buffers", "64MB");
    let cluster = context.cluster_with(&options)?;
    if sql.contains("icu") && !has_icu(&mut cluster.connect()?)? {
        return Err(Skipped("the server was built without ICU").into());
    }
    let differences: Vec<String> = runs
        .routes
        .iter()
        .enumerate()
        .filter_map(|(number, route)| {
            let bless = context.bless && number == 0;
            compare(&cluster, file, route, runs.by_engine, bless).err()
        })
        .map(|e| e.to_string())
        .collect();
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// Runs the file along one route, in a database of its own. With `bless`, its output becomes the expected one.
fn compare(cluster: &Arc<Cluster>, file: &str, route: &Route, by_engine: i64, bless: bool) -> Result<()> {
    let directory = cluster.directory().join(route.name);
    fs::create_dir(&directory)?;
    // Copies the files, because the user who runs the server may have no access to the source tree.
    for (folder, extension) in [("sql", "sql"), ("expected", "out")] {
        let copy = directory.join(folder);
        fs::create_dir(&copy)?;
        let name = format!("{file}.{extension}");
        if bless && folder == "expected" {
            fs::write(copy.join(&name), "")?;
            continue;
        }
        fs::copy(source(folder).join(&name), copy.join(&name))
            .map_err(|e| format!("{folder}/{name}: {e}; ./test --only regress::{file} --bless writes expected/"))?;
        // Other versions of PostgreSQL may answer differently. pg_regress takes the file that fits.
        for number in 1..=9 {
            let name = format!("{file}_{number}.{extension}");
            if source(folder).join(&name).exists() {
                fs::copy(source(folder).join(&name), copy.join(&name))?;
            }
        }
    }
    cluster.server().own(&directory)?;
    let mut pg_regress = cluster.server().pg_regress();
    pg_regress
        .arg("--host")
        .arg(cluster.directory())
        .arg(format!("--port={}", cluster.port()))
        .arg(format!("--dbname={}", route.name))
        .args(["--user=postgres", "--load-extension=pg_anker"])
        .arg("--inputdir")
        .arg(&directory)
        .arg("--outputdir")
        .arg(&directory)
        .arg(file)
        .env("PGOPTIONS", route.options);
    let outcome = server::run(&mut pg_regress);
    let kept = keep_output(&directory, file, route)?;
    let served = served(cluster, route, by_engine);
    if bless {
        // With `--bless` there may be no expected output yet, so a difference is not a failure. If the run broke off,
        // there is no output to copy, and this fails.
        fs::copy(directory.join(format!("results/{file}.out")), source("expected").join(format!("{file}.out")))?;
    } else if let Err(error) = outcome {
        let served = served.map_or_else(|_| "?".to_owned(), |served| served.to_string());
        let differences = fs::read_to_string(directory.join("regression.diffs")).unwrap_or_else(|_| error.to_string());
        return Err(format!(
            "with anker.route = {} ({served} queries by the engine), see {}:\n{differences}",
            route.name,
            kept.display()
        )
        .into());
    }
    let served = served?;
    let wrong = if route.uses_engine { served < by_engine } else { served > verifications(file)? };
    ensure!(!wrong, "with anker.route = {} the engine answered {served} queries", route.name);
    let failures = anker::failures(&mut cluster.connect_to(route.name)?)?;
    ensure!(
        failures == 0,
        "with anker.route = {} the heap answered for the engine, which failed {failures} times",
        route.name
    );
    Ok(())
}

/// The number of queries that the engine has answered in the route's database. Waits until `expected` is reached,
/// because the counter is updated after the answer.
fn served(cluster: &Cluster, route: &Route, expected: i64) -> Result<i64> {
    let mut client = cluster.connect_to(route.name)?;
    let mut served = 0;
    wait_until(Duration::from_secs(5), || {
        served = anker::counter(&mut client, "queries_served")?;
        Ok(!route.uses_engine || served >= expected)
    })?;
    Ok(served)
}

/// The number of calls of `anker.verify()` in the file. These calls use the engine on every route.
fn verifications(file: &str) -> Result<i64> {
    let sql = fs::read_to_string(source("sql").join(format!("{file}.sql")))?;
    Ok(sql.matches("anker.verify(").count() as i64)
}

/// Copies the output to a directory beside the executable. If the output is right, it can be copied to `expected/`.
fn keep_output(directory: &Path, file: &str, route: &Route) -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let kept = executable.with_file_name("regress").join(route.name);
    fs::create_dir_all(&kept)?;
    let output = kept.join(format!("{file}.out"));
    let result = directory.join(format!("results/{file}.out"));
    if result.exists() {
        fs::copy(result, &output)?;
    }
    Ok(output)
}
