//! Queries that need more memory than `anker.query_memory`. The engine writes rows to disk, and answers the queries.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![
    more_groups_than_memory,
    orders_and_windows_beyond_memory,
    joins_beyond_memory,
    rows_that_stream_out_of_a_join_on_disk,
    no_disk_or_too_little_of_it_is_a_matter_for_the_heap,
    no_more_is_on_disk_than_the_users_temp_file_limit,
    two_queries_share_memory_and_disk,
    a_query_that_ends_early_leaves_nothing,
    an_engine_that_is_killed_leaves_nothing,
];

const LIVE: Duration = Duration::from_secs(120);

const ROWS: u32 = 1_000_000;

fn cluster(context: &Context, memory: &str, disk: &str, rows: u32) -> Result<(Arc<Cluster>, Client)> {
    let options = Options::default().set("anker.query_memory", memory).set("anker.query_disk", disk);
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(&format!(
        "CREATE TABLE big (id integer PRIMARY KEY, k bigint, t text COLLATE \"C\", n numeric(12,2), f float8);
         INSERT INTO big SELECT i, i::bigint * 7919 % 1000003, CASE WHEN i % 50 > 0 THEN md5((i / 2)::text) END,
             i % 10007 / 100.0, CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '0' ELSE (i % 977)::text END::float8
             FROM generate_series(1, {rows}) i; ANALYZE big"
    ))?;
    anker::mirror(&mut client, &["big"], LIVE)?;
    Ok((cluster, client))
}

/// Compares the answers of heap and engine. Returns the number of bytes that the engine has written to disk for the
/// query.
fn spilled(client: &mut Client, sql: &str) -> Result<i64> {
    let before = anker::counter(client, "spilled_bytes")?;
    let by = anker::analyzed(client, sql)?;
    ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    same(client, sql)?;
    Ok(anker::counter(client, "spilled_bytes")? - before)
}

const GROUPS: &str = "SELECT t, count(*), sum(n), min(k), min(n) FROM big WHERE anker.olap() GROUP BY t";

fn more_groups_than_memory(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context, "128MB", "1GB", ROWS)?;
    for sql in [
        GROUPS,
        "SELECT k, count(*), sum(id), avg(n), min(t) FROM big WHERE anker.olap() GROUP BY k",
        "SELECT count(*), sum(c), sum(d) FROM (SELECT t, count(*) AS c, count(DISTINCT k) AS d FROM big GROUP BY t) g
         WHERE anker.olap()",
        "SELECT count(*), max(t) FROM (SELECT DISTINCT t, n FROM big) s WHERE anker.olap()",
    ] {
        let bytes = spilled(&mut client, sql)?;
        ensure!(bytes > 0, "{sql}: nothing was put on disk");
    }
    ensure!(spilled(&mut client, "SELECT k % 10, count(*) FROM big WHERE anker.olap() GROUP BY 1")? == 0, "spilled");
    let shown = anker::text_rows(&mut client, &format!("EXPLAIN (ANALYZE) {GROUPS}"))?.join("\n");
    ensure!(shown.contains("Disk: ") && shown.contains("Memory Usage: "), "{shown}");
    let shown = anker::text_rows(&mut client, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {GROUPS}"))?.join("\n");
    ensure!(shown.contains("\"Disk Usage\": "), "{shown}");
    Ok(())
}

fn orders_and_windows_beyond_memory(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context, "128MB", "1GB", ROWS)?;
    for sql in [
        "SELECT count(*), sum(k), min(t) FROM (SELECT k, t FROM big ORDER BY t DESC, k LIMIT 300000) s WHERE anker.olap()",
        "SELECT count(*), sum(id), max(t) FROM (SELECT DISTINCT ON (k % 100000) id, t FROM big ORDER BY k % 100000, t, id) s
         WHERE anker.olap()",
        "SELECT sum(r), sum(l) FROM (SELECT row_number() OVER w AS r, lag(k) OVER w AS l FROM big
         WINDOW w AS (PARTITION BY k % 1000 ORDER BY t, id)) s WHERE anker.olap()",
    ] {
        let bytes = spilled(&mut client, sql)?;
        ensure!(bytes > 0, "{sql}: nothing was put on disk");
    }
    Ok(())
}

const JOIN: &str =
    "SELECT count(*), sum(a.n), min(b.t), max(a.t) FROM big a JOIN big b ON a.k = b.k WHERE anker.olap()";

fn joins_beyond_memory(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context, "96MB", "1GB", ROWS)?;
    client.batch_execute("SET enable_nestloop = off")?;
    for sql in [
        JOIN,
        "SELECT count(*), count(b.id), sum(b.n) FROM big a LEFT JOIN big b ON a.t = b.t AND a.id < b.id WHERE anker.olap()",
        "SELECT count(*), count(a.id), count(b.id), min(b.t) FROM big a FULL JOIN big b ON a.k = b.id AND a.t = b.t
         WHERE anker.olap()",
        "SELECT count(*), sum(k), min(t) FROM big a WHERE EXISTS (SELECT FROM big b WHERE b.t = a.t AND b.k <> a.k)
         AND anker.olap()",
        "SELECT count(*), sum(k), min(t) FROM big a WHERE NOT EXISTS (SELECT FROM big b WHERE b.t = a.t AND b.n < a.n)
         AND anker.olap()",
        "SELECT count(*), sum(a.k) FROM big a JOIN big b USING (t, n) JOIN big c ON c.id = b.id WHERE anker.olap()",
    ] {
        let bytes = spilled(&mut client, sql)?;
        ensure!(bytes > 0, "{sql}: nothing was put on disk");
    }
    let shown = anker::text_rows(&mut client, &format!("EXPLAIN (ANALYZE) {JOIN}"))?.join("\n");
    ensure!(shown.contains("Hash Join") && shown.contains("Disk: "), "{shown}");
    Ok(())
}

fn rows_that_stream_out_of_a_join_on_disk(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context, "24MB", "1GB", 300_000)?;
    for kind in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
        let sql = format!(
            "SELECT a.id, a.t, b.id, b.n FROM big a {kind} big b ON a.t = b.t AND a.f <= b.f WHERE anker.olap()"
        );
        let bytes = spilled(&mut client, &sql)?;
        ensure!(bytes > 0, "{sql}: nothing was put on disk");
    }
    Ok(())
}

fn no_disk_or_too_little_of_it_is_a_matter_for_the_heap(context: &Context) -> Result<()> {
    // With a disk limit of 1 MB, the query may reach the limit of memory or that of the disk.
    for (disk, reason) in [("0", "memory"), ("1MB", "anker.query_")] {
        let (_cluster, mut client) = cluster(context, "16MB", disk, 400_000)?;
        for sql in [GROUPS, JOIN] {
            let by = anker::analyzed(&mut client, sql)?.unwrap_or_default();
            ensure!(by.starts_with("heap") && by.to_lowercase().contains(reason), "{disk}: answered by {by}");
            same(&mut client, sql)?;
        }
        let spilled = anker::counter(&mut client, "spilled_bytes")?;
        ensure!((disk == "0") == (spilled == 0), "{disk}: {spilled} bytes on disk");
    }
    Ok(())
}

fn no_more_is_on_disk_than_the_users_temp_file_limit(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context, "128MB", "1GB", ROWS)?;
    let needed = spilled(&mut client, GROUPS)?;
    ensure!(needed > 2 << 20, "no more than {needed} bytes were put on disk");
    client.batch_execute("SET temp_file_limit = '1MB'; SET work_mem = '1GB'")?;
    let before = anker::counter(&mut client, "spilled_bytes")?;
    let by = anker::analyzed(&mut client, GROUPS)?;
    ensure!(by.as_ref().is_some_and(|by| by.contains("temp_file_limit")), "answered by {by:?}");
    let put = anker::counter(&mut client, "spilled_bytes")? - before;
    // The query may have written more than 1 MB in total, because it reuses freed pages of the file. But it must have
    // ended before it had written all rows that it needs to write.
    ensure!(put < needed, "{put} bytes were put on disk, of {needed} that it takes");
    // With a higher `temp_file_limit` the engine answers again. The limit does not affect a query that writes nothing
    // to disk.
    client.batch_execute("SET temp_file_limit = '1GB'")?;
    ensure!(spilled(&mut client, GROUPS)? > 0, "nothing was put on disk");
    client.batch_execute("SET temp_file_limit = 0")?;
    ensure!(spilled(&mut client, "SELECT k % 10, count(*) FROM big WHERE anker.olap() GROUP BY 1")? == 0, "spilled");
    Ok(())
}

fn two_queries_share_memory_and_disk(context: &Context) -> Result<()> {
    let (cluster, mut client) = cluster(context, "128MB", "1GB", ROWS)?;
    let served = anker::counter(&mut client, "queries_served")?;
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..2)
            .map(|_| {
                let cluster = &cluster;
                scope.spawn(move || -> std::result::Result<(), String> {
                    let mut session = cluster.connect().map_err(|e| e.to_string())?;
                    (0..3).try_for_each(|_| same(&mut session, GROUPS).map(|_| ()).map_err(|e| e.to_string()))
                })
            })
            .collect();
        sessions.into_iter().try_for_each(|session| session.join().expect("no panic"))
    })?;
    let served = anker::counter(&mut client, "queries_served")? - served;
    ensure!(served == 6, "{served} of 6 queries were answered by the engine");
    Ok(())
}

/// The size of the engine's unlinked file on disk, in bytes.
fn disk_bytes(engine: u32) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(format!("/proc/{engine}/fd"))? {
        let path = entry?.path();
        let Ok(target) = std::fs::read_link(&path) else { continue };
        if target.to_string_lossy().contains(".disk (deleted)") {
            bytes += std::fs::metadata(&path)?.len();
        }
    }
    Ok(bytes)
}

fn a_query_that_ends_early_leaves_nothing(context: &Context) -> Result<()> {
    let (cluster, mut client) = cluster(context, "128MB", "1GB", ROWS)?;
    let engine = anker::engine_pid(&mut client)?;
    let mut session = cluster.connect()?;
    for sql in [GROUPS, JOIN] {
        for milliseconds in [50, 150, 300, 500] {
            session.batch_execute(&format!("SET statement_timeout = {milliseconds}"))?;
            if let Err(error) = session.simple_query(sql) {
                ensure!(error.code() == Some(&SqlState::QUERY_CANCELED), "{}", bench::describe(&error));
            }
            let gone = wait_until(LIVE, || Ok(disk_bytes(engine)? == 0))?;
            ensure!(gone, "after {milliseconds} ms: {} bytes are left on disk", disk_bytes(engine)?);
        }
    }
    ensure!(anker::counter(&mut client, "queries_cancelled")? > 0, "no query was cancelled");
    ensure!(spilled(&mut client, GROUPS)? > 0, "nothing was put on disk");
    Ok(())
}

fn an_engine_that_is_killed_leaves_nothing(context: &Context) -> Result<()> {
    let (cluster, mut client) = cluster(context, "128MB", "1GB", ROWS)?;
    let engine = anker::engine_pid(&mut client)?;
    let mut session = cluster.connect()?;
    let answer = thread::scope(|scope| {
        let query = scope.spawn(move || session.simple_query(GROUPS).map(|_| ()));
        let spills = wait_until(LIVE, || Ok(disk_bytes(engine).unwrap_or(0) > 0 || query.is_finished()));
        let killed = os::kill(engine, os::SIGKILL);
        (spills, killed, query.join().expect("no panic"))
    });
    let (spills, killed, answer) = answer;
    ensure!(spills?, "the query did not begin");
    killed?;
    // The engine was killed before it had returned a row, so the heap has answered.
    answer.map_err(|e| bench::describe(&e))?;
    let left: Vec<_> = std::fs::read_dir(cluster.data().join("pgsql_tmp_anker"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        // These say that the table is being loaded into the next engine, and where the checkpoints are.
        .filter(|name| [".loading", "_checkpoints"].iter().all(|end| !name.to_string_lossy().ends_with(end)))
        .collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    anker::wait_live(&mut client, "big", LIVE)?;
    ensure!(spilled(&mut client, GROUPS)? > 0, "nothing was put on disk");
    Ok(())
}
