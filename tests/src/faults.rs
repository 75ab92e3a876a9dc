//! Faults of the engine: whatever happens to it, the server goes on, clients get right answers, and the mirror comes
//! back by itself.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, wait_for_exit, wait_until};
use bench::tpcc::{self, Clients, Scale, Workload};
use bench::{Result, anker, os};
use postgres::Client;

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![
    killed_engine_under_pgbench,
    crashed_engine_under_tpcc,
    killed_engine_while_it_answers,
    stopped_engine_is_not_waited_for_forever,
    table_over_the_memory_limit_and_back,
    memory_limit_under_pgbench,
    server_restart_builds_the_mirror_again,
    immediate_shutdown_leaves_no_engine,
    retained_wal_is_bounded,
    a_worker_gives_memory_back_after_a_large_transaction,
];

const BACK: Duration = Duration::from_secs(90);
const SUM: &str = "SELECT count(*), sum(abalance), min(aid), max(aid) FROM pgbench_accounts WHERE anker.olap()";

/// A cluster with pgbench's tables at scale 1, mirrored.
fn pgbench_cluster(context: &Context, options: &Options) -> Result<(Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(options)?;
    let made = pgbench(&cluster, &["-i", "-s", "1", "-q"]).output()?;
    ensure!(made.status.success(), "pgbench -i: {}", String::from_utf8_lossy(&made.stderr));
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    Ok((cluster, client))
}

const PGBENCH_TABLES: [&str; 4] = ["pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history"];

fn pgbench(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = cluster.server().command("pgbench");
    command.arg("-h").arg(cluster.directory()).args(["-U", "postgres", "-p", &cluster.port().to_string()]);
    command.args(arguments).arg("postgres").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A pgbench process that runs during a test. It ends at the first error of any of its clients.
struct Load(Option<Child>);

impl Load {
    fn start(cluster: &Cluster, seconds: u64) -> Result<Load> {
        Ok(Load(Some(pgbench(cluster, &["-n", "-c", "4", "-T", &seconds.to_string()]).spawn()?)))
    }

    fn finish(mut self) -> Result<()> {
        let Some(child) = self.0.take() else { return Ok(()) };
        let output = child.wait_with_output()?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "pgbench: {}: {err}", output.status);
        ensure!(out.contains("number of failed transactions: 0 "), "pgbench: {out}");
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // If this value is dropped before `finish`, the test has failed already, so the result of pgbench does not
            // matter.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until the engine answers the query again; until then every answer must come from the heap.
fn back_on_the_engine(client: &mut Client, sql: &str) -> Result<()> {
    let mut last = None;
    let back = wait_until(BACK, || {
        same(client, sql)?;
        last = anker::analyzed(client, sql)?;
        Ok(last.as_deref() == Some("engine"))
    })?;
    ensure!(back, "not back on the engine within {BACK:?}: {last:?}");
    Ok(())
}

fn kill_and_recover(client: &mut Client, signal: i32, sql: &str) -> Result<()> {
    let engine = anker::engine_pid(client)?;
    os::kill(engine, signal)?;
    if signal == os::SIGSEGV {
        // Rust's signal handler treats the first signal as a possible stack overflow and returns, because a real fault
        // would be raised again. So the signal is sent until the process has ended.
        wait_until(Duration::from_secs(10), || Ok(!os::alive(engine) || os::kill(engine, signal).is_err()))?;
    }
    for _ in 0..5 {
        same(client, sql)?;
    }
    ensure!(wait_for_exit(engine, Duration::from_secs(10))?, "the engine survived signal {signal}");
    back_on_the_engine(client, sql)?;
    ensure!(anker::engine_pid(client)? != engine, "the view shows the dead engine");
    Ok(())
}

fn killed_engine_under_pgbench(context: &Context) -> Result<()> {
    let (cluster, mut client) = pgbench_cluster(context, &Options::default())?;
    anker::mirror(&mut client, &PGBENCH_TABLES, BACK)?;
    let seconds = u64::from(context.size(40, 15));
    let (load, until) = (Load::start(&cluster, seconds)?, Instant::now() + Duration::from_secs(seconds - 5));
    let mut kills = 0;
    while Instant::now() < until {
        kill_and_recover(&mut client, [os::SIGKILL, os::SIGSEGV][kills % 2], SUM)?;
        kills += 1;
    }
    load.finish()?;
    for table in PGBENCH_TABLES {
        back_on_the_engine(&mut client, &format!("SELECT count(*) FROM {table} WHERE anker.olap()"))?;
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {differences:?}");
    }
    Ok(())
}

fn crashed_engine_under_tpcc(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    let scale = Scale::small(1);
    tpcc::create(&cluster.config(), scale)?;
    anker::mirror(&mut client, &tpcc::TABLES, BACK)?;
    let clients = Clients::start(&cluster.config(), Workload::of(scale, 3))?;
    for signal in [os::SIGSEGV, os::SIGKILL, os::SIGTERM].into_iter().take(context.size(3, 1) as usize) {
        for query in &bench::queries::ANKER {
            same(&mut client, &query.flagged())?;
        }
        kill_and_recover(&mut client, signal, "SELECT sum(ol_amount), count(*) FROM order_line WHERE anker.olap()")?;
    }
    let totals = clients.stop();
    ensure!(totals.errors.is_empty(), "client errors: {:?}", totals.errors);
    for table in tpcc::TABLES {
        anker::wait_live(&mut client, table, BACK)?;
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {differences:?}");
    }
    Ok(())
}

/// The engine is killed while many sessions run flagged queries. Each session gets the right rows. Only if it has
/// already received rows, it may get an error instead; it never gets a wrong or incomplete answer.
fn killed_engine_while_it_answers(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, g integer, v text)")?;
    client.batch_execute("INSERT INTO t SELECT i, i % 7, 'row ' || i FROM generate_series(1, 200000) i")?;
    anker::mirror(&mut client, &["t"], BACK)?;
    let (done, answers) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut client = cluster.connect()?;
                    while !done.load(Ordering::Relaxed) {
                        let sql = "SELECT id, g, v FROM t WHERE anker.olap()";
                        match bench::queries::count_rows(&mut client, sql) {
                            Ok(rows) => ensure!(rows == 200_000, "{rows} rows instead of 200000"),
                            Err(error) => {
                                let code = error.downcast_ref::<postgres::Error>().and_then(|e| e.code().cloned());
                                ensure!(code.is_some(), "connection lost: {error}");
                            }
                        }
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let killing = (0..context.size(10, 3)).try_for_each(|_| {
            std::thread::sleep(Duration::from_millis(300));
            kill_and_recover(&mut client, os::SIGKILL, "SELECT count(*), sum(id) FROM t WHERE anker.olap()")
        });
        done.store(true, Ordering::Relaxed);
        let read = readers.into_iter().try_for_each(|r| r.join().map_err(|_| "a reader panicked")?);
        killing.and(read)
    })?;
    ensure!(answers.into_inner() > 10, "hardly any answers");
    Ok(())
}

fn stopped_engine_is_not_waited_for_forever(context: &Context) -> Result<()> {
    let (cluster, mut client) = pgbench_cluster(context, &Options::default())?;
    anker::mirror(&mut client, &PGBENCH_TABLES, BACK)?;
    let load = Load::start(&cluster, 15)?;
    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGSTOP)?;
    client.batch_execute("SET anker.max_wait = '500ms'")?;
    for _ in 0..3 {
        let start = Instant::now();
        same(&mut client, SUM)?;
        let waited = start.elapsed();
        ensure!(waited < Duration::from_secs(20), "the query took {waited:?} with a stopped engine");
    }
    os::kill(engine, os::SIGCONT)?;
    back_on_the_engine(&mut client, SUM)?;
    load.finish()
}

fn table_over_the_memory_limit_and_back(context: &Context) -> Result<()> {
    let options = Options::default().set("anker.memory", "32MB").set("anker.undo_memory", "4MB");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE large (id integer PRIMARY KEY, v text); CREATE TABLE small (id integer PRIMARY KEY);
         INSERT INTO small SELECT generate_series(1, 1000);
         INSERT INTO large SELECT i, repeat(md5(i::text), 4) FROM generate_series(1, 1000) i",
    )?;
    anker::mirror(&mut client, &["large", "small"], BACK)?;
    let of_large = "SELECT count(*), max(id), count(v) FROM large WHERE anker.olap()";
    back_on_the_engine(&mut client, of_large)?;
    client.batch_execute("INSERT INTO large SELECT i, repeat(md5(i::text), 4) FROM generate_series(1001, 400000) i")?;
    let full = wait_until(Duration::from_secs(30), || {
        same(&mut client, of_large)?;
        Ok(anker::analyzed(&mut client, of_large)?.as_deref() != Some("engine"))
    })?;
    ensure!(full, "400,000 long rows fit into 32 MB");
    back_on_the_engine(&mut client, "SELECT count(*) FROM small WHERE anker.olap()")?;
    let engine = anker::engine_pid(&mut client)?;
    let resident = os::resident_bytes(engine).unwrap_or(0);
    ensure!(resident < 400 << 20, "an engine limited to 32 MB holds {} MB", resident >> 20);
    client.batch_execute("DELETE FROM large WHERE id > 500")?;
    back_on_the_engine(&mut client, of_large)?;
    let reason = anker::text_rows(&mut client, "SELECT relation, errors FROM anker.tables WHERE errors > 0")?;
    ensure!(reason.is_empty(), "a lack of memory counts as an error: {reason:?}");
    Ok(())
}

fn memory_limit_under_pgbench(context: &Context) -> Result<()> {
    // The table of accounts does not fit, the other tables do.
    let options = Options::default().set("anker.memory", "16MB").set("anker.undo_memory", "2MB");
    let (cluster, mut client) = pgbench_cluster(context, &options)?;
    let load = Load::start(&cluster, u64::from(context.size(30, 10)))?;
    for table in PGBENCH_TABLES {
        client.execute("SELECT anker.mirror($1::text::regclass)", &[&table])?;
    }
    let until = Instant::now() + context.seconds(25, 6);
    while Instant::now() < until {
        for table in PGBENCH_TABLES {
            same(&mut client, &format!("SELECT count(*) FROM {table} WHERE anker.olap()"))?;
        }
        same(&mut client, SUM)?;
    }
    load.finish()
}

fn server_restart_builds_the_mirror_again(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 500)")?;
    anker::mirror(&mut client, &["t"], BACK)?;
    drop(client);
    // After a start, sockets of engines that a crash has left are removed, but no other files in the same directory.
    let [stale, foreign] =
        ["pgsql_tmp_anker_1.sock", "other.sock"].map(|name| cluster.data().join("pg_stat_tmp").join(name));
    for path in [&stale, &foreign] {
        std::fs::write(path, "")?;
    }
    cluster.restart()?;
    let mut client = cluster.connect()?;
    back_on_the_engine(&mut client, "SELECT count(*), sum(id) FROM t WHERE anker.olap()")?;
    ensure!(!stale.exists() && foreign.exists(), "there: stale {}, foreign {}", stale.exists(), foreign.exists());
    let slots: i64 = client.query_one("SELECT count(*) FROM pg_replication_slots WHERE NOT temporary", &[])?.get(0);
    ensure!(slots == 0, "{slots} permanent slots");
    Ok(())
}

fn immediate_shutdown_leaves_no_engine(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
    anker::mirror(&mut client, &["t"], BACK)?;
    let engine = anker::engine_pid(&mut client)?;
    cluster.stop(bench::cluster::Stop::Immediate)?;
    ensure!(wait_for_exit(engine, Duration::from_secs(10))?, "the engine outlived its server");
    cluster.resume()?;
    let mut client = cluster.connect()?;
    back_on_the_engine(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")
}

/// The engine is stopped and the ring is full, so the capture worker cannot decode further. Its slot retains WAL only
/// up to `anker.max_wal_retained`.
fn retained_wal_is_bounded(context: &Context) -> Result<()> {
    let options = Options::default()
        .set("anker.max_wal_retained", "64MB")
        .set("max_wal_size", "64MB")
        .set("min_wal_size", "32MB")
        .set("checkpoint_timeout", "30s");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, v text); INSERT INTO t VALUES (0, '')")?;
    anker::mirror(&mut client, &["t"], BACK)?;
    let (worker, engine) = anker::processes(&mut client)?.ok_or("no engine")?;
    os::kill(engine, os::SIGSTOP)?;
    for round in 0..10 {
        client.batch_execute(&format!(
            "INSERT INTO t SELECT {round} * 20000 + i, repeat(md5(i::text), 30) FROM generate_series(1, 20000) i;
             DELETE FROM t WHERE id > 0"
        ))?;
    }
    let given_up = wait_until(Duration::from_secs(60), || {
        let now = anker::processes(&mut client)?;
        Ok(now.is_none_or(|(w, _)| w != worker))
    })?;
    let held = anker::text_rows(
        &mut client,
        "SELECT slot_name, pg_size_pretty(pg_current_wal_lsn() - restart_lsn) FROM pg_replication_slots",
    )?;
    // Continues the stopped engine, so that processes that may still wait for it do not hang.
    let _ = os::kill(engine, os::SIGCONT);
    ensure!(given_up, "the slot still holds back WAL: {held:?}");
    client.batch_execute("CHECKPOINT")?;
    back_on_the_engine(&mut client, "SELECT count(*), max(id) FROM t WHERE anker.olap()")
}

fn a_worker_gives_memory_back_after_a_large_transaction(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.memory", "512MB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE wide (id integer PRIMARY KEY, v text); ALTER TABLE wide ALTER v SET STORAGE EXTERNAL",
    )?;
    anker::mirror(&mut client, &["wide"], BACK)?;
    let (worker, _) = anker::processes(&mut client)?.ok_or("no worker")?;
    let before = os::resident_bytes(worker).ok_or("no worker")?;
    client.batch_execute(
        "INSERT INTO wide SELECT i, repeat(md5(i::text), 6000) FROM generate_series(1, 250) i;
         INSERT INTO wide SELECT -i, repeat(md5(i::text), 900000) FROM generate_series(1, 2) i;
         SET anker.max_wait = '60s'",
    )?;
    same(&mut client, "SELECT count(*), max(id) FROM wide WHERE anker.olap()")?;
    let mut now = 0;
    let small = wait_until(Duration::from_secs(40), || {
        now = os::resident_bytes(worker).ok_or("the worker is gone")?;
        Ok(now < before + (16 << 20))
    })?;
    ensure!(small, "the worker had {} MB before and keeps {} MB", before >> 20, now >> 20);
    Ok(())
}
