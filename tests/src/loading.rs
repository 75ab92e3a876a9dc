//! Tables are loaded while other sessions write to them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::cluster::{Cluster, wait_until};
use bench::{Result, anker, os};
use postgres::Client;

use crate::chaos::{self, Writers};
use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![
    loads_while_writers_run,
    loads_while_commits_linger_before_they_become_visible,
    the_progress_of_a_load_is_shown,
    a_load_gives_way_to_ddl,
    waiting_for_a_mirror_waits_for_that_of_the_table_as_it_is,
    waiting_for_a_mirror_heeds_ddl_that_was_taken_back,
    ddl_does_not_wait_for_a_load_into_a_stopped_engine,
    a_load_into_a_stopped_engine_comes_to_an_end,
    mirror_and_unmirror_again_and_again,
    a_load_goes_on_beside_vacuums_that_wait_for_each_other,
];

const LIVE: Duration = Duration::from_secs(60);

fn check(client: &mut Client, table: &str) -> Result<()> {
    let differences = anker::verify(client, table)?;
    ensure!(differences.is_empty(), "{table}: {:?}", &differences[..differences.len().min(4)]);
    let errors: i64 = client.query_one("SELECT coalesce(sum(errors), 0)::bigint FROM anker.tables", &[])?.get(0);
    ensure!(errors == 0, "{errors} changes could not be applied");
    Ok(())
}

fn load_again_and_again(client: &mut Client, rounds: u32) -> Result<()> {
    for round in 0..rounds as usize {
        let table = chaos::TABLES[round % chaos::TABLES.len()];
        anker::mirror(client, &[table], LIVE).map_err(|e| format!("load {round}: {e}"))?;
        check(client, table).map_err(|e| format!("load {round}: {e}"))?;
        same(client, &format!("SELECT count(*) FROM {table} WHERE anker.olap()"))?;
        client.execute("SELECT anker.unmirror($1::text::regclass)", &[&table])?;
    }
    Ok(())
}

fn loads_while_writers_run(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    let writers = Writers::start(&cluster, 4, "", Duration::ZERO)?;
    load_again_and_again(&mut client, context.size(50, 6))?;
    writers.stop()?;
    Ok(())
}

/// Half of the writers wait for a synchronous standby that does not exist. A writer waits after its commit record was
/// flushed and before it leaves the proc array. So its commit is in WAL, but not yet visible. The test cancels each
/// wait after a random time.
fn loads_while_commits_linger_before_they_become_visible(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    cluster.alter_system(&[("synchronous_standby_names", "nobody")])?;
    client.batch_execute("SET synchronous_commit = local")?;
    let waiting = Writers::start(&cluster, 4, "SET synchronous_commit = on", Duration::ZERO)?;
    let others = Writers::start(&cluster, 2, "SET synchronous_commit = local", Duration::from_millis(1))?;
    let done = AtomicBool::new(false);
    let (loaded, released) = std::thread::scope(|scope| {
        let releasing = scope.spawn(|| release_waiting_commits(&cluster, &done));
        let loaded = load_again_and_again(&mut client, context.size(40, 5));
        done.store(true, Ordering::Relaxed);
        (loaded, releasing.join())
    });
    let released = released.map_err(|_| "the releasing session panicked")?;
    // Without this setting commits no longer wait, so the writers can end.
    cluster.alter_system(&[("synchronous_standby_names", "")])?;
    loaded?;
    ensure!(released? > 4, "hardly any commit lingered");
    others.stop()?;
    waiting.stop()?;
    Ok(())
}

/// Cancels waits for the standby that have lasted between 0 and 400 ms, until `done` is set. Returns the number of
/// cancelled waits.
fn release_waiting_commits(cluster: &Cluster, done: &AtomicBool) -> Result<i64> {
    let mut client = cluster.connect()?;
    let mut released = 0;
    while !done.load(Ordering::Relaxed) {
        released += client
            .query_one(
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
                 WHERE wait_event = 'SyncRep' AND state_change < clock_timestamp() - random() * interval '400 ms'",
                &[],
            )?
            .get::<_, i64>(0);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(released)
}

fn a_load_gives_way_to_ddl(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(&format!(
        "CREATE TABLE t (id integer PRIMARY KEY, v text);
         INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, {}) i",
        context.size(600_000, 200_000)
    ))?;
    client.batch_execute("SELECT anker.mirror('t'); SET lock_timeout = '20s'; SET deadlock_timeout = '60s'")?;
    for round in 0..5 {
        client.batch_execute(&format!("ALTER TABLE t ADD COLUMN c{round} integer"))?;
        std::thread::sleep(Duration::from_millis(300));
    }
    anker::wait_live(&mut client, "t", LIVE)?;
    check(&mut client, "t")
}

/// Stops the engine's process while it loads a large table. Returns the process id.
fn stop_engine_while_it_loads(client: &mut Client) -> Result<u32> {
    client.batch_execute(
        "CREATE TABLE first (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY, v text);
         INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 200000) i",
    )?;
    anker::mirror(client, &["first"], LIVE)?;
    let engine = anker::engine_pid(client)?;
    client.batch_execute("SELECT anker.mirror('t')")?;
    let loads = "SELECT pid FROM pg_locks WHERE relation = 't'::regclass AND granted AND pid <> pg_backend_pid()";
    let loading = wait_until(Duration::from_secs(20), || Ok(!anker::text_rows(client, loads)?.is_empty()))?;
    os::kill(engine, os::SIGSTOP)?;
    ensure!(loading, "no loader came");
    Ok(engine)
}

/// After DDL, the worker may still show the old mirror as live, because it has not decoded the DDL yet. Even then
/// `wait_for_mirror` waits for a mirror of the changed table.
fn waiting_for_a_mirror_waits_for_that_of_the_table_as_it_is(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    for round in 0..10 {
        client.batch_execute(&format!("ALTER TABLE t ADD COLUMN c{round} integer"))?;
        anker::wait_live(&mut client, "t", LIVE)?;
        let by = anker::analyzed(&mut client, &format!("SELECT count(c{round}) FROM t WHERE anker.olap()"))?;
        ensure!(by.as_deref() == Some("engine"), "round {round}: answered by {by:?}");
    }
    Ok(())
}

/// The second statement restores the definition that the live mirror still has, but the mirror will be built anew for
/// the first one.
fn waiting_for_a_mirror_heeds_ddl_that_was_taken_back(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    for round in 0..10 {
        client.batch_execute("ALTER TABLE t REPLICA IDENTITY FULL")?;
        client.batch_execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")?;
        anker::wait_live(&mut client, "t", LIVE)?;
        let by = anker::analyzed(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")?;
        ensure!(by.as_deref() == Some("engine"), "round {round}: answered by {by:?}");
    }
    Ok(())
}

fn the_progress_of_a_load_is_shown(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE first (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY, v text);
         INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 200000) i",
    )?;
    anker::mirror(&mut client, &["first"], LIVE)?;
    let engine = anker::engine_pid(&mut client)?;
    let before: String = client.query_one("SELECT now()::text", &[])?.get(0);
    client.batch_execute("SELECT anker.mirror('t')")?;
    let sends = "SELECT FROM anker.loads WHERE tuples_processed > 0";
    let sending = wait_until(Duration::from_secs(20), || Ok(!client.query(sends, &[])?.is_empty()))?;
    os::kill(engine, os::SIGSTOP)?;
    ensure!(sending, "no load is shown");
    client.batch_execute("CREATE ROLE nobody LOGIN")?;
    let mut nobody = cluster.config().user("nobody").connect(postgres::NoTls)?;
    // By now the loader has filled every buffer between itself and the engine.
    std::thread::sleep(Duration::from_secs(1));
    let progress = format!(
        "SELECT relation, phase, pid IN (SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()),
             started BETWEEN '{before}' AND clock_timestamp(), heap_blks_total = pg_relation_size('t') / 8192,
             heap_blks_scanned BETWEEN 1 AND heap_blks_total - 1, tuples_processed BETWEEN 100 AND 199999,
             bytes_processed / tuples_processed BETWEEN 1000 AND 1100
         FROM anker.loads"
    );
    let shown = (anker::text_rows(&mut client, &progress), anker::text_rows(&mut nobody, &progress));
    os::kill(engine, os::SIGCONT)?;
    let shown = (shown.0?, shown.1?);
    ensure!(shown.0 == ["t|scanning heap|t|t|t|t|t|t"], "anker.loads shows {:?}", shown.0);
    ensure!(shown.1 == shown.0, "to another user anker.loads shows {:?}", shown.1);
    anker::wait_live(&mut client, "t", LIVE)?;
    let gone = wait_until(LIVE, || Ok(anker::text_rows(&mut client, "SELECT * FROM anker.loads")?.is_empty()))?;
    ensure!(gone, "a load that has ended is shown");
    // A loader that is ended leaves nothing behind.
    client.batch_execute("SELECT anker.unmirror('t'), anker.mirror('t')")?;
    let terminate = "SELECT pg_terminate_backend(pid, 10000) FROM anker.loads WHERE relation = 't'::regclass";
    let ended = wait_until(LIVE, || Ok(!anker::text_rows(&mut client, terminate)?.is_empty()))?;
    ensure!(ended, "no load is shown");
    anker::wait_live(&mut client, "t", LIVE)?;
    let gone = wait_until(LIVE, || Ok(anker::text_rows(&mut client, "SELECT * FROM anker.loads")?.is_empty()))?;
    ensure!(gone, "the load that was ended is shown");
    check(&mut client, "t")
}

fn ddl_does_not_wait_for_a_load_into_a_stopped_engine(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    let engine = stop_engine_while_it_loads(&mut client)?;
    // By now the loader has filled every buffer between itself and the engine.
    std::thread::sleep(Duration::from_secs(1));
    client.batch_execute("SET lock_timeout = '10s'; SET deadlock_timeout = '20s'")?;
    let altered = client.batch_execute("ALTER TABLE t ADD COLUMN c integer");
    os::kill(engine, os::SIGCONT)?;
    altered.map_err(|e| format!("ALTER TABLE: {}", bench::describe(&e)))?;
    anker::wait_live(&mut client, "t", LIVE)?;
    check(&mut client, "t")
}

/// While a loader holds its snapshot, vacuum cannot remove rows that died after it. So the loader must end if the
/// engine does not accept its rows.
fn a_load_into_a_stopped_engine_comes_to_an_end(context: &Context) -> Result<()> {
    if context.quick {
        return Ok(());
    }
    let (_cluster, mut client) = context.anker()?;
    let engine = stop_engine_while_it_loads(&mut client)?;
    let loaders =
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_anker loader' AND backend_xmin IS NOT NULL";
    let ended = wait_until(Duration::from_secs(120), || Ok(anker::text_rows(&mut client, loaders)?.is_empty()))?;
    os::kill(engine, os::SIGCONT)?;
    ensure!(ended, "a loader holds its snapshot for an engine that is stopped");
    anker::wait_live(&mut client, "t", LIVE)?;
    check(&mut client, "t")
}

fn mirror_and_unmirror_again_and_again(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)")?;
    for round in 0..context.size(30, 10) {
        client.batch_execute("SELECT anker.mirror('t')")?;
        if round % 3 == 0 {
            anker::wait_live(&mut client, "t", LIVE)?;
        }
        same(&mut client, "SELECT count(*), sum(id) FROM t WHERE anker.olap()")?;
        client.batch_execute("BEGIN; SELECT anker.unmirror('t'); ROLLBACK; SELECT anker.unmirror('t')")?;
        same(&mut client, "SELECT count(*), sum(id) FROM t WHERE anker.olap()")?;
    }
    client.batch_execute("BEGIN; SELECT anker.mirror('t'); ROLLBACK")?;
    let mirrored: i64 = client.query_one("SELECT count(*) FROM anker.mirrored", &[])?.get(0);
    ensure!(mirrored == 0, "a rolled back anker.mirror() left its row");
    anker::mirror(&mut client, &["t"], LIVE)?;
    check(&mut client, "t")
}

/// A load gives way to locks that exclude readers, but not to others.
fn a_load_goes_on_beside_vacuums_that_wait_for_each_other(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t AS SELECT i AS id, repeat('x', 100) AS x FROM generate_series(1, 50000) i")?;
    let mut first = cluster.connect()?;
    first.batch_execute("BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE")?;
    let mut second = cluster.connect()?;
    let waiting = std::thread::spawn(move || second.batch_execute("VACUUM t"));
    let waits = "SELECT 1 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted";
    let is_waiting = wait_until(LIVE, || Ok(!anker::text_rows(&mut client, waits)?.is_empty()))?;
    ensure!(is_waiting, "the vacuum does not wait");
    anker::mirror(&mut client, &["t"], LIVE)?;
    ensure!(!waiting.is_finished(), "the vacuum has ended before the load");
    first.batch_execute("COMMIT")?;
    Ok(waiting.join().map_err(|_| "the session panicked")??)
}
