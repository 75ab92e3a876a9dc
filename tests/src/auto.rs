//! Tests of `anker.route = auto`: the side with the lower cost answers, and both sides give the same answer.

use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, wait_until};
use bench::{Result, anker};
use postgres::Client;

use crate::runner::{Context, ensure, tests};

tests![
    the_cheaper_side_answers,
    many_rows_are_the_engines_on_their_way_to_the_client,
    costs_decide,
    what_was_not_asked_for_is_no_error,
    prepared_statements_follow_the_mirror,
    cursors_and_locks_are_the_heaps,
    answers_are_the_heaps,
    calibration_measures_and_changes_nothing,
    calibration_wants_a_table_and_a_right,
];

const LIVE: Duration = Duration::from_secs(120);

fn with_tables(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer NOT NULL, x numeric(9,2), s text);
         CREATE TABLE u (g integer PRIMARY KEY, name text);
         INSERT INTO t SELECT i, i % 100, nullif(i % 1000, 7) / 4.0, 'some text ' || i FROM generate_series(1, 300000) i;
         INSERT INTO u SELECT i, 'g' || i FROM generate_series(0, 99) i;
         CREATE INDEX ON t (g); CREATE INDEX ON t (s); ANALYZE",
    )?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    client.batch_execute("SET anker.route = auto")?;
    Ok((cluster, client))
}

fn chosen(client: &mut Client, sql: &str, engine: bool) -> Result<()> {
    let by = anker::explained(client, sql)?;
    let is_engine = by.as_deref() == Some("engine");
    ensure!(is_engine == engine, "{sql}: {by:?}");
    // EXPLAIN has chosen a side when it planned the query. EXPLAIN ANALYZE plans again, so it must choose the same
    // side.
    let ran = anker::analyzed(client, sql)?;
    ensure!((ran.as_deref() == Some("engine")) == engine, "{sql}: ran as {ran:?}");
    Ok(())
}

fn the_cheaper_side_answers(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    for sql in [
        "SELECT sum(x) FROM t",
        "SELECT g, avg(x), count(*) FROM t GROUP BY g",
        "SELECT name, sum(x) FROM t JOIN u USING (g) GROUP BY name ORDER BY 2 DESC LIMIT 3",
        "SELECT count(*) FROM t WHERE s LIKE '%9%'",
        "SELECT g, sum(x) FROM t a WHERE x > (SELECT avg(x) FROM t b WHERE b.g = a.g) GROUP BY g",
        "WITH r AS (SELECT g, sum(x) AS s FROM t GROUP BY g)
         SELECT name, s FROM u JOIN r USING (g) WHERE s = (SELECT max(s) FROM r) ORDER BY name",
        "SELECT count(*) FROM t a JOIN t b ON b.id = a.id * 5 AND b.x > a.x",
        // The engine sorts one side, and finds partners by searching in it.
        "SELECT count(*) FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.id BETWEEN a.id * 5 AND a.id * 5 + 1 AND b.x > 3)",
        // These queries return many rows to the client. Sending rows does not count as a cost of the engine, because
        // the heap would have to send the same rows.
        "SELECT * FROM t",
        "SELECT s, x FROM t WHERE x > 100",
    ] {
        chosen(&mut client, sql, true)?;
    }
    for sql in [
        "SELECT * FROM t WHERE id = 17",
        "SELECT x FROM t WHERE id IN (1, 2, 3)",
        "SELECT * FROM t LIMIT 10",
        "SELECT * FROM t ORDER BY id LIMIT 10",
        "SELECT sum(x) FROM t WHERE id BETWEEN 1 AND 50",
        "SELECT name, x FROM t JOIN u USING (g) WHERE id = 4",
        "SELECT count(*) FROM u",
        // The engine would sort all rows; the heap looks up only a few in its index.
        "SELECT count(*) FROM u WHERE EXISTS (SELECT FROM t b WHERE b.id > u.g * 3000)",
        // The engine would compare all pairs of rows, because it cannot search texts in the order of a locale. The heap
        // scans ranges of an index.
        "SELECT count(*) FROM t a WHERE id < 5000 AND EXISTS (SELECT FROM t b WHERE b.s BETWEEN a.s AND a.s || 'x' AND b.x > 3)",
    ] {
        chosen(&mut client, sql, false)?;
    }
    // A flag overrides the costs.
    chosen(&mut client, "SELECT count(*) FROM u WHERE anker.olap()", true)
}

/// The cost of returning a table's rows depends on where they go. If PostgreSQL only hands the rows on to the client,
/// this cost counts as zero, because the heap would have to send the same rows.
fn many_rows_are_the_engines_on_their_way_to_the_client(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    client.batch_execute("PREPARE all_rows AS SELECT * FROM t")?;
    chosen(&mut client, "EXECUTE all_rows", true)?;
    client.batch_execute("CREATE TABLE copied (id integer, g integer, x numeric(9,2), s text)")?;
    chosen(&mut client, "INSERT INTO copied SELECT * FROM t", false)?;
    let by = anker::explained(&mut client, "CREATE TABLE other AS SELECT * FROM t")?;
    ensure!(by.as_deref() != Some("engine"), "CREATE TABLE AS: {by:?}");
    client.batch_execute(
        "CREATE FUNCTION longest() RETURNS integer LANGUAGE plpgsql AS $$
         DECLARE r record; longest integer := 0;
         BEGIN FOR r IN SELECT * FROM t LOOP longest := greatest(longest, length(r.s)); END LOOP; RETURN longest; END $$",
    )?;
    let before = anker::counter(&mut client, "queries_served")?;
    anker::text_rows(&mut client, "SELECT longest()")?;
    let after = anker::counter(&mut client, "queries_served")?;
    ensure!(before == after, "the function's rows came from the engine");
    Ok(())
}

fn costs_decide(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    let sum = "SELECT sum(x) FROM t";
    for setting in ["anker.engine_startup_cost", "anker.engine_value_cost"] {
        chosen(&mut client, sum, true)?;
        client.batch_execute(&format!("SET {setting} = 1000000"))?;
        chosen(&mut client, sum, false)?;
        client.batch_execute(&format!("RESET {setting}"))?;
    }
    let free = "SET anker.engine_startup_cost = 0; SET anker.engine_value_cost = 0; SET anker.engine_row_cost = 0;
        SET anker.engine_result_cost = 0";
    client.batch_execute(free)?;
    chosen(&mut client, "SELECT * FROM t WHERE g = 5", true)?;
    chosen(&mut client, "SELECT * FROM t WHERE id = 5", false)
}

/// Under `auto` no query asks for the engine by itself. So a query that runs on the heap does not count as a fallback,
/// and is no error under `anker.fallback = off`.
fn what_was_not_asked_for_is_no_error(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    let fallbacks = anker::counter(&mut client, "fallbacks")?;
    client.batch_execute(
        "SET anker.fallback = off; SET anker.max_sent = 0;
         SELECT sum(x) FROM t TABLESAMPLE SYSTEM (100);
         BEGIN; INSERT INTO t VALUES (0, 0, 1, 'new'); SELECT sum(x) FROM t; ROLLBACK",
    )?;
    let now = anker::counter(&mut client, "fallbacks")?;
    ensure!(now == fallbacks, "{} queries that nobody had asked the engine count as fallbacks", now - fallbacks);
    Ok(())
}

fn prepared_statements_follow_the_mirror(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    client.batch_execute("PREPARE p (integer) AS SELECT g, sum(x) FROM t WHERE id > $1 GROUP BY g ORDER BY g")?;
    let rows = |client: &mut Client| anker::text_rows(client, "EXECUTE p (1000)");
    let expected = rows(&mut client)?;
    let served = anker::counter(&mut client, "queries_served")?;
    for _ in 0..8 {
        ensure!(rows(&mut client)? == expected, "another answer");
    }
    ensure!(anker::counter(&mut client, "queries_served")? >= served + 7, "the engine was not asked");
    client.batch_execute("SELECT anker.unmirror('t')")?;
    ensure!(rows(&mut client)? == expected, "another answer without the mirror");
    client.batch_execute("ALTER TABLE t ADD COLUMN more integer; UPDATE t SET x = 0 WHERE id = 299999")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let changed = rows(&mut client)?;
    client.batch_execute("SET anker.route = off; DEALLOCATE p")?;
    client.batch_execute("PREPARE p (integer) AS SELECT g, sum(x) FROM t WHERE id > $1 GROUP BY g ORDER BY g")?;
    ensure!(rows(&mut client)? == changed && changed != expected, "an answer from before the change");
    Ok(())
}

fn cursors_and_locks_are_the_heaps(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "BEGIN; DECLARE c CURSOR FOR SELECT g, x FROM t WHERE g = 5 FOR UPDATE; MOVE 2 IN c;
         UPDATE t SET x = -1 WHERE CURRENT OF c;
         DECLARE d SCROLL CURSOR FOR SELECT g, sum(x) FROM t GROUP BY g; MOVE 50 IN d; FETCH BACKWARD 3 IN d; COMMIT",
    )?;
    let updated = anker::text_rows(&mut client, "SELECT count(*) FROM t WHERE x = -1")?;
    ensure!(updated == ["1"], "the cursor's row was not updated: {updated:?}");
    Ok(())
}

fn answers_are_the_heaps(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    for sql in [
        "SELECT g, sum(x), min(s) COLLATE \"C\" FROM t GROUP BY g ORDER BY g",
        "SELECT id, s FROM t ORDER BY x DESC NULLS LAST, id LIMIT 5",
        "SELECT count(*) FROM t WHERE id < 20 AND x IS NOT NULL",
        "SELECT name FROM u WHERE NOT EXISTS (SELECT FROM t WHERE t.g = u.g AND x > 249) ORDER BY name",
        "SELECT (SELECT count(*) FROM t WHERE t.g = u.g), name FROM u ORDER BY 2",
    ] {
        let by_cost = anker::text_rows(&mut client, sql)?;
        client.batch_execute("SET anker.route = off")?;
        let heap = anker::text_rows(&mut client, sql)?;
        client.batch_execute("SET anker.route = auto")?;
        ensure!(by_cost == heap && !heap.is_empty(), "{sql}: {by_cost:?} instead of {heap:?}");
    }
    Ok(())
}

const COSTS: [&str; 4] =
    ["anker.engine_startup_cost", "anker.engine_value_cost", "anker.engine_row_cost", "anker.engine_result_cost"];

fn calibration_measures_and_changes_nothing(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    // Calibration calls PostgreSQL's own functions, even if the search path leads to a user's function with the same
    // name.
    client.batch_execute(
        "CREATE SCHEMA mine; CREATE FUNCTION mine.max(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1 / 0';
         SET search_path = mine, pg_catalog, public; SET anker.route = hint",
    )?;
    let settings = "SELECT name, setting FROM pg_settings WHERE name NOT LIKE 'transaction%' ORDER BY name";
    let before = anker::text_rows(&mut client, settings)?;
    let rows = client.query("SELECT setting, current, measured, statement FROM anker.calibrate()", &[])?;
    ensure!(anker::text_rows(&mut client, settings)? == before, "a setting is another one afterwards");
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    ensure!(names == COSTS, "{names:?}");
    for row in &rows {
        let (name, current): (String, f64) = (row.get(0), row.get(1));
        let shown: f64 = client.query_one(&format!("SHOW {name}"), &[])?.get::<_, String>(0).parse()?;
        ensure!(shown == current, "{name} is {shown}, not {current}");
        match row.get::<_, Option<f64>>(2) {
            Some(measured) => ensure!(measured > 0.0 && measured.is_finite(), "{name}: {measured}"),
            None => ensure!(row.get::<_, Option<String>>(3).is_none(), "a statement without a value"),
        }
        if let Some(statement) = row.get::<_, Option<String>>(3) {
            client.batch_execute(&statement)?;
        }
    }
    // On a busy machine the other costs may not be measurable.
    ensure!(rows[0].get::<_, Option<f64>>(2).is_some(), "what any query costs was not found");
    // With the measured costs, as with the defaults, a large scan runs in the engine and a lookup by key on the heap.
    // Other load on the machine may spoil a measurement, so the test makes up to three attempts.
    let mut decided = measured_costs_decide(&cluster);
    for _ in 0..2 {
        if decided.is_err() {
            for statement in
                anker::text_rows(&mut client, "SELECT statement FROM anker.calibrate() WHERE statement IS NOT NULL")?
            {
                client.batch_execute(&statement)?;
            }
            decided = measured_costs_decide(&cluster);
        }
    }
    decided
}

fn measured_costs_decide(cluster: &Cluster) -> Result<()> {
    let mut anew = cluster.connect()?;
    anew.batch_execute("SET anker.route = auto")?;
    chosen(&mut anew, "SELECT g, avg(x), count(*) FROM t GROUP BY g", true)?;
    chosen(&mut anew, "SELECT * FROM t WHERE id = 17", false)
}

fn calibration_wants_a_table_and_a_right(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    let refused = |client: &mut Client, sql: &str, code: &str| -> Result<()> {
        match client.batch_execute(sql) {
            Err(error) if error.code().is_some_and(|found| found.code() == code) => Ok(()),
            other => Err(format!("{sql}: {other:?}").into()),
        }
    };
    refused(&mut client, "SELECT * FROM anker.calibrate(1000)", "22023")?;
    client.batch_execute("CREATE ROLE someone; SET ROLE someone")?;
    refused(&mut client, "SELECT * FROM anker.calibrate()", "42501")?;
    // A user who may call the function must also be allowed to read a large table. Tables with row security are not
    // used for measuring, not even for a superuser.
    client.batch_execute("RESET ROLE; GRANT EXECUTE ON FUNCTION anker.calibrate TO someone; SET ROLE someone")?;
    refused(&mut client, "SELECT * FROM anker.calibrate()", "55000")?;
    client.batch_execute(
        "RESET ROLE; GRANT SELECT ON t TO someone; ALTER TABLE t ENABLE ROW LEVEL SECURITY; SET ROLE someone",
    )?;
    refused(&mut client, "SELECT * FROM anker.calibrate()", "55000")?;
    client.batch_execute("RESET ROLE")?;
    refused(&mut client, "SELECT * FROM anker.calibrate()", "55000")?;
    // Calibration fails if the engine cannot answer queries of the large table, because small tables alone do not
    // suffice.
    client.batch_execute("ALTER TABLE t DISABLE ROW LEVEL SECURITY")?;
    client.batch_execute("BEGIN; ALTER TABLE t ALTER COLUMN g DROP NOT NULL")?;
    refused(&mut client, "SELECT * FROM anker.calibrate()", "55000")?;
    client.batch_execute("ROLLBACK")?;
    let by_engine = || Ok(anker::analyzed(&mut client, "SELECT sum(x) FROM t")?.as_deref() == Some("engine"));
    ensure!(wait_until(LIVE, by_engine)?, "the mirror does not follow");
    client.batch_execute("SET statement_timeout = 50")?;
    refused(&mut client, "SELECT * FROM anker.calibrate()", "57014")?;
    client.batch_execute("RESET statement_timeout; SELECT count(*) FROM t")?;
    Ok(())
}
