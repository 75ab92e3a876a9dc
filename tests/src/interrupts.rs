//! Timeouts and cancels while values for the engine are evaluated, and at any other moment: the statement ends as it
//! would without us, and the session goes on.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;
use postgres::error::SqlState;

use crate::runner::{Context, ensure, tests};

tests![timeouts_while_values_are_evaluated, a_trapped_timeout_costs_no_later_write];

const LIVE: Duration = Duration::from_secs(60);

/// A mirrored table, and a function that takes its time, as a value that the engine wants.
fn slow_values(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
         CREATE TABLE written (id integer);
         CREATE FUNCTION slow(seconds float8) RETURNS integer LANGUAGE plpgsql STABLE AS
         $$ BEGIN PERFORM pg_sleep(seconds); RETURN 1; END $$",
    )?;
    anker::mirror(client, &["t"], LIVE)
}

/// The planner evaluates it once, to guess how many rows there will be, and the scan a second time, in the middle of
/// which the timeout comes.
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
    session.batch_execute("SET statement_timeout = '500ms'")?;
    for round in 0..3 {
        expect_timeout(&mut session, SLOW)?;
        session.batch_execute(&format!("INSERT INTO written VALUES ({round})"))?;
        // In a transaction, whose other writes go with it.
        session.batch_execute("BEGIN; INSERT INTO written VALUES (100)")?;
        expect_timeout(&mut session, SLOW)?;
        session.batch_execute("ROLLBACK")?;
        // Before a savepoint: kept; behind it: gone.
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
