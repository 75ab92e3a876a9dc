//! Results with long rows: no process needs memory in proportion to the result.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bench::cluster::{Cluster, Options};
use bench::{Result, anker, os};
use postgres::Client;

use crate::flagged::{Answer, ask, same};
use crate::runner::{Context, ensure, tests};

tests![
    wide_rows_need_little_memory,
    copies_for_a_wide_result_count_as_query_memory,
    a_backend_without_memory_for_a_row_goes_on,
];

const LIVE: Duration = Duration::from_secs(120);

/// Creates rows with a text of `times` times 32 bytes. The text takes little space on disk, because PostgreSQL
/// compresses it.
fn wide(client: &mut Client, rows: u32, times: u32) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE wide (id integer PRIMARY KEY, v text);
         INSERT INTO wide SELECT i, repeat(md5(i::text), {times}) FROM generate_series(1, {rows}) i; ANALYZE wide"
    ))?;
    anker::mirror(client, &["wide"], LIVE)
}

/// Runs `work`. Returns the greatest growth of a process's memory meanwhile, and the result of `work`.
pub fn growth<T>(memory: impl Fn() -> Option<u64> + Sync, work: impl FnOnce() -> Result<T>) -> Result<(u64, T)> {
    let before = memory().ok_or("no such process")?;
    let (most, over) = (AtomicU64::new(before), AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(memory().unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })?;
    Ok((most.into_inner() - before, done))
}

fn wide_rows_need_little_memory(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.memory", "4GB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    let rows = context.size(8000, 3000);
    // Each text has 100 kB.
    wide(&mut client, rows, 3125)?;
    let engine = anker::engine_pid(&mut client)?;
    for (query, megabytes) in [
        ("SELECT id, v FROM wide WHERE anker.olap()", 16),
        // The backend fetches the rows of these queries ahead, into a tuple store that exceeds `work_mem`.
        ("SELECT id, v FROM wide WHERE anker.olap() ORDER BY id", 32),
        ("SELECT id, v FROM wide WHERE 1000 / id >= 0 AND anker.olap()", 32),
    ] {
        let served = anker::counter(&mut client, "queries_served")?;
        // Each query has a session of its own, so that memory kept by the allocator is not counted for the next one.
        let mut session = cluster.connect()?;
        let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        anker::text_rows(&mut session, "SELECT count(*) FROM wide WHERE anker.olap()")?;
        let run = || Ok(session.batch_execute(&format!("COPY ({query}) TO '/dev/null'"))?);
        let in_engine = || growth(|| os::resident_bytes(engine), run);
        let (backend, (engine, ())) = growth(|| os::private_bytes(pid as u32), in_engine)?;
        ensure!(anker::counter(&mut client, "queries_served")? == served + 2, "{query}: not answered by the engine");
        ensure!(backend < megabytes << 20, "{query}: the backend grew by {} MB", backend >> 20);
        ensure!(engine < 32 << 20, "{query}: the engine grew by {} MB", engine >> 20);
    }
    let sql = format!("SELECT * FROM wide WHERE id % {} = 0 AND anker.olap()", rows / 20);
    ensure!(matches!(same(&mut client, &sql)?, Answer::Rows(rows) if rows.len() == 20), "{sql}: not 20 rows");
    Ok(())
}

fn copies_for_a_wide_result_count_as_query_memory(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.query_memory", "2MB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    wide(&mut client, 20, 31_250)?;
    let query = "SELECT id, v FROM wide WHERE anker.olap()";
    let by = anker::analyzed(&mut client, query)?.unwrap_or_default();
    ensure!(by.starts_with("heap") && by.contains("memory"), "answered by {by}");
    same(&mut client, query)?;
    let narrow = "SELECT id FROM wide WHERE anker.olap()";
    let by = anker::analyzed(&mut client, narrow)?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    same(&mut client, narrow)?;
    Ok(())
}

/// A resource limit makes large allocations of the backend fail. The backend must raise an error. If it aborted
/// instead, the whole server would restart.
fn a_backend_without_memory_for_a_row_goes_on(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.max_row", "64MB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE huge (id integer PRIMARY KEY, v text);
         INSERT INTO huge SELECT i, repeat('0123456789', 6000000) FROM generate_series(1, 2) i",
    )?;
    anker::mirror(&mut client, &["huge"], LIVE)?;
    let query = "SELECT id, v FROM huge WHERE anker.olap()";
    let session = |cluster: &Cluster| -> Result<(Client, u32)> {
        let mut session = cluster.connect()?;
        let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let by = anker::analyzed(&mut session, "SELECT count(*) FROM huge WHERE anker.olap()")?;
        ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
        Ok((session, pid as u32))
    };
    let (mut free, _) = session(&cluster)?;
    let by = anker::analyzed(&mut free, query)?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    for megabytes in [20, 40, 70, 100, 130, 160, 190] {
        let (mut session, pid) = session(&cluster)?;
        let bytes = os::address_space(pid).ok_or("no such process")? + (megabytes << 20);
        // COPY runs the program as the server's user, who may change limits of the server's processes. The program also
        // reads its input to the end, because COPY would fail otherwise.
        let limit = format!("prlimit --pid {pid} --as={bytes} && cat >/dev/null");
        client.batch_execute(&format!("COPY (SELECT) TO PROGRAM '{limit}'"))?;
        let answer = ask(&mut session, query)?;
        match answer {
            Answer::Rows(rows) => ensure!(rows.len() == 2, "{megabytes} MB more: {} rows", rows.len()),
            Answer::Error { code, message } => ensure!(code == "53200", "{megabytes} MB more: {code} {message}"),
        }
        ensure!(matches!(ask(&mut session, "SELECT 1")?, Answer::Rows(_)), "{megabytes} MB more: the session is gone");
    }
    Ok(())
}
