//! Tables without a key: their rows are identified by their addresses.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::following::verify_all;
use crate::runner::{Context, ensure, tests};

tests![
    tables_without_any_identity_are_followed,
    equal_rows_are_told_apart,
    addresses_are_used_again,
    rows_that_move_to_another_file_are_loaded_again,
    an_identity_that_comes_or_goes_is_heeded,
    snapshots_between_two_changes_of_equal_rows_are_served,
];

const LIVE: Duration = Duration::from_secs(60);

/// The generation of a table's mirror: it grows whenever the table is loaded again.
fn loads(client: &mut Client, table: &str) -> Result<i64> {
    Ok(client.query_one("SELECT generation FROM anker.tables WHERE relation = $1::text::regclass", &[&table])?.get(0))
}

/// Runs each statement and then compares heap and mirror. None of them may make the table be loaded again.
fn follows(client: &mut Client, table: &str, statements: &[&str]) -> Result<()> {
    let before = loads(client, table)?;
    for statement in statements {
        client.batch_execute(statement).map_err(|e| format!("{statement}: {}", bench::describe(&e)))?;
        verify_all(client, &[table]).map_err(|e| format!("after {statement}: {e}"))?;
    }
    ensure!(loads(client, table)? == before, "{table} was loaded again");
    Ok(())
}

fn tables_without_any_identity_are_followed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    for identity in ["DEFAULT", "NOTHING", "FULL"] {
        client.batch_execute(&format!(
            "DROP TABLE IF EXISTS log;
             CREATE TABLE log (at timestamptz, who text, what text, size numeric, place point);
             ALTER TABLE log ALTER COLUMN what SET STORAGE EXTERNAL, REPLICA IDENTITY {identity};
             INSERT INTO log SELECT now(), 'user ' || i % 7, repeat('long ', i % 900), i, point(i, i)
             FROM generate_series(1, 2000) i"
        ))?;
        anker::mirror(&mut client, &["log"], LIVE)?;
        follows(
            &mut client,
            "log",
            &[
                "INSERT INTO log VALUES (now(), 'one', repeat('x', 50000), 1.5, NULL)",
                // Long values that an update does not touch are not in the WAL.
                "UPDATE log SET size = size + 1 WHERE size > 1000",
                "UPDATE log SET what = what || 'er' WHERE size < 100",
                "UPDATE log SET who = who WHERE size % 2 = 0",
                "DELETE FROM log WHERE size % 5 = 3",
                "INSERT INTO log SELECT * FROM log",
                "BEGIN; UPDATE log SET size = -size; SAVEPOINT a; DELETE FROM log WHERE size < -900; ROLLBACK TO a;
                 UPDATE log SET size = size - 1 WHERE who = 'user 3'; SAVEPOINT b; DELETE FROM log WHERE who = 'user 4';
                 RELEASE b; COMMIT",
                "BEGIN; DELETE FROM log; ROLLBACK",
                "COPY log (size) FROM PROGRAM 'seq 1 3000'",
                "WITH moved AS (DELETE FROM log WHERE size < 50 RETURNING *)
                 INSERT INTO log SELECT at, who, what, size + 7000, place FROM moved",
                "MERGE INTO log USING (VALUES (60), (61), (99999)) AS v (size) ON log.size = v.size
                 WHEN MATCHED AND v.size = 60 THEN DELETE WHEN MATCHED THEN UPDATE SET who = 'merged'
                 WHEN NOT MATCHED THEN INSERT (size) VALUES (v.size)",
                "SELECT count(*) FROM (SELECT 1 FROM log FOR UPDATE) AS locked; UPDATE log SET who = 'locked'",
            ],
        )?;
    }
    Ok(())
}

fn equal_rows_are_told_apart(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE bag (a integer, b text); INSERT INTO bag SELECT i % 3, 'same' FROM generate_series(1, 3000) i",
    )?;
    anker::mirror(&mut client, &["bag"], LIVE)?;
    let some = "ctid IN (SELECT ctid FROM bag ORDER BY ctid DESC LIMIT 100)";
    follows(
        &mut client,
        "bag",
        &[
            &format!("UPDATE bag SET a = 0 WHERE {some}"),
            &format!("DELETE FROM bag WHERE {some}"),
            &format!("BEGIN; UPDATE bag SET b = 'other' WHERE {some}; UPDATE bag SET b = 'same'; COMMIT"),
            "UPDATE bag SET a = NULL, b = NULL",
            &format!("UPDATE bag SET a = 1 WHERE {some}"),
        ],
    )
}

fn addresses_are_used_again(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE heap (n integer, t text) WITH (autovacuum_enabled = off);
         INSERT INTO heap SELECT i, 'row ' || i FROM generate_series(1, 5000) i",
    )?;
    anker::mirror(&mut client, &["heap"], LIVE)?;
    follows(
        &mut client,
        "heap",
        &[
            "DELETE FROM heap WHERE n % 3 = 0",
            "VACUUM heap",
            "INSERT INTO heap SELECT -i, 'again ' || i FROM generate_series(1, 1000) i",
            "BEGIN; INSERT INTO heap SELECT i, 'never' FROM generate_series(1, 500) i; ROLLBACK",
            "VACUUM heap",
            "UPDATE heap SET t = t || '.'",
            "VACUUM heap",
            "UPDATE heap SET n = n + 1",
            // Pruning gives the lines of a page back without a vacuum.
            "SELECT sum(n) FROM heap; UPDATE heap SET n = n - 1 WHERE n < 100; SELECT sum(n) FROM heap",
            "DELETE FROM heap WHERE n > 100",
            "VACUUM (TRUNCATE) heap",
            "INSERT INTO heap SELECT i, 'new' FROM generate_series(1, 3000) i",
            "VACUUM FREEZE heap",
        ],
    )
}

fn rows_that_move_to_another_file_are_loaded_again(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE moved (n integer, t text); CREATE INDEX by_n ON moved (n);
         INSERT INTO moved SELECT 3000 - i, 'row ' || i FROM generate_series(1, 3000) i;
         DELETE FROM moved WHERE n % 2 = 0",
    )?;
    anker::mirror(&mut client, &["moved"], LIVE)?;
    for statement in [
        "VACUUM FULL moved",
        "CLUSTER moved USING by_n",
        "BEGIN; UPDATE moved SET t = 'before'; CLUSTER moved USING by_n; UPDATE moved SET t = 'after' WHERE n < 500;
         DELETE FROM moved WHERE n < 50; INSERT INTO moved VALUES (1, 'new'); COMMIT",
        "BEGIN; SAVEPOINT a; CLUSTER moved; UPDATE moved SET t = 'never'; ROLLBACK TO a; UPDATE moved SET n = n + 1; COMMIT",
        "BEGIN; ALTER TABLE moved ALTER COLUMN n TYPE bigint; UPDATE moved SET n = n * 2; COMMIT",
        "BEGIN; TRUNCATE moved; INSERT INTO moved VALUES (1, 'one'), (1, 'one'); UPDATE moved SET n = 2; COMMIT",
    ] {
        client.batch_execute(statement).map_err(|e| format!("{statement}: {}", bench::describe(&e)))?;
        verify_all(&mut client, &["moved"]).map_err(|e| format!("after {statement}: {e}"))?;
    }
    Ok(())
}

fn an_identity_that_comes_or_goes_is_heeded(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE keyed (id integer, t text); INSERT INTO keyed SELECT i, 'row ' || i FROM generate_series(1, 500) i",
    )?;
    anker::mirror(&mut client, &["keyed"], LIVE)?;
    for statement in [
        "UPDATE keyed SET t = 'without a key' WHERE id < 9",
        "ALTER TABLE keyed ADD PRIMARY KEY (id)",
        "UPDATE keyed SET t = 'with a key', id = -id WHERE id < 9",
        "BEGIN; UPDATE keyed SET t = 'a' WHERE id = 10; ALTER TABLE keyed DROP CONSTRAINT keyed_pkey;
         UPDATE keyed SET id = 11 WHERE id = 12; DELETE FROM keyed WHERE id = 13; COMMIT",
        "INSERT INTO keyed SELECT * FROM keyed",
        "UPDATE keyed SET id = 0",
        "BEGIN; UPDATE keyed SET t = 'full'; ALTER TABLE keyed REPLICA IDENTITY FULL; DELETE FROM keyed WHERE t = 'none';
         UPDATE keyed SET id = 1 WHERE ctid IN (SELECT ctid FROM keyed LIMIT 3); COMMIT",
        "ALTER TABLE keyed REPLICA IDENTITY NOTHING; DELETE FROM keyed WHERE id = 1",
    ] {
        client.batch_execute(statement).map_err(|e| format!("{statement}: {}", bench::describe(&e)))?;
        verify_all(&mut client, &["keyed"]).map_err(|e| format!("after {statement}: {e}"))?;
    }
    Ok(())
}

/// A snapshot may see the later of two changes, each of another one of several equal rows, but not the earlier.
fn snapshots_between_two_changes_of_equal_rows_are_served(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE pair (n integer); INSERT INTO pair VALUES (7), (7)")?;
    anker::mirror(&mut client, &["pair"], LIVE)?;
    let mut first = cluster.connect()?;
    let mut second = cluster.connect()?;
    let mut reader = cluster.connect()?;
    first.batch_execute("BEGIN; UPDATE pair SET n = 1 WHERE ctid = '(0,1)'")?;
    second.batch_execute("UPDATE pair SET n = 2 WHERE ctid = '(0,2)'")?;
    reader.batch_execute(
        "SET anker.fallback = off; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pair WHERE false",
    )?;
    first.batch_execute("COMMIT")?;
    // Another query has the first change applied.
    let now: i64 = client.query_one("SELECT sum(n) FROM pair WHERE anker.olap()", &[])?.get(0);
    let then: i64 = reader.query_one("SELECT sum(n) FROM pair WHERE anker.olap()", &[])?.get(0);
    ensure!((now, then) == (3, 9), "{now} now, and {then} under the older snapshot");
    Ok(())
}
