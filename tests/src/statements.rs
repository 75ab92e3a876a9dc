//! Flagged queries in every kind of statement that can hold one.

use std::sync::Arc;
use std::time::Duration;

use bench::cluster::Cluster;
use bench::{Result, anker};
use postgres::{Client, SimpleQueryMessage};

use crate::flagged::same;
use crate::runner::{Context, ensure, needs, tests};

tests![
    prepared_statements_with_parameters,
    prepared_statements_survive_ddl,
    plans_are_made_anew_when_a_mirror_appears,
    cursors,
    rows_written_from_flagged_queries,
    inserts_of_flagged_queries,
    functions_and_procedures,
    a_flag_without_a_table,
    subqueries_and_rescans,
    explain_in_every_form,
    extended_protocol_in_portions,
    many_sessions_at_once,
];

const LIVE: Duration = Duration::from_secs(60);

fn with_table(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), x text, at timestamptz);
         INSERT INTO t SELECT i, i % 7, i / 8.0, 'x' || i % 50, timestamptz '2024-01-01' + i * interval '1 hour'
         FROM generate_series(1, 20000) i; ANALYZE t",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    Ok((cluster, client))
}

fn served(client: &mut Client) -> Result<i64> {
    anker::counter(client, "queries_served")
}

fn rows_equal(client: &mut Client, left: &str, right: &str) -> Result<()> {
    let (mut a, mut b) = (anker::text_rows(client, left)?, anker::text_rows(client, right)?);
    a.sort_unstable();
    b.sort_unstable();
    ensure!(a == b, "{left}: {} rows, {right}: {} rows, or others", a.len(), b.len());
    Ok(())
}

fn prepared_statements_with_parameters(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    let before = served(&mut client)?;
    for mode in ["force_custom_plan", "force_generic_plan", "auto"] {
        client.batch_execute(&format!("SET plan_cache_mode = {mode}"))?;
        let flagged = client
            .prepare("SELECT g, count(*), sum(n) FROM t WHERE id > $1 AND x <> $2 AND anker.olap() GROUP BY g")?;
        let heap = client.prepare("SELECT g, count(*), sum(n) FROM t WHERE id > $1 AND x <> $2 GROUP BY g")?;
        for id in [None, Some(0), Some(100), Some(19_990), Some(i32::MAX), Some(5), Some(6), Some(7)] {
            let read = |client: &mut Client, statement| -> Result<Vec<(i32, i64)>> {
                let rows = client.query(statement, &[&id, &"x3"])?;
                let mut rows: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
                rows.sort_unstable();
                Ok(rows)
            };
            ensure!(read(&mut client, &flagged)? == read(&mut client, &heap)?, "{mode}, parameter {id:?}");
        }
    }
    ensure!(served(&mut client)? - before >= 24, "parameters keep queries on the heap");
    client.batch_execute("SET plan_cache_mode = auto")?;
    client.batch_execute(
        "PREPARE flagged(numeric, timestamptz, text) AS
            SELECT count(*), max(n) FROM t WHERE n < $1 AND at > $2 AND x = $3 AND anker.olap();
         PREPARE heap(numeric, timestamptz, text) AS SELECT count(*), max(n) FROM t WHERE n < $1 AND at > $2 AND x = $3",
    )?;
    for arguments in [
        "(100, '2024-01-05', 'x1')",
        "(1e10, '-infinity', 'x2')",
        "(0.125, 'infinity', 'é')",
        "('NaN', NULL, 'x1')",
        "(100.123456789, now(), '')",
    ] {
        rows_equal(&mut client, &format!("EXECUTE flagged{arguments}"), &format!("EXECUTE heap{arguments}"))?;
    }
    Ok(())
}

fn prepared_statements_survive_ddl(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    let mut session = cluster.connect()?;
    session.batch_execute("SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g")?;
    let plain = "SELECT g, count(*) FROM t GROUP BY g";
    rows_equal(&mut session, "EXECUTE p", plain)?;
    for sql in [
        "ALTER TABLE t ADD COLUMN extra integer",
        "UPDATE t SET g = g + 1 WHERE id < 100",
        "ALTER TABLE t DROP COLUMN x",
        "TRUNCATE t",
        "INSERT INTO t (id, g) SELECT i, i % 3 FROM generate_series(1, 100) i",
        "SELECT anker.unmirror('t')",
        "SELECT anker.mirror('t')",
        "VACUUM FULL t",
    ] {
        client.batch_execute(sql)?;
        rows_equal(&mut session, "EXECUTE p", plain).map_err(|e| format!("after {sql}: {e}"))?;
        if sql != "SELECT anker.unmirror('t')" {
            anker::wait_live(&mut client, "t", LIVE)?;
        }
        rows_equal(&mut session, "EXECUTE p", plain).map_err(|e| format!("after {sql}: {e}"))?;
    }
    let by = anker::analyzed(&mut session, "EXECUTE p")?;
    ensure!(by.as_deref() == Some("engine"), "at last answered by {by:?}");
    Ok(())
}

fn plans_are_made_anew_when_a_mirror_appears(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    client.batch_execute(
        "CREATE TABLE later (id integer PRIMARY KEY); INSERT INTO later SELECT generate_series(1, 1000)",
    )?;
    let mut session = cluster.connect()?;
    session.batch_execute(
        "SET plan_cache_mode = force_generic_plan; SET anker.route = prefer; PREPARE p AS SELECT count(*) FROM later",
    )?;
    let execute = |session: &mut Client| -> Result<i64> {
        let rows = session.simple_query("EXECUTE p")?;
        ensure!(
            rows.iter().any(|m| matches!(m, SimpleQueryMessage::Row(r) if r.get(0) == Some("1000"))),
            "wrong count"
        );
        served(session)
    };
    let unmirrored = execute(&mut session)?;
    ensure!(execute(&mut session)? == unmirrored, "the engine cannot have served a table that is not mirrored");
    anker::mirror(&mut client, &["later"], LIVE)?;
    ensure!(execute(&mut session)? == unmirrored + 1, "the plan from before the mirror is still used");
    session.batch_execute("SET anker.route = off")?;
    ensure!(execute(&mut session)? == unmirrored + 1, "the engine is used although anker.route is off");
    Ok(())
}

fn cursors(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    let sql = "SELECT id, g, x FROM t WHERE id <= 1000 AND anker.olap() ORDER BY id";
    let ids =
        |rows: Vec<String>| -> Vec<String> { rows.iter().map(|r| r.split('|').next().unwrap_or("").into()).collect() };
    let numbers = |range: std::ops::RangeInclusive<i32>| -> Vec<String> { range.map(|i| i.to_string()).collect() };
    client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {sql}"))?;
    // A cursor returns the rows that were there when it was declared.
    cluster.connect()?.batch_execute("UPDATE t SET id = id + 100000 WHERE id <= 500")?;
    ensure!(ids(anker::text_rows(&mut client, "FETCH 10 FROM c")?) == numbers(1..=10), "first portion");
    ensure!(ids(anker::text_rows(&mut client, "FETCH 490 FROM c")?) == numbers(11..=500), "second portion");
    client.batch_execute("MOVE FORWARD 100 FROM c")?;
    ensure!(ids(anker::text_rows(&mut client, "FETCH ALL FROM c")?) == numbers(601..=1000), "after MOVE");
    client.batch_execute("CLOSE c; COMMIT")?;
    cluster.connect()?.batch_execute("UPDATE t SET id = id - 100000 WHERE id > 100000")?;

    client.batch_execute(&format!("BEGIN; DECLARE s SCROLL CURSOR FOR {sql}; FETCH 5 FROM s"))?;
    ensure!(ids(anker::text_rows(&mut client, "FETCH BACKWARD 2 FROM s")?) == ["4", "3"], "backward");
    ensure!(ids(anker::text_rows(&mut client, "FETCH LAST FROM s")?) == ["1000"], "last");
    ensure!(ids(anker::text_rows(&mut client, "FETCH ABSOLUTE 7 FROM s")?) == ["7"], "absolute");
    ensure!(ids(anker::text_rows(&mut client, "FETCH FIRST FROM s")?) == ["1"], "first");
    client.batch_execute("COMMIT")?;

    client.batch_execute(&format!("BEGIN; DECLARE h CURSOR WITH HOLD FOR {sql}; FETCH 3 FROM h; COMMIT"))?;
    client.batch_execute("DELETE FROM t WHERE id BETWEEN 100 AND 200")?;
    ensure!(ids(anker::text_rows(&mut client, "FETCH ALL FROM h")?) == numbers(4..=1000), "held");
    // Many cursors are open at once, and none is read to its end.
    client.batch_execute("BEGIN")?;
    for i in 0..20 {
        client.batch_execute(&format!(
            "DECLARE many{i} CURSOR FOR SELECT * FROM t WHERE anker.olap(); FETCH {i} FROM many{i}"
        ))?;
    }
    client.batch_execute("COMMIT")?;
    let released =
        bench::cluster::wait_until(Duration::from_secs(5), || Ok(anker::counter(&mut client, "live_snapshots")? == 0))?;
    ensure!(released, "closed cursors hold snapshots");
    Ok(())
}

fn rows_written_from_flagged_queries(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    client.batch_execute(
        "CREATE TABLE copied AS SELECT * FROM t WHERE anker.olap();
         CREATE MATERIALIZED VIEW summed AS SELECT g, count(*) AS c, sum(n) AS s FROM t WHERE anker.olap() GROUP BY g;
         CREATE TABLE target (g integer, c bigint);
         INSERT INTO target SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g;
         CREATE VIEW shown AS SELECT g, max(n) AS m FROM t WHERE anker.olap() GROUP BY g",
    )?;
    rows_equal(&mut client, "SELECT * FROM copied", "SELECT * FROM t")?;
    rows_equal(&mut client, "SELECT * FROM summed", "SELECT g, count(*), sum(n) FROM t GROUP BY g")?;
    rows_equal(&mut client, "SELECT * FROM target", "SELECT g, count(*) FROM t GROUP BY g")?;
    rows_equal(&mut client, "SELECT * FROM shown WHERE g > 2", "SELECT g, max(n) FROM t WHERE g > 2 GROUP BY g")?;
    client.batch_execute("UPDATE t SET n = 0 WHERE g = 1; REFRESH MATERIALIZED VIEW summed")?;
    rows_equal(&mut client, "SELECT * FROM summed", "SELECT g, count(*), sum(n) FROM t GROUP BY g")?;
    // Statements that read a table in the engine and change the same table.
    client.batch_execute(
        "INSERT INTO t (id, g) SELECT id + 1000000, g FROM t WHERE id <= 10 AND anker.olap();
         DELETE FROM t WHERE id IN (SELECT id FROM t WHERE g = 3 AND anker.olap());
         UPDATE t SET n = s / 1000 FROM (SELECT g AS k, sum(n) AS s FROM t WHERE anker.olap() GROUP BY g) q WHERE g = k AND id < 50",
    )?;
    let left: i64 = client.query_one("SELECT count(*) FROM t WHERE g = 3", &[])?.get(0);
    ensure!(left == 0, "{left} rows left by DELETE");
    let copied =
        anker::text_rows(&mut client, "COPY (SELECT count(*) FROM t WHERE anker.olap()) TO PROGRAM 'cat >/dev/null'");
    ensure!(copied.is_ok(), "COPY of a flagged query: {:?}", copied.err());
    same(&mut client, "SELECT * FROM t WHERE anker.olap()")?;
    Ok(())
}

fn inserts_of_flagged_queries(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    client.batch_execute(
        "CREATE TABLE target (gone integer, g integer, kept text DEFAULT 'default', c bigint, gone2 text, n numeric(9,1));
         ALTER TABLE target DROP COLUMN gone, DROP COLUMN gone2; CREATE UNIQUE INDEX ON target (g);
         CREATE VIEW through AS SELECT g, c FROM target;
         CREATE TABLE parted (g integer, id integer) PARTITION BY LIST (g);
         CREATE TABLE part_some PARTITION OF parted FOR VALUES IN (0, 1, 2);
         CREATE TABLE part_rest PARTITION OF parted DEFAULT;
         CREATE TABLE numbered (n serial, g integer, id integer);
         CREATE DOMAIN short AS varchar(3) CHECK (value <> 'no'); CREATE DOMAIN given AS integer DEFAULT 7;
         CREATE TABLE checked (s short, id bigint CHECK (id < 10), missing given, late short,
             twice bigint GENERATED ALWAYS AS (id * 2) STORED)",
    )?;
    let engine = "engine";
    let written = "heap, because this transaction may have written to table \"t\"";
    for (table, sql, rows, side) in [
        ("target", "INSERT INTO target (n, g) SELECT sum(n), g FROM t WHERE anker.olap() GROUP BY g", 7, engine),
        (
            "target",
            "INSERT INTO through SELECT id, g FROM t WHERE id IN (11, 12) AND anker.olap() RETURNING g",
            2,
            engine,
        ),
        ("parted", "INSERT INTO parted SELECT g, id FROM t WHERE anker.olap() ORDER BY id DESC LIMIT 20", 20, engine),
        (
            "target",
            "WITH s AS (SELECT id FROM t WHERE id = 5 AND anker.olap()) INSERT INTO target (g) SELECT id + 100 FROM s",
            1,
            engine,
        ),
        ("t", "INSERT INTO t (id) SELECT id + 50000 FROM t WHERE id < 4 AND anker.olap()", 3, written),
        (
            "target",
            "INSERT INTO target SELECT g, 'again', 1 FROM t WHERE id < 4 AND anker.olap()
                ON CONFLICT (g) DO UPDATE SET c = 5",
            0,
            engine,
        ),
        (
            "numbered",
            "INSERT INTO numbered (g, id) SELECT g, id FROM t WHERE id <= 50 AND anker.olap() ORDER BY g, id DESC",
            50,
            "heap, because volatile function of rows in an order",
        ),
        (
            "numbered",
            "INSERT INTO numbered (g) SELECT g + 0 FROM (SELECT g FROM t WHERE anker.olap() ORDER BY g, id) s WHERE g > 9",
            0,
            "heap, because volatile function of rows in an order",
        ),
        (
            "numbered",
            "INSERT INTO numbered (g) SELECT * FROM (SELECT DISTINCT ON (g) g FROM t WHERE g > 9 AND anker.olap() ORDER BY g, id) s",
            0,
            "heap, because volatile function of rows in an order",
        ),
        ("numbered", "INSERT INTO numbered (id) SELECT id FROM t WHERE id > 19950 AND anker.olap()", 53, engine),
        ("checked", "INSERT INTO checked SELECT 'ab', id FROM t WHERE id <= 9 AND anker.olap()", 9, engine),
    ] {
        let by = anker::explained(&mut client, sql)?;
        ensure!(by.as_deref() == Some(side), "{sql}: {by:?}");
        let count = |client: &mut Client| -> Result<i64> {
            Ok(client.query_one(&format!("SELECT count(*) FROM {table}"), &[])?.get(0))
        };
        let before = count(&mut client)?;
        client.batch_execute(sql)?;
        let new = count(&mut client)? - before;
        ensure!(new == rows, "{sql}: {new} rows inserted");
    }
    rows_equal(
        &mut client,
        "SELECT g, kept, c, n FROM target WHERE g < 7",
        "SELECT g, 'default', CASE WHEN g IN (1, 2, 3) THEN 5::bigint END, sum(n)::numeric(9,1) FROM t WHERE id < 50000 GROUP BY g",
    )?;
    // A serial column numbers the rows in the order of the SELECT.
    rows_equal(
        &mut client,
        "SELECT n, g, id FROM numbered WHERE id <= 50",
        "SELECT row_number() OVER (ORDER BY g, id DESC), g, id FROM t WHERE id <= 50",
    )?;
    rows_equal(
        &mut client,
        "SELECT s, id, missing, late, twice FROM checked",
        "SELECT 'ab'::short, id::bigint, 7::given, NULL::short, id * 2::bigint FROM t WHERE id <= 9",
    )?;
    // The table's own errors are raised, and the statement leaves no rows.
    for (sql, code) in [
        ("INSERT INTO checked SELECT 'ab', id FROM t WHERE anker.olap()", "23514"),
        ("INSERT INTO checked SELECT 'no', id FROM t WHERE id = 1 AND anker.olap()", "23514"),
        ("INSERT INTO checked SELECT 'long', id FROM t WHERE id = 1 AND anker.olap()", "22001"),
        ("INSERT INTO checked SELECT 'ab', 1 / (id - 19999) FROM t WHERE anker.olap()", "22012"),
        ("INSERT INTO target (g) SELECT id % 3 FROM t WHERE anker.olap()", "23505"),
    ] {
        let error = client.batch_execute(sql).expect_err(sql);
        let found = error.code().map_or("none", |code| code.code());
        ensure!(found == code, "{sql}: SQLSTATE {found}");
    }
    rows_equal(&mut client, "SELECT count(*) FROM checked", "SELECT 9::bigint")?;
    // A trigger changes the table that the statement reads. The statement's snapshot does not see these changes.
    client.batch_execute(
        "CREATE TABLE watched (id integer);
         CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO t (id) VALUES (new.id + 500000); RETURN new; END $$;
         CREATE TRIGGER more BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION more();
         INSERT INTO watched SELECT id FROM t WHERE id <= 5000 AND anker.olap()",
    )?;
    rows_equal(&mut client, "SELECT id + 500000 FROM watched", "SELECT id FROM t WHERE id > 500000")?;
    client.batch_execute("DELETE FROM t WHERE id > 500000; DROP TRIGGER more ON watched")?;
    client.batch_execute("SET plan_cache_mode = force_generic_plan; PREPARE p AS INSERT INTO target (g) SELECT id FROM t WHERE id = $1 AND anker.olap()")?;
    client.batch_execute("EXECUTE p(777); EXECUTE p(778)")?;
    client.batch_execute("INSERT INTO target (g) VALUES (779 + anker.olap()::integer)")?;
    let rows = anker::text_rows(&mut client, "SELECT g FROM target WHERE g > 700 ORDER BY g")?;
    ensure!(rows == ["777", "778", "780"], "inserted by EXECUTE and VALUES: {rows:?}");
    Ok(())
}

fn functions_and_procedures(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    client.batch_execute(
        "CREATE FUNCTION counted(low integer) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
         DECLARE c bigint; BEGIN SELECT count(*) INTO c FROM t WHERE id > low AND anker.olap(); RETURN c; END $$;
         CREATE FUNCTION listed(low integer) RETURNS SETOF integer LANGUAGE sql AS
         $$ SELECT id FROM t WHERE id > low AND anker.olap() $$;
         CREATE FUNCTION looped() RETURNS numeric LANGUAGE plpgsql AS $$
         DECLARE r record; s numeric := 0; BEGIN
            FOR r IN SELECT g, sum(n) AS n FROM t WHERE anker.olap() GROUP BY g LOOP s := s + r.n; END LOOP; RETURN s; END $$;
         CREATE FUNCTION wrote() RETURNS bigint LANGUAGE plpgsql AS $$
         DECLARE c bigint; BEGIN INSERT INTO t (id) VALUES (-1);
            SELECT count(*) INTO c FROM t WHERE id < 0 AND anker.olap(); DELETE FROM t WHERE id = -1; RETURN c; END $$;
         CREATE FUNCTION failed() RETURNS text LANGUAGE plpgsql AS $$
         BEGIN PERFORM 1 / (g - g) FROM t WHERE anker.olap(); RETURN 'nothing';
         EXCEPTION WHEN division_by_zero THEN RETURN 'caught'; END $$;
         CREATE PROCEDURE stepped() LANGUAGE plpgsql AS $$
         DECLARE r record; c integer := 0; BEGIN
            FOR r IN SELECT id FROM t WHERE id <= 20 AND anker.olap() LOOP
                UPDATE t SET g = 100 WHERE id = r.id; c := c + 1; COMMIT; END LOOP;
            IF c <> 20 THEN RAISE 'saw % rows', c; END IF; END $$",
    )?;
    let one = |client: &mut Client, sql: &str| -> Result<String> {
        anker::text_rows(client, sql)?.first().cloned().ok_or_else(|| format!("no row from {sql}").into())
    };
    for round in 0..8 {
        let low = round * 2000;
        ensure!(one(&mut client, &format!("SELECT counted({low})"))? == (20_000 - low).to_string(), "counted({low})");
    }
    ensure!(one(&mut client, "SELECT count(*), sum(listed) FROM listed(19990)")? == "10|199955", "listed");
    let sum = one(&mut client, "SELECT sum(n) FROM t")?;
    ensure!(one(&mut client, "SELECT looped()")? == sum, "looped");
    ensure!(one(&mut client, "SELECT wrote()")? == "1", "a function does not see what it wrote");
    ensure!(one(&mut client, "SELECT failed()")? == "caught", "failed");
    client.batch_execute("CALL stepped()")?;
    ensure!(one(&mut client, "SELECT count(*) FROM t WHERE g = 100")? == "20", "stepped");
    // A function runs a flagged query for each row of another query.
    ensure!(one(&mut client, "SELECT count(DISTINCT counted(i)) FROM generate_series(1, 30) i")? == "30", "per row");
    Ok(())
}

/// PL/pgSQL looks at the plan of a query without a table, and evaluates simple expressions itself. The flag must not
/// prevent that.
fn a_flag_without_a_table(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    client.batch_execute(
        "CREATE FUNCTION answer() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN anker.olap(); END';
         CREATE FUNCTION inlined() RETURNS boolean LANGUAGE sql AS 'SELECT anker.olap()';
         CREATE FUNCTION set_of() RETURNS SETOF boolean LANGUAGE plpgsql AS
            'BEGIN RETURN NEXT anker.olap(); RETURN QUERY SELECT anker.olap(); END'",
    )?;
    for route in ["hint", "prefer", "force", "off"] {
        client.batch_execute(&format!("SET anker.route = {route}"))?;
        for _ in 0..7 {
            client
                .batch_execute(
                    "DO $$ DECLARE x boolean; n integer := 0; r record; BEGIN
                    IF anker.olap() THEN n := n + 1; END IF;
                    x := anker.olap();
                    IF NOT x THEN RAISE 'the flag is false'; END IF;
                    WHILE anker.olap() AND n < 3 LOOP n := n + 1; END LOOP;
                    SELECT anker.olap() INTO x;
                    PERFORM anker.olap();
                    FOR r IN SELECT anker.olap() AS f LOOP x := x AND r.f; END LOOP;
                    CASE WHEN anker.olap() AND x THEN n := n + 1; END CASE;
                    ASSERT n = 4 AND anker.olap();
                    EXECUTE 'SELECT $1 AND anker.olap()' INTO x USING x;
                    IF n <> 4 THEN RAISE 'counted %', n; END IF;
                 END $$",
                )
                .map_err(|e| format!("anker.route = {route}: {}", bench::describe(&e)))?;
        }
        for sql in [
            "SELECT answer()",
            "SELECT inlined()",
            "SELECT anker.olap()",
            "SELECT true WHERE anker.olap()",
            "SELECT bool_and(anker.olap())",
            "SELECT bool_and(s) FROM set_of() s",
            "SELECT bool_and(answer()) FROM generate_series(1, 9)",
        ] {
            let rows = anker::text_rows(&mut client, sql)?;
            ensure!(rows == ["t"], "anker.route = {route}: {sql}: {rows:?}");
        }
    }
    // Expressions without a table of their own, whose subqueries read tables.
    client.batch_execute("SET anker.route = hint")?;
    for _ in 0..7 {
        client.batch_execute(
            "DO $$ DECLARE n bigint; BEGIN
                IF NOT EXISTS (SELECT FROM t WHERE id = 5 AND anker.olap()) THEN RAISE 'no row'; END IF;
                n := (SELECT count(*) FROM t WHERE anker.olap()) + 1;
                IF n <> 20001 THEN RAISE 'counted %', n; END IF;
             END $$",
        )?;
    }
    let shown = anker::text_rows(&mut client, "EXPLAIN SELECT anker.olap()")?.join("\n");
    ensure!(!shown.contains("Anker"), "a query without a table is touched:\n{shown}");
    Ok(())
}

fn subqueries_and_rescans(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    client.batch_execute("CREATE TABLE small (k integer); INSERT INTO small SELECT generate_series(1, 20)")?;
    for sql in [
        "SELECT k, (SELECT count(*) FROM t WHERE anker.olap()) FROM small",
        "SELECT k, (SELECT count(*) FROM t WHERE id < k AND anker.olap()) FROM small",
        "SELECT k, c FROM small, LATERAL (SELECT count(*) AS c FROM t WHERE g = k AND anker.olap()) s",
        "SELECT k FROM small WHERE k < (SELECT avg(g) FROM t WHERE anker.olap())",
        "SELECT k FROM small WHERE EXISTS (SELECT FROM t WHERE id = k AND anker.olap())",
        "SELECT s.g, k FROM (SELECT g, count(*) AS n FROM t WHERE anker.olap() GROUP BY g) s LEFT JOIN small ON k = s.g",
        "WITH s AS MATERIALIZED (SELECT g, sum(n) AS n FROM t WHERE anker.olap() GROUP BY g) SELECT a.g, b.n FROM s a, s b WHERE a.g < b.g",
        "SELECT count(*) FROM t WHERE anker.olap() UNION ALL SELECT sum(g) FROM t WHERE anker.olap()",
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT i, (SELECT max(id) FROM t WHERE g = i AND anker.olap()) FROM r",
        "SELECT CASE WHEN k > 100 THEN (SELECT count(*) FROM t WHERE anker.olap()) ELSE 0 END FROM small",
        "SELECT * FROM t WHERE anker.olap() LIMIT 0",
        "SELECT count(*) FROM (SELECT id FROM t WHERE anker.olap() LIMIT 5) s",
    ] {
        same(&mut client, sql)?;
    }
    client.batch_execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off")?;
    same(
        &mut client,
        "SELECT k, s.n FROM small, (SELECT g, count(*) AS n FROM t WHERE anker.olap() GROUP BY g) s WHERE s.g < k",
    )?;
    Ok(())
}

fn explain_in_every_form(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_table(context)?;
    let sql = "SELECT g, count(*), avg(n) FROM t WHERE id > 5 AND anker.olap() GROUP BY g ORDER BY g";
    for options in [
        "",
        "VERBOSE",
        "ANALYZE",
        "ANALYZE, VERBOSE, BUFFERS",
        "FORMAT JSON",
        "ANALYZE, FORMAT JSON",
        "ANALYZE, FORMAT XML",
        "ANALYZE, FORMAT YAML",
        "SETTINGS, COSTS off",
    ] {
        let options = if options.is_empty() { String::new() } else { format!("({options})") };
        let shown = anker::text_rows(&mut client, &format!("EXPLAIN {options} {sql}"))?.join("\n");
        ensure!(shown.contains("Anker"), "EXPLAIN {options} shows no Anker:\n{shown}");
        ensure!(shown.contains("engine"), "EXPLAIN {options} does not name the engine:\n{shown}");
    }
    let analyzed = anker::text_rows(&mut client, &format!("EXPLAIN (ANALYZE) {sql}"))?.join("\n").to_lowercase();
    for word in ["mechanism", "snapshot", "wait", "undo", "rows", "engine"] {
        ensure!(analyzed.contains(word), "EXPLAIN ANALYZE does not show \"{word}\":\n{analyzed}");
    }
    // EXPLAIN alone does not count as a query.
    let before = served(&mut client)?;
    anker::text_rows(&mut client, &format!("EXPLAIN {sql}"))?;
    ensure!(served(&mut client)? == before, "EXPLAIN ran the query");
    needs("auto_explain")?;
    client.batch_execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on",
    )?;
    same(&mut client, sql)?;
    Ok(())
}

fn extended_protocol_in_portions(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    let mut transaction = client.transaction()?;
    let portal = transaction.bind("SELECT id FROM t WHERE id <= $1 AND anker.olap()", &[&5000])?;
    let mut seen: Vec<i32> = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 77)?;
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        if seen.len() == 770 {
            cluster.connect()?.batch_execute("DELETE FROM t WHERE id BETWEEN 4000 AND 4500")?;
        }
    }
    transaction.commit()?;
    seen.sort_unstable();
    ensure!(seen == (1..=5000).collect::<Vec<i32>>(), "{} rows in portions", seen.len());
    same(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")?;
    Ok(())
}

fn many_sessions_at_once(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    let rounds = context.size(30, 8);
    std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..16)
            .map(|number| {
                let cluster = &cluster;
                scope.spawn(move || -> Result<()> {
                    let mut client = cluster.connect()?;
                    for round in 0..rounds {
                        let sql = match (number + round) % 3 {
                            0 => "SELECT g, count(*), sum(n) FROM t WHERE anker.olap() GROUP BY g",
                            1 => "SELECT id, x FROM t WHERE g = 3 AND anker.olap()",
                            _ => "SELECT count(*) FROM t a, t b WHERE a.id = b.id AND anker.olap()",
                        };
                        same(&mut client, sql)?;
                        client
                            .execute("UPDATE t SET n = n + 1 WHERE id = $1", &[&((number * 100 + round) as i32 + 1)])?;
                    }
                    Ok(())
                })
            })
            .collect();
        sessions.into_iter().try_for_each(|s| s.join().map_err(|_| "a session panicked")?)
    })
}
