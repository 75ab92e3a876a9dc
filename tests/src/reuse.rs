//! A session keeps its connection to the engine, and uses it for one query after the other.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_for_exit, wait_until};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;
use protocol::frame::{self, Kind};
use protocol::request::{Done, Ready};

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![
    a_session_asks_on_one_connection,
    an_idle_connection_ends_and_the_next_query_has_another,
    a_new_engine_is_asked_by_the_old_sessions,
    cursors_have_a_connection_each,
    what_is_broken_off_is_not_used_again,
    more_sessions_than_the_engine_keeps_connections,
    a_request_goes_out_again_only_if_nothing_was_answered,
];

const LIVE: Duration = Duration::from_secs(60);
const COUNT: &str = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
/// A long query, which joins every row with thousands of others.
const LONG: &str = "SELECT count(*) FROM t a, t b WHERE a.g % 2 = b.g % 2 AND a.id + b.id > 0 AND anker.olap()";

/// A cluster with a mirrored table, two sessions, and the engine's process id. The second session has not used the
/// engine yet.
fn start(context: &Context, options: &Options) -> Result<(Arc<Cluster>, Client, Client, u32)> {
    let cluster = context.cluster_with(options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, x text);
         INSERT INTO t SELECT i, i % 7, repeat('x', 100) || i FROM generate_series(1, 100000) i; ANALYZE t",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let engine = anker::engine_pid(&mut client)?;
    no_connections(engine)?;
    let session = cluster.connect()?;
    Ok((cluster, client, session, engine))
}

/// The ids of the engine's connection threads. Each thread serves one connection.
fn connections(engine: u32) -> Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for thread in fs::read_dir(format!("/proc/{engine}/task"))? {
        let thread = thread?;
        // The thread may have ended.
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if name.trim_end() == "anker client" {
            found.insert(thread.file_name().to_string_lossy().parse()?);
        }
    }
    Ok(found)
}

fn sockets(process: u32) -> Result<usize> {
    let files = fs::read_dir(format!("/proc/{process}/fd"))?.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Ok(files.filter(|file| file.to_string_lossy().starts_with("socket:")).count())
}

fn no_connections(engine: u32) -> Result<()> {
    let none = wait_until(Duration::from_secs(10), || Ok(connections(engine)?.is_empty()))?;
    ensure!(none, "connections that nobody uses: {:?}", connections(engine)?);
    Ok(())
}

fn by_engine(client: &mut Client, sql: &str) -> Result<()> {
    let by = anker::analyzed(client, sql)?;
    ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    Ok(())
}

fn a_session_asks_on_one_connection(context: &Context) -> Result<()> {
    let (_cluster, mut client, mut session, engine) = start(context, &Options::default())?;
    same(&mut session, COUNT)?;
    let first = connections(engine)?;
    ensure!(first.len() == 1, "after a query: {first:?}");
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let before = sockets(pid as u32)?;
    session.batch_execute("CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS $$
         BEGIN RETURN (SELECT count(*) FROM t WHERE anker.olap()); EXCEPTION WHEN division_by_zero THEN RETURN 0; END $$")?;
    for round in 0..20 {
        same(&mut session, COUNT)?;
        same(&mut session, &format!("SELECT id, x FROM t WHERE id % 3 = {round} AND anker.olap()"))?;
        by_engine(&mut session, "SELECT g, sum(id) FROM t WHERE anker.olap() GROUP BY g ORDER BY g")?;
        session.batch_execute("BEGIN; SELECT f(); SAVEPOINT s; SELECT f(); ROLLBACK TO s; SELECT f(); ROLLBACK")?;
        anker::engine_pid(&mut session)?;
    }
    let then = connections(engine)?;
    ensure!(then == first, "one connection at first, {first:?}, and then {then:?}");
    let after = sockets(pid as u32)?;
    ensure!(after == before, "the session has {after} sockets, before {before}");
    let running = anker::counter(&mut client, "queries_running")?;
    ensure!(running == 0, "{running} queries are counted as open");
    Ok(())
}

fn an_idle_connection_ends_and_the_next_query_has_another(context: &Context) -> Result<()> {
    let (_cluster, _client, mut session, engine) = start(context, &Options::default())?;
    for _ in 0..2 {
        by_engine(&mut session, COUNT)?;
        let before = connections(engine)?;
        no_connections(engine)?;
        by_engine(&mut session, COUNT)?;
        let after = connections(engine)?;
        ensure!(after.len() == 1 && after != before, "before {before:?}, after {after:?}");
    }
    Ok(())
}

fn a_new_engine_is_asked_by_the_old_sessions(context: &Context) -> Result<()> {
    let (cluster, mut client, mut session, engine) = start(context, &Options::default())?;
    by_engine(&mut session, COUNT)?;
    os::kill(engine, os::SIGKILL)?;
    same(&mut session, COUNT)?;
    ensure!(wait_for_exit(engine, Duration::from_secs(10))?, "the engine survived");
    let back =
        |session: &mut Client| wait_until(LIVE, || Ok(anker::analyzed(session, COUNT)?.as_deref() == Some("engine")));
    ensure!(back(&mut session)?, "the session does not find the new engine");

    // The kept connection is still open when the request is sent, but the engine is killed before it answers.
    let engine = anker::engine_pid(&mut client)?;
    by_engine(&mut session, COUNT)?;
    os::kill(engine, os::SIGSTOP)?;
    let asking = std::thread::spawn(move || anker::text_rows(&mut session, COUNT).map(|rows| (rows, session)));
    std::thread::sleep(Duration::from_millis(500));
    ensure!(!asking.is_finished(), "the engine was not asked");
    os::kill(engine, os::SIGKILL)?;
    let (rows, mut session) = asking.join().map_err(|_| "the session panicked")??;
    ensure!(rows == ["100000|100000"], "{rows:?}");
    ensure!(back(&mut session)?, "the session does not find the third engine");

    // Restarts the worker while sessions run queries. The engine may end when an answer has just begun, so errors are
    // allowed.
    let (worker, engine) = anker::processes(&mut client)?.ok_or("no worker")?;
    os::kill(worker, os::SIGTERM)?;
    let changed = wait_until(LIVE, || {
        match anker::text_rows(&mut session, COUNT) {
            Ok(rows) => ensure!(rows == ["100000|100000"], "{rows:?}"),
            Err(error) => {
                let code = error.downcast_ref::<postgres::Error>().and_then(|e| e.code());
                ensure!(code == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{}", bench::describe(&*error));
            }
        }
        Ok(anker::processes(&mut client)?.is_some_and(|(_, now)| now != engine))
    })?;
    ensure!(changed && back(&mut session)?, "the session does not find the fourth engine");
    drop(cluster);
    Ok(())
}

fn cursors_have_a_connection_each(context: &Context) -> Result<()> {
    let (_cluster, _client, mut session, engine) = start(context, &Options::default())?;
    by_engine(&mut session, COUNT)?;
    session.batch_execute(
        "BEGIN; DECLARE a CURSOR FOR SELECT id, x FROM t WHERE anker.olap();
         DECLARE b CURSOR FOR SELECT id, x FROM t WHERE id > 1000 AND anker.olap()",
    )?;
    let mut rows = [0, 0];
    for round in 0..5 {
        for (cursor, rows) in ["a", "b"].iter().zip(&mut rows) {
            *rows += anker::text_rows(&mut session, &format!("FETCH {} FROM {cursor}", 10 + round))?.len();
        }
        // From the second round on, the other query has a kept connection, too.
        let open = connections(engine)?.len();
        ensure!(open == 2 + round.min(1), "round {round}: {open} connections for two cursors");
        ensure!(anker::text_rows(&mut session, COUNT)? == ["100000|100000"], "another query beside the cursors");
    }
    for (cursor, rows) in ["a", "b"].iter().zip(&mut rows) {
        *rows += anker::text_rows(&mut session, &format!("FETCH ALL FROM {cursor}"))?.len();
    }
    ensure!(rows == [100_000, 99_000], "rows of the cursors: {rows:?}");
    session.batch_execute("COMMIT")?;
    let one = wait_until(Duration::from_secs(10), || Ok(connections(engine)?.len() == 1))?;
    ensure!(one, "{:?} are kept", connections(engine)?);
    same(&mut session, COUNT)?;

    // A cursor that is closed early must leave no part of its result in the connection.
    for end in ["CLOSE c; COMMIT", "ROLLBACK", "SAVEPOINT s; SELECT 1 / 0"] {
        session.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id, x FROM t WHERE anker.olap(); FETCH 3 FROM c")?;
        let failed = session.batch_execute(end).is_err();
        ensure!(failed == end.contains('/'), "{end}");
        session.batch_execute("ROLLBACK")?;
        same(&mut session, COUNT)?;
    }
    Ok(())
}

fn what_is_broken_off_is_not_used_again(context: &Context) -> Result<()> {
    let (_cluster, mut client, mut session, engine) = start(context, &Options::default())?;
    let raises = "SELECT sum(100 / (id - 50000)) FROM t WHERE anker.olap()";
    for round in 0..3 {
        for (sql, expected) in [(LONG, SqlState::QUERY_CANCELED), (raises, SqlState::DIVISION_BY_ZERO)] {
            same(&mut session, COUNT)?;
            let kept = connections(engine)?;
            // Only the long query gets a timeout. The other one must end by its own error.
            let limit = if sql == LONG { "300ms" } else { "0" };
            session.batch_execute(&format!("BEGIN; SAVEPOINT s; SET LOCAL statement_timeout = '{limit}'"))?;
            let error = session.simple_query(sql).err().and_then(|e| e.code().cloned());
            ensure!(error.as_ref() == Some(&expected), "round {round}, {sql}: {error:?}");
            session.batch_execute("ROLLBACK TO s")?;
            let rows = anker::text_rows(&mut session, COUNT)?;
            ensure!(rows == ["100000|100000"], "round {round}, after {sql}: {rows:?}");
            let then = connections(engine)?;
            ensure!(!then.is_subset(&kept), "round {round}, after {sql}: {kept:?} at first, and then {then:?}");
            session.batch_execute("COMMIT")?;
        }
    }
    let ended = wait_until(Duration::from_secs(10), || Ok(anker::counter(&mut client, "queries_running")? == 0))?;
    ensure!(ended, "the engine goes on with what was cancelled");
    Ok(())
}

/// There are more sessions than the number of connections that the engine keeps. Every session gets its answer, and at
/// the end all connections are closed.
fn more_sessions_than_the_engine_keeps_connections(context: &Context) -> Result<()> {
    let options = Options::default().set("max_connections", "300");
    let (cluster, _client, mut session, engine) = start(context, &options)?;
    let mut sessions = (0..260).map(|_| cluster.connect()).collect::<Result<Vec<_>>>()?;
    for round in 0..2 {
        for (number, session) in sessions.iter_mut().enumerate() {
            by_engine(session, "SELECT count(*) FROM t WHERE id < 10 AND anker.olap()")
                .map_err(|e| format!("round {round}, session {number}: {e}"))?;
        }
        let open = connections(engine)?.len();
        ensure!(open <= 205, "{open} connections are kept");
    }
    by_engine(&mut session, COUNT)?;
    no_connections(engine)
}

/// A fake engine: it listens on the engine's socket in place of the engine, and closes connections at critical moments.
struct Impostor {
    listener: UnixListener,
    payload: Vec<u8>,
}

impl Impostor {
    fn new(cluster: &Cluster, client: &mut Client) -> Result<Impostor> {
        let database: u32 =
            client.query_one("SELECT oid FROM pg_database WHERE datname = current_database()", &[])?.get(0);
        let socket: PathBuf = cluster.data().join(format!("pg_stat_tmp/pgsql_tmp_anker_{database}.sock"));
        fs::remove_file(&socket)?;
        let listener = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
        Ok(Impostor { listener, payload: Vec::new() })
    }

    fn accept(&mut self) -> Result<UnixStream> {
        let (mut stream, _) = self.listener.accept()?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let greeting = self.read(&mut stream)?;
        ensure!(greeting == Some(Kind::Hello), "greeted with {greeting:?}");
        Ok(stream)
    }

    fn read(&mut self, stream: &mut UnixStream) -> Result<Option<Kind>> {
        Ok(frame::read(stream, &mut self.payload).map_err(|e| e.to_string())?)
    }

    /// The next request.
    fn request(&mut self, stream: &mut UnixStream) -> Result<Vec<u8>> {
        let kind = self.read(stream)?;
        ensure!(kind == Some(Kind::Request), "{kind:?} instead of a request");
        Ok(self.payload.clone())
    }
}

/// Sends a complete answer without rows.
fn answer(stream: &mut UnixStream) -> Result<()> {
    frame::write(stream, Kind::Ready, &Ready::default()).map_err(|e| e.to_string())?;
    Ok(frame::write(stream, Kind::Done, &Done::default()).map_err(|e| e.to_string())?)
}

fn a_request_goes_out_again_only_if_nothing_was_answered(context: &Context) -> Result<()> {
    let (cluster, mut client, mut session, _) = start(context, &Options::default())?;
    let mut impostor = Impostor::new(&cluster, &mut client)?;
    let asking = std::thread::spawn(move || {
        let mut ask = || anker::text_rows(&mut session, COUNT);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>([ask()?, ask()?, ask()?, ask()?, ask()?])
    });
    let mut first = impostor.accept()?;
    impostor.request(&mut first)?;
    answer(&mut first)?;
    // The second query is sent on the kept connection. The fake engine closes this connection without an answer, so the
    // backend sends the same request again on a new connection.
    let before = impostor.request(&mut first)?;
    drop(first);
    let mut second = impostor.accept()?;
    let again = impostor.request(&mut second)?;
    ensure!(again == before, "the request is another one");
    answer(&mut second)?;
    // For the third query, the fake engine closes both the kept connection and the new one without an answer. The
    // backend sends the request again only once; then the heap answers.
    impostor.request(&mut second)?;
    drop(second);
    let mut third = impostor.accept()?;
    impostor.request(&mut third)?;
    drop(third);
    // The fourth query gets a new connection, since none was kept.
    let mut fourth = impostor.accept()?;
    impostor.request(&mut fourth)?;
    answer(&mut fourth)?;
    // For the fifth query, the fake engine sends a part of the answer before it closes the connection. So the backend
    // does not send the request again, and the heap answers.
    impostor.request(&mut fourth)?;
    frame::write(&mut fourth, Kind::Ready, &Ready::default()).map_err(|e| e.to_string())?;
    drop(fourth);
    let answers = asking.join().map_err(|_| "the session panicked")?.map_err(|e| e.to_string())?;
    let heap = ["100000|100000"].map(str::to_owned).to_vec();
    let expected = [vec![], vec![], heap.clone(), vec![], heap];
    ensure!(answers == expected, "answers: {answers:?}");
    impostor.listener.set_nonblocking(true)?;
    ensure!(impostor.listener.accept().is_err(), "a request went out again though it was answered in part");
    Ok(())
}
