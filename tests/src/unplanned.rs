//! PostgreSQL plans a flagged query for the heap only when the engine has refused it. Answers, rights, errors and plans
//! must be the same as for a query that PostgreSQL has planned at once.
//!
//! The tests make the engine refuse a query in three ways. If the capture worker is stopped, the engine refuses at the
//! first row. If a parameter is too long, it refuses when the query begins. If the session has written to a table,
//! already the planner knows that the engine cannot answer.

use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options};
use bench::{Result, anker, os};
use postgres::error::SqlState;
use postgres::{Client, NoTls, Row};

use crate::flagged::{Answer, First, ask, same, same_in_transaction};
use crate::runner::{Context, ensure, needs, tests};

tests![
    a_session_that_wrote_gets_all_shapes_of_rows,
    parameters_are_those_of_the_statement,
    rows_come_in_portions,
    its_plan_runs_in_parallel_and_is_logged,
    errors_are_those_of_the_heap,
    branches_that_are_thrown_away_raise_nothing,
    rights_are_those_of_the_heap,
    rights_are_those_of_who_has_started_it,
    no_ddl_comes_in_between,
    the_engine_answers_in_no_parallel_mode,
    statements_that_are_kept_follow_changes,
    what_held_for_one_transaction_is_not_kept,
    a_locked_part_is_not_waited_for,
    it_is_cancelled_like_any_other,
    a_planner_of_others_is_asked,
    subqueries_do_not_make_it_planned_first,
];

const LIVE: Duration = Duration::from_secs(60);

const TABLES: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), f float8, x text, a integer[]);
    INSERT INTO t SELECT i, i % 5, i / 4.0, i, 'x' || i % 50, ARRAY[i % 3, i] FROM generate_series(1, 4000) i;
    CREATE TABLE u (id integer PRIMARY KEY, tid integer, y text);
    INSERT INTO u SELECT i, i % 900, nullif('y' || i % 7, 'y3') FROM generate_series(1, 2000) i;
    CREATE TABLE parts (day date, k integer, PRIMARY KEY (day, k)) PARTITION BY RANGE (day);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
    INSERT INTO parts SELECT date '2026-01-01' + i % 59, i FROM generate_series(1, 1000) i;
    CREATE TABLE small (k integer, label text);
    INSERT INTO small VALUES (1, 'one'), (2, 'two');
    CREATE VIEW wide AS SELECT t.id, g, n, y FROM t JOIN u ON tid = t.id WHERE f > 10;
    ANALYZE";

fn with_tables(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    anker::mirror(&mut client, &["t", "u", "parts"], LIVE)?;
    Ok((cluster, client))
}

/// A write. After it, the engine refuses this session's queries of these tables until the transaction ends.
const WRITE: &str =
    "UPDATE t SET g = g WHERE false; UPDATE u SET tid = tid WHERE false; UPDATE parts SET k = k WHERE k < 0";

/// A capture worker that is stopped until this value is dropped. It has not decoded a committed transaction, so the
/// engine refuses queries, because the mirror lags behind.
pub struct Lagging(u32);

impl Lagging {
    pub fn start(cluster: &Cluster, client: &mut Client) -> Result<Lagging> {
        let (worker, _) = anker::processes(client)?.ok_or("no worker")?;
        os::kill(worker, os::SIGSTOP)?;
        let lagging = Lagging(worker);
        client.batch_execute("SET anker.max_wait = '10ms'")?;
        cluster.connect()?.batch_execute("CREATE TABLE IF NOT EXISTS noise (); INSERT INTO noise DEFAULT VALUES")?;
        Ok(lagging)
    }
}

impl Drop for Lagging {
    fn drop(&mut self) {
        // The worker may have ended.
        let _ = os::kill(self.0, os::SIGCONT);
    }
}

/// When the engine refuses a query, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Never,
    WhenPlanned,
    AtFirstRow,
}

const ALL: [Refused; 3] = [Refused::AtFirstRow, Refused::WhenPlanned, Refused::Never];

impl Refused {
    fn lagging(self, cluster: &Cluster, client: &mut Client) -> Result<Option<Lagging>> {
        client.batch_execute("RESET anker.max_wait")?;
        (self == Refused::AtFirstRow).then(|| Lagging::start(cluster, client)).transpose()
    }

    fn write(self) -> &'static str {
        if self == Refused::WhenPlanned { WRITE } else { "" }
    }
}

fn fallbacks(client: &mut Client) -> Result<i64> {
    anker::counter(client, "fallbacks")
}

fn a_session_that_wrote_gets_all_shapes_of_rows(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    let queries = [
        "SELECT count(*), sum(n), min(x) FROM t WHERE anker.olap()",
        "SELECT * FROM t WHERE id % 7 = 3 AND anker.olap()",
        "SELECT x, g FROM t WHERE anker.olap() ORDER BY n * 2 DESC, id LIMIT 7 OFFSET 2",
        "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g HAVING count(*) > 3 ORDER BY sum(f)",
        "SELECT DISTINCT ON (g) g, id FROM t WHERE anker.olap() ORDER BY g, n DESC",
        "SELECT DISTINCT x FROM t WHERE anker.olap()",
        "SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) FROM t WHERE id < 100 AND anker.olap() ORDER BY 1",
        "WITH s AS MATERIALIZED (SELECT g, avg(n) m FROM t GROUP BY g) SELECT a.g, b.m FROM s a JOIN s b USING (g) WHERE anker.olap()",
        "WITH never AS (SELECT 1 / 0 FROM t) SELECT count(*) FROM u WHERE anker.olap()",
        "SELECT g, (SELECT max(y) FROM u WHERE tid = t.id) FROM t WHERE anker.olap() AND id < 50",
        "SELECT count(*) FROM t WHERE EXISTS (SELECT FROM u WHERE tid = t.id) AND id NOT IN (SELECT tid FROM u WHERE y = 'y1') AND anker.olap()",
        "SELECT y, count(n) FROM wide WHERE anker.olap() GROUP BY ROLLUP (y)",
        "SELECT l.* FROM t, LATERAL (SELECT y FROM u WHERE tid = t.id ORDER BY y LIMIT 1) l WHERE anker.olap()",
        "SELECT id FROM t WHERE g = 1 AND anker.olap() UNION SELECT id FROM u EXCEPT SELECT tid FROM u",
        "SELECT count(*), max(k) FROM parts WHERE day >= '2026-02-10' AND anker.olap()",
        "SELECT label, count(*) FROM small JOIN t ON g = k WHERE anker.olap() GROUP BY label",
        "SELECT a.id, b.id FROM t a FULL JOIN u b ON a.id = b.id + 3990 WHERE anker.olap()",
        "SELECT unnest(a), id FROM t WHERE id < 9 AND anker.olap()",
        "SELECT id, 'constant' AS c, NULL::text FROM t WHERE false AND anker.olap()",
        "SELECT FROM t WHERE id < 4 AND anker.olap()",
        "SELECT string_agg(x, ',' ORDER BY id DESC), array_agg(g ORDER BY id) FROM t WHERE id < 20 AND anker.olap()",
        "SELECT k, sum(n) FROM (VALUES (1), (2)) v (k), t WHERE g = k AND anker.olap() GROUP BY k",
    ];
    for refused in ALL {
        let _lagging = refused.lagging(&cluster, &mut client)?;
        for sql in queries {
            let before = fallbacks(&mut client)?;
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {}", refused.write()))?;
            same_in_transaction(&mut client, sql, First::Flagged)?;
            // The rows go to a table and, by COPY, to the client.
            client.batch_execute(&format!(
                "CREATE TEMPORARY TABLE made ON COMMIT DROP AS SELECT count(*) FROM ({sql}) s"
            ))?;
            let counted = anker::text_rows(&mut client, "SELECT * FROM made")?;
            let rows = match ask(&mut client, sql)? {
                Answer::Rows(rows) => rows.len(),
                other => return Err(format!("{sql}: {other:?}").into()),
            };
            ensure!(counted == [rows.to_string()], "{sql}: {rows} rows, {counted:?} in a table");
            client.batch_execute("ROLLBACK")?;
            let fallen = fallbacks(&mut client)? - before;
            ensure!((fallen >= 3) == (refused != Refused::Never), "{sql}: {fallen} fallbacks, refused {refused:?}");
        }
    }
    ensure!(!cluster.log().contains("leak"), "something leaks: see the log");
    Ok(())
}

fn parameters_are_those_of_the_statement(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE FUNCTION below(bound integer, OUT rows bigint) LANGUAGE plpgsql AS $$
         BEGIN SELECT count(*) INTO rows FROM t WHERE id < bound AND anker.olap(); END $$",
    )?;
    let sql = "SELECT count(*), min($2::text) FROM t WHERE id < $1 AND x <> $2 AND anker.olap()";
    let statement = client.prepare(sql)?;
    client.batch_execute(&format!("PREPARE p (integer, text) AS {sql}"))?;
    let before = fallbacks(&mut client)?;
    let _lagging = Lagging::start(&cluster, &mut client)?;
    for bound in 1..15 {
        let expected = i64::from(bound - 1) - i64::from(bound > 9);
        let row = client.query_one(&statement, &[&bound, &"x9"])?;
        ensure!(row.get::<_, i64>(0) == expected, "{bound}: {row:?}");
        let executed = anker::text_rows(&mut client, &format!("EXECUTE p ({bound}, 'x9')"))?;
        let min = if expected == 0 { "\\N" } else { "x9" };
        ensure!(executed == [format!("{expected}|{min}")], "{bound}: {executed:?}");
        let called = anker::text_rows(&mut client, &format!("SELECT below({bound})"))?;
        ensure!(called == [(bound - 1).to_string()], "{bound}: {called:?}");
    }
    ensure!(fallbacks(&mut client)? - before == 42, "{} fallbacks", fallbacks(&mut client)? - before);
    ensure!(!cluster.log().contains("leak"), "something leaks: see the log");
    Ok(())
}

fn rows_come_in_portions(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    let _lagging = Lagging::start(&cluster, &mut client)?;
    let mut transaction = client.transaction()?;
    let portal = transaction.bind("SELECT id FROM t WHERE id <= $1 AND anker.olap() ORDER BY id", &[&1000])?;
    let other = transaction.bind("SELECT id FROM u WHERE anker.olap() ORDER BY id DESC", &[])?;
    // No row is fetched from the third portal.
    let _third = transaction.bind("SELECT id FROM u WHERE anker.olap()", &[])?;
    let (mut seen, mut others) = (Vec::<i32>::new(), Vec::<i32>::new());
    loop {
        let rows = transaction.query_portal(&portal, 77)?;
        others.extend(transaction.query_portal(&other, 150)?.iter().map(|row| row.get::<_, i32>(0)));
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    transaction.commit()?;
    ensure!(seen == (1..=1000).collect::<Vec<i32>>(), "{} rows in portions", seen.len());
    ensure!(others == (1..=2000).rev().collect::<Vec<i32>>(), "{} rows of the other", others.len());
    ensure!(!cluster.log().contains("leak"), "something leaks: see the log");
    Ok(())
}

fn its_plan_runs_in_parallel_and_is_logged(context: &Context) -> Result<()> {
    needs("auto_explain")?;
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         CREATE FUNCTION noisy(integer) RETURNS integer LANGUAGE plpgsql PARALLEL UNSAFE AS 'BEGIN RETURN $1; END'",
    )?;
    let _lagging = Lagging::start(&cluster, &mut client)?;
    for format in ["text", "json"] {
        client
            .batch_execute(&format!("SET auto_explain.log_format = {format}; BEGIN ISOLATION LEVEL REPEATABLE READ"))?;
        let seen = cluster.log().len();
        same_in_transaction(
            &mut client,
            "SELECT g, count(*) FROM t WHERE f >= 0 AND anker.olap() GROUP BY g",
            First::Flagged,
        )?;
        let log = cluster.log()[seen..].to_owned();
        let (node, parallel, workers) = match format {
            "text" => ("Custom Scan (Anker)", "->  Parallel Seq Scan on t", "Workers Launched: 2"),
            _ => ("\"Custom Plan Provider\": \"Anker\"", "\"Parallel Aware\": true", "\"Workers Launched\": 2"),
        };
        let at = |what: &str| log.find(what).ok_or_else(|| format!("\"{what}\" is not in the log:\n{log}"));
        ensure!(at(node)? < at(parallel)?, "the heap's plan is not below ours:\n{log}");
        ensure!(log.matches(workers).count() == 2, "the heap's plan ran alone, or its rival did:\n{log}");
        ensure!(log.contains("heap, because"), "no reason in the log:\n{log}");
        // Because of a function that is not parallel safe, the heap's plan must run in one process.
        let seen = cluster.log().len();
        anker::text_rows(&mut client, "SELECT noisy(g), count(*) FROM t WHERE anker.olap() GROUP BY 1")?;
        ensure!(!cluster.log()[seen..].contains("Workers"), "an unsafe function ran in parallel");
        client.batch_execute("ROLLBACK")?;
    }
    ensure!(!cluster.log().contains("leak"), "something leaks: see the log");
    Ok(())
}

/// The complete error as the client gets it.
fn error(client: &mut Client, sql: &str) -> Result<String> {
    client.batch_execute("SAVEPOINT e")?;
    let error = match client.simple_query(sql) {
        Ok(_) => return Err(format!("{sql}: no error").into()),
        Err(error) => error,
    };
    client.batch_execute("ROLLBACK TO e")?;
    let told = error.as_db_error().ok_or("an error of the server")?;
    let place = told.position().is_some();
    Ok(format!(
        "{:?} {} {:?} {:?} {:?} {place}",
        told.code(),
        told.message(),
        told.detail(),
        told.hint(),
        told.where_()
    ))
}

fn errors_are_those_of_the_heap(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE FUNCTION fussy(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
         $$ BEGIN RAISE 'not %', $1 USING ERRCODE = 'AB123', DETAIL = 'why', HINT = 'otherwise'; END $$;
         CREATE FUNCTION inlined(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1 / ($1 - $1)'",
    )?;
    for refused in ALL {
        let _lagging = refused.lagging(&cluster, &mut client)?;
        client.batch_execute(&format!("BEGIN; {}", refused.write()))?;
        for sql in [
            "SELECT 1 / (id - 5) FROM t WHERE anker.olap()",
            "SELECT 1 / 0 FROM t WHERE anker.olap()",
            "SELECT count(*) FROM t WHERE 1 / 0 = g AND anker.olap()",
            "SELECT fussy(3) FROM t WHERE anker.olap()",
            "SELECT count(*) FROM t WHERE g > fussy(3) AND anker.olap()",
            "SELECT sum(inlined(3)) FROM t WHERE anker.olap()",
            "SELECT count(*) FROM t WHERE x::integer > 4 AND anker.olap()",
            "SELECT id FROM t WHERE anker.olap() LIMIT -1",
            "SELECT (SELECT id FROM u WHERE anker.olap()) FROM t",
            "SELECT sum(id * 1000000000) FROM t WHERE anker.olap()",
        ] {
            let flagged = error(&mut client, sql)?;
            let heap = error(&mut client, &sql.replace("anker.olap()", "true"))?;
            ensure!(flagged == heap, "{sql}, refused {refused:?}:\n{flagged}\n{heap}");
        }
        client.batch_execute("ROLLBACK")?;
    }
    Ok(())
}

fn branches_that_are_thrown_away_raise_nothing(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    for (branch, other) in [("1 / 0.0", "2.0"), ("sqrt(-1.0)", "n")] {
        let never = format!("(SELECT CASE WHEN id > 0 THEN {branch} ELSE {other} END FROM t LIMIT 1)");
        let sql = format!(
            "SELECT c FROM (SELECT CASE WHEN false THEN {never} ELSE 1.5 END AS c, id FROM t WHERE anker.olap()) s WHERE id < 3"
        );
        let answer = same(&mut client, &sql)?;
        ensure!(matches!(&answer, Answer::Rows(rows) if rows.len() == 2), "{sql}: {answer:?}");
    }
    Ok(())
}

fn rights_are_those_of_the_heap(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE ROLE guest LOGIN; GRANT SELECT (id, g) ON t TO guest; GRANT SELECT ON wide, parts TO guest;
         CREATE VIEW own WITH (security_invoker) AS SELECT id, tid FROM u; GRANT SELECT ON own TO guest;
         CREATE FUNCTION secret(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 1; END';
         REVOKE EXECUTE ON FUNCTION secret FROM public",
    )?;
    let mut guest = cluster.config().user("guest").connect(NoTls)?;
    let queries = [
        "SELECT count(*), sum(g) FROM t WHERE anker.olap()",
        "SELECT count(*) FROM t WHERE n > 3 AND anker.olap()",
        "SELECT * FROM t WHERE anker.olap()",
        "SELECT count(*), max(y) FROM wide WHERE anker.olap()",
        "SELECT count(*) FROM wide, u WHERE anker.olap()",
        "SELECT count(*) FROM own WHERE anker.olap()",
        "SELECT count(*) FROM parts_1 WHERE anker.olap()",
        "SELECT count(*) FROM parts WHERE anker.olap()",
        "SELECT g FROM t WHERE anker.olap() AND id IN (SELECT tid FROM u)",
        "SELECT g FROM t WHERE anker.olap() UNION SELECT tid FROM u",
        "SELECT sum(secret(g)) FROM t WHERE anker.olap()",
        // If the planner removes a relation from the query, no right to it is needed.
        "SELECT count(*) FROM t WHERE anker.olap() AND (g < 3 OR false AND EXISTS (SELECT FROM u))",
        "WITH never AS (SELECT * FROM u) SELECT count(*) FROM t WHERE anker.olap()",
    ];
    for refused in [Refused::AtFirstRow, Refused::Never] {
        let _lagging = refused.lagging(&cluster, &mut guest)?;
        for sql in queries {
            let flagged = ask(&mut guest, sql)?;
            let heap = ask(&mut guest, &sql.replace("anker.olap()", "true"))?;
            ensure!(flagged == heap, "{sql}, refused {refused:?}: {flagged:?} {heap:?}");
        }
        // The same prepared statement is executed under one role after the other.
        let _lagging = refused.lagging(&cluster, &mut client)?;
        for sql in &queries[queries.len() - 2..] {
            let statement = client.prepare(sql)?;
            for role in ["guest", "none", "guest"] {
                client.batch_execute(&format!("SET ROLE {role}"))?;
                client.query(&statement, &[]).map_err(|e| format!("{sql} as {role}: {e}"))?;
            }
            client.batch_execute("RESET ROLE")?;
        }
    }
    Ok(())
}

/// A portal's rows are read with the rights of the role that has opened it, even if the session has another role when
/// they are fetched.
fn rights_are_those_of_who_has_started_it(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE ROLE guest; GRANT SELECT ON t, u TO guest; ALTER TABLE u ENABLE ROW LEVEL SECURITY;
         CREATE POLICY few ON u TO guest USING (id < 10)",
    )?;
    let sql = "SELECT count(*) FROM t, u WHERE tid = t.id AND anker.olap()";
    let whole = anker::text_rows(&mut client, sql)?;
    let _lagging = Lagging::start(&cluster, &mut client)?;
    let few = {
        client.batch_execute("SET ROLE guest")?;
        let few = anker::text_rows(&mut client, sql)?;
        client.batch_execute("RESET ROLE")?;
        few
    };
    ensure!(few != whole, "the policy hides nothing");
    for (opened, read, expected) in [("none", "guest", &whole), ("guest", "none", &few)] {
        let mut transaction = client.transaction()?;
        transaction.batch_execute(&format!("SET ROLE {opened}"))?;
        let portal = transaction.bind(sql, &[])?;
        transaction.batch_execute("RESET ROLE; REVOKE SELECT ON u FROM guest")?;
        transaction.batch_execute(&format!("SET ROLE {read}"))?;
        let rows = transaction.query_portal(&portal, 0)?;
        ensure!(
            rows.len() == 1 && [rows[0].get::<_, i64>(0).to_string()] == expected[..],
            "{rows:?}, not {expected:?}"
        );
        let user: String = transaction.query_one("SELECT current_user::text", &[])?.get(0);
        ensure!((user == "guest") == (read == "guest"), "the session is {user} now");
        transaction.rollback()?;
    }
    Ok(())
}

/// PostgreSQL refuses DDL of the same session for tables that an open portal reads. This must hold even before the
/// portal's first row, when the heap's plan does not exist yet.
fn no_ddl_comes_in_between(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    let sql = "SELECT count(*) FROM t JOIN u ON tid = t.id JOIN parts ON parts.k = t.id, small WHERE small.k < 2 AND t.x <> $1 AND anker.olap()";
    let expected: i64 = client.query_one(&sql.replace("anker.olap()", "true"), &[&"x"])?.get(0);
    // The engine refuses a query at the first row; if a parameter is too long, already when the query begins.
    let _lagging = Lagging::start(&cluster, &mut client)?;
    for parameter in ["x".to_owned(), "y".repeat(1_100_000)] {
        let before = fallbacks(&mut client)?;
        let mut transaction = client.transaction()?;
        let portal = transaction.bind(sql, &[&parameter])?;
        for ddl in [
            "TRUNCATE t",
            "TRUNCATE small",
            "TRUNCATE parts_1",
            "DROP TABLE parts_2",
            "ALTER TABLE small ALTER label TYPE integer USING k",
            "ALTER TABLE u ADD COLUMN more integer",
            "DROP TABLE u CASCADE",
        ] {
            transaction.batch_execute("SAVEPOINT s")?;
            let error = transaction.batch_execute(ddl).err().ok_or_else(|| format!("{ddl}: no error"))?;
            ensure!(error.code() == Some(&SqlState::OBJECT_IN_USE), "{ddl}: {}", bench::describe(&error));
            transaction.batch_execute("ROLLBACK TO s")?;
        }
        let rows = transaction.query_portal(&portal, 0)?;
        ensure!(rows.len() == 1 && rows[0].get::<_, i64>(0) == expected, "{rows:?}, not {expected}");
        transaction.rollback()?;
        ensure!(fallbacks(&mut client)? == before + 1, "the engine answered");
    }
    Ok(())
}

/// Two functions are declared parallel safe, but one writes and the other catches errors. They must work, because a
/// query in the engine does not run in parallel mode. The third function runs a query in the engine, and may be
/// declared parallel safe.
fn the_engine_answers_in_no_parallel_mode(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE TABLE seen (id integer);
         CREATE FUNCTION writes(integer) RETURNS integer LANGUAGE plpgsql PARALLEL SAFE AS
         $$ BEGIN INSERT INTO seen VALUES ($1); RETURN $1; END $$;
         CREATE FUNCTION traps(integer) RETURNS integer LANGUAGE plpgsql PARALLEL SAFE AS
         $$ BEGIN RETURN 1 / ($1 - 1); EXCEPTION WHEN division_by_zero THEN RETURN 0; END $$;
         CREATE FUNCTION asks(integer) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS
         $$ BEGIN RETURN (SELECT count(*) FROM t WHERE g = $1 AND anker.olap()); END $$",
    )?;
    for refused in [Refused::Never, Refused::AtFirstRow] {
        let _lagging = refused.lagging(&cluster, &mut client)?;
        let served = anker::counter(&mut client, "queries_served")?;
        for (sql, expected) in [
            ("SELECT writes(id) FROM t WHERE id < 3 AND anker.olap()", vec!["1", "2"]),
            ("SELECT traps(id) FROM t WHERE id < 3 AND anker.olap()", vec!["0", "1"]),
            ("SELECT asks(id) FROM t WHERE id < 3 AND anker.olap()", vec!["800", "800"]),
        ] {
            let mut rows = anker::text_rows(&mut client, sql)?;
            rows.sort_unstable();
            ensure!(rows == expected, "{sql}: {rows:?}");
        }
        let more = anker::counter(&mut client, "queries_served")? - served;
        ensure!(more == if refused == Refused::Never { 5 } else { 0 }, "the engine answered {more}");
    }
    Ok(())
}

/// When a statement is planned, it may have to run on the heap for a reason that holds only in this transaction. A
/// cached plan must not keep this reason.
fn what_held_for_one_transaction_is_not_kept(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context)?;
    client.batch_execute("SET plan_cache_mode = force_generic_plan")?;
    let is_all_engines = |client: &mut Client| -> Result<bool> {
        let lines = anker::text_rows(client, "EXPLAIN (COSTS off) EXECUTE q")?;
        let is_sent = lines.iter().any(|line| line.contains("Sent Along"));
        Ok(lines.iter().any(|line| line.trim() == "Anker: engine") && !is_sent)
    };
    // Whether some of the statement's rows are sent along, or the heap's plan was chosen by cost. Such a plan does not
    // check at execution whether the reason still holds.
    let is_sent_or_cheap = |route, write| route == "auto" || write != WRITE;
    let write_second = "UPDATE u SET tid = tid WHERE false";
    for (route, write, sql) in [
        ("hint", WRITE, "SELECT sum(g), count(*) FROM t WHERE anker.olap()"),
        ("hint", write_second, "SELECT u.y, count(*) FROM t JOIN u ON u.tid = t.id WHERE anker.olap() GROUP BY 1"),
        ("prefer", WRITE, "SELECT sum(g), count(*) FROM t"),
        ("auto", WRITE, "SELECT a.g, count(*) FROM t a JOIN t b USING (g) GROUP BY 1"),
    ] {
        client.batch_execute(&format!("SET anker.route = {route}; BEGIN; {write}; PREPARE q AS {sql}; EXECUTE q"))?;
        ensure!(!is_all_engines(&mut client)?, "{sql}: the engine reads what the transaction may have written");
        // PostgreSQL plans such a statement again only when other transactions have ended, so the test runs one. In the
        // other case, our scan notices at the next execution that the reason is gone, and the statement is planned
        // again for the execution after that.
        let passing = if is_sent_or_cheap(route, write) {
            "DROP TABLE IF EXISTS passing; CREATE TABLE passing ()"
        } else {
            "EXECUTE q"
        };
        client.batch_execute("COMMIT")?;
        client.batch_execute(passing)?;
        ensure!(is_all_engines(&mut client)?, "{sql}: a reason of the last transaction holds in this one");
        client.batch_execute("DEALLOCATE q")?;
    }
    Ok(())
}

/// Another session has locked a partition. PostgreSQL prunes this partition, and so does not lock it. So our query must
/// not wait for the lock, either.
fn a_locked_part_is_not_waited_for(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    let mut other = cluster.connect()?;
    other.batch_execute("BEGIN; LOCK TABLE parts_1 IN ACCESS EXCLUSIVE MODE")?;
    client.batch_execute("SET lock_timeout = '2s'")?;
    let sql = "SELECT count(*), sum(k) FROM parts WHERE day >= '2026-02-01'";
    let flagged = format!("{sql} AND anker.olap()");
    let by = anker::analyzed(&mut client, &flagged)?;
    let wanted = "heap, because somebody has table \"parts_1\" locked, a part of \"parts\"";
    ensure!(by.as_deref() == Some(wanted), "{by:?}");
    ensure!(anker::text_rows(&mut client, &flagged)? == anker::text_rows(&mut client, sql)?, "another answer");
    // A query that needs the locked partition does wait.
    let waited = client.simple_query("SELECT count(*) FROM parts WHERE anker.olap()").err();
    ensure!(waited.as_ref().and_then(|e| e.code()) == Some(&SqlState::LOCK_NOT_AVAILABLE), "{waited:?}");
    other.batch_execute("ROLLBACK")?;
    let by = anker::analyzed(&mut client, &flagged)?;
    ensure!(by.as_deref() == Some("engine"), "{by:?}, when nobody has it locked");
    Ok(())
}

fn statements_that_are_kept_follow_changes(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "CREATE FUNCTION deep(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
         CREATE FUNCTION shown(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT deep($1)';
         CREATE DOMAIN code AS integer; CREATE ROLE guest; GRANT SELECT ON t, u, parts TO guest;
         CREATE VIEW picked AS SELECT id FROM t WHERE g = 1",
    )?;
    let queries = [
        "SELECT count(*) FROM picked WHERE anker.olap()",
        "SELECT sum(shown(g)) FROM t WHERE anker.olap()",
        "SELECT sum(g::code) FROM t WHERE anker.olap()",
        "SELECT count(*), sum(k) FROM parts WHERE anker.olap()",
        "SELECT * FROM u WHERE id < 20 AND anker.olap() ORDER BY id",
    ];
    let mut statements = Vec::new();
    for sql in queries {
        statements.push(client.prepare(sql)?);
    }
    let answer = |result: std::result::Result<Vec<Row>, postgres::Error>| match result {
        Ok(rows) => {
            let value = |row: &Row| format!("{} columns: {:?}", row.len(), row.try_get::<_, Option<i64>>(0).ok());
            rows.iter().map(|row| if row.len() < 3 { value(row) } else { row.len().to_string() }).collect()
        }
        Err(error) => format!("{:?}", error.code()),
    };
    for change in [
        "SELECT 1",
        "CREATE OR REPLACE VIEW picked AS SELECT id FROM t WHERE g = 2 AND f > 100",
        "CREATE OR REPLACE FUNCTION deep(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2'",
        "ALTER DOMAIN code ADD CHECK (VALUE < 4)",
        "CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
         INSERT INTO parts VALUES ('2026-03-05', 100000)",
        "DROP INDEX IF EXISTS i; CREATE INDEX i ON t (g); DROP VIEW wide; ALTER TABLE u ALTER COLUMN tid TYPE integer USING tid + 1",
        "ALTER TABLE u ENABLE ROW LEVEL SECURITY; ALTER TABLE u FORCE ROW LEVEL SECURITY; CREATE POLICY p ON u USING (id < 10);
         SET ROLE guest",
        "RESET ROLE",
        "ALTER TABLE u DROP COLUMN y",
    ] {
        client.batch_execute(change)?;
        for refused in ALL {
            let _lagging = refused.lagging(&cluster, &mut client)?;
            for (sql, statement) in queries.iter().zip(&statements) {
                client.batch_execute("BEGIN")?;
                // The user `guest` has no right to write.
                if client.batch_execute(refused.write()).is_err() {
                    client.batch_execute("ROLLBACK; BEGIN")?;
                }
                let kept = answer(client.query(statement, &[]));
                client.batch_execute("ROLLBACK; BEGIN")?;
                let fresh = answer(client.query(&sql.replace("anker.olap()", "true"), &[]));
                client.batch_execute("ROLLBACK")?;
                // PostgreSQL refuses to execute a prepared statement whose result columns have changed.
                let may_differ = kept.contains("0A000") && change.contains("DROP COLUMN");
                ensure!(kept == fresh || may_differ, "{sql} after {change}: {kept}, {fresh}");
            }
        }
    }
    Ok(())
}

fn it_is_cancelled_like_any_other(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    let lagging = Lagging::start(&cluster, &mut client)?;
    for setting in ["SET LOCAL statement_timeout = '300ms'", "SET LOCAL work_mem = '64kB'"] {
        client.batch_execute(&format!("BEGIN; {setting}"))?;
        let long = "SELECT count(*) FROM t a, t b, u WHERE a.id + b.id > u.id AND anker.olap()";
        if setting.contains("timeout") {
            let answer = ask(&mut client, long)?;
            let Answer::Error { code, .. } = &answer else { return Err(format!("{answer:?}").into()) };
            ensure!(*code == SqlState::QUERY_CANCELED.code(), "{answer:?}");
        } else {
            let spills = "SELECT x, id, count(*) OVER (ORDER BY x || id) FROM t WHERE anker.olap() ORDER BY 3, 1, 2";
            same_in_transaction(&mut client, spills, First::Heap)?;
        }
        client.batch_execute("ROLLBACK")?;
    }
    drop(lagging);
    anker::text_rows(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")?;
    ensure!(!cluster.log().contains("leak"), "something leaks: see the log");
    Ok(())
}

/// pg_stat_statements must count each statement once as planned and once as executed, whether its hooks are called
/// before ours or after them.
fn a_planner_of_others_is_asked(context: &Context) -> Result<()> {
    needs("pg_stat_statements")?;
    for libraries in ["pg_stat_statements, pg_anker", "pg_anker, pg_stat_statements"] {
        let options = Options::default()
            .set("shared_preload_libraries", libraries)
            .set("pg_stat_statements.track", "all")
            .set("pg_stat_statements.track_planning", "on");
        let cluster = context.cluster_with(&options)?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        client.batch_execute("CREATE EXTENSION pg_stat_statements")?;
        client.batch_execute(TABLES)?;
        anker::mirror(&mut client, &["t", "u", "parts"], LIVE)?;
        for refused in ALL {
            let _lagging = refused.lagging(&cluster, &mut client)?;
            client.batch_execute(&format!("SELECT pg_stat_statements_reset(); BEGIN; {}", refused.write()))?;
            for _ in 0..3 {
                anker::text_rows(&mut client, "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g")?;
            }
            client.batch_execute("COMMIT")?;
            let seen = anker::text_rows(
                &mut client,
                "SELECT plans, calls, rows FROM pg_stat_statements WHERE query LIKE 'SELECT g, count%'",
            )?;
            ensure!(seen == ["3|3|15"], "{libraries}, refused {refused:?}: {seen:?}");
        }
    }
    Ok(())
}

/// PostgreSQL represents a value that is compared with a subquery's rows as a parameter. Such an internal parameter
/// must not be mistaken for a parameter of the statement, for which the heap's plan would be made first.
fn subqueries_do_not_make_it_planned_first(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute("SET debug_print_plan = on; SET log_min_messages = log")?;
    let mut plan = |sql: &str| -> Result<String> {
        let seen = cluster.log().len();
        anker::text_rows(&mut client, sql)?;
        Ok(cluster.log()[seen..].to_owned())
    };
    for condition in [
        "id IN (SELECT tid FROM u)",
        "id NOT IN (SELECT tid FROM u)",
        "g <> ALL (SELECT tid FROM u WHERE tid > 2)",
        "EXISTS (SELECT FROM u WHERE tid = t.id)",
        "n > (SELECT avg(id) FROM u)",
    ] {
        let log = plan(&format!("SELECT count(*) FROM t WHERE {condition} AND anker.olap()"))?;
        ensure!(log.contains("{CUSTOMSCAN"), "{condition}: no plan of ours in the log:\n{log}");
        ensure!(!log.contains("SEQSCAN"), "{condition}: planned for the heap, too:\n{log}");
    }
    ensure!(plan("SELECT count(*) FROM t WHERE id IN (SELECT tid FROM u)")?.contains("SEQSCAN"), "no scan of the heap");
    Ok(())
}
