//! Queries that the engine does not answer. Such a query must run on the heap with the right reason, or raise an error
//! whose message helps the user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options};
use bench::{Result, anker};
use postgres::{Client, NoTls};

use crate::flagged::{Answer, ask, same};
use crate::runner::{Context, Skipped, ensure, has_icu, tests};

tests![
    shapes_that_run_on_the_heap,
    types_that_run_on_the_heap,
    a_session_that_wrote_reads_its_own_rows,
    serializable_reads_the_heap,
    route_and_fallback,
    tables_that_cannot_be_mirrored,
    missing_preload,
    a_server_that_is_started_without_the_library,
    a_temporary_child_of_another_session_is_nobody_elses,
    wrong_wal_level,
    a_database_without_the_extension,
    other_encodings_and_collations,
    privileges_hold,
    only_a_mirror_can_be_verified,
    reasons_are_counted_by_their_names,
    reasons_are_documented,
];

const LIVE: Duration = Duration::from_secs(60);

fn with_tables(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), f float8, x text, j json, free numeric, r real);
         CREATE TABLE u (id integer PRIMARY KEY, tid integer);
         CREATE TABLE plain (id integer PRIMARY KEY, g integer);
         CREATE TYPE mood AS ENUM ('calm', 'wild');
         ALTER TABLE t ADD COLUMN m mood, ADD COLUMN a integer[];
         INSERT INTO t SELECT i, i % 5, i / 4.0, i, 'x' || i, '{}', i, i, 'calm', '{1}' FROM generate_series(1, 500) i;
         INSERT INTO u SELECT i, i % 100 FROM generate_series(1, 300) i;
         INSERT INTO plain SELECT i, i FROM generate_series(1, 10) i",
    )?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    Ok((cluster, client))
}

/// Checks that the heap answers the query with the right rows, and that the reason contains the text `because`.
fn heap(client: &mut Client, sql: &str, because: &str) -> Result<()> {
    same(client, sql)?;
    let by = anker::explained(client, sql)?;
    let reason = by.as_deref().and_then(|by| by.strip_prefix("heap, because "));
    ensure!(
        reason.is_some_and(|r| r.contains(because)),
        "{sql}: expected the heap because of \"{because}\", got {by:?}"
    );
    Ok(())
}

fn engine(client: &mut Client, sql: &str) -> Result<()> {
    same(client, sql)?;
    let by = anker::analyzed(client, sql)?;
    ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    Ok(())
}

fn shapes_that_run_on_the_heap(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE FUNCTION size(text) RETURNS integer LANGUAGE sql STABLE AS 'SELECT pg_column_size($1)'",
    )?;
    for (sql, because) in [
        ("SELECT count(*) FROM plain WHERE anker.olap()", "table \"plain\" is not mirrored"),
        (
            "SELECT (SELECT max(tid + t.f) FROM u WHERE tid = t.id) FROM t WHERE anker.olap()",
            "double precision value of the rows around it",
        ),
        (
            "SELECT count(*) FROM t FULL JOIN u ON tid = t.id AND g = (SELECT max(x.tid) FROM u x WHERE x.tid < t.id + u.tid) WHERE anker.olap()",
            "subquery about both sides of a full join",
        ),
        ("SELECT count(*) FROM t x JOIN t y ON x.id < ANY (y.a) WHERE anker.olap()", "array that is not constant"),
        ("SELECT id FROM t WHERE anker.olap() LIMIT (SELECT count(*) FROM u)", "subquery in LIMIT"),
        (
            "SELECT s.* FROM u, LATERAL (SELECT NOT (g > 1), count(*) FROM t WHERE t.g = u.tid GROUP BY ROLLUP ((g > 1))) s WHERE anker.olap()",
            "grouping sets of an expression",
        ),
        (
            "SELECT s.* FROM u, LATERAL (SELECT sum(r) FROM t WHERE t.g = u.tid ) s WHERE anker.olap()",
            "sum(real) depends on row order",
        ),
        ("SELECT count(*) FROM t a JOIN t b ON a.x ~ b.x AND a.id < 9 WHERE anker.olap()", "operator ~"),
        ("SELECT count(*) FROM t a JOIN t b ON sinh(a.g) = sinh(b.g) WHERE anker.olap()", "function sinh"),
        ("SELECT count(*) FROM t TABLESAMPLE SYSTEM (100) WHERE anker.olap()", "TABLESAMPLE"),
        ("SELECT ctid, id FROM t WHERE anker.olap()", "system column"),
        ("SELECT f FROM t WHERE anker.olap() UNION ALL SELECT n FROM t", "set operation of different types"),
        ("SELECT t FROM t WHERE anker.olap()", "whole row"),
        ("SELECT count(*) FROM generate_series(1, 5) WHERE anker.olap()", "function in FROM"),
        ("SELECT id FROM t WHERE id = 1 AND anker.olap() FOR UPDATE", "row locks"),
        ("SELECT pg_column_size(x) FROM t WHERE anker.olap()", "how a value is stored"),
        ("SELECT g, size(x), count(*) FROM t WHERE anker.olap() GROUP BY g, x", "how a value is stored"),
        ("SELECT tid FROM t, u WHERE t.id = tid AND t.f + random() >= 0 AND anker.olap()", "volatile function"),
    ] {
        heap(&mut client, sql, because)?;
    }
    engine(&mut client, "SELECT sum(f), avg(f) FROM t WHERE anker.olap()")?;
    // If the engine cannot compute grouping, aggregates or conditions, PostgreSQL does so over the engine's rows.
    for sql in [
        "SELECT id, middle FROM t, (SELECT avg(tid) AS middle FROM u) s WHERE n > middle AND anker.olap()",
        "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY ROLLUP (g, (g + 1))",
        "SELECT string_agg(x, ',' ORDER BY id) FROM t WHERE anker.olap()",
        "SELECT sum(r) FROM t WHERE anker.olap()",
        "SELECT count(*) FROM t WHERE x ILIKE 'x1%' AND anker.olap()",
        "SELECT count(*) FROM t WHERE exp(g) > 3 AND anker.olap()",
        "SELECT g > 1 AND false, count(*) FROM t WHERE anker.olap() GROUP BY g > 1 AND false",
    ] {
        engine(&mut client, sql)?;
    }
    client.batch_execute("SET anker.float_aggregates = heap")?;
    heap(&mut client, "SELECT sum(f) FROM t WHERE anker.olap()", "sum(double precision) depends on row order")
}

fn types_that_run_on_the_heap(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    for (sql, because) in [
        (
            "SELECT s.* FROM u, LATERAL (SELECT j::text FROM t WHERE t.g = u.tid GROUP BY j::text) s WHERE anker.olap()",
            "conversion through text",
        ),
        (
            "SELECT s.* FROM u, LATERAL (SELECT count(DISTINCT a) FROM t WHERE t.g = u.tid ) s WHERE anker.olap()",
            "equality of integer[]",
        ),
        (
            "SELECT s.* FROM u, LATERAL (SELECT max(a) FROM t WHERE t.g = u.tid ) s WHERE anker.olap()",
            "aggregate max(anyarray)",
        ),
        ("SELECT count(*) FROM t x JOIN t y ON x.a = y.a WHERE anker.olap()", "operator ="),
        ("SELECT a FROM t WHERE anker.olap() UNION SELECT a FROM t", "equality the engine does not know"),
    ] {
        heap(&mut client, sql, because)?;
    }
    for sql in [
        "SELECT j::text, count(*) FROM t WHERE anker.olap() GROUP BY j::text",
        "SELECT free, count(*) FROM t WHERE anker.olap() GROUP BY free",
        "SELECT count(DISTINCT a) FROM t WHERE anker.olap()",
        "SELECT r, count(*) FROM t WHERE anker.olap() GROUP BY r",
        "SELECT sum(free) FROM t WHERE anker.olap()",
        "SELECT max(m) FROM t WHERE anker.olap()",
        "SELECT count(*) FROM t WHERE m > 'calm' AND anker.olap()",
        "SELECT count(*) FROM t WHERE a = '{1}' AND anker.olap()",
        "SELECT count(*) FROM t x JOIN t y USING (free) WHERE anker.olap()",
    ] {
        engine(&mut client, sql)?;
    }
    // The engine only stores the values of these columns; PostgreSQL computes with them.
    engine(&mut client, "SELECT id, j ->> 'k', free * 2, r, m, a[1] FROM t WHERE anker.olap()")?;
    engine(&mut client, "SELECT DISTINCT free, a FROM t WHERE anker.olap() ORDER BY free, a")?;
    engine(&mut client, "SELECT g, count(j), count(free), min(r) FROM t WHERE m = 'calm' AND anker.olap() GROUP BY g")?;
    engine(&mut client, "SELECT id, g, n, f, x FROM t WHERE anker.olap()")?;
    let excluded: Option<Vec<String>> =
        client.query_one("SELECT excluded_columns FROM anker.tables WHERE relation = 't'::regclass", &[])?.get(0);
    ensure!(excluded.as_ref().is_some_and(Vec::is_empty), "excluded columns: {excluded:?}");
    // The column is stored as scaled integers, which cannot hold NaN. When no row has NaN any more, the engine answers
    // queries of the column again.
    client.batch_execute("UPDATE t SET n = 'NaN' WHERE id = 7")?;
    same(&mut client, "SELECT sum(n), count(*), max(n) FROM t WHERE anker.olap()")?;
    engine(&mut client, "SELECT sum(g), count(*) FROM t WHERE anker.olap()")?;
    client.batch_execute("UPDATE t SET n = 1 WHERE id = 7")?;
    same(&mut client, "SELECT sum(n), count(*), max(n) FROM t WHERE anker.olap()")?;
    Ok(())
}

fn a_session_that_wrote_reads_its_own_rows(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    let sql = "SELECT count(*), sum(g) FROM t WHERE anker.olap()";
    client.batch_execute("BEGIN; INSERT INTO t (id, g) VALUES (9000, 1000000)")?;
    let rows = anker::text_rows(&mut client, sql)?;
    ensure!(rows == ["501|1001000"], "a session does not see its own row: {rows:?}");
    let by = anker::analyzed(&mut client, sql)?;
    let wrote = "heap, because this transaction may have written to table";
    ensure!(by.as_deref().is_some_and(|b| b.starts_with(wrote)), "answered by {by:?}");
    client.batch_execute("SAVEPOINT s; DELETE FROM t; ROLLBACK TO s")?;
    ensure!(anker::text_rows(&mut client, sql)? == ["501|1001000"], "after a rolled back savepoint");
    client.batch_execute("ROLLBACK")?;
    engine(&mut client, sql)?;
    client.batch_execute("BEGIN; SAVEPOINT s; UPDATE t SET g = g + 1; RELEASE s")?;
    ensure!(anker::text_rows(&mut client, sql)? == ["500|1500"], "after a released savepoint");
    client.batch_execute("ROLLBACK")?;
    engine(&mut client, sql)
}

fn serializable_reads_the_heap(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    let sql = "SELECT count(*) FROM t WHERE anker.olap()";
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE")?;
    let by = anker::analyzed(&mut client, sql)?;
    client.batch_execute("COMMIT")?;
    ensure!(
        by.as_deref().is_some_and(|b| b.starts_with("heap, because ") && b.to_lowercase().contains("serializable")),
        "{by:?}"
    );
    // A SERIALIZABLE READ ONLY transaction has a safe snapshot at once, if no other transaction writes at that time.
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")?;
    let by = anker::analyzed(&mut client, sql)?;
    client.batch_execute("COMMIT")?;
    ensure!(by.as_deref() == Some("engine"), "alone, a reader was answered by {by:?}");
    let mut writer = cluster.connect()?;
    writer.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET g = g + 1 WHERE id = 1")?;
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")?;
    let by = anker::analyzed(&mut client, sql)?;
    client.batch_execute("COMMIT")?;
    writer.batch_execute("COMMIT")?;
    ensure!(
        by.as_deref().is_some_and(|by| by.contains("serializable")),
        "beside a writer, a reader was answered by {by:?}"
    );
    Ok(())
}

fn route_and_fallback(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    let (flagged, plain) = ("SELECT count(*) FROM t WHERE anker.olap()", "SELECT count(*) FROM t");
    ensure!(anker::analyzed(&mut client, plain)?.is_none(), "an unflagged query is touched");
    client.batch_execute("SET anker.route = 'off'")?;
    let by = anker::analyzed(&mut client, flagged)?;
    ensure!(by.as_deref() != Some("engine"), "anker.route = off: {by:?}");
    client.batch_execute("SET anker.route = 'prefer'")?;
    ensure!(anker::analyzed(&mut client, plain)?.as_deref() == Some("engine"), "anker.route = prefer");
    client.batch_execute("SET anker.route = 'force'")?;
    ensure!(anker::analyzed(&mut client, plain)?.as_deref() == Some("engine"), "anker.route = force");
    let refused = ask(&mut client, "SELECT count(*) FROM t x JOIN t y ON x.a = y.a")?;
    ensure!(matches!(refused, Answer::Error { .. }), "anker.route = force ran {refused:?}");
    ensure!(matches!(ask(&mut client, "SELECT count(*) FROM plain")?, Answer::Rows(_)), "force concerns plain tables");
    client.batch_execute("SET anker.route = 'hint'; SET anker.fallback = off")?;
    let refused = ask(&mut client, "SELECT count(*) FROM t x JOIN t y ON x.a = y.a WHERE anker.olap()")?;
    ensure!(matches!(refused, Answer::Error { .. }), "anker.fallback = off ran {refused:?}");
    Ok(())
}

fn tables_that_cannot_be_mirrored(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE UNLOGGED TABLE unlogged (id integer PRIMARY KEY);
         CREATE TABLE parted (id integer) PARTITION BY RANGE (id);
         CREATE UNLOGGED TABLE parted_low PARTITION OF parted FOR VALUES FROM (1) TO (5);
         CREATE VIEW seen AS SELECT 1 AS id;
         CREATE TEMP TABLE fleeting (id integer PRIMARY KEY)",
    )?;
    for (table, word) in [
        ("unlogged", "unlogged"),
        ("parted", "\"parted_low\", a part of \"parted\": unlogged tables cannot be mirrored"),
        ("seen", "table"),
        ("fleeting", "temporary"),
        ("pg_class", "catalog"),
    ] {
        let error = client.execute("SELECT anker.mirror($1::text::regclass)", &[&table]).err();
        let error = error.ok_or(format!("{table} was mirrored"))?;
        let db = error.as_db_error().ok_or("connection lost")?;
        ensure!(db.message().contains(word), "{table}: {}", db.message());
    }
    Ok(())
}

fn missing_preload(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().unset("shared_preload_libraries"))?;
    let mut client = cluster.connect()?;
    let message = |client: &mut Client, sql: &str| -> Result<String> {
        let error = client.batch_execute(sql).err().ok_or(format!("{sql} worked without preload"))?;
        Ok(bench::describe(&error))
    };
    let said = message(&mut client, "CREATE EXTENSION pg_anker")?;
    ensure!(said.contains("shared_preload_libraries"), "CREATE EXTENSION says: {said}");
    Ok(())
}

/// A server works even if its settings do not load the library, for example after a crash, or on a standby that does
/// not need pg_anker.
fn a_server_that_is_started_without_the_library(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE gone (id integer PRIMARY KEY); INSERT INTO t VALUES (1);
         CREATE TABLE parts (id integer PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE part PARTITION OF parts FOR VALUES IN (1);
         CREATE TABLE later (id integer PRIMARY KEY); CREATE VIEW flagged AS SELECT count(*) FROM t WHERE anker.olap()",
    )?;
    anker::mirror(&mut client, &["t", "gone", "parts"], LIVE)?;
    drop(client);
    let with_library = |names: &str| -> Result<Client> {
        // PostgreSQL uses the last line of a setting.
        let conf = cluster.data().join("postgresql.conf");
        let settings = std::fs::read_to_string(&conf)? + &format!("shared_preload_libraries = '{names}'\n");
        std::fs::write(&conf, settings)?;
        cluster.restart()?;
        cluster.connect()
    };
    let mut client = with_library("")?;
    let rows = |client: &mut Client, sql: &str| anker::text_rows(client, sql).map_err(|e| format!("{sql}: {e}"));
    client.batch_execute("INSERT INTO t VALUES (2)")?;
    ensure!(rows(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")? == ["2"], "a flagged query");
    ensure!(rows(&mut client, "SELECT * FROM flagged")? == ["2"], "a view with the flag");
    client.batch_execute("PREPARE p AS SELECT id FROM t WHERE anker.olap() ORDER BY id; EXECUTE p; EXECUTE p")?;

    // The views have rows that say why nothing is mirrored.
    for (view, shown) in [("tables", 3), ("engine", 1), ("columns", 3)] {
        let reasons = rows(&mut client, &format!("SELECT reason FROM anker.{view}"))?;
        let tells = reasons.iter().all(|reason| reason.contains("shared_preload_libraries"));
        ensure!(tells && reasons.len() == shown, "anker.{view} says {reasons:?}");
    }
    // Each call that is impossible now tells the user how to make it possible.
    for sql in [
        "SELECT anker.mirror('later')",
        "SELECT anker.wait_for_mirror('t')",
        "SELECT anker.verify('t')",
        "SELECT anker.calibrate()",
    ] {
        let error = client.batch_execute(sql).err().ok_or(format!("{sql} worked"))?;
        let hint = error.as_db_error().and_then(|db| db.hint()).unwrap_or_default();
        ensure!(hint.contains("shared_preload_libraries"), "{sql}: {}", bench::describe(&error));
    }
    // Users edit the list, restore dumped tables into it, and create and drop tables.
    client.batch_execute(
        "SELECT anker.unmirror('t'); SELECT anker.unmirror('parts'); INSERT INTO anker.mirrored VALUES ('later'); DROP TABLE gone;
         ALTER TABLE later ADD COLUMN x text; TRUNCATE t",
    )?;
    client.batch_execute("LOAD 'pg_anker'; CREATE TABLE other (id integer)")?;
    drop(client);

    let mut client = with_library("pg_anker")?;
    anker::wait_live(&mut client, "later", LIVE)?;
    let listed = rows(&mut client, "SELECT relation FROM anker.tables")?;
    ensure!(listed == ["later"], "mirrored again: {listed:?}");
    engine(&mut client, "SELECT count(x) FROM later WHERE anker.olap()")?;
    drop(client);
    with_library("")?.batch_execute("DROP EXTENSION pg_anker CASCADE; DROP TABLE t").map_err(Into::into)
}

/// A temporary child table belongs to one session. Queries of other sessions do not read its rows.
fn a_temporary_child_of_another_session_is_nobody_elses(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE parent (id integer PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
         INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2)",
    )?;
    let mut other = cluster.connect()?;
    other.batch_execute("CREATE TEMP TABLE own () INHERITS (parent); INSERT INTO own VALUES (3)")?;
    anker::mirror(&mut client, &["parent"], LIVE)?;
    let sql = "SELECT count(*), sum(id) FROM parent WHERE anker.olap()";
    engine(&mut client, sql)?;
    ensure!(anker::text_rows(&mut client, sql)? == ["2|3"], "another session's rows");
    heap(&mut other, sql, "not mirrored")?;
    ensure!(anker::text_rows(&mut other, sql)? == ["3|6"], "the session's own rows");
    // PostgreSQL may use a cached plan only as long as the table has the same children as when the plan was made.
    client.batch_execute(&format!("PREPARE p AS {sql}"))?;
    client.batch_execute("EXECUTE p; CREATE TEMP TABLE mine () INHERITS (parent); INSERT INTO mine VALUES (10)")?;
    ensure!(anker::text_rows(&mut client, "EXECUTE p")? == ["3|13"], "a child of the session's own is left out");
    Ok(())
}

fn wrong_wal_level(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("wal_level", "replica"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    // The call may raise an error at once, or succeed and let the view say why nothing happens. In both cases the
    // message must name the setting.
    let said = match client.batch_execute("SELECT anker.mirror('t')") {
        Err(error) => bench::describe(&error),
        Ok(()) => anker::text_rows(&mut client, "SELECT state, reason FROM anker.tables")?.join("; "),
    };
    ensure!(said.contains("wal_level"), "anker.mirror says: {said}");
    // Creates the state of a server whose `wal_level` was changed after a table had been listed.
    client.batch_execute("INSERT INTO anker.mirrored VALUES ('t')")?;
    let shown = anker::text_rows(&mut client, "SELECT state, reason FROM anker.tables")?;
    ensure!(shown.iter().any(|row| row.contains("wal_level")), "anker.tables says: {shown:?}");
    heap(&mut client, "SELECT id FROM t WHERE anker.olap()", "wal_level")
}

fn a_database_without_the_extension(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE DATABASE bare")?;
    let mut bare = cluster.connect_to("bare")?;
    bare.batch_execute("CREATE TABLE t (id integer); INSERT INTO t VALUES (1); SET anker.route = 'prefer'")?;
    ensure!(anker::text_rows(&mut bare, "SELECT id FROM t")? == ["1"], "a plain database does not work");
    drop(bare);
    // Two databases with a mirror each; one of them is dropped while it has its mirror.
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1), (2)")?;
    client.batch_execute("CREATE DATABASE second")?;
    let mut second = cluster.connect_to("second")?;
    anker::create_extension(&mut second)?;
    second.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (3)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    anker::mirror(&mut second, &["t"], LIVE)?;
    engine(&mut client, "SELECT id FROM t WHERE anker.olap()")?;
    engine(&mut second, "SELECT id FROM t WHERE anker.olap()")?;
    second.batch_execute("SELECT anker.unmirror('t'); DROP EXTENSION pg_anker")?;
    drop(second);
    let dropped = bench::cluster::wait_until(Duration::from_secs(30), || {
        Ok(client.batch_execute("DROP DATABASE IF EXISTS second WITH (FORCE)").is_ok())
    })?;
    ensure!(dropped, "a database cannot be dropped after its mirror was");
    engine(&mut client, "SELECT id FROM t WHERE anker.olap()")
}

fn other_encodings_and_collations(context: &Context) -> Result<()> {
    let latin = context.cluster_with(&Options::default().locale("C", "LATIN1"))?;
    let mut client = latin.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, x text); INSERT INTO t VALUES (1, 'é'), (2, 'e')")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    engine(&mut client, "SELECT x FROM t WHERE anker.olap()")?;
    engine(&mut client, "SELECT count(x), length(x) FROM t WHERE anker.olap() GROUP BY id")?;
    heap(&mut client, "SELECT count(*) FROM t a JOIN t b USING (x) WHERE anker.olap()", "operator =")?;
    engine(&mut client, "SELECT count(*) FROM t WHERE x = 'e' AND anker.olap()")?;
    same(&mut client, "SELECT id FROM t WHERE x = 'é' AND anker.olap()")?;
    engine(&mut client, "SELECT sum(id) FROM t WHERE anker.olap()")?;
    // The test's tables and columns have names with characters outside of ASCII, which are in the database's encoding.
    client.batch_execute(
        "CREATE TABLE \"größe\" (id integer PRIMARY KEY, \"maß\" jsonb); INSERT INTO \"größe\" VALUES (1), (2);
         CREATE TABLE named (id integer PRIMARY KEY)",
    )?;
    heap(&mut client, "SELECT id FROM \"größe\" WHERE anker.olap()", "not mirrored")?;
    anker::mirror(&mut client, &["\"größe\"", "named"], LIVE)?;
    engine(&mut client, "SELECT sum(id) FROM \"größe\" WHERE anker.olap()")?;
    engine(&mut client, "SELECT \"maß\" FROM \"größe\" WHERE anker.olap()")?;
    engine(&mut client, "SELECT \"maß\", count(*) FROM \"größe\" WHERE anker.olap() GROUP BY 1")?;
    client.batch_execute("ALTER TABLE named RENAME TO \"ihré\"; ALTER TABLE \"ihré\" ADD COLUMN y integer")?;
    anker::wait_live(&mut client, "\"ihré\"", LIVE)?;
    engine(&mut client, "SELECT sum(y) FROM \"ihré\" WHERE anker.olap()")?;
    ensure!(anker::verify(&mut client, "\"größe\"")?.is_empty(), "heap and mirror differ");
    client.batch_execute(
        "CREATE TABLE many (id integer PRIMARY KEY, \"zähler\" integer); INSERT INTO many SELECT generate_series(1, 20000)",
    )?;
    anker::mirror(&mut client, &["many"], LIVE)?;
    let costs = anker::text_rows(&mut client, "SELECT setting FROM anker.calibrate()")?;
    ensure!(costs.len() == 4, "{costs:?}");

    let (_cluster, mut client) = context.anker()?;
    if !has_icu(&mut client)? {
        return Err(Skipped("the server was built without ICU").into());
    }
    client.batch_execute(
        "CREATE COLLATION ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (id integer PRIMARY KEY, loose text COLLATE ignoring_case, bytes text COLLATE \"C\", def text);
         INSERT INTO t VALUES (1, 'a', 'a', 'a'), (2, 'A', 'A', 'A'), (3, 'b', 'b', 'Ä')",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    heap(&mut client, "SELECT count(*) FROM t a JOIN t b USING (loose) WHERE anker.olap()", "collation")?;
    engine(&mut client, "SELECT loose, count(*) FROM t WHERE anker.olap() GROUP BY loose")?;
    engine(&mut client, "SELECT count(*) FROM t WHERE loose = 'A' AND anker.olap()")?;
    same(&mut client, "SELECT id FROM t WHERE loose = 'A' AND anker.olap()")?;
    engine(&mut client, "SELECT min(bytes), max(bytes) FROM t WHERE anker.olap()")?;
    engine(&mut client, "SELECT id FROM t WHERE def = 'A' AND anker.olap()")?;
    same(&mut client, "SELECT min(def), max(def) FROM t WHERE anker.olap()")?;
    Ok(())
}

fn privileges_hold(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE ROLE reader LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE partial LOGIN;
         GRANT SELECT ON u TO reader; GRANT SELECT (id, g) ON t TO partial;
         CREATE VIEW counted AS SELECT g, count(*) AS n FROM t WHERE anker.olap() GROUP BY g;
         GRANT SELECT ON counted TO reader",
    )?;
    let t = "SELECT count(*), sum(n) FROM t WHERE anker.olap()";
    for (role, sql, allowed) in [
        ("stranger", t, false),
        ("reader", t, false),
        ("reader", "SELECT count(*), sum(tid) FROM u WHERE anker.olap()", true),
        ("reader", "SELECT count(*) FROM u, t WHERE t.id = tid AND anker.olap()", false),
        ("partial", "SELECT id, g FROM t WHERE anker.olap()", true),
        ("partial", "SELECT sum(g) FROM t WHERE anker.olap()", true),
        ("partial", "SELECT * FROM t WHERE anker.olap()", false),
        ("partial", "SELECT id FROM t WHERE n > 0 AND anker.olap()", false),
    ] {
        let mut session = cluster.config().user(role).connect(NoTls)?;
        let answer = same(&mut session, sql).map_err(|e| format!("{role}: {e}"))?;
        let denied = matches!(&answer, Answer::Error { code, .. } if code == "42501");
        ensure!(denied != allowed, "{role}: {sql}: {answer:?}");
    }
    let mut session = cluster.config().user("reader").connect(NoTls)?;
    let through_view = anker::text_rows(&mut session, "SELECT * FROM counted ORDER BY g")?;
    ensure!(through_view.len() == 5, "through the view: {through_view:?}");
    let mut session = cluster.config().user("stranger").connect(NoTls)?;
    for sql in ["SELECT anker.mirror('t')", "SELECT anker.unmirror('t')", "SELECT * FROM anker.verify('t')"] {
        let answer = ask(&mut session, sql)?;
        ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "{sql} as a stranger: {answer:?}");
    }
    // A user who has prepared a statement loses a right to its table.
    let mut session = cluster.config().user("reader").connect(NoTls)?;
    session.batch_execute("PREPARE p AS SELECT count(*) FROM u WHERE anker.olap(); EXECUTE p")?;
    client.batch_execute("REVOKE SELECT ON u FROM reader")?;
    let answer = ask(&mut session, "EXECUTE p")?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "after REVOKE: {answer:?}");
    Ok(())
}

fn only_a_mirror_can_be_verified(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    ensure!(anker::verify(&mut client, "t")?.is_empty(), "heap and mirror differ");
    client.batch_execute("SET anker.route = 'off'")?;
    let answer = ask(&mut client, "SELECT * FROM anker.verify('plain')")?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "55000"), "{answer:?}");
    Ok(())
}

fn reasons_are_counted_by_their_names(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    let counts = |client: &mut Client| -> Result<(i64, BTreeMap<String, i64>)> {
        let rows =
            client.query("SELECT key, value::bigint FROM anker.engine, jsonb_each_text(fallback_reasons)", &[])?;
        let named = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok((anker::counter(client, "fallbacks")?, named))
    };
    let (before, _) = counts(&mut client)?;
    let written = "BEGIN; INSERT INTO t (id) VALUES (1000); SET anker.max_sent = 0; SELECT count(*) FROM t WHERE anker.olap(); ROLLBACK";
    for (sql, times, name) in [
        ("SELECT count(*) FROM t TABLESAMPLE SYSTEM (100) WHERE anker.olap()", 3, "from_item"),
        ("SET anker.max_sent = 0; SELECT count(*) FROM plain WHERE anker.olap()", 2, "not_mirrored"),
        (written, 1, "written"),
    ] {
        let (total, mut named) = counts(&mut client)?;
        for _ in 0..times {
            client.batch_execute(sql)?;
        }
        *named.entry(name.into()).or_default() += times;
        let now = counts(&mut client)?;
        ensure!(now == (total + times, named.clone()), "{sql}: {now:?} instead of {named:?}");
        client.batch_execute("RESET ALL")?;
    }
    let (after, named) = counts(&mut client)?;
    ensure!(after == before + 6 && named.values().sum::<i64>() == after, "{after} fallbacks, by reason {named:?}");
    let shown =
        client.query("EXPLAIN (VERBOSE) SELECT count(*) FROM t TABLESAMPLE SYSTEM (100) WHERE anker.olap()", &[])?;
    let has_name = shown.iter().any(|row| row.get::<_, &str>(0).trim() == "Heap Reason: from_item");
    ensure!(has_name, "EXPLAIN (VERBOSE) does not name the reason");
    Ok(())
}

/// docs/operations.md contains the name of every reason.
fn reasons_are_documented(_: &Context) -> Result<()> {
    let code = include_str!("../../src/reason.rs");
    let document = include_str!("../../docs/operations.md");
    let list = code.split("reasons! {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap_or_default();
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    ensure!(names.len() > 30, "only {names:?} were found");
    let missing: Vec<_> = names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    ensure!(missing.is_empty(), "docs/operations.md does not say what {missing:?} mean");
    Ok(())
}
