//! If an expression is nested too deeply to be translated for the engine, the query runs on the heap. If the expression
//! is too deep even for PostgreSQL, the query fails with PostgreSQL's error. In both cases, the session and its
//! transaction stay usable.
//!
//! Subqueries may be nested in subqueries. Each is translated once, even if the engine computes it several times.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask};
use crate::runner::{Context, ensure, tests};

tests![
    deep_expressions_are_the_heaps,
    nothing_is_lost_behind_a_deep_expression,
    each_subquery_is_translated_once,
    looked_up_subqueries_are_computed_once,
];

const LIVE: Duration = Duration::from_secs(60);

/// Depths of nesting that are refused for the engine. If our walks through the tree needed an error guard at each
/// level, they would exhaust the stack at these depths.
const DEPTHS: [usize; 3] = [100, 700, 1400];

/// A test query with a nested expression: the text that opens a level, the innermost expression, the text that closes a
/// level, and the query, in which `{}` stands for the nested expression.
type Nested = (&'static str, &'static str, &'static str, &'static str);

const QUERIES: [Nested; 9] = [
    ("", "s", " || s", "SELECT length({}) FROM t WHERE id = 5"),
    ("(", "id", " + 0)", "SELECT count(*) FROM t WHERE {} > 990"),
    ("replace(", "s", ", 'a', 'b')", "SELECT max({}) FROM t"),
    ("CASE WHEN id > 5 THEN id ELSE ", "1", " END", "SELECT sum({}) FROM t"),
    ("(id > 0 AND (id < 0 OR ", "true", "))", "SELECT count(*) FROM t WHERE {}"),
    ("(", "g", " + 1)", "SELECT {} AS k, count(*) FROM t GROUP BY k"),
    ("abs(", "g", ")", "SELECT id FROM t ORDER BY {} DESC, id LIMIT 3"),
    ("coalesce(nullif(g, 1), ", "1", ")", "SELECT g, max({}) FROM t GROUP BY g"),
    ("(", "1", " + g - g)", "SELECT id FROM t WHERE id = ANY (ARRAY[{}])"),
];

fn nested((open, middle, close, query): Nested, depth: usize) -> String {
    query.replace("{}", &format!("{}{middle}{}", open.repeat(depth), close.repeat(depth)))
}

fn with_table(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, s text);
         INSERT INTO t SELECT i, i % 7, 'text ' || i FROM generate_series(1, 1000) i; ANALYZE t; SET jit = off",
    )?;
    anker::mirror(client, &["t"], LIVE)
}

fn deep_expressions_are_the_heaps(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    with_table(&mut client)?;
    for query in QUERIES {
        for depth in DEPTHS {
            let sql = nested(query, depth);
            client.batch_execute("SET anker.route = off")?;
            let heap = ask(&mut client, &sql)?.normal();
            ensure!(matches!(heap, Answer::Rows(_)), "{depth} of {query:?}: {heap:?}");
            for route in ["prefer", "auto", "hint"] {
                client.batch_execute(&format!("SET anker.route = {route}"))?;
                let asked = match (route, sql.split_once(" FROM t WHERE ")) {
                    ("hint", Some((head, tail))) => format!("{head} FROM t WHERE anker.olap() AND ({tail})"),
                    ("hint", None) => sql.replacen(" FROM t", " FROM t WHERE anker.olap()", 1),
                    _ => sql.clone(),
                };
                let found = ask(&mut client, &asked)?.normal();
                ensure!(found == heap, "{depth} of {query:?}, {route}: {found:?}, not {heap:?}");
                let planned = ask(&mut client, &format!("EXPLAIN {asked}"))?;
                ensure!(matches!(planned, Answer::Rows(_)), "EXPLAIN of {depth} of {query:?}, {route}: {planned:?}");
            }
        }
    }
    Ok(())
}

/// If an expression is too deep even for PostgreSQL, PostgreSQL raises its error. No subtransaction that pg_anker has
/// begun may stay open then.
fn nothing_is_lost_behind_a_deep_expression(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    with_table(&mut client)?;
    client.batch_execute("CREATE TABLE kept (a integer); SET anker.route = prefer")?;
    for (number, depth) in [700, 4000].into_iter().enumerate() {
        let deep = nested(QUERIES[0], depth);
        client.batch_execute(&format!(
            "DO $$ BEGIN BEGIN EXECUTE '{}'; EXCEPTION WHEN statement_too_complex THEN NULL; END; END $$",
            deep.replace('\'', "''")
        ))?;
        // The query runs outside of a transaction block, and in one that goes on after ROLLBACK TO a savepoint.
        _ = ask(&mut client, &deep)?;
        client.batch_execute(&format!("INSERT INTO kept VALUES ({number})"))?;
        client.batch_execute("BEGIN; SAVEPOINT s")?;
        _ = ask(&mut client, &deep)?;
        client.batch_execute(&format!("ROLLBACK TO s; INSERT INTO kept VALUES ({number} + 10); COMMIT"))?;
        let numbers = anker::text_rows(&mut client, "SELECT pg_current_xact_id() FROM generate_series(1, 1)")?;
        let others = anker::text_rows(&mut client, "SELECT pg_current_xact_id() FROM generate_series(1, 1)")?;
        ensure!(numbers != others, "two statements ran in one transaction");
    }
    drop(client);
    let rows = anker::text_rows(&mut cluster.connect()?, "SELECT a FROM kept ORDER BY a")?;
    ensure!(rows == ["0", "1", "10", "11"], "only {rows:?} were kept");
    Ok(())
}

/// Forms of a condition that looks up values of `{o}` in a subquery about `{i}`; `{}` stands for a condition of the
/// subquery. Each form comes with a number of levels for which the plan has no more tables than the engine accepts.
const LOOKUPS: [(&str, usize); 8] = [
    ("{o}.x NOT IN (SELECT {i}.x FROM u {i} WHERE {i}.y = {o}.y AND {})", 4),
    ("({o}.x, {o}.y) NOT IN (SELECT {i}.x, {i}.y FROM u {i} WHERE {i}.id < {o}.id AND {})", 3),
    ("({o}.x NOT IN (SELECT {i}.x FROM u {i} WHERE {i}.y = {o}.y AND {})) IS NULL", 4),
    ("(({o}.x, {o}.y) NOT IN (SELECT {i}.x, {i}.y FROM u {i} WHERE {i}.y > {o}.y AND {})) IS NOT FALSE", 3),
    ("({o}.x < ALL (SELECT {i}.x FROM u {i} WHERE {i}.y = {o}.y AND {})) IS NOT TRUE", 4),
    ("{o}.x = ANY (SELECT {i}.x FROM u {i} WHERE {i}.y = {o}.y AND {})", 4),
    ("NOT EXISTS (SELECT FROM u {i} WHERE {i}.x = {o}.x AND {})", 4),
    ("{o}.x < (SELECT max({i}.y) FROM u {i} WHERE {i}.x <> {o}.x AND {})", 4),
];

fn with_nulls(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE u (id integer PRIMARY KEY, x integer, y integer);
         INSERT INTO u SELECT i, nullif(i % 7, 3), nullif(i % 5, 2) FROM generate_series(1, 30) i; ANALYZE u;
         CREATE SEQUENCE calls;
         CREATE FUNCTION counted(a integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql
           AS 'BEGIN PERFORM nextval(''calls''); RETURN a; END'",
    )?;
    anker::mirror(client, &["u"], LIVE)?;
    Ok(client.batch_execute("SET anker.route = prefer")?)
}

/// The answer must be the heap's, and the engine must give it.
fn answered_alike(client: &mut Client, sql: &str) -> Result<()> {
    let by = anker::explained(client, sql)?;
    ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    let engine = ask(client, sql)?.normal();
    client.batch_execute("SET anker.route = off")?;
    let heap = ask(client, sql)?.normal();
    client.batch_execute("SET anker.route = prefer")?;
    ensure!(engine == heap, "{sql}: {engine:?}, not {heap:?}");
    Ok(())
}

/// The number of calls of `counted` while a query is planned.
fn calls_while_planned(client: &mut Client, sql: &str) -> Result<i64> {
    let next = "SELECT nextval('calls')";
    let before: i64 = client.query_one(next, &[])?.get(0);
    client.batch_execute(&format!("EXPLAIN {sql}"))?;
    let after: i64 = client.query_one(next, &[])?.get(0);
    Ok(after - before - 1)
}

/// The planner evaluates a constant call each time it translates the level that contains it. So the innermost level
/// shows how often it is translated, which must not depend on its depth.
fn each_subquery_is_translated_once(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    with_nulls(&mut client)?;
    for (form, deepest) in LOOKUPS {
        let mut counts = Vec::new();
        for depth in 1..=deepest {
            let innermost = format!("u{depth}.id > counted(3)");
            let condition = (1..=depth).rev().fold(innermost, |below, level| {
                let (inner, outer) = (format!("u{level}"), format!("u{}", level - 1));
                form.replace("{o}", &outer).replace("{i}", &inner).replace("{}", &below)
            });
            let sql = format!("SELECT count(*), sum(u0.id) FROM u u0 WHERE {condition}");
            answered_alike(&mut client, &sql)?;
            counts.push(calls_while_planned(&mut client, &sql)?);
        }
        ensure!(counts.iter().all(|count| *count == counts[0]), "{form}: translated {counts:?} times");
    }
    Ok(())
}

/// A looked-up value may contain a subquery itself. Only the list in which it is looked up is computed several times.
fn looked_up_subqueries_are_computed_once(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    with_nulls(&mut client)?;
    for around in ["WHERE {}", "WHERE ({}) IS NOT TRUE"] {
        let condition = (1..=6).fold("t.x IS NULL".to_owned(), |looked_up, number| {
            format!("(({looked_up})::integer, t.y) NOT IN (SELECT u{number}.x, u{number}.y FROM u u{number})")
        });
        answered_alike(
            &mut client,
            &format!("SELECT count(*), sum(t.id) FROM u t {}", around.replace("{}", &condition)),
        )?;
    }
    Ok(())
}
