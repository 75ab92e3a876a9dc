//! pg_anker beside other extensions as Debian packages them, loaded before it and after it. A test is skipped if its
//! extension is not installed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_until};
use bench::server::run;
use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask, compare, same, same_under_lock, unflagged};
use crate::runner::{Context, Skipped, ensure, tests};
use crate::unplanned::Lagging;

tests![
    pgaudit_logs_the_same_as_for_the_heap,
    pg_cron_runs_flagged_queries,
    pg_repack_keeps_the_mirror_right,
    pg_hint_plan_sets_the_route,
    timescaledb_hypertables_are_mirrored,
];

const LIVE: Duration = Duration::from_secs(60);

const TABLES: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric, x text);
    INSERT INTO t SELECT i, i % 5, i / 4.0, 'x' || i % 7 FROM generate_series(1, 4000) i;
    CREATE TABLE small (k integer PRIMARY KEY, label text);
    INSERT INTO small SELECT i, 'label ' || i FROM generate_series(0, 9) i;
    CREATE VIEW labels AS SELECT t.id, label FROM t JOIN small ON k = g;
    CREATE TABLE parts (day date NOT NULL, k integer, PRIMARY KEY (day, k)) PARTITION BY RANGE (day);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
    INSERT INTO parts SELECT date '2026-01-01' + i % 59, i FROM generate_series(1, 2000) i;
    ANALYZE";

/// Table `small` is not mirrored: its rows are sent along.
const MIRRORED: [&str; 2] = ["t", "parts"];

const QUERIES: [&str; 8] = [
    "SELECT g, count(*), sum(n) FROM t WHERE anker.olap() GROUP BY g",
    "SELECT id, x FROM t WHERE id % 100 = 7 AND anker.olap()",
    "SELECT label, count(*) FROM t JOIN small ON k = g WHERE anker.olap() GROUP BY label",
    "SELECT label, count(*) FROM labels WHERE anker.olap() GROUP BY label",
    "SELECT day, count(*) FROM parts WHERE day > '2026-01-20' AND anker.olap() GROUP BY day",
    "SELECT count(*) FROM t WHERE g IN (SELECT k FROM small WHERE label > 'label 2') AND anker.olap()",
    "WITH s AS MATERIALIZED (SELECT k, count(*) c FROM parts GROUP BY k) SELECT sum(c) FROM s JOIN t ON k = id WHERE anker.olap()",
    "SELECT x, string_agg(id::text, ',' ORDER BY id) FROM t WHERE id < 60 AND anker.olap() GROUP BY x",
];

/// Fails with the reason to skip the test, if the library is not installed.
fn installed(context: &Context, library: &str, missing: &'static str) -> Result<()> {
    let path = context.server().engine().with_file_name(format!("{library}.so"));
    if path.exists() { Ok(()) } else { Err(Skipped(missing).into()) }
}

/// Two servers with the tables and both extensions: on one the library is loaded before pg_anker, on the other after
/// it.
fn in_both_orders(context: &Context, library: &str, options: &Options) -> Result<Vec<(Arc<Cluster>, Client)>> {
    let start = |libraries: String| -> Result<(Arc<Cluster>, Client)> {
        let cluster = context.cluster_with(&options.clone().set("shared_preload_libraries", &libraries))?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        client.batch_execute(TABLES)?;
        anker::mirror(&mut client, &MIRRORED, LIVE)?;
        Ok((cluster, client))
    };
    [format!("{library}, pg_anker"), format!("pg_anker, {library}")].into_iter().map(start).collect()
}

/// Fails if the engine does not answer the query.
fn by_engine(client: &mut Client, sql: &str) -> Result<()> {
    let by = anker::analyzed(client, sql)?;
    ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    Ok(())
}

/// Compares the answers of all queries, which the engine must give.
fn all_queries(client: &mut Client) -> Result<()> {
    QUERIES.iter().try_for_each(|sql| {
        compare(client, sql, false)?;
        by_engine(client, sql)
    })
}

fn pgaudit_logs_the_same_as_for_the_heap(context: &Context) -> Result<()> {
    installed(context, "pgaudit", "pgaudit is not installed")?;
    let options = Options::default().set("pgaudit.log_relation", "on").set("pgaudit.log_rows", "on");
    for (cluster, mut client) in in_both_orders(context, "pgaudit", &options)? {
        client.batch_execute(
            "CREATE EXTENSION pgaudit; CREATE ROLE auditor; GRANT SELECT (n) ON t TO auditor; GRANT SELECT ON small TO auditor;
             CREATE TABLE kept (a text, b bigint)",
        )?;
        all_queries(&mut client)?;
        let insert = "INSERT INTO kept SELECT x, count(*) FROM t WHERE anker.olap() GROUP BY x";
        for refused in [false, true] {
            // The engine refuses the query at its first row, and the heap's plan is started while the query runs.
            let _lagging = refused.then(|| Lagging::start(&cluster, &mut client)).transpose()?;
            for settings in ["SET pgaudit.log = 'read, write'", "RESET pgaudit.log; SET pgaudit.role = auditor"] {
                client.batch_execute(settings)?;
                for sql in QUERIES.iter().chain(&[insert]) {
                    let [flagged, heap] = [(*sql).to_owned(), unflagged(sql)].map(|sql| -> Result<Vec<String>> {
                        let seen = cluster.log().len();
                        client.batch_execute(&sql)?;
                        Ok(audited(&cluster.log()[seen..], &sql))
                    });
                    let (mut flagged, heap) = (flagged?, heap?);
                    // pgaudit for PostgreSQL 18 also logs, without a table, the heap's plan that is started then.
                    flagged.retain(|line| !refused || !line.contains(",SELECT,,,"));
                    ensure!(
                        flagged == heap,
                        "refused: {refused}, {settings}, {sql}: logged {flagged:#?}, not {heap:#?}"
                    );
                    let logs = settings.contains("read") || sql.contains("small") || sql.contains("sum(n)");
                    ensure!(!heap.is_empty() || !logs, "{settings}, {sql}: nothing was logged");
                }
            }
            client.batch_execute("RESET pgaudit.role; RESET anker.max_wait")?;
        }
    }
    Ok(())
}

/// The lines of pgaudit in a piece of the log, without the number and the text of the statement.
fn audited(log: &str, sql: &str) -> Vec<String> {
    let entries = log.split("AUDIT: ").skip(1).map(|entry| {
        let mut fields = entry.lines().next().unwrap_or_default().splitn(4, ',');
        let kind = fields.next().unwrap_or_default();
        format!("{kind},{}", fields.nth(2).unwrap_or_default().replace(sql, "..."))
    });
    let mut entries: Vec<String> = entries.collect();
    entries.sort_unstable();
    entries
}

fn pg_cron_runs_flagged_queries(context: &Context) -> Result<()> {
    installed(context, "pg_cron", "pg_cron is not installed")?;
    let options = Options::default().set("cron.use_background_workers", "on");
    let mut servers = in_both_orders(context, "pg_cron", &options)?;
    for (_, client) in &mut servers {
        client.batch_execute("CREATE EXTENSION pg_cron; CREATE TABLE found (c bigint, s numeric)")?;
        // Jobs of each second came with 1.6.
        let seconds = ask(client, "SELECT cron.schedule('noop', '1 second', 'SELECT 1')")?;
        let often = if matches!(seconds, Answer::Rows(_)) { "1 second" } else { "* * * * *" };
        for (job, command) in [
            ("insert", "INSERT INTO found SELECT count(*), sum(n) FROM t WHERE anker.olap()"),
            ("select", "SELECT label, count(*) FROM t JOIN small ON k = g WHERE anker.olap() GROUP BY label"),
        ] {
            client.execute("SELECT cron.schedule($1, $2, $3)", &[&job, &often, &command])?;
        }
    }
    for (_, client) in &mut servers {
        let done = "SELECT count(*) >= 2 FROM (SELECT DISTINCT command FROM cron.job_run_details
                    WHERE command <> 'SELECT 1' AND status = 'succeeded') d";
        let ran = wait_until(Duration::from_secs(90), || Ok(anker::text_rows(client, done)? == ["t"]))?;
        let runs = "SELECT command, status, return_message FROM cron.job_run_details";
        ensure!(ran, "the jobs did not succeed: {:?}", anker::text_rows(client, runs)?);
        let served = anker::counter(client, "queries_served")?;
        ensure!(served >= 2, "the engine has answered {served} queries");
        let found = anker::text_rows(client, "SELECT DISTINCT c, s FROM found")?;
        let expected = anker::text_rows(client, "SELECT count(*), sum(n) FROM t")?;
        ensure!(found == expected, "a job has found {found:?}, the heap has {expected:?}");
        client.batch_execute("SELECT cron.unschedule(jobid) FROM cron.job")?;
        all_queries(client)?;
    }
    Ok(())
}

/// pg_repack copies a table while others write to it, and then swaps the files of table and copy in the catalog.
fn pg_repack_keeps_the_mirror_right(context: &Context) -> Result<()> {
    installed(context, "pg_repack", "pg_repack is not installed")?;
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    client.batch_execute(
        "CREATE EXTENSION pg_repack;
         ALTER TABLE t ADD COLUMN long text, ALTER COLUMN long SET STORAGE EXTERNAL;
         UPDATE t SET long = repeat(x, 2000) WHERE id % 50 = 0;
         CREATE INDEX t_g ON t (g);
         CREATE TABLE full_identity (a integer PRIMARY KEY, b integer, c text);
         ALTER TABLE full_identity REPLICA IDENTITY FULL;
         INSERT INTO full_identity SELECT i, i % 3, 'c' || i FROM generate_series(1, 1000) i",
    )?;
    let tables = ["t", "parts", "full_identity"];
    anker::mirror(&mut client, &tables, LIVE)?;
    let all = "SELECT count(*), sum(id), sum(g), sum(n), sum(length(long)), max(x) FROM t WHERE anker.olap()";
    by_engine(&mut client, all)?;
    client.batch_execute(&format!("PREPARE kept AS {all}; EXECUTE kept"))?;
    let (stop, mut writer, mut reader) = (AtomicBool::new(false), cluster.connect()?, cluster.connect()?);
    std::thread::scope(|scope| -> Result<()> {
        let writing = scope.spawn(|| -> Result<i32> {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                writer.batch_execute(&format!(
                    "UPDATE t SET n = n + 1, g = g + 1 WHERE id % 97 = {round} % 97;
                     UPDATE t SET id = id + 100000 WHERE id = {round};
                     INSERT INTO t (id, g, n, x) VALUES ({round} + 10000, 1, 2, 'new');
                     DELETE FROM t WHERE id = {round} + 9990;
                     UPDATE full_identity SET b = b + 1 WHERE a % 31 = {round} % 31;
                     DELETE FROM full_identity WHERE a = {round} % 900"
                ))?;
            }
            Ok(round)
        });
        let reading = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                same_under_lock(&mut reader, "t", all)?;
                same_under_lock(&mut reader, "full_identity", "SELECT * FROM full_identity WHERE anker.olap()")?;
            }
            Ok(())
        });
        let repacked = (0..3).try_for_each(|round| -> Result<()> {
            for arguments in [&["-t", "t"][..], &["-t", "full_identity", "-n"], &["-t", "t", "-x"], &[]] {
                let mut repack = cluster.server().command("pg_repack");
                repack.args(["-U", "postgres", "-d", "postgres", "-p"]).arg(cluster.port().to_string());
                repack.arg("-h").arg(cluster.directory()).args(arguments);
                run(&mut repack).map_err(|e| format!("round {round}: {e}"))?;
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let (written, read) = (writing.join().expect("no panic"), reading.join().expect("no panic"));
        repacked?;
        read?;
        ensure!(written? > 3, "hardly anything was written");
        Ok(())
    })?;
    for table in tables {
        anker::wait_live(&mut client, table, LIVE)?;
        same(&mut client, &format!("SELECT * FROM {table} WHERE anker.olap()"))?;
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {:?}", &differences[..differences.len().min(4)]);
    }
    by_engine(&mut client, all)?;
    let (kept, heap) = (ask(&mut client, "EXECUTE kept")?, ask(&mut client, &unflagged(all))?);
    ensure!(kept == heap, "the prepared statement returns {kept:?}, the heap {heap:?}");
    Ok(())
}

/// A hint sets the route only if pg_hint_plan's hook is called before ours, because its library was loaded later.
fn pg_hint_plan_sets_the_route(context: &Context) -> Result<()> {
    installed(context, "pg_hint_plan", "pg_hint_plan is not installed")?;
    let servers = in_both_orders(context, "pg_hint_plan", &Options::default())?;
    for ((_cluster, mut client), is_last) in servers.into_iter().zip([false, true]) {
        client.batch_execute("CREATE EXTENSION pg_hint_plan")?;
        all_queries(&mut client)?;
        let flagged = "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g";
        for (hint, sql, side) in [
            ("Set(anker.route prefer)", "SELECT g, count(*) FROM t GROUP BY g", "engine"),
            ("Set(anker.route off)", flagged, "heap"),
            ("SeqScan(t)", flagged, "engine"),
            ("Parallel(t 2 hard)", flagged, "engine"),
            ("HashJoin(t small)", QUERIES[2], "engine"),
        ] {
            let hinted = format!("/*+ {hint} */ {sql}");
            let (found, plain) = (ask(&mut client, &hinted)?.normal(), ask(&mut client, sql)?.normal());
            ensure!(found == plain, "{hinted}: {found:?} instead of {plain:?}");
            let plan = anker::text_rows(&mut client, &format!("/*+ {hint} */ EXPLAIN (COSTS off) {sql}"))?.join("\n");
            let as_hinted = plan.contains("Anker: engine") == (side == "engine");
            ensure!(as_hinted || (hint.starts_with("Set") && !is_last), "{hinted}: {plan}");
        }
    }
    Ok(())
}

const HYPERTABLES: &str = "
    CREATE TABLE h (ts timestamptz NOT NULL, dev integer NOT NULL, n numeric(10,2), x text, PRIMARY KEY (ts, dev));
    SELECT create_hypertable('h', 'ts', chunk_time_interval => interval '7 days');
    INSERT INTO h SELECT timestamptz '2026-01-01 00:00+00' + i * interval '1 hour', d, i / 3.0, 'x' || i % 7
        FROM generate_series(0, 1000) i, generate_series(1, 5) d;
    CREATE TABLE hashed (ts timestamptz NOT NULL, dev integer NOT NULL, v integer, PRIMARY KEY (ts, dev));
    SELECT create_hypertable('hashed', 'ts', 'dev', 2, chunk_time_interval => interval '7 days');
    INSERT INTO hashed SELECT timestamptz '2026-01-01 00:00+00' + i * interval '3 hours', d, i
        FROM generate_series(0, 300) i, generate_series(1, 4) d;
    ANALYZE";

const OF_HYPERTABLES: [&str; 6] = [
    "SELECT dev, count(*), sum(n), max(ts) FROM h WHERE anker.olap() GROUP BY dev",
    "SELECT time_bucket('1 day', ts) b, count(*), sum(n) FROM h WHERE ts > '2026-01-20' AND anker.olap() GROUP BY b",
    "SELECT ts, dev, n, x FROM h WHERE anker.olap() ORDER BY ts DESC, dev LIMIT 5",
    "SELECT label, count(*) FROM h JOIN small ON k = dev JOIN t ON t.id = dev WHERE anker.olap() GROUP BY label",
    "SELECT count(*) FROM hashed JOIN h USING (ts, dev) WHERE anker.olap()",
    "SELECT dev, first(n, ts), last(n, ts) FROM h WHERE anker.olap() GROUP BY dev",
];

/// Changes of hypertables. Debian's package lacks what is not under the Apache licence: compression and continuous
/// aggregates. Without them, the changes marked with `true` are left out.
const CHANGES_OF_HYPERTABLES: [(bool, &str); 16] = [
    (false, "UPDATE h SET n = n + 1 WHERE dev = 3"),
    (false, "DELETE FROM h WHERE dev = 2 AND ts < '2026-01-10'"),
    (false, "INSERT INTO h SELECT timestamptz '2027-01-01 00:00+00' + i * interval '1 hour', 1, 1, 'new' FROM generate_series(0, 400) i"),
    (false, "ALTER TABLE h ADD COLUMN extra integer DEFAULT 5"),
    (false, "SELECT drop_chunks('h', older_than => timestamptz '2026-01-09')"),
    (true, "ALTER TABLE h SET (timescaledb.compress, timescaledb.compress_segmentby = 'dev')"),
    (true, "SELECT compress_chunk(c) FROM show_chunks('h') c LIMIT 2"),
    (true, "INSERT INTO h VALUES ('2026-01-16 00:30+00', 9, 1, 'into a compressed chunk')"),
    (true, "UPDATE h SET n = n + 1 WHERE dev = 3 AND ts < '2026-01-20'"),
    (true, "DELETE FROM h WHERE dev = 4 AND ts < '2026-01-20'"),
    (true, "SELECT compress_chunk(c) FROM show_chunks('h') c LIMIT 2"),
    (true, "SELECT decompress_chunk(c, true) FROM show_chunks('h') c"),
    (true, "SET timescaledb.enable_direct_compress_insert = on;
            INSERT INTO h SELECT timestamptz '2026-02-01 00:10+00' + i * interval '1 minute', 7, 1, 'directly' FROM generate_series(0, 2000) i;
            RESET timescaledb.enable_direct_compress_insert"),
    (true, "SELECT decompress_chunk(c, true) FROM show_chunks('h') c"),
    (true, "CREATE MATERIALIZED VIEW daily WITH (timescaledb.continuous, timescaledb.materialized_only = false) AS
            SELECT time_bucket('1 day', ts) b, dev, sum(n) s, count(*) c FROM h GROUP BY 1, 2"),
    (true, "INSERT INTO h SELECT timestamptz '2027-03-01 00:00+00' + i * interval '1 hour', 1, 1, 'later' FROM generate_series(0, 40) i"),
];

/// The rows of a compressed chunk are not in its heap. Neither they nor rows of chunks that were made or dropped may be
/// missing from an answer.
fn timescaledb_hypertables_are_mirrored(context: &Context) -> Result<()> {
    installed(context, "timescaledb", "TimescaleDB is not installed")?;
    let options = Options::default().set("timescaledb.telemetry_level", "off").set("max_worker_processes", "40");
    for (cluster, mut client) in in_both_orders(context, "timescaledb", &options)? {
        client.batch_execute("CREATE EXTENSION timescaledb")?;
        client.batch_execute(HYPERTABLES)?;
        anker::mirror(&mut client, &["h", "hashed"], LIVE)?;
        all_queries(&mut client)?;
        [0, 3, 4].iter().try_for_each(|&at: &usize| by_engine(&mut client, OF_HYPERTABLES[at]))?;
        let mut other = cluster.connect()?;
        other.batch_execute(&format!("PREPARE p AS {}; EXECUTE p", OF_HYPERTABLES[0]))?;
        let mut compresses = true;
        for (compressed, change) in CHANGES_OF_HYPERTABLES {
            if compressed && !compresses {
                continue;
            }
            match client.batch_execute(change) {
                // The functionality is not supported under the licence.
                Err(e) if e.code().is_some_and(|code| code.code() == "0A000") => compresses = false,
                done => done.map_err(|e| format!("{change}: {}", bench::describe(&e)))?,
            }
            for when in ["right after", "a while after"] {
                hypertables_agree(&mut client, &mut other).map_err(|e| format!("{when} {change}: {e}"))?;
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        // A chunk that was made later is mirrored by another call.
        anker::mirror(&mut client, &["h"], LIVE)?;
        hypertables_agree(&mut client, &mut other)?;
        by_engine(&mut client, OF_HYPERTABLES[0])?;
        if compresses {
            let sql = "SELECT dev, sum(s), sum(c) FROM daily WHERE anker.olap() GROUP BY dev";
            compare(&mut client, sql, false)?;
            client.batch_execute("CALL refresh_continuous_aggregate('daily', NULL, '2026-02-01')")?;
            compare(&mut client, sql, false)?;
        }
    }
    Ok(())
}

fn hypertables_agree(client: &mut Client, other: &mut Client) -> Result<()> {
    OF_HYPERTABLES.iter().try_for_each(|sql| compare(client, sql, false).map(drop))?;
    let expected = ask(client, &unflagged(OF_HYPERTABLES[0]))?.normal();
    let prepared = ask(other, "EXECUTE p")?.normal();
    ensure!(prepared == expected, "a prepared statement returns {prepared:?} instead of {expected:?}");
    OF_HYPERTABLES.iter().try_for_each(|sql| compare(other, sql, false).map(drop))
}
