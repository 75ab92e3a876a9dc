//! Timeouts and cancel requests while PostgreSQL evaluates values for the engine, and at any other moment. The
//! statement must end as it would without pg_anker, and the session must stay usable.

use std::time::Duration;

use bench::cluster::{Cluster, wait_until};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![
    timeouts_while_values_are_evaluated,
    a_trapped_timeout_costs_no_later_write,
    interrupts_at_any_moment,
    the_engine_stops_looking_at_pairs,
];

const LIVE: Duration = Duration::from_secs(60);

/// A mirrored table, and a slow function whose result is a value that the engine needs.
fn slow_values(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
         CREATE TABLE written (id integer);
         CREATE FUNCTION slow(seconds float8) RETURNS integer LANGUAGE plpgsql STABLE AS
         $$ BEGIN PERFORM pg_sleep(seconds); RETURN 1; END $$",
    )?;
    anker::mirror(client, &["t"], LIVE)
}

/// When the scan starts, it evaluates the function `slow`, and the timeout interrupts the function. If the heap's plan
/// is made first, the planner also calls the function, to estimate the number of rows.
const SLOW: &str = "SELECT count(*) FROM t WHERE v > slow(0.4) AND anker.olap()";

fn count(client: &mut Client, table: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {table}"), &[])?.get(0))
}

fn expect_timeout(client: &mut Client, sql: &str) -> Result<()> {
    let error = client.simple_query(sql).err().ok_or_else(|| format!("no timeout: {sql}"))?;
    ensure!(error.code() == Some(&SqlState::QUERY_CANCELED), "{sql}: {}", bench::describe(&error));
    Ok(())
}

fn timeouts_while_values_are_evaluated(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    slow_values(&mut client)?;
    let by = anker::explained(&mut client, "SELECT count(*) FROM t WHERE v > slow(0) AND anker.olap()")?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    let mut session = cluster.connect()?;
    session.batch_execute("SET statement_timeout = '200ms'")?;
    for round in 0..3 {
        expect_timeout(&mut session, SLOW)?;
        session.batch_execute(&format!("INSERT INTO written VALUES ({round})"))?;
        // Within a transaction, an interrupted statement rolls back the transaction's other writes, too.
        session.batch_execute("BEGIN; INSERT INTO written VALUES (100)")?;
        expect_timeout(&mut session, SLOW)?;
        session.batch_execute("ROLLBACK")?;
        // Writes before the savepoint are kept, those after it are rolled back.
        session
            .batch_execute("BEGIN; INSERT INTO written VALUES (200); SAVEPOINT s; INSERT INTO written VALUES (100)")?;
        expect_timeout(&mut session, SLOW)?;
        session.batch_execute("ROLLBACK TO s; INSERT INTO written VALUES (300); COMMIT")?;
    }
    ensure!(count(&mut client, "written")? == 9, "{} rows were written", count(&mut client, "written")?);
    ensure!(count(&mut client, "written WHERE id = 100")? == 0, "a write that was rolled back is there");
    Ok(())
}

fn a_trapped_timeout_costs_no_later_write(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    slow_values(&mut client)?;
    client.batch_execute(
        "CREATE FUNCTION trapping() RETURNS text LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO written VALUES (1);
             BEGIN
                 INSERT INTO written VALUES (2);
                 PERFORM count(*) FROM t WHERE v > slow(0.4) AND anker.olap();
                 RETURN 'counted';
             EXCEPTION WHEN query_canceled THEN
                 INSERT INTO written VALUES (3);
                 RETURN 'trapped';
             END;
         END $$",
    )?;
    let mut session = cluster.connect()?;
    session.batch_execute("SET statement_timeout = '500ms'")?;
    let rows = anker::text_rows(&mut session, "SELECT trapping()")?;
    ensure!(rows == ["trapped"], "{rows:?}");
    session.batch_execute("INSERT INTO written VALUES (4)")?;
    drop(session);
    let mut rows = anker::text_rows(&mut client, "SELECT id FROM written")?;
    rows.sort_unstable();
    ensure!(rows == ["1", "3", "4"], "rows that were written: {rows:?}");
    Ok(())
}

/// Timeouts and cancel requests interrupt sessions at every stage of a flagged query. The sessions also write rows
/// before and after the query. At the end, the table must have exactly the rows of the transactions that were
/// committed.
fn interrupts_at_any_moment(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    slow_values(&mut client)?;
    client.batch_execute(
        "CREATE TABLE wide (id integer PRIMARY KEY, g integer, v text);
         INSERT INTO wide SELECT i, i % 10, 'row number ' || i FROM generate_series(1, 30000) i; ANALYZE wide;
         DROP TABLE written; CREATE TABLE written (round integer, word text);
         CREATE FUNCTION trapping(round integer, query text) RETURNS text LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO written VALUES (round, 'before');
             BEGIN
                 INSERT INTO written VALUES (round, 'within');
                 EXECUTE query;
                 RETURN 'done';
             EXCEPTION WHEN query_canceled THEN
                 INSERT INTO written VALUES (round, 'trapped');
                 RETURN 'trapped';
             END;
         END $$;
         CREATE FUNCTION looping(round integer, query text) RETURNS text LANGUAGE plpgsql AS $$
         DECLARE r record;
         BEGIN
             INSERT INTO written VALUES (round, 'before');
             BEGIN
                 INSERT INTO written VALUES (round, 'within');
                 FOR r IN EXECUTE query LOOP
                 END LOOP;
                 RETURN 'done';
             EXCEPTION WHEN query_canceled THEN
                 INSERT INTO written VALUES (round, 'trapped');
                 RETURN 'trapped';
             END;
         END $$",
    )?;
    anker::mirror(&mut client, &["wide"], LIVE)?;
    let engine = anker::engine_pid(&mut client)?;
    let mut session = Session::start(&cluster)?;
    let mut random = StdRng::seed_from_u64(7);
    let rounds = context.size(400, 80);
    let mut before = None;
    for round in 0..rounds {
        if round == rounds / 5 {
            before = Some((os::open_descriptors(session.pid), os::open_descriptors(engine)));
        }
        session.round(round, &mut random).map_err(|e| format!("round {round}: {e}"))?;
        let cursors = anker::text_rows(&mut session.client, "SELECT name FROM pg_cursors")?;
        ensure!(cursors.is_empty(), "round {round}: cursors {cursors:?} stay");
    }
    let mut written = anker::text_rows(&mut client, "SELECT * FROM written")?;
    written.sort_unstable();
    session.ledger.sort_unstable();
    ensure!(written == session.ledger, "written: {written:?}, should be: {:?}", session.ledger);
    let (interrupted, all) = (session.interrupted, session.asked);
    ensure!(interrupted > all / 8 && interrupted < all, "{interrupted} of {all} statements were interrupted");

    let mut quiet = |column| wait_until(Duration::from_secs(10), || Ok(anker::counter(&mut client, column)? == 0));
    ensure!(quiet("queries_running")?, "queries still run");
    ensure!(quiet("live_snapshots")?, "snapshots are still held");
    let after = (os::open_descriptors(session.pid), os::open_descriptors(engine));
    let (backend, engines) = before.ok_or("too few rounds")?;
    let grown = |before: Option<usize>, after: Option<usize>| after > before.map(|n| n + 5);
    ensure!(!grown(backend, after.0) && !grown(engines, after.1), "descriptors: {before:?}, now {after:?}");
    ensure!(anker::engine_pid(&mut client)? == engine, "the engine was restarted");
    let log = cluster.log();
    let leaks: Vec<&str> = log.lines().filter(|l| l.contains("leak") || l.contains("not closed")).collect();
    ensure!(leaks.is_empty(), "the server's log: {leaks:?}");
    same(&mut session.client, "SELECT g, count(*), min(id) FROM wide WHERE anker.olap() GROUP BY g")?;
    let by = anker::analyzed(&mut session.client, "SELECT count(*) FROM wide WHERE anker.olap()")?;
    ensure!(by.as_deref() == Some("engine"), "at last answered by {by:?}");
    Ok(())
}

/// A session that is interrupted, and the rows that must be in the table at the end.
struct Session {
    client: Client,
    pid: u32,
    canceller: Client,
    ledger: Vec<String>,
    asked: u32,
    interrupted: u32,
}

/// How a statement is interrupted.
#[derive(Clone, Copy)]
enum Interrupt {
    Timeout(u32),
    Cancel(Duration),
}

impl Session {
    fn start(cluster: &Cluster) -> Result<Session> {
        let mut client = cluster.connect()?;
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let canceller = cluster.connect()?;
        Ok(Session { client, pid: pid as u32, canceller, ledger: Vec::new(), asked: 0, interrupted: 0 })
    }

    /// Runs a statement with an interrupt. Returns its rows; `None` if it was interrupted. When this function returns,
    /// the interrupt can no longer hit a later statement.
    fn run(&mut self, sql: &str, interrupt: Interrupt) -> Result<Option<Vec<String>>> {
        self.asked += 1;
        let mut answer = match interrupt {
            Interrupt::Timeout(milliseconds) => {
                self.client.batch_execute(&format!("SET statement_timeout = {milliseconds}"))?;
                anker::text_rows(&mut self.client, sql)
            }
            Interrupt::Cancel(delay) => {
                let (canceller, pid) = (&mut self.canceller, self.pid as i32);
                std::thread::scope(|scope| {
                    let cancelled = scope.spawn(move || {
                        std::thread::sleep(delay);
                        canceller.execute("SELECT pg_cancel_backend($1)", &[&pid])
                    });
                    let answer = anker::text_rows(&mut self.client, sql);
                    cancelled.join().map_err(|_| "the canceller panicked")??;
                    answer
                })
            }
        };
        // A cancel request that arrives late ends this statement instead. In an open transaction, that rolls back the
        // previous statement, too.
        let mut late = None;
        while let Err(error) = self.client.batch_execute("SET statement_timeout = 0") {
            match error.code() {
                Some(&SqlState::QUERY_CANCELED) => late = Some(error),
                Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {
                    answer = late.take().map_or(answer, |late| Err(late.into()));
                    break;
                }
                _ => return Err(format!("after {sql}: {}", bench::describe(&error)).into()),
            }
        }
        match answer {
            Ok(rows) => Ok(Some(rows)),
            Err(error) => {
                let code = error.downcast_ref::<postgres::Error>().and_then(|e| e.code());
                ensure!(code == Some(&SqlState::QUERY_CANCELED), "{sql}: {}", bench::describe(&*error));
                self.interrupted += 1;
                Ok(None)
            }
        }
    }

    /// Runs a statement that must not be interrupted. A timeout that was set in the failed transaction may still
    /// interrupt it; then it is repeated.
    fn calm(&mut self, sql: &str) -> Result<()> {
        loop {
            match self.client.batch_execute(sql) {
                Err(e) if e.code() == Some(&SqlState::QUERY_CANCELED) => {}
                other => return Ok(other?),
            }
        }
    }

    fn write(&mut self, round: u32, word: &str) -> Result<()> {
        self.client.batch_execute(&format!("INSERT INTO written VALUES ({round}, '{word}')"))?;
        Ok(())
    }

    fn note(&mut self, round: u32, words: &[&str]) {
        self.ledger.extend(words.iter().map(|word| format!("{round}|{word}")));
    }

    fn round(&mut self, round: u32, random: &mut StdRng) -> Result<()> {
        let seconds = random.random_range(0.0..0.05);
        // In each query, another stage takes long: planning and evaluating values, evaluating values alone, computing
        // in the engine, sending many rows, fetching rows ahead, and grouping.
        let queries = [
            format!("SELECT count(*) FROM t WHERE v > slow({seconds}) AND anker.olap()"),
            format!("SELECT sum(v * slow({seconds})) FROM t WHERE anker.olap()"),
            "SELECT count(*), sum(a.id + b.id) FROM wide a, wide b WHERE a.g = b.g AND a.id + b.id > 0 AND anker.olap()"
                .to_owned(),
            "SELECT * FROM wide WHERE anker.olap()".to_owned(),
            "SELECT id + 1 FROM wide WHERE anker.olap() ORDER BY v".to_owned(),
            "SELECT g, count(*), min(v) FROM wide WHERE anker.olap() GROUP BY g".to_owned(),
        ];
        let query = queries.choose(random).expect("some queries");
        let isolation = ["READ COMMITTED", "REPEATABLE READ"].choose(random).expect("two levels");
        let interrupt = match random.random_bool(0.5) {
            true => Interrupt::Timeout(random.random_range(5..150)),
            false => Interrupt::Cancel(Duration::from_micros(random.random_range(0..120_000))),
        };
        match random.random_range(0..7) {
            0 => {
                self.run(query, interrupt)?;
                self.write(round, "after")?;
                self.note(round, &["after"]);
            }
            1 => {
                let sql = format!("INSERT INTO written SELECT {round}, 'copied' FROM ({query} LIMIT 1) q");
                if self.run(&sql, interrupt)?.is_some() {
                    self.note(round, &["copied"]);
                }
            }
            2 => {
                self.calm(&format!("BEGIN ISOLATION LEVEL {isolation}"))?;
                self.write(round, "before")?;
                if self.run(query, interrupt)?.is_some() {
                    self.write(round, "after")?;
                    self.calm("COMMIT")?;
                    self.note(round, &["before", "after"]);
                } else {
                    self.calm("ROLLBACK; SET statement_timeout = 0")?;
                }
            }
            3 => {
                self.calm(&format!("BEGIN ISOLATION LEVEL {isolation}"))?;
                self.write(round, "before")?;
                self.calm("SAVEPOINT s")?;
                self.write(round, "within")?;
                if self.run(query, interrupt)?.is_some() {
                    self.calm("RELEASE s")?;
                    self.note(round, &["within"]);
                } else {
                    self.calm("ROLLBACK TO s")?;
                }
                self.calm("SET statement_timeout = 0")?;
                self.write(round, "after")?;
                self.calm("COMMIT")?;
                self.note(round, &["before", "after"]);
            }
            4 => {
                let function = ["trapping", "looping"].choose(random).expect("two functions");
                let sql = format!("SELECT {function}({round}, $query${query}$query$)");
                match self.run(&sql, interrupt)?.as_deref() {
                    Some([done]) if done == "done" => self.note(round, &["before", "within"]),
                    Some([trapped]) if trapped == "trapped" => {
                        self.interrupted += 1;
                        self.note(round, &["before", "trapped"]);
                    }
                    Some(other) => return Err(format!("{sql}: {other:?}").into()),
                    None => {}
                }
            }
            5 => {
                self.calm(&format!("BEGIN ISOLATION LEVEL {isolation}"))?;
                self.write(round, "before")?;
                let mut done = self.run(&format!("DECLARE c CURSOR FOR {query}"), interrupt)?.is_some();
                for _ in 0..random.random_range(0..4) {
                    let count = random.random_range(1..20_000);
                    let interrupt = Interrupt::Cancel(Duration::from_micros(random.random_range(0..30_000)));
                    done = done && self.run(&format!("FETCH {count} FROM c"), interrupt)?.is_some();
                }
                if done {
                    self.calm("CLOSE c")?;
                    self.write(round, "after")?;
                    self.calm("COMMIT")?;
                    self.note(round, &["before", "after"]);
                } else {
                    self.calm("ROLLBACK; SET statement_timeout = 0")?;
                }
            }
            _ => {
                self.calm(&format!("BEGIN ISOLATION LEVEL {isolation}"))?;
                self.write(round, "before")?;
                self.calm(&format!("DECLARE h CURSOR WITH HOLD FOR {query}"))?;
                if self.run("COMMIT", interrupt)?.is_some() {
                    self.calm("CLOSE h")?;
                    self.note(round, &["before"]);
                }
                self.calm("ROLLBACK; SET statement_timeout = 0")?;
            }
        }
        Ok(())
    }
}

/// Joins without an equality look at every pair of rows. These queries have so many pairs that they would run for
/// hours.
fn the_engine_stops_looking_at_pairs(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE wide (id integer PRIMARY KEY, v integer);
         INSERT INTO wide SELECT i, i % 100 FROM generate_series(1, 400000) i",
    )?;
    anker::mirror(&mut client, &["wide"], LIVE)?;
    let engine = anker::engine_pid(&mut client)?;
    let mut session = cluster.connect()?;
    session.batch_execute("SET statement_timeout = '700ms'")?;
    for sql in [
        "SELECT count(*) FROM wide a WHERE EXISTS (SELECT 1 FROM wide b WHERE a.v + b.v < 0) AND anker.olap()",
        "SELECT a.id FROM wide a LEFT JOIN wide b ON a.v + b.v < 0 WHERE anker.olap()",
        "SELECT id, v > ALL (SELECT b.v - a.v - 1000 FROM wide b WHERE a.v + b.v >= 0) FROM wide a WHERE anker.olap()",
        // Joins by an order comparison have many candidate pairs, too.
        "SELECT count(*) FROM wide a JOIN wide b ON b.v >= a.v WHERE anker.olap()",
        "SELECT count(*) FROM wide a WHERE EXISTS (SELECT 1 FROM wide b WHERE b.v >= a.v AND a.v + b.v < 0) AND anker.olap()",
    ] {
        ensure!(anker::explained(&mut client, sql)?.as_deref() == Some("engine"), "not for the engine: {sql}");
        expect_timeout(&mut session, sql)?;
        let idle = wait_until(LIVE, || {
            let before = os::cpu_time(engine).ok_or("the engine is gone")?;
            std::thread::sleep(Duration::from_millis(300));
            Ok(os::cpu_time(engine).ok_or("the engine is gone")? - before < Duration::from_millis(30))
        })?;
        ensure!(idle, "the engine goes on with {sql}");
        same(&mut client, "SELECT count(*), sum(v) FROM wide WHERE anker.olap()")?;
    }
    Ok(())
}
