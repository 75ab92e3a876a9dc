//! Flagged queries of cursors that stay open for long.

use std::time::Duration;

use bench::cluster::{Options, wait_until};
use bench::{Result, anker, os};
use postgres::Client;

use crate::runner::{Context, ensure, tests};

tests![
    ddl_under_an_open_cursor_is_refused,
    hundreds_of_open_cursors,
    the_fewest_files_per_process_are_enough,
    a_cursor_that_was_idle_for_long_goes_on,
    cursors_are_given_up_before_the_mirror,
];

const LIVE: Duration = Duration::from_secs(60);

/// Runs a statement, and rolls it back. Returns the SQLSTATE and message of its error; `None` if it raised none.
fn attempt(client: &mut Client, sql: &str) -> Result<Option<(String, String)>> {
    client.batch_execute("SAVEPOINT attempt")?;
    let error = client.simple_query(sql).err();
    client.batch_execute("ROLLBACK TO attempt; RELEASE attempt")?;
    let said = error.as_ref().map(|e| e.as_db_error().ok_or_else(|| bench::describe(e)));
    Ok(said.transpose()?.map(|e| (e.code().code().to_owned(), e.message().to_owned())))
}

fn ddl_under_an_open_cursor_is_refused(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, x text);
         CREATE TABLE u (id integer PRIMARY KEY, g integer);
         INSERT INTO t SELECT i, i % 7, 'x' || i FROM generate_series(1, 20000) i;
         INSERT INTO u SELECT i, i FROM generate_series(1, 7) i; CREATE INDEX by_g ON t (g); ANALYZE t, u",
    )?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    let statements = [
        "TRUNCATE t",
        "TRUNCATE u, t",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN extra integer",
        "ALTER TABLE t ALTER COLUMN g TYPE bigint",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t RENAME COLUMN x TO y",
        "ALTER TABLE t SET UNLOGGED",
        "CREATE INDEX another ON t (x)",
        "CREATE TRIGGER before BEFORE INSERT ON t EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CLUSTER t USING t_pkey",
        "REINDEX TABLE t",
        "DROP INDEX by_g",
        "DELETE FROM t WHERE id = 1",
    ];
    let queries = [
        "SELECT * FROM t WHERE anker.olap()",
        "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g",
        "SELECT t.id, u.id FROM t, u WHERE t.g = u.g AND anker.olap()",
    ];
    // With index scans, the heap's plan would keep an index open, and PostgreSQL would refuse other statements than it
    // does for the engine's plan.
    client.batch_execute("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off")?;
    for query in queries {
        for fetch in ["", "FETCH 3 FROM c;"] {
            let by = anker::analyzed(&mut client, query)?;
            ensure!(by.as_deref() == Some("engine"), "{query}: answered by {by:?}");
            client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {query}; {fetch}"))?;
            let flagged: Vec<_> = statements.iter().map(|sql| attempt(&mut client, sql)).collect::<Result<_>>()?;
            // The refused statements have not harmed the cursor: it returns more rows.
            let rows = anker::text_rows(&mut client, "FETCH 2 FROM c")?;
            ensure!(rows.len() == 2, "{query}: {} rows after the refusals", rows.len());
            client.batch_execute("CLOSE c")?;
            for sql in statements {
                let said = attempt(&mut client, sql)?;
                ensure!(said.is_none(), "{sql} after CLOSE: {said:?}");
            }
            client.batch_execute("ROLLBACK")?;

            let plain = crate::flagged::unflagged(query);
            client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {plain}; {fetch}"))?;
            for (sql, flagged) in statements.iter().zip(flagged) {
                let heap = attempt(&mut client, sql)?;
                ensure!(heap == flagged, "{sql} under a cursor for {query}: heap {heap:?}, flagged {flagged:?}");
            }
            client.batch_execute("ROLLBACK")?;
        }
    }
    Ok(())
}

fn many_rows(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, x text);
         INSERT INTO t SELECT i, repeat('x', 100) || i FROM generate_series(1, 30000) i; ANALYZE t",
    )?;
    anker::mirror(client, &["t"], LIVE)
}

/// Opens more cursors than a session may have open files, and more than the number of open queries that the engine
/// accepts from one user. The heap answers the cursors above these limits, and no other session is affected.
fn hundreds_of_open_cursors(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    many_rows(&mut client)?;
    client.batch_execute("CREATE ROLE bob LOGIN; GRANT SELECT ON t TO bob; GRANT USAGE ON SCHEMA anker TO bob")?;
    let mut bob = cluster.connect_as("bob")?;
    let engine = anker::engine_pid(&mut client)?;
    let threads = || Ok::<_, std::io::Error>(std::fs::read_dir(format!("/proc/{engine}/task"))?.count());
    let (threads_before, files_before) = (threads()?, os::open_descriptors(engine));
    let question = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
    let mut sessions = Vec::new();
    for number in 0..3 {
        let mut session = cluster.connect()?;
        session.batch_execute("BEGIN")?;
        for cursor in 0..250 {
            let from = number * 1000 + cursor;
            session.batch_execute(&format!(
                "DECLARE c{cursor} CURSOR FOR SELECT id, x FROM t WHERE id > {from} AND anker.olap()"
            ))?;
            let rows = anker::text_rows(&mut session, &format!("FETCH 1 FROM c{cursor}"))?;
            ensure!(rows.len() == 1, "cursor {cursor} of session {number}: {rows:?}");
        }
        sessions.push(session);
    }
    ensure!(threads()? < 550, "{} threads", threads()?);
    let by = anker::analyzed(&mut client, question)?.unwrap_or_default();
    let open = anker::counter(&mut client, "queries_running")?;
    let in_session = anker::analyzed(&mut sessions[0], question)?;
    let right = by.starts_with("heap") && by.contains("350 queries of this user open");
    ensure!(right, "{open} are open, answered by {by}, in a session that has cursors by {in_session:?}");
    let by = anker::analyzed(&mut bob, question)?;
    ensure!(by.as_deref() == Some("engine"), "another user's is answered by {by:?}");
    // Connections for cursors use less than half of the files that each session's process may open. All cursors can be
    // read to their end, on whichever side they run.
    let files: i64 = client.query_one("SELECT current_setting('max_files_per_process')::bigint", &[])?.get(0);
    for session in &mut sessions {
        let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let open = os::open_descriptors(pid as u32).unwrap_or(0);
        ensure!((open as i64) < files / 2, "a session has {open} files open");
        for cursor in [0, 100, 249] {
            let rows = anker::text_rows(session, &format!("FETCH ALL FROM c{cursor}"))?;
            ensure!(rows.len() > 20_000, "cursor {cursor}: {} rows more", rows.len());
        }
    }
    for mut session in sessions {
        session.batch_execute("COMMIT")?;
    }
    let back = wait_until(Duration::from_secs(10), || {
        Ok(threads()? <= threads_before + 2 && os::open_descriptors(engine) <= files_before.map(|n| n + 2))
    })?;
    ensure!(back, "{} threads, before {threads_before}", threads()?);
    let by = anker::analyzed(&mut client, question)?;
    ensure!(by.as_deref() == Some("engine"), "then answered by {by:?}");

    // Now all cursors are in one session.
    let mut session = cluster.connect()?;
    session.batch_execute("BEGIN")?;
    for cursor in 0..450 {
        session.batch_execute(&format!("DECLARE c{cursor} CURSOR FOR SELECT id, x FROM t WHERE anker.olap()"))?;
        ensure!(anker::text_rows(&mut session, &format!("FETCH 1 FROM c{cursor}"))?.len() == 1, "cursor {cursor}");
    }
    let by = anker::analyzed(&mut session, question)?.unwrap_or_default();
    ensure!(by.starts_with("heap") && by.contains("files open"), "answered by {by}");
    let by = anker::analyzed(&mut client, question)?;
    ensure!(by.as_deref() == Some("engine"), "beside a session with many cursors answered by {by:?}");
    session.batch_execute("COMMIT")?;
    let by = anker::analyzed(&mut session, question)?;
    ensure!(by.as_deref() == Some("engine"), "when they are closed answered by {by:?}");
    Ok(())
}

/// With the smallest `max_files_per_process`, the loader can still open its connection. A view can still open a second
/// connection beside the one that the session keeps for its queries.
fn the_fewest_files_per_process_are_enough(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("max_files_per_process", "64"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    many_rows(&mut client)?;
    let by = anker::analyzed(&mut client, "SELECT count(*), max(id) FROM t WHERE anker.olap()")?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    ensure!(anker::counter(&mut client, "queries_served")? > 0, "the view does not reach the engine");
    Ok(())
}

/// Leaves a cursor idle for longer than the time after which a waiting client gives up a silent engine. The cursor must
/// still return its rows.
fn a_cursor_that_was_idle_for_long_goes_on(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    many_rows(&mut client)?;
    client.batch_execute(
        "BEGIN; DECLARE read CURSOR FOR SELECT id, x FROM t WHERE anker.olap();
         DECLARE unread CURSOR FOR SELECT id, x FROM t WHERE anker.olap(); FETCH 10 FROM read",
    )?;
    let served = anker::counter(&mut client, "queries_served")?;
    std::thread::sleep(Duration::from_secs(15));
    for (cursor, rows) in [("read", 29_990), ("unread", 30_000)] {
        let fetched = anker::text_rows(&mut client, &format!("FETCH ALL FROM {cursor}"))?.len();
        ensure!(fetched == rows, "{fetched} rows of cursor {cursor}");
    }
    ensure!(anker::counter(&mut client, "queries_served")? == served + 2, "not answered by the engine");
    client.batch_execute("COMMIT")?;
    Ok(())
}

/// The engine keeps old values of changed rows for an open cursor. When there is no memory for them any more, it gives
/// up the cursor, not the mirror.
fn cursors_are_given_up_before_the_mirror(context: &Context) -> Result<()> {
    let cluster =
        context.cluster_with(&Options::default().set("anker.memory", "16MB").set("anker.undo_memory", "1MB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    many_rows(&mut client)?;
    let question = "SELECT count(*), max(x) FROM t WHERE anker.olap()";
    let mut sessions = Vec::new();
    for round in 0..12 {
        let mut session = cluster.connect()?;
        session.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id, x FROM t WHERE anker.olap()")?;
        ensure!(anker::text_rows(&mut session, "FETCH 1 FROM c")?.len() == 1, "cursor {round}");
        sessions.push(session);
        client.batch_execute(&format!("UPDATE t SET x = repeat('y', 100) || {round} || ' ' || id"))?;
        let by = anker::analyzed(&mut client, question)?;
        ensure!(by.as_deref() == Some("engine"), "round {round}: answered by {by:?}");
    }
    let state = anker::text_rows(&mut client, "SELECT state, rebuilds FROM anker.tables")?;
    ensure!(state == ["live|0"], "{state:?}");
    let mut ends = Vec::new();
    for session in &mut sessions {
        let end = session.simple_query("FETCH ALL FROM c").map_err(|e| e.as_db_error().cloned());
        let error = end.err().flatten();
        ensure!(error.as_ref().is_none_or(|e| e.hint().is_some_and(|hint| hint.contains("anker.memory"))), "{error:?}");
        ends.push(error.map(|e| (e.code().code().to_owned(), e.message().to_owned())));
    }
    let said = "columnar engine: what was written beside the query's snapshot does not fit into anker.memory";
    let gone =
        ends.iter().take_while(|end| end.as_ref().is_some_and(|(code, text)| code == "72000" && text == said)).count();
    ensure!(gone > 0 && ends[gone..].iter().all(Option::is_none) && gone < ends.len(), "{ends:?}");
    Ok(())
}
