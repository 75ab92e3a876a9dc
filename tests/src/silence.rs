//! If the engine shows no sign of life, no query waits longer for it than allowed, whatever stage the query has
//! reached.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;

use crate::runner::{Context, ensure, tests};

tests![
    nobody_waits_again_for_an_engine_that_has_not_answered,
    queries_that_wait_together_tell_of_one_silence,
    nothing_is_computed_for_an_engine_that_is_not_asked,
    surveys_of_columns_have_the_patience_of_queries,
    an_engine_that_stops_behind_ready_is_given_up,
    an_engine_that_stops_behind_the_first_rows_is_an_error,
    a_busy_engine_is_waited_for,
    a_machine_that_stood_still_is_not_an_engine_that_hangs,
    a_full_listen_queue_is_waited_for_with_interrupts,
];

const LIVE: Duration = Duration::from_secs(60);
/// The time after which a query must have given up a silent engine: ten seconds, as docs/operations.md says, and
/// fifteen more for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(25);

/// A long query, which joins every row with half of all rows.
const LONG: &str =
    "SELECT count(*), sum(a.id + b.id) FROM t a, t b WHERE a.g % 2 = b.g % 2 AND a.id + b.id > 0 AND anker.olap()";

fn with_table(context: &Context, rows: u32) -> Result<(Arc<Cluster>, Client)> {
    let options = Options::default().set("anker.max_queries", "1").set("anker.max_wait", "1s");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(&format!(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, x text);
         INSERT INTO t SELECT i, i % 10, repeat('x', 100) || i FROM generate_series(1, {rows}) i; ANALYZE t"
    ))?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    Ok((cluster, client))
}

type Answered = std::thread::JoinHandle<(Duration, Option<SqlState>)>;

/// Runs statements in a new session with a timeout, and returns how long they took.
fn in_session(cluster: &Cluster, sql: &str) -> Result<Answered> {
    with_patience(cluster, "1s", sql)
}

/// Like [`in_session`], with a value of `anker.max_wait`.
fn with_patience(cluster: &Cluster, max_wait: &str, sql: &str) -> Result<Answered> {
    let mut session = cluster.connect()?;
    session.batch_execute(&format!("SET statement_timeout = '60s'; SET anker.max_wait = '{max_wait}'"))?;
    let sql = sql.to_owned();
    Ok(std::thread::spawn(move || {
        let start = Instant::now();
        let error = session.simple_query(&sql).err().and_then(|e| e.code().cloned());
        (start.elapsed(), error)
    }))
}

fn back_on_the_engine(client: &mut Client) -> Result<()> {
    let mut by = None;
    let back = wait_until(LIVE, || {
        by = anker::analyzed(client, "SELECT count(*) FROM t WHERE anker.olap()")?;
        Ok(by.as_deref() == Some("engine"))
    })?;
    ensure!(back, "at last answered by {by:?}");
    Ok(())
}

/// Only the first session waits for the engine. All other sessions learn from it that the engine does not answer, and
/// use the heap at once.
fn nobody_waits_again_for_an_engine_that_has_not_answered(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 1000)?;
    let sql = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGSTOP)?;
    let told = (0..3).map(|_| anker::analyzed(&mut cluster.connect()?, sql)).collect::<Result<Vec<_>>>();
    let answer = anker::text_rows(&mut client, sql);
    os::kill(engine, os::SIGCONT)?;
    let told: Vec<String> = told?.into_iter().flatten().collect();
    ensure!(told.first().is_some_and(|why| why.contains("in time")), "the first was told {told:?}");
    ensure!(told[1..].iter().all(|why| why.contains("did not answer before")), "others were told {told:?}");
    ensure!(answer? == ["1000|1000"], "the heap has other rows");
    // After a pause, one query asks the engine again. When it answers, all sessions use the engine again.
    back_on_the_engine(&mut client)?;
    for _ in 0..3 {
        let who = anker::analyzed(&mut cluster.connect()?, sql)?;
        ensure!(who.as_deref() == Some("engine"), "behind the first answer: {who:?}");
    }
    Ok(())
}

/// The pause before the next attempt to ask the engine becomes longer only if the attempt gets no answer. Queries that
/// already waited at the same time do not make the pause longer.
fn queries_that_wait_together_tell_of_one_silence(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 1000)?;
    let sql = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGSTOP)?;
    let mut told = || -> Result<[String; 3]> {
        let waiting = (0..8).map(|_| in_session(&cluster, sql)).collect::<Result<Vec<_>>>()?;
        for session in waiting {
            session.join().map_err(|_| "a session panicked")?;
        }
        let first = anker::analyzed(&mut client, sql)?.unwrap_or_default();
        let mut again = first.clone();
        wait_until(Duration::from_secs(10), || {
            again = anker::analyzed(&mut client, sql)?.unwrap_or_default();
            Ok(again.contains("in time"))
        })?;
        Ok([first, again, anker::analyzed(&mut client, sql)?.unwrap_or_default()])
    };
    let told = told();
    os::kill(engine, os::SIGCONT)?;
    let told = told?;
    let pause = |text: &str| text.split("asked again in ").nth(1)?.split(' ').next()?.parse::<u32>().ok();
    // On a busy machine a pause may be over before the query below is planned, which then shows no pause.
    ensure!(pause(&told[0]).is_none_or(|seconds| seconds <= 2), "behind queries that waited together: {told:?}");
    ensure!(told[1].contains("in time"), "nobody asked again: {told:?}");
    ensure!(pause(&told[2]).is_none_or(|seconds| (3..=8).contains(&seconds)), "behind one that asked again: {told:?}");
    back_on_the_engine(&mut client)
}

fn nothing_is_computed_for_an_engine_that_is_not_asked(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context, 1000)?;
    client.batch_execute("CREATE TABLE few (k integer); INSERT INTO few VALUES (1), (2); ANALYZE few")?;
    let sql = "SELECT count(*) FROM t JOIN few ON k = g WHERE anker.olap()";
    let scans = |client: &mut Client| -> Result<(String, i64)> {
        let counted = "SELECT coalesce(pg_stat_get_xact_numscans('few'::regclass), 0)";
        let mut transaction = client.transaction()?;
        // Only the difference is used, because scans of earlier transactions may still be counted.
        let before: i64 = transaction.query_one(counted, &[])?.get(0);
        let told = transaction.query(&format!("EXPLAIN (ANALYZE) {sql}"), &[])?;
        let told = told.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
        let now: i64 = transaction.query_one(counted, &[])?.get(0);
        transaction.commit()?;
        Ok((told, now - before))
    };
    let (told, sent) = scans(&mut client)?;
    ensure!(told.contains("Anker: engine") && sent == 1, "{sent} scans for the engine: {told}");
    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGSTOP)?;
    let mut seen = (String::new(), 0);
    let known = wait_until(LIVE, || {
        seen = scans(&mut client)?;
        Ok(seen.0.contains("did not answer before"))
    });
    os::kill(engine, os::SIGCONT)?;
    ensure!(known?, "the silence is not known: {}", seen.0);
    ensure!(seen.1 == 1, "{} scans, one of them for the heap: {}", seen.1, seen.0);
    back_on_the_engine(&mut client)
}

fn surveys_of_columns_have_the_patience_of_queries(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context, 1000)?;
    let chunks = "SELECT count(*) FROM anker.chunks('t')";
    let columns = "SELECT DISTINCT reason FROM anker.columns";
    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGSTOP)?;
    let mut survey = |sql: &str| {
        let start = Instant::now();
        let told = match client.query(sql, &[]) {
            Ok(rows) => rows.first().map(|row| row.get::<_, String>(0)),
            Err(error) => error.as_db_error().and_then(|e| e.detail()).map(String::from),
        };
        (start.elapsed(), told.unwrap_or_default())
    };
    let told = [chunks, columns, chunks].map(&mut survey);
    os::kill(engine, os::SIGCONT)?;
    let [(first, why), later @ ..] = &told;
    // With anker.max_wait = 1s, a query waits for three seconds.
    ensure!(*first < Duration::from_secs(8) && why.contains("no sign of life for 3 s"), "{told:?}");
    for (took, why) in later {
        ensure!(*took < Duration::from_secs(2) && why.contains("did not answer before"), "{told:?}");
    }
    back_on_the_engine(&mut client)?;
    let chunks = anker::text_rows(&mut client, chunks)?;
    ensure!(chunks == ["3"], "chunks of three columns: {chunks:?}");
    Ok(())
}

fn an_engine_that_stops_behind_ready_is_given_up(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 100_000)?;
    let engine = anker::engine_pid(&mut client)?;
    let long = in_session(&cluster, LONG)?;
    let running = |client: &mut Client, n| {
        wait_until(Duration::from_secs(10), || Ok(anker::counter(client, "queries_running")? == n))
    };
    ensure!(running(&mut client, 1)?, "the long query does not run");
    // The long query has the only execution slot. This query waits for the slot; the engine has already taken its
    // snapshot.
    let queued = with_patience(&cluster, "60s", "SELECT count(*), max(id) FROM t WHERE anker.olap()")?;
    ensure!(running(&mut client, 2)?, "the other query does not queue");
    std::thread::sleep(Duration::from_millis(300));
    os::kill(engine, os::SIGSTOP)?;
    let (took, error) = queued.join().map_err(|_| "the session panicked")?;
    // On the heap the long query would take minutes.
    client.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = $1", &[&LONG])?;
    let (_, cancelled) = long.join().map_err(|_| "the session panicked")?;
    os::kill(engine, os::SIGCONT)?;
    ensure!(error.is_none() && took < GIVEN_UP, "the queued query took {took:?}: {error:?}");
    ensure!(cancelled == Some(SqlState::QUERY_CANCELED), "the long query: {cancelled:?}");
    back_on_the_engine(&mut client)
}

fn an_engine_that_stops_behind_the_first_rows_is_an_error(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 100_000)?;
    let engine = anker::engine_pid(&mut client)?;
    let mut session = cluster.connect()?;
    session.batch_execute(
        "SET statement_timeout = '60s'; BEGIN; DECLARE c CURSOR FOR SELECT * FROM t WHERE anker.olap(); FETCH 1 FROM c",
    )?;
    os::kill(engine, os::SIGSTOP)?;
    let start = Instant::now();
    let error = session.simple_query("FETCH ALL FROM c").err();
    let took = start.elapsed();
    os::kill(engine, os::SIGCONT)?;
    let said = error.as_ref().and_then(|e| e.as_db_error()).map(|e| (e.code().code(), e.message()));
    let expected = ("55000", "columnar engine: engine has shown no sign of life for 10 s");
    ensure!(said == Some(expected) && took < GIVEN_UP, "after {took:?}: {said:?}");
    session.batch_execute("ROLLBACK")?;
    back_on_the_engine(&mut session)
}

/// The engine computes for longer than it may be silent. It sends signs of life, so the query waits for it.
fn a_busy_engine_is_waited_for(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 200_000)?;
    let fallbacks = anker::counter(&mut client, "fallbacks")?;
    let (long, queued) = (with_patience(&cluster, "60s", LONG)?, with_patience(&cluster, "60s", LONG)?);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(14) && !long.is_finished() {
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(!queued.is_finished(), "the queries are too short for this test");
    ensure!(anker::counter(&mut client, "fallbacks")? == fallbacks, "a busy engine was given up");
    let ended = client.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = $1", &[&LONG])?;
    ensure!(ended > 0, "nothing to cancel");
    for session in [long, queued] {
        let (_, error) = session.join().map_err(|_| "the session panicked")?;
        ensure!(error.is_none() || error == Some(SqlState::QUERY_CANCELED), "{error:?}");
    }
    Ok(())
}

/// Backend and engine are both stopped for a while, as if the machine had stood still. After that, neither treats the
/// other as hanging because of the time that has passed.
fn a_machine_that_stood_still_is_not_an_engine_that_hangs(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 100_000)?;
    let engine = anker::engine_pid(&mut client)?;
    let mut session = cluster.connect()?;
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    session.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t WHERE anker.olap(); FETCH 1 FROM c")?;
    os::kill(engine, os::SIGSTOP)?;
    let fetching =
        std::thread::spawn(move || anker::text_rows(&mut session, "FETCH ALL FROM c").map(|rows| rows.len()));
    // By now the session has read everything that was sent to it. It waits in steps of a second, and is in the middle
    // of one.
    std::thread::sleep(Duration::from_millis(1500));
    os::kill(pid as u32, os::SIGSTOP)?;
    std::thread::sleep(Duration::from_secs(15));
    os::kill(pid as u32, os::SIGCONT)?;
    std::thread::sleep(Duration::from_secs(1));
    os::kill(engine, os::SIGCONT)?;
    let rows = fetching.join().map_err(|_| "the session panicked")??;
    ensure!(rows == 99_999, "{rows} rows");
    Ok(())
}

fn a_full_listen_queue_is_waited_for_with_interrupts(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context, 1000)?;
    let engine = anker::engine_pid(&mut client)?;
    let database: u32 = client.query_one("SELECT oid FROM pg_database WHERE datname = current_database()", &[])?.get(0);
    let sockets = std::fs::read_dir(cluster.data().join("pg_stat_tmp"))?.filter_map(|entry| entry.ok());
    let name = database.to_string();
    let socket = sockets.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(&name));
    let socket = socket.ok_or("no socket")?;
    os::kill(engine, os::SIGSTOP)?;
    // The stopped engine accepts no connections, so even closed ones stay in its listen queue. This fills the queue.
    let enough = Arc::new(AtomicBool::new(false));
    let filling = std::thread::spawn({
        let enough = enough.clone();
        move || while !enough.load(Ordering::Relaxed) && UnixStream::connect(&socket).is_ok() {}
    });
    std::thread::sleep(Duration::from_secs(3));
    enough.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(100));
    let full = !filling.is_finished();
    let mut session = cluster.connect()?;
    session.batch_execute("SET statement_timeout = '1s'")?;
    let interrupted = std::thread::spawn(move || {
        let start = Instant::now();
        let error = session.simple_query("SELECT count(*), max(id) FROM t WHERE anker.olap()").err();
        (start.elapsed(), error.and_then(|e| e.code().cloned()))
    });
    let answered = in_session(&cluster, "SELECT count(*), max(id) FROM t WHERE anker.olap()")?;
    let in_time = wait_until(GIVEN_UP, || Ok(interrupted.is_finished() && answered.is_finished()))?;
    os::kill(engine, os::SIGCONT)?;
    ensure!(full, "the listen queue did not fill");
    ensure!(in_time, "a query waits for a full listen queue");
    let (took, error) = interrupted.join().map_err(|_| "the session panicked")?;
    ensure!(error == Some(SqlState::QUERY_CANCELED), "statement_timeout of 1 s: {error:?} after {took:?}");
    let (took, error) = answered.join().map_err(|_| "the session panicked")?;
    ensure!(error.is_none() && took < Duration::from_secs(10), "answered after {took:?}: {error:?}");
    filling.join().map_err(|_| "the connecting thread panicked")?;
    Ok(())
}
