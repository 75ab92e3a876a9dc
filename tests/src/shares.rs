//! Limits on the queries of one user. The heap answers a user's queries above a limit, and other users can still run
//! queries in the engine.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker};
use postgres::Client;

use crate::runner::{Context, ensure, tests};

tests![
    a_query_that_finds_no_place_runs_on_the_heap,
    another_user_finds_a_place,
    rows_that_are_sent_along_count_as_query_memory,
];

const LIVE: Duration = Duration::from_secs(60);
const SHORT: &str = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
/// A query that joins every row with half of all rows, which takes minutes.
const LONG: &str =
    "SELECT count(*), sum(a.id + b.id) FROM t a, t b WHERE a.g % 2 = b.g % 2 AND a.id + b.id > 0 AND anker.olap()";

/// A server with one execution slot, in which a user's long query runs until it is cancelled.
struct Taken {
    cluster: Arc<Cluster>,
    client: Client,
    long: JoinHandle<()>,
}

impl Taken {
    fn new(context: &Context) -> Result<Taken> {
        let cluster = context.cluster_with(&Options::default().set("anker.max_queries", "1"))?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        client.batch_execute(
            "CREATE TABLE t (id integer PRIMARY KEY, g integer);
             INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 100000) i; ANALYZE t;
             CREATE ROLE bob LOGIN; GRANT SELECT ON t TO bob; GRANT USAGE ON SCHEMA anker TO bob",
        )?;
        anker::mirror(&mut client, &["t"], LIVE)?;
        let mut session = cluster.connect()?;
        // The query is cancelled at the end, so its result does not matter.
        let long = std::thread::spawn(move || _ = session.simple_query(LONG));
        let runs = wait_until(LIVE, || Ok(anker::counter(&mut client, "queries_running")? == 1))?;
        ensure!(runs, "the long query does not run");
        // If a statement waits for the slot longer than this timeout, the test fails.
        client.batch_execute("SET statement_timeout = '20s'; SET anker.max_wait = '200ms'")?;
        Ok(Taken { cluster, client, long })
    }

    fn end(mut self) -> Result<()> {
        ensure!(!self.long.is_finished(), "the long query was not long enough");
        self.client.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = $1", &[&LONG])?;
        self.long.join().map_err(|_| "the session panicked")?;
        Ok(())
    }
}

fn a_query_that_finds_no_place_runs_on_the_heap(context: &Context) -> Result<()> {
    let mut taken = Taken::new(context)?;
    let client = &mut taken.client;
    let busy = "SELECT coalesce((fallback_reasons->>'busy')::bigint, 0) FROM anker.engine";
    let before = anker::text_rows(client, busy)?;
    let by = anker::analyzed(client, SHORT)?.unwrap_or_default();
    ensure!(by.starts_with("heap") && by.contains("anker.max_queries"), "answered by {by}");
    let after = anker::text_rows(client, busy)?;
    ensure!(before == ["0"] && after == ["1"], "counted {before:?}, then {after:?}");
    ensure!(anker::text_rows(client, SHORT)? == ["100000|100000"], "another answer");
    taken.end()
}

fn another_user_finds_a_place(context: &Context) -> Result<()> {
    let mut taken = Taken::new(context)?;
    // Another query of the user who has the slot came before Bob's, and has more patience.
    let mut session = taken.cluster.connect()?;
    session.batch_execute("SET anker.max_wait = '60s'")?;
    let earlier = std::thread::spawn(move || session.simple_query(SHORT).map(|_| ()));
    let waits = wait_until(LIVE, || Ok(anker::counter(&mut taken.client, "queries_running")? == 2))?;
    ensure!(waits, "the earlier query does not wait");
    let mut bob = taken.cluster.connect_as("bob")?;
    bob.batch_execute("SET statement_timeout = '20s'")?;
    let by = anker::analyzed(&mut bob, SHORT)?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    // After SET ROLE, queries still count for the user who has connected.
    let mut session = taken.cluster.connect()?;
    session.batch_execute("SET statement_timeout = '20s'; SET anker.max_wait = '200ms'; SET ROLE bob")?;
    let by = anker::analyzed(&mut session, SHORT)?.unwrap_or_default();
    ensure!(by.contains("anker.max_queries"), "as another role answered by {by}");
    ensure!(!earlier.is_finished(), "the earlier query has not waited");
    taken.end()?;
    Ok(earlier.join().map_err(|_| "the session panicked")??)
}

/// Every user may raise `anker.max_sent`, so rows that are sent along must count against `anker.query_memory`.
fn rows_that_are_sent_along_count_as_query_memory(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.query_memory", "32MB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer); INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 1000) i;
         CREATE TABLE few AS SELECT i AS id FROM generate_series(1, 1000) i;
         CREATE TABLE many AS SELECT i AS id FROM generate_series(1, 500000) i; ANALYZE t, few, many",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    client.batch_execute("SET anker.max_sent = '1GB'")?;
    let query =
        |plain: &str| format!("SELECT count(*), max(p.id) FROM t JOIN {plain} p ON p.id = t.id WHERE anker.olap()");
    let by = anker::analyzed(&mut client, &query("few"))?;
    ensure!(by.as_deref() == Some("engine"), "few rows: answered by {by:?}");
    let by = anker::analyzed(&mut client, &query("many"))?.unwrap_or_default();
    let right = by.starts_with("heap") && by.contains("anker.query_memory") && by.contains("sent along");
    ensure!(right, "many rows: answered by {by}");
    ensure!(anker::text_rows(&mut client, &query("many"))? == ["1000|1000"], "another answer");
    Ok(())
}
