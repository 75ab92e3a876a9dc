//! Limits that an administrator sets for a role: threads, memory, running queries, time and priority. The role cannot
//! raise them.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker};
use postgres::Client;
use postgres::error::SqlState;

use crate::runner::{Context, ensure, tests};

tests![
    a_role_cannot_raise_its_limits,
    threads_and_priority_are_those_of_the_role,
    memory_is_that_of_the_role,
    running_queries_are_limited,
    a_query_that_takes_too_long_is_cancelled,
];

const LIVE: Duration = Duration::from_secs(60);
const SHORT: &str = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
/// A query that joins every row with half of all rows, which takes minutes.
const LONG: &str =
    "SELECT count(*), sum(a.id + b.id) FROM t a, t b WHERE a.g % 2 = b.g % 2 AND a.id + b.id > 0 AND anker.olap()";

/// A server with a mirrored table and the role bob, which has these settings.
fn with_bob(context: &Context, options: Options, settings: &[(&str, &str)]) -> Result<(Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, v text);
         INSERT INTO t SELECT i, i % 10, md5(i::text) || repeat('x', 100) FROM generate_series(1, 100000) i; ANALYZE t;
         CREATE ROLE bob LOGIN; GRANT SELECT ON t TO bob; GRANT USAGE ON SCHEMA anker TO bob",
    )?;
    for (setting, value) in settings {
        client.batch_execute(&format!("ALTER ROLE bob SET {setting} = '{value}'"))?;
    }
    anker::mirror(&mut client, &["t"], LIVE)?;
    Ok((cluster, client))
}

fn a_role_cannot_raise_its_limits(context: &Context) -> Result<()> {
    let limits = [
        ("anker.query_threads", "1", "2"),
        ("anker.max_query_memory", "16MB", "-1"),
        ("anker.max_user_queries", "1", "-1"),
        ("anker.max_query_time", "5min", "0"),
        ("anker.query_nice", "5", "0"),
    ];
    let values: Vec<_> = limits.iter().map(|(setting, value, _)| (*setting, *value)).collect();
    let (cluster, mut client) = with_bob(context, Options::default(), &values)?;
    let mut bob = cluster.connect_as("bob")?;
    for (setting, value, more) in limits {
        for attempt in [
            format!("SET {setting} = '{more}'"),
            format!("BEGIN; SET LOCAL {setting} = '{more}'"),
            format!("SELECT set_config('{setting}', '{more}', false)"),
            format!("ALTER ROLE bob SET {setting} = '{more}'"),
            format!("SET {setting} = DEFAULT"),
        ] {
            let code = bob.batch_execute(&attempt).err().and_then(|e| e.code().cloned());
            bob.batch_execute("ROLLBACK")?;
            let refused = code == Some(SqlState::INSUFFICIENT_PRIVILEGE);
            ensure!(refused || attempt.ends_with("DEFAULT"), "{attempt}: {code:?}");
        }
        bob.batch_execute("RESET ALL")?;
        let shown = anker::text_rows(&mut bob, &format!("SHOW {setting}"))?;
        ensure!(shown == [value], "{setting} is {shown:?}");
    }
    let options = cluster.config().user("bob").options("-c anker.query_threads=2").connect(postgres::NoTls);
    let code = options.err().and_then(|e| e.code().cloned());
    ensure!(code == Some(SqlState::INSUFFICIENT_PRIVILEGE), "as an option of the connection: {code:?}");
    // A role that was granted a setting can change it.
    client.batch_execute("GRANT SET ON PARAMETER anker.query_threads TO bob")?;
    bob.batch_execute("SET anker.query_threads = 2")?;
    Ok(())
}

/// The threads of the query behind an open cursor, as `anker.activity` shows them.
fn threads(client: &mut Client, session: &mut Client) -> Result<Vec<String>> {
    session.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT v, id FROM t WHERE anker.olap(); FETCH 1 FROM c")?;
    let threads = anker::text_rows(client, "SELECT threads FROM anker.activity")?;
    session.batch_execute("ROLLBACK")?;
    wait_until(LIVE, || Ok(anker::text_rows(client, "SELECT pid FROM anker.activity")?.is_empty()))?;
    Ok(threads)
}

/// The nice values of the engine's threads that run queries, relative to the value of the thread with the least.
fn nice_values(engine: u32) -> Result<Vec<i32>> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{engine}/task"))? {
        let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
        let (name, rest) = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).ok_or("a thread")?;
        let nice: i32 = rest.split_whitespace().nth(16).ok_or("a nice value")?.parse()?;
        all.push((name.to_owned(), nice));
    }
    let least = all.iter().map(|(_, nice)| *nice).min().unwrap_or(0);
    Ok(all.iter().filter(|(name, _)| name == "anker query").map(|(_, nice)| nice - least).collect())
}

fn threads_and_priority_are_those_of_the_role(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_bob(context, Options::default(), &[("anker.query_threads", "1")])?;
    client.batch_execute("CREATE ROLE eve SUPERUSER LOGIN; ALTER ROLE eve SET anker.query_threads = 64")?;
    for (role, expected) in [("postgres", "2"), ("bob", "1"), ("eve", "2")] {
        let mut session = cluster.connect_as(role)?;
        let threads = threads(&mut client, &mut session)?;
        ensure!(threads == [expected], "a query of {role} has {threads:?} threads");
    }
    let engine = anker::engine_pid(&mut client)?;
    ensure!(nice_values(engine)?.iter().all(|nice| *nice == 0), "{:?}", nice_values(engine)?);
    client.batch_execute("ALTER ROLE bob SET anker.query_nice = 15")?;
    let mut bob = cluster.connect_as("bob")?;
    // The second query finds its connection closed, because a thread cannot return to its former priority.
    for _ in 0..2 {
        ensure!(anker::analyzed(&mut bob, SHORT)?.as_deref() == Some("engine"), "bob's query runs on the heap");
    }
    let found = nice_values(engine)?;
    let of = |nice: i32| found.iter().filter(|found| **found == nice).count();
    ensure!(of(0) == 2 && of(15) == 2, "nice values after a query of bob: {found:?}");
    let failures = anker::failures(&mut client)?;
    ensure!(failures == 0, "{failures} queries did not reach the engine");

    // The engine has the settings of the server. Those of a role or a database are not for it.
    client.batch_execute(
        "ALTER ROLE ALL SET anker.query_threads = 1; ALTER ROLE postgres SET anker.query_nice = 19;
         ALTER DATABASE postgres SET anker.query_threads = 1",
    )?;
    client.batch_execute("SELECT pg_terminate_backend(worker_pid) FROM anker.engine")?;
    let mut eve = cluster.connect_as("eve")?;
    let is_new = wait_until(LIVE, || Ok(anker::processes(&mut client)?.is_some_and(|(_, new)| new != engine)))?;
    ensure!(is_new, "no other engine");
    anker::wait_live(&mut client, "t", LIVE)?;
    let threads = threads(&mut client, &mut eve)?;
    ensure!(threads == ["2"], "after the engine's restart a query of eve has {threads:?} threads");
    let found = nice_values(anker::engine_pid(&mut client)?)?;
    ensure!(found.iter().all(|nice| *nice == 0), "nice values of the new engine: {found:?}");
    Ok(())
}

fn memory_is_that_of_the_role(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_bob(context, Options::default(), &[("anker.max_query_memory", "8MB")])?;
    client.batch_execute(
        "CREATE TABLE many AS SELECT i AS id FROM generate_series(1, 100000) i; ANALYZE many; GRANT SELECT ON many TO bob",
    )?;
    let mut bob = cluster.connect_as("bob")?;
    // The lists of groups are held in memory.
    let lists = "SELECT g, length(string_agg(v, ',')) FROM t WHERE anker.olap() GROUP BY g ORDER BY g";
    let sent = "SELECT count(*), max(m.id) FROM t JOIN many m ON m.id = t.id WHERE anker.olap()";
    let memory = "SELECT coalesce((fallback_reasons->>'memory')::bigint, 0) FROM anker.engine";
    let before = anker::text_rows(&mut client, memory)?;
    for sql in [lists, sent] {
        let by = anker::analyzed(&mut client, sql)?;
        ensure!(by.as_deref() == Some("engine"), "a superuser's query is answered by {by:?}: {sql}");
        let by = anker::analyzed(&mut bob, sql)?.unwrap_or_default();
        ensure!(by.starts_with("heap") && by.contains("anker.max_query_memory"), "answered by {by}: {sql}");
        let (same, other) = (anker::text_rows(&mut client, sql)?, anker::text_rows(&mut bob, sql)?);
        ensure!(same == other, "{sql}: {same:?} and {other:?}");
    }
    let after = anker::text_rows(&mut client, memory)?;
    ensure!(before == ["0"] && after == ["4"], "counted {before:?}, then {after:?}");
    // Groups and sorts put rows on disk.
    client.batch_execute(
        "INSERT INTO t SELECT i, i % 10, md5(i::text) || repeat('x', 100) FROM generate_series(100001, 800000) i;
         ALTER ROLE bob SET anker.max_query_memory = '64MB'",
    )?;
    let mut bob = cluster.connect_as("bob")?;
    for sql in [
        "SELECT count(*), sum(n) FROM (SELECT v, id, count(*) AS n FROM t WHERE anker.olap() GROUP BY v, id) g",
        "SELECT sum(id * r) FROM (SELECT id, row_number() OVER (ORDER BY v) AS r FROM t WHERE anker.olap()) n",
    ] {
        let spilled = anker::counter(&mut client, "spilled_bytes")?;
        let by = anker::analyzed(&mut bob, sql)?;
        ensure!(by.as_deref() == Some("engine"), "answered by {by:?}: {sql}");
        ensure!(anker::counter(&mut client, "spilled_bytes")? > spilled, "nothing was put on disk: {sql}");
        let (same, other) = (anker::text_rows(&mut client, sql)?, anker::text_rows(&mut bob, sql)?);
        ensure!(same == other, "{sql}: {same:?} and {other:?}");
    }
    Ok(())
}

fn running_queries_are_limited(context: &Context) -> Result<()> {
    let options = Options::default().set("anker.max_queries", "3");
    let (cluster, mut client) = with_bob(context, options, &[("anker.max_user_queries", "1")])?;
    let mut session = cluster.connect_as("bob")?;
    // The query is cancelled at the end, so its result does not matter.
    let long = std::thread::spawn(move || _ = session.simple_query(LONG));
    let runs = wait_until(LIVE, || Ok(anker::counter(&mut client, "queries_running")? == 1))?;
    ensure!(runs, "the long query does not run");
    let mut bob = cluster.connect_as("bob")?;
    bob.batch_execute("SET statement_timeout = '20s'; SET anker.max_wait = '200ms'")?;
    let by = anker::analyzed(&mut bob, SHORT)?.unwrap_or_default();
    ensure!(by.starts_with("heap") && by.contains("anker.max_user_queries = 1"), "answered by {by}");
    let by = anker::analyzed(&mut client, SHORT)?;
    ensure!(by.as_deref() == Some("engine"), "a query of another user is answered by {by:?}");

    // Each database has an engine of its own, with its own places.
    client.batch_execute("CREATE DATABASE other")?;
    let mut other = cluster.connect_to("other")?;
    anker::create_extension(&mut other)?;
    other.batch_execute(
        "CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 1000) i; ALTER TABLE t ADD PRIMARY KEY (id);
         GRANT SELECT ON t TO bob; GRANT USAGE ON SCHEMA anker TO bob",
    )?;
    anker::mirror(&mut other, &["t"], LIVE)?;
    let mut bobs = cluster.config().user("bob").dbname("other").connect(postgres::NoTls)?;
    let by = anker::analyzed(&mut bobs, SHORT)?;
    ensure!(by.as_deref() == Some("engine"), "in another database answered by {by:?}");

    client.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = $1", &[&LONG])?;
    long.join().map_err(|_| "the session panicked")?;
    // With no place at all, a query does not even ask.
    client.batch_execute("ALTER ROLE bob SET anker.max_user_queries = 0")?;
    let mut bob = cluster.connect_as("bob")?;
    let by = anker::analyzed(&mut bob, SHORT)?.unwrap_or_default();
    ensure!(by.starts_with("heap") && by.contains("anker.max_user_queries = 0"), "answered by {by}");
    ensure!(anker::text_rows(&mut bob, SHORT)? == ["100000|100000"], "another answer");
    Ok(())
}

fn a_query_that_takes_too_long_is_cancelled(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_bob(context, Options::default(), &[("anker.max_query_time", "2s")])?;
    let mut bob = cluster.connect_as("bob")?;
    let start = Instant::now();
    let error = bob.simple_query(LONG).err().ok_or("the query was not cancelled")?;
    let said = error.as_db_error().map(|e| (e.code().clone(), e.message().to_owned()));
    let expected = "canceling statement due to anker.max_query_time".to_owned();
    ensure!(said == Some((SqlState::QUERY_CANCELED, expected)), "the error is {error:?}");
    let took = start.elapsed();
    ensure!(took >= Duration::from_secs(2) && took < Duration::from_secs(20), "it took {took:?}");
    let idle = wait_until(LIVE, || Ok(anker::counter(&mut client, "queries_running")? == 0))?;
    ensure!(idle, "the engine goes on");
    // The time in which nobody reads an open cursor does not count.
    bob.batch_execute(
        "BEGIN; DECLARE c CURSOR FOR SELECT v, id FROM t WHERE id <= 30000 AND anker.olap(); FETCH 1 FROM c",
    )?;
    std::thread::sleep(Duration::from_secs(3));
    bob.batch_execute("MOVE ALL FROM c; COMMIT")?;
    Ok(())
}
