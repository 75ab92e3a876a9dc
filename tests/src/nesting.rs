//! If an expression is nested too deeply to be translated for the engine, the query runs on the heap. If the expression
//! is too deep even for PostgreSQL, the query fails with PostgreSQL's error. In both cases, the session and its
//! transaction stay usable.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask};
use crate::runner::{Context, ensure, tests};

tests![deep_expressions_are_the_heaps, nothing_is_lost_behind_a_deep_expression];

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
