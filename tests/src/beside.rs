//! pg_anker beside another library with hooks. That library's hooks must be called for every query that is planned and
//! every statement that is started, including queries and statements that pg_anker makes itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use bench::cluster::{Cluster, Options};
use bench::server::{pg_config, run};
use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask, compare};
use crate::runner::{Context, ensure, tests};
use crate::unplanned::Lagging;

tests![
    hooks_of_others_are_called_for_every_part_of_a_query,
    rows_that_others_keep_elsewhere_are_theirs,
    rows_that_go_elsewhere_are_inserted_by_others,
    rows_are_looked_for_without_waiting_and_without_keeping_locks
];

const LIVE: std::time::Duration = std::time::Duration::from_secs(60);

const TABLES: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric);
    INSERT INTO t SELECT i, i % 5, i / 4.0 FROM generate_series(1, 4000) i;
    CREATE TABLE small (k integer PRIMARY KEY, label text);
    INSERT INTO small SELECT i, 'label ' || i FROM generate_series(0, 9) i;
    CREATE VIEW both_of AS SELECT t.id, label FROM t JOIN small ON k = g;
    CREATE TABLE kept (a bigint);
    ANALYZE";

const QUERIES: [&str; 14] = [
    "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g",
    "SELECT label, count(*) FROM t JOIN small ON k = g WHERE anker.olap() GROUP BY label",
    "SELECT count(*) FROM t LEFT JOIN (small a JOIN small b USING (k)) ON k = g WHERE anker.olap()",
    "SELECT count(*) FROM t WHERE g IN (SELECT k FROM small WHERE label > 'label 2') AND anker.olap()",
    "SELECT count(*), (SELECT max(label) FROM small) FROM t WHERE anker.olap()",
    "SELECT count(*) FROM t, generate_series(1, 3) s WHERE s = g AND anker.olap()",
    "SELECT count(*) FROM t, (SELECT k, array_agg(label) a FROM small GROUP BY k ORDER BY k) s WHERE k = g AND anker.olap()",
    // The subquery is sent along, and reads a mirrored table itself.
    "SELECT count(*) FROM t, (SELECT g, xmlagg(NULL) x FROM t GROUP BY g) s WHERE s.g = t.g AND anker.olap()",
    "SELECT label, count(*) FROM both_of WHERE anker.olap() GROUP BY label ORDER BY 2, 1 LIMIT 3",
    "WITH s AS MATERIALIZED (SELECT k FROM small) SELECT count(*) FROM t JOIN s ON k = g WHERE anker.olap()",
    "SELECT id, rank() OVER (PARTITION BY g ORDER BY n) FROM t WHERE id < 50 AND anker.olap() ORDER BY 1",
    "SELECT DISTINCT ON (g) g, label FROM t JOIN small ON k = g WHERE anker.olap() ORDER BY g, id",
    "SELECT count(*) FROM t WHERE id / (g - g) > 1 AND anker.olap()",
    "SELECT count(*) FROM t JOIN small ON k = g WHERE 1 / (k - k) > 1 AND anker.olap()",
];

/// The test library keeps the rows of table `away` in another table. Later in the test it also keeps the rows of `t`
/// elsewhere.
const ELSEWHERE: &str = "
    CREATE TABLE away (k integer PRIMARY KEY, label text);
    CREATE TABLE away_elsewhere (LIKE away INCLUDING ALL);
    INSERT INTO away SELECT i, 'away ' || i FROM generate_series(1, 9) i;
    ANALYZE away_elsewhere";

const QUERIES_ELSEWHERE: [&str; 4] = [
    "SELECT label, count(*) FROM t JOIN away ON k = g WHERE anker.olap() GROUP BY label",
    "SELECT count(*), (SELECT max(label) FROM away) FROM t WHERE anker.olap()",
    "SELECT g FROM t WHERE anker.olap() UNION SELECT k FROM away",
    "SELECT count(*) FROM away WHERE anker.olap()",
];

fn hooks_of_others_are_called_for_every_part_of_a_query(context: &Context) -> Result<()> {
    beside(context, |cluster, client| {
        for route in ["hint", "auto", "prefer"] {
            client.batch_execute(&format!("SET anker.route = {route}"))?;
            all_kinds_of_statements(client).map_err(|e| format!("{route}: {e}"))?;
        }
        refused_at_the_first_row(cluster, client)
    })
}

fn rows_that_others_keep_elsewhere_are_theirs(context: &Context) -> Result<()> {
    beside(context, |cluster, client| {
        client.batch_execute(ELSEWHERE)?;
        let refused = ask(client, "SELECT anker.mirror('away')")?;
        ensure!(
            matches!(&refused, Answer::Error { message, .. } if message.contains("another extension")),
            "{refused:?}"
        );
        for route in ["hint", "auto", "prefer"] {
            client.batch_execute(&format!("SET anker.route = {route}"))?;
            QUERIES_ELSEWHERE.iter().try_for_each(|sql| compare(client, sql, false).map(drop))?;
        }
        client.batch_execute("SET anker.route = hint")?;
        // Now the heap's plans are made and started at the first row, while the query runs. Such a plan contains a node
        // of the library.
        let lagging = Lagging::start(cluster, client)?;
        QUERIES_ELSEWHERE.iter().try_for_each(|sql| compare_prepared(client, sql))?;
        drop(lagging);
        client.batch_execute("RESET anker.max_wait")?;
        // When the library begins to keep a table's rows elsewhere, sessions must plan cached queries of the table
        // again.
        let sql = "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g";
        client.batch_execute(&format!("PREPARE kept AS {sql}"))?;
        ask(client, "EXECUTE kept")?;
        client.batch_execute(
            "BEGIN;
             CREATE TABLE t_elsewhere (LIKE t INCLUDING ALL);
             INSERT INTO t_elsewhere SELECT i, 7, i FROM generate_series(1, 10) i;
             COMMIT",
        )?;
        // Table `t` itself has not changed.
        let found = compare(client, sql, false)?;
        ensure!(found == Answer::Rows(vec!["7|10".into()]), "{found:?}");
        client.batch_execute("GRANT SELECT ON t TO public")?;
        let answers = [compare(client, sql, false)?, ask(client, "EXECUTE kept")?];
        let expected = Answer::Rows(vec!["7|10".into()]);
        ensure!(answers.iter().all(|answer| *answer == expected), "{answers:?}");
        // If the library's hook is called before ours, our hook already sees the other table in the query. That table
        // is not mirrored.
        let explained = format!("{:?}", ask(client, &format!("EXPLAIN (VERBOSE) {sql}"))?);
        let reasons = ["Heap Reason: elsewhere", "Heap Reason: not_mirrored"];
        ensure!(reasons.iter().any(|reason| explained.contains(reason)), "{explained}");
        Ok(())
    })
}

fn rows_that_go_elsewhere_are_inserted_by_others(context: &Context) -> Result<()> {
    beside(context, |_, client| {
        client.batch_execute(ELSEWHERE)?;
        for route in ["off", "hint", "auto", "prefer"] {
            client.batch_execute(&format!("SET anker.route = {route}; BEGIN"))?;
            let insert =
                "INSERT INTO away SELECT 100 + g, max(label) FROM t JOIN small ON k = g WHERE anker.olap() GROUP BY g";
            client.batch_execute(insert)?;
            let inserted = ask(client, "SELECT count(*) FROM away WHERE k >= 100")?;
            client.batch_execute("ROLLBACK")?;
            ensure!(inserted == Answer::Rows(vec!["5".into()]), "{route}: {inserted:?}");
        }
        Ok(())
    })
}

fn rows_are_looked_for_without_waiting_and_without_keeping_locks(context: &Context) -> Result<()> {
    beside(context, |cluster, client| {
        client.batch_execute(
            "CREATE TABLE whole (day integer, k integer, PRIMARY KEY (day, k)) PARTITION BY RANGE (day);
             CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (10);
             CREATE TABLE whole_2 PARTITION OF whole FOR VALUES FROM (10) TO (20);
             INSERT INTO whole SELECT i % 20, i FROM generate_series(1, 500) i",
        )?;
        anker::mirror(client, &["whole"], LIVE)?;
        let sql = "SELECT count(*) FROM whole WHERE day < 5 AND anker.olap()";
        let mut other = cluster.connect()?;
        other.batch_execute("BEGIN; REINDEX INDEX whole_2_pkey")?;
        // The heap's plan reads only the other part, so it need not wait.
        let mut fresh = cluster.connect()?;
        fresh.batch_execute("SET lock_timeout = '10s'")?;
        let explained = format!("{:?}", ask(&mut fresh, &format!("EXPLAIN (VERBOSE) {sql}"))?);
        ensure!(explained.contains("Heap Reason: definition"), "{explained}");
        compare(&mut fresh, sql, false)?;
        other.batch_execute("ROLLBACK")?;
        fresh.batch_execute("BEGIN")?;
        let side = anker::explained(&mut fresh, sql)?;
        ensure!(side.as_deref() == Some("engine"), "{side:?}");
        let locks =
            "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'whole_2_pkey'::regclass";
        let kept = ask(&mut fresh, locks)?;
        ensure!(kept == Answer::Rows(vec!["0".into()]), "{kept:?}");
        Ok(())
    })
}

/// Runs `attempt` on two servers: the library is loaded before pg_anker on one, and after it on the other.
fn beside(context: &Context, attempt: impl Fn(&Arc<Cluster>, &mut Client) -> Result<()>) -> Result<()> {
    let library = built(context.home())?;
    for libraries in [format!("{}, pg_anker", library.display()), format!("pg_anker, {}", library.display())] {
        let cluster = context.cluster_with(&Options::default().set("shared_preload_libraries", &libraries))?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        client.batch_execute(TABLES)?;
        anker::mirror(&mut client, &["t"], LIVE)?;
        attempt(&cluster, &mut client).map_err(|e| format!("{libraries}: {e}"))?;
        let log = cluster.log();
        ensure!(!log.contains("past the hooks"), "{libraries}: something went past the hooks, see the log");
    }
    Ok(())
}

/// Compares the answers of a query with its flag, without it, and as a prepared statement.
fn compare_prepared(client: &mut Client, sql: &str) -> Result<()> {
    let expected = compare(client, sql, false)?;
    client.batch_execute(&format!("PREPARE p AS {sql}"))?;
    let answer = ask(client, "EXECUTE p")?.normal();
    client.batch_execute("DEALLOCATE p")?;
    ensure!(answer == expected, "{sql}: {answer:?} instead of {expected:?}");
    Ok(())
}

fn all_kinds_of_statements(client: &mut Client) -> Result<()> {
    for sql in QUERIES {
        compare(client, sql, false)?;
        ask(client, &format!("EXPLAIN (ANALYZE, COSTS off) {sql}"))?;
        ask(client, &format!("PREPARE p AS {sql}"))?;
        (0..2).try_for_each(|_| ask(client, "EXECUTE p").map(drop))?;
        client.batch_execute("DEALLOCATE p; BEGIN")?;
        ask(client, &format!("DECLARE c SCROLL CURSOR FOR {sql}; FETCH 3 FROM c; FETCH PRIOR FROM c"))?;
        client.batch_execute("ROLLBACK")?;
    }
    let inserted = ask(client, "INSERT INTO kept SELECT count(*) FROM t JOIN small ON k = g WHERE anker.olap()")?;
    ensure!(matches!(inserted, Answer::Rows(_)), "INSERT: {inserted:?}");
    // After a write, the heap answers the rest of the transaction, even if the write was to a table that is only sent
    // along.
    for written in ["UPDATE t SET g = g WHERE id = 1", "UPDATE small SET label = label"] {
        client.batch_execute(&format!("BEGIN; {written}"))?;
        compare(client, QUERIES[1], false)?;
        client.batch_execute("ROLLBACK")?;
    }
    Ok(())
}

/// The engine refuses each query at its first row, so the heap's plan is made and started while the query already runs.
fn refused_at_the_first_row(cluster: &Arc<Cluster>, client: &mut Client) -> Result<()> {
    client.batch_execute("SET anker.route = hint")?;
    let lagging = Lagging::start(cluster, client)?;
    let before = anker::counter(client, "fallbacks")?;
    QUERIES.iter().try_for_each(|sql| compare(client, sql, false).map(drop))?;
    let refused = anker::counter(client, "fallbacks")? - before;
    drop(lagging);
    ensure!(refused >= QUERIES.len() as i64 - 2, "no more than {refused} queries were refused");
    Ok(())
}

/// Path of the test library, which is compiled against the server's headers once for all tests.
fn built(directory: &Path) -> Result<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut library = BUILT.lock().expect("no thread panics with the lock");
    if library.is_none() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("beside/nesting.c");
        let path = directory.join("nesting.so");
        let headers = pg_config("--includedir-server")?;
        let mut compile = Command::new("cc");
        compile.args(["-Wall", "-shared", "-fPIC", "-O1"]).arg("-I").arg(headers).arg("-o");
        run(compile.arg(&path).arg(source))?;
        *library = Some(path);
    }
    library.clone().ok_or_else(|| "no library".into())
}
