//! A flagged query raises PostgreSQL's own errors. A cancelled query leaves no files, memory or running queries behind.

use std::time::{Duration, Instant};

use bench::cluster::{Options, wait_until};
use bench::{Result, anker, os};
use postgres::error::SqlState;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::flagged::{Answer, same};
use crate::runner::{Context, ensure, tests};

tests![
    errors_are_postgresqls_own,
    errors_keep_context_and_names,
    errors_show_no_backtraces,
    a_value_that_is_never_used_raises_nothing,
    what_fails_late_leaves_no_file,
    a_cancelled_query_stops,
    cancelled_queries_leave_the_queue,
    nothing_leaks_after_many_cancels,
];

const LIVE: Duration = Duration::from_secs(60);

fn errors_are_postgresqls_own(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, i2 smallint, i4 integer, i8 bigint, f8 float8, n numeric(10,2), d date);
         INSERT INTO t SELECT i, i, i, i, i, i, date '2020-01-01' + i FROM generate_series(1, 3000) i;
         INSERT INTO t VALUES (-1, -32768, -2147483648, -9223372036854775808, 1e308, 99999999.99, 'infinity');
         INSERT INTO t VALUES (0, 0, 0, 0, 0, 0, '-infinity')",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let raising = [
        ("SELECT sum(1 / i4) FROM t WHERE anker.olap()", "22012"),
        ("SELECT count(*) FROM t WHERE 10 % i2 = 1 AND anker.olap()", "22012"),
        ("SELECT 1 / i8 FROM t WHERE anker.olap()", "22012"),
        ("SELECT sum(f8 / f8) FROM t WHERE anker.olap()", "22012"),
        ("SELECT max(n / n) FROM t WHERE anker.olap()", "22012"),
        ("SELECT i2 * 2::smallint FROM t WHERE anker.olap()", "22003"),
        ("SELECT max(i4 - 1) FROM t WHERE anker.olap()", "22003"),
        ("SELECT min(-i4) FROM t WHERE anker.olap()", "22003"),
        ("SELECT sum(i8 * 3) FROM t WHERE anker.olap()", "22003"),
        ("SELECT i4 / -1 FROM t WHERE id < 0 AND anker.olap()", "22003"),
        ("SELECT max(f8 * 10) FROM t WHERE anker.olap()", "22003"),
        ("SELECT count(*) FROM t WHERE d + 2147483647 > d AND anker.olap()", "22008"),
        ("SELECT i4 + 2147483000 AS s, count(*) FROM t WHERE anker.olap() GROUP BY s", "22003"),
    ];
    for (sql, code) in raising {
        let answer = same(&mut client, sql)?;
        ensure!(
            matches!(&answer, Answer::Error { code: c, .. } if c == code),
            "{sql}: not error {code} but {answer:?}"
        );
    }
    // None of these queries raises an error, in whatever order a plan evaluates the conditions.
    for sql in [
        "SELECT count(*) FROM t WHERE id > 0 AND anker.olap() AND i4 * 2 > 10",
        "SELECT sum(i4 + 1), sum(n * n), avg(i8) FROM t WHERE id > 0 AND anker.olap()",
    ] {
        let answer = same(&mut client, sql)?;
        ensure!(matches!(answer, Answer::Rows(_)), "{sql}: {answer:?}");
    }
    Ok(())
}

fn errors_keep_context_and_names(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1);
         CREATE FUNCTION refuse(n integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
             RAISE EXCEPTION 'refused: %', n USING SCHEMA = 's', TABLE = 't', COLUMN = 'c', CONSTRAINT = 'k';
         END $$",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let raising = [
        // Errors of the planner (which evaluates constants), of functions above the engine's rows, and of the heap.
        "SELECT refuse(1)",
        "SELECT refuse(2) FROM t WHERE anker.olap()",
        "SELECT refuse(id) FROM t WHERE anker.olap()",
        "SELECT id FROM t WHERE refuse(id) > 0 AND anker.olap()",
    ];
    for sql in raising {
        let error = client.simple_query(sql).err().ok_or_else(|| format!("{sql}: no error"))?;
        let error = error.as_db_error().ok_or_else(|| format!("{sql}: {error}"))?;
        let names = [error.schema(), error.table(), error.column(), error.constraint()];
        ensure!(names == ["s", "t", "c", "k"].map(Some), "{sql}: names {names:?}");
        let place = error.where_().unwrap_or_default();
        ensure!(place.starts_with("PL/pgSQL function refuse(integer) line 2 at RAISE"), "{sql}: context {place:?}");
    }
    Ok(())
}

fn errors_show_no_backtraces(context: &Context) -> Result<()> {
    let options = Options::default().environment("RUST_BACKTRACE", "1").environment("RUST_LIB_BACKTRACE", "full");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (0);
         CREATE FUNCTION refuse(n integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN
             RAISE EXCEPTION 'refused: %', n; END $$;
         CREATE FUNCTION slow() RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN
             PERFORM pg_sleep(0.4); RETURN -1; END $$",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    wide_table(&mut client, 100_000)?;
    let waiting = format!("SET statement_timeout = '200ms'; {LONG}");
    let raising = [
        // Errors of the extension's own functions.
        "SELECT anker.mirror('pg_class')",
        "SELECT anker.engine_result()",
        // An error of a function that PostgreSQL calls itself.
        "SELECT refuse(1) FROM t WHERE anker.olap()",
        // Errors of the heap's plan, which runs because the engine could not answer.
        "SELECT 1 / id FROM t WHERE anker.olap()",
        "SELECT id FROM t WHERE id > refuse(2) AND anker.olap()",
        // An error that the engine reports.
        "SET anker.fallback = off; SELECT 1 / id FROM t WHERE anker.olap()",
        // An error while the backend evaluates a value for the engine.
        "SET anker.fallback = off; SELECT id FROM t WHERE id > refuse(2) AND anker.olap()",
        // Timeouts: the first while a value is evaluated, the second while the engine computes.
        "SET statement_timeout = '200ms'; SELECT count(*) FROM t WHERE id > slow() AND anker.olap()",
        &waiting,
    ];
    for sql in raising {
        let error = client.simple_query(sql).err().ok_or_else(|| format!("{sql}: no error"))?;
        let error = error.as_db_error().ok_or_else(|| format!("{sql}: {error}"))?;
        let detail = error.detail().unwrap_or_default();
        let told = ["core::", "pg_anker::", "pgrx", ".rs:"].iter().find(|word| detail.contains(**word));
        ensure!(told.is_none(), "{sql}: detail of the error: {detail}");
        client.batch_execute("RESET ALL")?;
    }
    let traced = cluster.log().lines().filter(|line| line.contains("pgrx_pg_sys")).count();
    ensure!(traced == 0, "{traced} lines of backtraces in the server's log");
    Ok(())
}

/// The engine fails at the last row, when the backend has most of the result in a temporary file because it exceeds
/// `work_mem`. The heap then answers.
fn what_fails_late_leaves_no_file(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE late (id integer PRIMARY KEY, f float8);
         INSERT INTO late SELECT i, CASE WHEN i = 200000 THEN 'Infinity' ELSE i / 1e6 END FROM generate_series(1, 200000) i;
         SET work_mem = '64kB'",
    )?;
    anker::mirror(&mut client, &["late"], LIVE)?;
    for query in [
        "SELECT id, f FROM late WHERE exp(f) > 0 AND anker.olap()",
        "SELECT id, max(f) FROM late WHERE anker.olap() GROUP BY id HAVING exp(max(f)) > 0",
    ] {
        let by = anker::analyzed(&mut client, query)?.unwrap_or_default();
        ensure!(by.starts_with("heap"), "{query}: answered by {by}");
        same(&mut client, query)?;
    }
    ensure!(!cluster.log().contains("temporary file leak"), "a file was left behind");
    Ok(())
}

fn a_value_that_is_never_used_raises_nothing(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
         CREATE FUNCTION refuse() RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
         CREATE FUNCTION two() RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN 2; END $$",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let unused = "SELECT sum(v * refuse()) FROM t WHERE id < 0 AND anker.olap()";
    let answer = same(&mut client, unused)?;
    ensure!(matches!(answer, Answer::Rows(_)), "{answer:?}");
    let answer = same(&mut client, "SELECT sum(v * refuse()) FROM t WHERE id > 0 AND anker.olap()")?;
    ensure!(matches!(answer, Answer::Error { .. }), "{answer:?}");
    let by = anker::explained(&mut client, "SELECT sum(v * two()) FROM t WHERE id > 0 AND anker.olap()")?;
    ensure!(by.as_deref() == Some("engine"), "a value that raises nothing: answered by {by:?}");
    // In `unused`, computing a value for the engine raises an error, and then the heap answers. The transaction can
    // still go on.
    client
        .batch_execute(&format!("BEGIN; INSERT INTO t VALUES (-1, 1); ROLLBACK; BEGIN; {unused}; {unused}; COMMIT"))?;
    Ok(())
}

/// This query joins every row with half of all rows, and takes many seconds.
const LONG: &str = "SELECT count(*), sum(a.id + b.id) FROM wide a, wide b WHERE a.g % 2 = b.g % 2 AND a.id + b.id > 0 AND anker.olap()";

fn wide_table(client: &mut postgres::Client, rows: u32) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE wide (id integer PRIMARY KEY, g integer, v text);
         INSERT INTO wide SELECT i, i % 10, 'row number ' || i FROM generate_series(1, {rows}) i; ANALYZE wide"
    ))?;
    anker::mirror(client, &["wide"], LIVE)
}

fn a_cancelled_query_stops(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    wide_table(&mut client, 100_000)?;
    let by = anker::explained(&mut client, LONG)?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    let mut idle = || wait_until(Duration::from_secs(5), || Ok(anker::counter(&mut client, "queries_running")? == 0));

    let mut session = cluster.connect()?;
    session.batch_execute("SET statement_timeout = '300ms'")?;
    let start = Instant::now();
    let error = session.simple_query(LONG).err().ok_or("statement_timeout did nothing")?;
    let said = error.as_db_error().map(|e| (e.code().code(), e.message(), e.detail(), e.hint()));
    let postgresqls = ("57014", "canceling statement due to statement timeout", None, None);
    ensure!(said == Some(postgresqls), "statement_timeout: {said:?} after {:?}", start.elapsed());
    ensure!(start.elapsed() < Duration::from_secs(3), "statement_timeout took {:?}", start.elapsed());
    ensure!(idle()?, "the engine goes on after statement_timeout");

    session.batch_execute("RESET statement_timeout")?;
    let cancel = session.cancel_token();
    let running = std::thread::spawn(move || session.simple_query(LONG).err().and_then(|e| e.code().cloned()));
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    cancel.cancel_query(postgres::NoTls)?;
    let code = running.join().map_err(|_| "the session panicked")?;
    ensure!(code == Some(SqlState::QUERY_CANCELED), "cancelled: {code:?}");
    ensure!(start.elapsed() < Duration::from_secs(2), "a cancel took {:?}", start.elapsed());
    ensure!(idle()?, "the engine goes on after a cancel");

    // pg_terminate_backend stands for a client that goes away.
    let mut session = cluster.connect()?;
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let running = std::thread::spawn(move || session.simple_query(LONG).is_err());
    std::thread::sleep(Duration::from_millis(300));
    cluster.connect()?.execute("SELECT pg_terminate_backend($1)", &[&pid])?;
    ensure!(running.join().map_err(|_| "the session panicked")?, "a terminated session got its answer");
    ensure!(idle()?, "the engine goes on after its client is gone");
    Ok(())
}

fn cancelled_queries_leave_the_queue(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    wide_table(&mut client, 50_000)?;
    // Starts more sessions than the number of queries that may run at once. Each query takes so long that running all
    // of them would take minutes.
    let mut sessions = Vec::new();
    for _ in 0..30 {
        let mut session = cluster.connect()?;
        let cancel = session.cancel_token();
        sessions.push((cancel, std::thread::spawn(move || session.simple_query(LONG).is_err())));
    }
    let all = wait_until(Duration::from_secs(20), || Ok(anker::counter(&mut client, "queries_running")? == 30))?;
    ensure!(all, "the queries did not come together");
    for (cancel, _) in &sessions {
        cancel.cancel_query(postgres::NoTls)?;
    }
    for (_, session) in sessions {
        ensure!(session.join().map_err(|_| "a session panicked")?, "a cancelled session got its answer");
    }
    let mut gone = |column| wait_until(Duration::from_secs(4), || Ok(anker::counter(&mut client, column)? == 0));
    ensure!(gone("queries_running")?, "queries of sessions that have gone stand in the queue");
    ensure!(gone("live_snapshots")?, "snapshots are still held");
    Ok(())
}

fn nothing_leaks_after_many_cancels(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    wide_table(&mut client, 50_000)?;
    let questions =
        [LONG, "SELECT * FROM wide WHERE anker.olap()", "SELECT g, count(*) FROM wide WHERE anker.olap() GROUP BY g"];
    let (worker, engine) = anker::processes(&mut client)?.ok_or("no engine")?;
    let mut session = cluster.connect()?;
    let backend: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let descriptors = || -> Vec<Option<usize>> {
        [engine, worker, backend as u32].iter().map(|pid| os::open_descriptors(*pid)).collect()
    };
    let mut random = StdRng::seed_from_u64(1);
    let cancels = context.size(500, 60);
    let (mut before, mut resident, mut cancelled) = (descriptors(), 0, 0);
    for round in 0..cancels {
        if round == cancels / 5 {
            // By now every pool and cache should have reached its final size, so memory and descriptors must not grow
            // any more.
            (before, resident) = (descriptors(), os::resident_bytes(engine).unwrap_or(0));
        }
        let cancel = session.cancel_token();
        let delay = Duration::from_micros(random.random_range(0..60_000));
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(delay);
            cancel.cancel_query(postgres::NoTls)
        });
        let answer = session.simple_query(questions[random.random_range(0..questions.len())]);
        canceller.join().map_err(|_| "the canceller panicked")??;
        match answer {
            Err(e) if e.code() == Some(&SqlState::QUERY_CANCELED) => cancelled += 1,
            Err(e) => return Err(format!("round {round}: {}", bench::describe(&e)).into()),
            Ok(_) => {
                // The cancel request may arrive late, and cancel this statement instead.
                let _ = session.simple_query("SELECT 1");
            }
        }
    }
    ensure!(cancelled > cancels / 4, "only {cancelled} of {cancels} queries were cancelled");
    let mut quiet = |column| wait_until(Duration::from_secs(5), || Ok(anker::counter(&mut client, column)? == 0));
    ensure!(quiet("queries_running")?, "queries still run");
    ensure!(quiet("live_snapshots")?, "snapshots are still held");
    let after = descriptors();
    let grown = before.iter().zip(&after).any(|(b, a)| a > &b.map(|n| n + 3));
    ensure!(!grown, "descriptors of engine, worker, backend: {before:?}, now {after:?}");
    let now = os::resident_bytes(engine).unwrap_or(0);
    ensure!(now < resident + (128 << 20), "the engine grew from {} to {} MB", resident >> 20, now >> 20);
    ensure!(anker::engine_pid(&mut client)? == engine, "the engine was restarted");
    // On a busy machine the last cancel request may still be on its way. It may end this statement.
    let _ = session.simple_query("SELECT pg_sleep(2)");
    same(&mut session, "SELECT g, count(*), min(id) FROM wide WHERE anker.olap() GROUP BY g")?;
    Ok(())
}
