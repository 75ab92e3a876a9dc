//! Runs the tests one after the other and counts.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, tail};
use bench::server::{self, Server};
use bench::{Result, anker, describe, os};
use postgres::Client;

pub struct Test {
    pub name: &'static str,
    pub run: fn(&Context) -> Result<()>,
}

/// Defines the list of a module's tests: `tests![first, second]`.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub const TESTS: &[crate::runner::Test] =
            &[$(crate::runner::Test { name: stringify!($name), run: $name }),*];
    };
}
pub(crate) use tests;

/// Fails the test with a message, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {{
        let holds: bool = $condition;
        if !holds {
            return Err(format!($($message)+).into());
        }
    }};
}
pub(crate) use ensure;

/// The error of a test that cannot run here, with the reason.
#[derive(Debug)]
pub struct Skipped(pub &'static str);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Skipped {}

/// Skips the test if the server was installed without this library of contrib.
pub fn needs(library: &str) -> Result<()> {
    let file = server::pg_config("--pkglibdir")?.join(format!("{library}.so"));
    match file.exists() {
        true => Ok(()),
        false => Err(Skipped("the server lacks a library of contrib").into()),
    }
}

/// Whether the server was built with ICU.
pub fn has_icu(client: &mut Client) -> Result<bool> {
    let some = "SELECT 1 FROM pg_collation WHERE collprovider = 'i' AND collname LIKE '%-x-icu' LIMIT 1";
    Ok(!anker::text_rows(client, some)?.is_empty())
}

enum Verdict {
    Passed,
    Skipped(String),
    Failed(String),
}

/// The value of `anker.max_wait` in the servers of the tests. On a busy machine the mirror may be a few seconds behind,
/// which must not make a test fail. Tests of an engine that does not answer set a shorter time.
pub const PATIENCE: &str = "15s";

/// The argument of each test: options of the run, and functions that start clusters.
pub struct Context {
    pub quick: bool,
    /// The number of queries to generate, if it was given on the command line, and the seed of the first one.
    pub queries: Option<u32>,
    pub seed: u64,
    /// Whether the heap's output replaces `expected/`.
    pub bless: bool,
    server: Arc<Server>,
    clusters: RefCell<Vec<Arc<Cluster>>>,
}

impl Context {
    /// A running server with the extension preloaded.
    pub fn cluster(&self) -> Result<Arc<Cluster>> {
        self.cluster_with(&Options::default())
    }

    pub fn cluster_with(&self, options: &Options) -> Result<Arc<Cluster>> {
        let cluster = Arc::new(Cluster::start(&self.server, options)?);
        self.clusters.borrow_mut().push(cluster.clone());
        Ok(cluster)
    }

    /// The server, for tests that make their clusters themselves.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// A cluster with the extension created in database `postgres`, and a session there.
    pub fn anker(&self) -> Result<(Arc<Cluster>, Client)> {
        let cluster = self.cluster()?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        Ok((cluster, client))
    }

    /// The directory of the clusters, and of files that several of them share.
    pub fn home(&self) -> &Path {
        self.server.home()
    }

    /// Notes that the test crashes this cluster's server on purpose.
    pub fn expect_crash(&self, cluster: &Arc<Cluster>) {
        self.clusters.borrow_mut().retain(|c| !Arc::ptr_eq(c, cluster));
    }

    /// `full`, or `quick` in a quick run.
    pub fn size(&self, full: u32, quick: u32) -> u32 {
        if self.quick { quick } else { full }
    }

    pub fn seconds(&self, full: u32, quick: u32) -> Duration {
        Duration::from_secs(u64::from(self.size(full, quick)))
    }
}

#[derive(Default)]
struct Arguments {
    quick: bool,
    list: bool,
    filter: Option<String>,
    queries: Option<u32>,
    seed: u64,
    bless: bool,
}

const KNOWN: &str = "--quick, --list, --filter TEXT, --queries NUMBER, --seed NUMBER, --bless";

fn arguments() -> std::result::Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--quick" => arguments.quick = true,
            "--list" => arguments.list = true,
            "--bless" if std::env::var_os("CI").is_some() => return Err("--bless is not for CI".into()),
            "--bless" => arguments.bless = true,
            "--filter" => arguments.filter = Some(given.next().ok_or("--filter wants a text")?),
            "--queries" => arguments.queries = Some(number(given.next()).ok_or("--queries wants a number")?),
            "--seed" => arguments.seed = number(given.next()).ok_or("--seed wants a number")?,
            other => return Err(format!("unknown argument {other}; known: {KNOWN}")),
        }
    }
    Ok(arguments)
}

fn number<T: FromStr>(argument: Option<String>) -> Option<T> {
    argument?.parse().ok()
}

pub fn main(modules: &[(&str, &[Test])]) -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let all =
        modules.iter().flat_map(|(module, tests)| tests.iter().map(move |t| (format!("{module}::{}", t.name), t)));
    let (chosen, skipped): (Vec<_>, Vec<_>) =
        all.partition(|(name, _)| arguments.filter.as_ref().is_none_or(|f| name.contains(f.as_str())));
    if arguments.list {
        chosen.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    server::remove_leftovers();
    let server = match Server::install() {
        Ok(mut server) => {
            server.set_everywhere("anker.max_wait", PATIENCE);
            // Ids of statements depend on oids, so EXPLAIN must not show them.
            server.set_everywhere("compute_query_id", "regress");
            Arc::new(server)
        }
        Err(error) => {
            eprintln!("cannot prepare a server: {error}");
            return ExitCode::FAILURE;
        }
    };
    os::on_interrupt(server::remove_own);

    let (mut passed, mut failed, mut skipped) = (0, 0, skipped.len());
    for (name, test) in &chosen {
        let start = Instant::now();
        let verdict = run(test, &server, &arguments);
        let seconds = start.elapsed().as_secs_f64();
        match verdict {
            Verdict::Passed => {
                passed += 1;
                println!("ok     {name} ({seconds:.1} s)");
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("skip   {name}: {why}");
            }
            Verdict::Failed(why) => {
                failed += 1;
                println!("FAILED {name} ({seconds:.1} s): {why}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(test: &Test, server: &Arc<Server>, arguments: &Arguments) -> Verdict {
    let &Arguments { quick, queries, seed, bless, .. } = arguments;
    let context = Context { quick, queries, seed, bless, server: server.clone(), clusters: RefCell::default() };
    // The servers are stopped and dropped, however the test ended.
    let outcome = catch_unwind(AssertUnwindSafe(|| (test.run)(&context)));
    let mut why = match outcome {
        Ok(Ok(())) => String::new(),
        Ok(Err(error)) if error.is::<Skipped>() => return Verdict::Skipped(error.to_string()),
        Ok(Err(error)) => describe(&*error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or("panic".into())
        }
    };
    for cluster in context.clusters.borrow().iter() {
        for line in cluster.crashes() {
            why += &format!("\n  server log: {line}");
        }
        if !why.is_empty() {
            why += &format!("\n  end of the server log:\n{}", tail(&cluster.log(), 25));
        }
    }
    if why.is_empty() { Verdict::Passed } else { Verdict::Failed(why) }
}
