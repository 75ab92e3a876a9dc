//! Queries and statements that came with PostgreSQL 19. Heap and engine must give the same answers.

use std::time::Duration;

use bench::cluster::{Options, wait_until};
use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask, compare};
use crate::newer::since;
use crate::runner::{Context, ensure, needs, tests};

tests![
    ignored_nulls,
    joins_that_are_planned_anew,
    repacked_tables,
    conflicts_that_are_selected,
    newer_functions,
    plans_with_advice,
    decoding_with_the_level_replica,
];

const LIVE: Duration = Duration::from_secs(60);
const REASON: &str = "came with PostgreSQL 19";

/// A server of PostgreSQL 19 or newer with two mirrored tables.
fn tables(context: &Context) -> Result<(std::sync::Arc<bench::cluster::Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    since(&mut client, 190_000, REASON)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer NOT NULL, v integer, x text, doc jsonb);
         INSERT INTO t SELECT i, i % 5, nullif(i % 7, 3), 'x' || i % 3, jsonb_build_object('a', ' Ab-' || i)
           FROM generate_series(1, 200) i;
         CREATE TABLE u (id integer PRIMARY KEY, t integer NOT NULL, w integer, n numeric(8,2));
         INSERT INTO u SELECT i, i * 3 % 150, nullif(i % 11, 4), i * 0.25 FROM generate_series(1, 400) i;
         ANALYZE t, u",
    )?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    Ok((cluster, client))
}

fn ran_on(client: &mut Client, sql: &str, expected: &str) -> Result<()> {
    let who = anker::analyzed(client, sql)?;
    ensure!(who.as_deref().is_some_and(|who| who.contains(expected)), "{sql}: ran on {who:?}, not {expected}");
    Ok(())
}

/// The engine does not know these clauses, so the heap answers.
fn ignored_nulls(context: &Context) -> Result<()> {
    let (_cluster, mut client) = tables(context)?;
    for call in ["lag(v)", "lead(v, 2)", "lag(v, 1, -1)", "first_value(v)", "last_value(v)", "nth_value(v, 3)"] {
        for (clause, side) in [
            ("IGNORE NULLS", "heap, because window function with IGNORE NULLS"),
            ("RESPECT NULLS", "engine"),
            ("", "engine"),
        ] {
            for window in ["PARTITION BY g ORDER BY id", "ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING"] {
                let sql = format!("SELECT id, {call} {clause} OVER ({window}) FROM t WHERE anker.olap()");
                compare(&mut client, &sql, false)?;
                ran_on(&mut client, &sql, side)?;
            }
        }
    }
    // The aggregates have no such clause.
    let wrong = compare(&mut client, "SELECT sum(v) IGNORE NULLS OVER () FROM t WHERE anker.olap()", false)?;
    ensure!(matches!(wrong, Answer::Error { .. }), "sum with IGNORE NULLS gives {wrong:?}");
    Ok(())
}

/// The heap makes joins of NOT IN, and aggregates before it joins. The engine's answers stay the same.
fn joins_that_are_planned_anew(context: &Context) -> Result<()> {
    let (_cluster, mut client) = tables(context)?;
    for sql in [
        "SELECT id FROM t WHERE id NOT IN (SELECT t FROM u) AND anker.olap()",
        "SELECT id FROM t WHERE v NOT IN (SELECT w FROM u) AND anker.olap()",
        "SELECT id FROM t WHERE v NOT IN (SELECT w FROM u WHERE w IS NOT NULL) AND anker.olap()",
        "SELECT id FROM t WHERE v NOT IN (SELECT t FROM u WHERE u.id < 0) AND anker.olap()",
        "SELECT id FROM t WHERE (g, v) NOT IN (SELECT t, w FROM u WHERE u.w = t.g) AND anker.olap()",
        "SELECT t.id FROM t LEFT JOIN u ON u.t = t.id WHERE u.t IS NULL AND anker.olap()",
        "SELECT t.g, count(*), sum(u.n), avg(u.w), min(u.w) FROM t JOIN u ON u.t = t.id WHERE anker.olap() GROUP BY t.g",
        "SELECT t.x, json_agg(u.n ORDER BY u.id), sum(u.n) FROM t JOIN u ON u.t = t.id WHERE anker.olap() GROUP BY t.x",
        "SELECT t.x, string_agg(u.n::text, ',' ORDER BY u.id) FROM t LEFT JOIN u ON u.t = t.id WHERE anker.olap() GROUP BY t.x",
        "SELECT g, (SELECT max(u.n) FROM u WHERE u.t = g) AS m FROM t WHERE anker.olap() GROUP BY g, m",
        "SELECT g + 1 AS h, (SELECT count(*) FROM u WHERE u.t = g + 1) FROM t WHERE anker.olap() GROUP BY g + 1",
        "SELECT id FROM t WHERE (v IS DISTINCT FROM NULL) AND (g IS DISTINCT FROM 2) AND anker.olap()",
        "SELECT id, coalesce(g, v, 1), ROW(g, v) IS NULL, (g > 2) IS NOT TRUE FROM t WHERE anker.olap()",
        "SELECT x, count(*) FROM t WHERE anker.olap() GROUP BY ROLLUP (x) HAVING x IS NOT NULL OR count(*) > 3",
    ] {
        compare(&mut client, sql, false)?;
    }
    Ok(())
}

fn repacked_tables(context: &Context) -> Result<()> {
    let (_cluster, mut client) = tables(context)?;
    let sql = "SELECT g, count(*), sum(v), max(x) FROM t WHERE anker.olap() GROUP BY g";
    for repack in [
        "REPACK t",
        "REPACK t USING INDEX t_pkey",
        "REPACK (CONCURRENTLY) t",
        "REPACK (ANALYZE, CONCURRENTLY) t USING INDEX t_pkey",
        "VACUUM FULL t",
    ] {
        client.batch_execute("UPDATE t SET v = v + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 50 = 7")?;
        client.batch_execute(repack)?;
        client.batch_execute("INSERT INTO t SELECT max(id) + 1, 2, 9, 'new', NULL FROM t")?;
        anker::wait_live(&mut client, "t", LIVE)?;
        compare(&mut client, sql, false)?;
        ran_on(&mut client, sql, "engine")?;
        let wrong = anker::verify(&mut client, "t")?;
        ensure!(wrong.is_empty(), "after {repack} the mirror differs: {wrong:?}");
    }
    Ok(())
}

fn conflicts_that_are_selected(context: &Context) -> Result<()> {
    let (_cluster, mut client) = tables(context)?;
    client.batch_execute("CREATE TABLE target (id integer PRIMARY KEY, total numeric)")?;
    let insert = "INSERT INTO target SELECT t, sum(n) FROM u WHERE anker.olap() GROUP BY t
        ON CONFLICT (id) DO SELECT WHERE target.id > 20 RETURNING id, total";
    for _ in 0..2 {
        client.batch_execute("INSERT INTO target VALUES (21, -1), (3, -2), (30, -3) ON CONFLICT DO NOTHING")?;
        compare_changes(&mut client, insert)?;
    }
    Ok(())
}

/// Runs a change with the engine and without, each in a transaction of its own that is rolled back, then for good.
fn compare_changes(client: &mut Client, sql: &str) -> Result<()> {
    let mut outcome = |sql: &str| -> Result<(Answer, Vec<String>)> {
        client.batch_execute("BEGIN")?;
        let answer = ask(client, sql)?.normal();
        let rows = anker::text_rows(client, "SELECT * FROM target ORDER BY id")?;
        client.batch_execute("ROLLBACK")?;
        Ok((answer, rows))
    };
    let engine = outcome(sql)?;
    let heap = outcome(&sql.replace("anker.olap()", "true"))?;
    ensure!(engine == heap, "{sql}: {engine:?}, on the heap {heap:?}");
    client.batch_execute(sql)?;
    Ok(())
}

fn newer_functions(context: &Context) -> Result<()> {
    let (_cluster, mut client) = tables(context)?;
    for sql in [
        "SELECT id, json_array(SELECT w FROM u WHERE u.id < 0), json_array(SELECT w FROM u WHERE u.t = t.id) FROM t WHERE anker.olap()",
        "SELECT id, jsonb_path_query_first(doc, '$.a.btrim().lower().replace(\"-\", \"+\")') FROM t WHERE anker.olap()",
        "SELECT id FROM t WHERE jsonb_path_exists(doc, '$.a ? (@.upper() starts with \" AB-1\")') AND anker.olap()",
        "SELECT encode(x::bytea, 'base32hex'), encode(x::bytea, 'base64url'), count(*) FROM t WHERE anker.olap() GROUP BY 1, 2",
        "SELECT count(*) FROM t, range_minus_multi(int4range(1, 100), int4range(10, 20)) r WHERE id <@ r AND anker.olap()",
        "SELECT id, error_on_null(v) FROM t WHERE anker.olap()",
        "SELECT id, error_on_null(g) FROM t WHERE anker.olap()",
        "SELECT max(id::oid8), min(g::text::oid8) FROM t WHERE anker.olap()",
        "SELECT g, count(*) FROM t WHERE md5(x)::uuid::bytea > '\\x50' AND anker.olap() GROUP BY g",
        "SELECT tid_block(ctid) >= 0, count(*) FROM t WHERE anker.olap() GROUP BY 1",
        "SELECT id, doc::text IS JSON OBJECT FROM t WHERE anker.olap()",
    ] {
        compare(&mut client, sql, false)?;
    }
    client.batch_execute(
        "CREATE TABLE made (id integer PRIMARY KEY, a integer, b integer GENERATED ALWAYS AS (a * 2) VIRTUAL, CHECK (b < 900));
         INSERT INTO made SELECT i, nullif(i % 9, 4) FROM generate_series(1, 50) i",
    )?;
    anker::mirror(&mut client, &["made"], LIVE)?;
    let sql = "SELECT b, count(*) FROM made WHERE anker.olap() GROUP BY b";
    compare(&mut client, sql, false)?;
    client.batch_execute("ALTER TABLE made ALTER COLUMN b SET EXPRESSION AS (coalesce(a, 1) * 3)")?;
    anker::wait_live(&mut client, "made", LIVE)?;
    compare(&mut client, sql, false)?;
    ran_on(&mut client, sql, "engine")?;
    let failures = anker::failures(&mut client)?;
    ensure!(failures == 0, "the engine has met {failures} plans that it should not have");
    Ok(())
}

/// EXPLAIN hands its state to the planner hooks, of which ours is one.
fn plans_with_advice(context: &Context) -> Result<()> {
    let options = Options::default().set("shared_preload_libraries", "pg_plan_advice, pg_anker");
    needs("pg_plan_advice")?;
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer); INSERT INTO t SELECT i, i FROM generate_series(1, 99) i",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    for sql in ["SELECT * FROM t WHERE id = 5", "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g"] {
        let plan = anker::text_rows(&mut client, &format!("EXPLAIN (COSTS off, PLAN_ADVICE) {sql}"))?.join("\n");
        ensure!(plan.contains("Plan Advice"), "{sql}: {plan}");
    }
    Ok(())
}

/// Logical decoding can be switched on without a restart, as soon as a slot is made.
fn decoding_with_the_level_replica(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("wal_level", "replica"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    since(&mut client, 190_000, REASON)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t SELECT i, i FROM generate_series(1, 99) i",
    )?;
    let level = |client: &mut Client| anker::text_rows(client, "SHOW effective_wal_level");
    ensure!(level(&mut client)? == ["replica"], "decoding is on before it is needed");
    for _ in 0..3 {
        anker::mirror(&mut client, &["t"], LIVE)?;
        ensure!(level(&mut client)? == ["logical"], "decoding is off");
        client.batch_execute("UPDATE t SET v = v + 1 WHERE id % 2 = 0; DELETE FROM t WHERE v = 50; INSERT INTO t VALUES ((SELECT max(id) + 1 FROM t), 7)")?;
        let sql = "SELECT v % 4, count(*), sum(v) FROM t WHERE anker.olap() GROUP BY 1";
        compare(&mut client, sql, false)?;
        ran_on(&mut client, sql, "engine")?;
        client.execute("SELECT anker.unmirror('t')", &[])?;
        let is_off = wait_until(LIVE, || Ok(level(&mut client)? == ["replica"]))?;
        ensure!(is_off, "decoding stays on without a slot");
    }
    Ok(())
}
