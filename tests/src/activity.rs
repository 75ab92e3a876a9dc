//! `anker.activity`: the queries that are open in the engine, and who may see what about them.

use std::time::Duration;

use bench::cluster::{Options, wait_until};
use bench::{Result, anker, os};
use postgres::{Client, NoTls};

use crate::runner::{Context, ensure, tests};

tests![an_open_query_is_shown, a_query_that_waits_is_shown_and_the_running_one_is_cancelled, waits_have_names];

const LIVE: Duration = Duration::from_secs(60);

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, v text);
    INSERT INTO t SELECT i, md5(i::text) || repeat('x', 100) FROM generate_series(1, 400000) i";

fn pid(client: &mut Client) -> Result<i32> {
    Ok(client.query_one("SELECT pg_backend_pid()", &[])?.get(0))
}

fn rows(client: &mut Client, sql: &str) -> Result<Vec<String>> {
    anker::text_rows(client, sql)
}

fn an_open_query_is_shown(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(TABLE)?;
    client.batch_execute(
        "CREATE ROLE reader LOGIN; CREATE ROLE watcher LOGIN; CREATE ROLE nobody LOGIN; GRANT SELECT ON t TO reader;
         GRANT pg_monitor TO watcher",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let connect = |user: &str| cluster.config().user(user).connect(NoTls);
    let (mut again, mut watcher, mut nobody) = (connect("reader")?, connect("watcher")?, connect("nobody")?);
    ensure!(rows(&mut client, "SELECT * FROM anker.activity")?.is_empty(), "something runs at the beginning");

    // The result does not fit into the buffers between engine and session, so the engine waits for the next FETCH.
    let mut reader = connect("reader")?;
    reader.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT v, id FROM t WHERE anker.olap(); FETCH 1 FROM c")?;
    let shown = format!(
        "SELECT a.datname, a.usename, a.usesysid = 'reader'::regrole, a.pid = {}, a.phase, a.rows BETWEEN 1 AND 399999,
             a.started BETWEEN s.xact_start AND clock_timestamp(), a.memory_bytes >= 0, a.disk_bytes,
             a.spilled_bytes, a.threads
         FROM anker.activity a LEFT JOIN pg_stat_activity s USING (pid)",
        pid(&mut reader)?
    );
    let expected = "postgres|reader|t|t|sending|t|t|t|0|0|2";
    let mut found = Vec::new();
    for (who, session) in [("a superuser", &mut client), ("a monitor", &mut watcher), ("the user", &mut again)] {
        wait_until(Duration::from_secs(10), || {
            found = rows(session, &shown)?;
            Ok(found == [expected])
        })?;
        ensure!(found == [expected], "{who} sees {found:?}");
    }
    // Others see that there is a query, and whose it is, as in pg_stat_activity.
    let shown =
        "SELECT datname, usename, started, phase, rows, memory_bytes, disk_bytes, spilled_bytes, threads, query_id
         FROM anker.activity";
    let found = rows(&mut nobody, shown)?;
    let hidden = [r"postgres|reader|\N|\N|\N|\N|\N|\N|\N|\N"];
    ensure!(found == hidden, "a stranger sees {found:?}");
    reader.batch_execute("CLOSE c; COMMIT")?;
    let gone = wait_until(LIVE, || Ok(rows(&mut client, "SELECT * FROM anker.activity")?.is_empty()))?;
    ensure!(gone, "a query that has ended is shown: {:?}", rows(&mut client, "SELECT * FROM anker.activity")?);
    Ok(())
}

fn a_query_that_waits_is_shown_and_the_running_one_is_cancelled(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.max_queries", "1"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(TABLE)?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let (mut first, mut second) = (cluster.connect()?, cluster.connect()?);
    let (running, waiting) = (pid(&mut first)?, pid(&mut second)?);
    first.batch_execute("SET compute_query_id = on")?;
    second.batch_execute("SET anker.max_wait = '1min'")?;
    let phases = |client: &mut Client| rows(client, "SELECT pid, phase FROM anker.activity ORDER BY started");
    std::thread::scope(|scope| {
        let long = "SELECT count(*) FROM t a, t b WHERE (a.id + b.id) % 1000 = 7 AND anker.olap()";
        let long = scope.spawn(move || first.batch_execute(long));
        let runs = wait_until(LIVE, || Ok(phases(&mut client)? == [format!("{running}|running")]))?;
        let short = scope.spawn(move || rows(&mut second, "SELECT count(*) FROM t WHERE anker.olap()"));
        let expected = [format!("{running}|running"), format!("{waiting}|queued")];
        let waits = wait_until(LIVE, || Ok(phases(&mut client)? == expected))?;
        let shown = phases(&mut client)?;
        let same = "SELECT a.query_id = s.query_id FROM anker.activity a JOIN pg_stat_activity s USING (pid)
             WHERE phase = 'running'";
        let same = rows(&mut client, same)?;
        client.batch_execute("SELECT pg_cancel_backend(pid) FROM anker.activity WHERE phase = 'running'")?;
        let cancelled = long.join().map_err(|_| "the first session panicked")?;
        let counted = short.join().map_err(|_| "the second session panicked")??;
        ensure!(runs && waits, "anker.activity shows {shown:?}");
        ensure!(same == ["t"], "the id differs from that in pg_stat_activity: {same:?}");
        let code = cancelled.err().and_then(|e| e.code().cloned());
        ensure!(code == Some(postgres::error::SqlState::QUERY_CANCELED), "the long query ended with {code:?}");
        ensure!(counted == ["400000"], "the short query returns {counted:?}");
        Ok(())
    })
}

/// The events that pg_stat_activity shows. Before PostgreSQL 17, extensions have no names for them.
fn waits_have_names(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.max_queries", "1"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(TABLE)?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let version: i32 = client.query_one("SELECT current_setting('server_version_num')::int", &[])?.get(0);
    let named = |name: &'static str| if version >= 170_000 { name } else { "Extension" };
    let (mut first, mut second, mut third) = (cluster.connect()?, cluster.connect()?, cluster.connect()?);
    for session in [&mut first, &mut second, &mut third] {
        session.batch_execute("SET statement_timeout = '1min'")?;
    }
    let (running, queued, behind) = (pid(&mut first)?, pid(&mut second)?, pid(&mut third)?);
    let mut waits = |pid: i32, name: &'static str| -> Result<()> {
        let sql = format!("SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = {pid}");
        let expected = [format!("Extension|{}", named(name))];
        let found = wait_until(LIVE, || Ok(rows(&mut client, &sql)? == expected))?;
        ensure!(found, "{:?} instead of {expected:?}", rows(&mut client, &sql)?);
        Ok(())
    };
    std::thread::scope(|scope| {
        let long = "SELECT count(*) FROM t a, t b WHERE (a.id + b.id) % 1000 = 7 AND anker.olap()";
        let first = scope.spawn(move || first.batch_execute(long));
        waits(running, "AnkerAnswer")?;
        let second = scope.spawn(move || rows(&mut second, "SELECT count(*) FROM t WHERE anker.olap()"));
        waits(queued, "AnkerQueue")?;
        let mut client = cluster.connect()?;
        let (worker, _) = anker::processes(&mut client)?.ok_or("no worker")?;
        waits(worker as i32, "AnkerCaptureMain")?;
        // The mirror cannot catch up while its worker is stopped.
        os::kill(worker, os::SIGSTOP)?;
        client.batch_execute("INSERT INTO t VALUES (0, '')")?;
        let third = scope.spawn(move || rows(&mut third, "SELECT count(*) FROM t WHERE anker.olap()"));
        let lags = waits(behind, "AnkerSnapshot");
        os::kill(worker, os::SIGCONT)?;
        lags?;
        client.execute("SELECT pg_cancel_backend($1)", &[&running])?;
        first.join().map_err(|_| "the first session panicked")?.expect_err("the long query is cancelled");
        for (session, expected) in [(second, "400000"), (third, "400001")] {
            let counted = session.join().map_err(|_| "a session panicked")??;
            ensure!(counted == [expected], "{counted:?} instead of {expected}");
        }
        let launcher = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_anker launcher'";
        waits(client.query_one(launcher, &[])?.get(0), "AnkerLauncherMain")?;
        Ok(())
    })
}
