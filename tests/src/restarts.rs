//! Checkpoints: a mirror that is made from files after a restart has exactly the rows of the heap, whatever happened
//! around the checkpoint.

use std::time::Duration;

use bench::cluster::{Cluster, Options, Stop, wait_for_exit, wait_until};
use bench::{Result, anker, os};
use postgres::Client;

use crate::chaos::{self, Writers};
use crate::following::verify_all;
use crate::runner::{Context, ensure, tests};

tests![
    every_kind_of_restart_uses_the_checkpoint,
    transactions_across_a_checkpoint_are_not_lost,
    prepared_transactions_are_not_lost,
    blocks_that_come_and_go,
    equal_rows_are_told_apart_after_a_restart,
    definitions_that_change_while_no_engine_runs,
    a_copied_database_does_not_use_the_files,
    older_data_do_not_use_newer_files,
    later_checkpoints_write_what_changed,
    damaged_files_are_not_used,
    files_of_what_is_gone_are_removed,
    restarts_under_chaos,
];

const LIVE: Duration = Duration::from_secs(60);

fn checkpoint(client: &mut Client) -> Result<i64> {
    Ok(client.query_one("SELECT bytes_written FROM anker.checkpoint()", &[])?.get(0))
}

/// The rows of a table that came from a checkpoint, and the blocks that had changed; `None` if all came from the heap.
fn origin(client: &mut Client, table: &str) -> Result<Option<(i64, i64)>> {
    let sql = "SELECT checkpoint_rows, heap_blks_changed FROM anker.tables WHERE relation = $1::text::regclass";
    let row = client.query_one(sql, &[&table])?;
    Ok(row.get::<_, Option<i64>>(0).zip(row.get(1)))
}

/// The ways in which a mirror is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Engine,
    Restart,
    Crash,
}

/// Loses the mirror, and waits until the tables are live again.
fn lose(cluster: &Cluster, client: &mut Client, how: Loss, tables: &[&str]) -> Result<()> {
    match how {
        Loss::Engine => {
            let engine = anker::engine_pid(client)?;
            os::kill(engine, os::SIGKILL)?;
            ensure!(wait_for_exit(engine, Duration::from_secs(10))?, "the engine survived");
            let is_new = || Ok(anker::processes(client)?.is_some_and(|(_, new)| new != engine));
            ensure!(wait_until(LIVE, is_new)?, "no new engine");
        }
        Loss::Restart => {
            cluster.stop(Stop::Fast)?;
            cluster.resume()?;
        }
        Loss::Crash => {
            cluster.stop(Stop::Immediate)?;
            cluster.resume()?;
        }
    }
    if !matches!(how, Loss::Engine) {
        *client = cluster.connect()?;
    }
    tables.iter().try_for_each(|table| anker::wait_live(client, table, LIVE))
}

/// A table with a key and one without, with 20,000 rows of many kinds each.
fn create(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE items (id integer PRIMARY KEY, kind text, price numeric(10,2), note text, at timestamptz,
             size double precision, hot boolean, anything jsonb);
         INSERT INTO items SELECT i, 'kind ' || i % 7, i / 7.0, CASE WHEN i % 3 > 0 THEN repeat(md5(i::text), i % 5) END,
             '2026-01-01'::timestamptz + i * '1 minute'::interval, CASE WHEN i % 11 > 0 THEN sqrt(i) END, i % 2 = 0,
             jsonb_build_object('i', i) FROM generate_series(1, 20000) i;
         CREATE TABLE log (what text, size integer) WITH (autovacuum_enabled = false);
         ALTER TABLE items SET (autovacuum_enabled = false);
         INSERT INTO log SELECT 'entry ' || i % 100, i % 100 FROM generate_series(1, 20000) i",
    )?;
    anker::mirror(client, &TABLES, LIVE)
}

const TABLES: [&str; 2] = ["items", "log"];
const LOSSES: [Loss; 3] = [Loss::Engine, Loss::Restart, Loss::Crash];

/// Some of the rows came from a checkpoint, and at most `changed` blocks from the heap.
fn ensure_origin(client: &mut Client, table: &str, changed: i64) -> Result<()> {
    match origin(client, table)? {
        Some((rows, blocks)) if rows > 0 && blocks <= changed => Ok(()),
        other => Err(format!("{table}: rows of the checkpoint and changed blocks: {other:?}").into()),
    }
}

fn every_kind_of_restart_uses_the_checkpoint(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    for how in LOSSES {
        client.batch_execute(
            "UPDATE items SET price = price + 1, note = note || '.' WHERE id % 10 = 0;
             DELETE FROM items WHERE id % 1000 = 1; DELETE FROM log WHERE size = 7 AND ctid < '(20,0)'",
        )?;
        checkpoint(&mut client)?;
        client.batch_execute(
            "UPDATE items SET hot = NOT hot, kind = 'new' WHERE id BETWEEN 100 AND 110;
             INSERT INTO items SELECT max(id) + 1, 'later', 1.5 FROM items; INSERT INTO log VALUES ('later', 1000);
             DELETE FROM items WHERE id = 5000; UPDATE items SET id = -id WHERE id = 6000",
        )?;
        lose(&cluster, &mut client, how, &TABLES)?;
        for table in TABLES {
            ensure_origin(&mut client, table, 12).map_err(|e| format!("{how:?}: {e}"))?;
        }
        verify_all(&mut client, &TABLES).map_err(|e| format!("{how:?}: {e}"))?;
        client.batch_execute(
            "UPDATE items SET size = -size WHERE id % 3 = 0; DELETE FROM log WHERE size = 8; UPDATE items SET id = -id
             WHERE id < 0; INSERT INTO log SELECT 'again', i FROM generate_series(1, 500) i",
        )?;
        verify_all(&mut client, &TABLES).map_err(|e| format!("{how:?}, then changes: {e}"))?;
    }
    // A table most of which has changed is read from the heap.
    client.batch_execute(
        "CREATE TABLE large (id integer PRIMARY KEY, t text);
         INSERT INTO large SELECT i, repeat(md5(i::text), 59) FROM generate_series(1, 5000) i",
    )?;
    anker::mirror(&mut client, &["large"], LIVE)?;
    checkpoint(&mut client)?;
    client.batch_execute("UPDATE large SET id = -id")?;
    lose(&cluster, &mut client, Loss::Engine, &["large"])?;
    ensure!(origin(&mut client, "large")?.is_none(), "rows of the checkpoint for a table that has changed");
    verify_all(&mut client, &["large"])?;
    // A table that is mirrored anew is read from the heap, too.
    checkpoint(&mut client)?;
    client.batch_execute("SELECT anker.unmirror('items')")?;
    anker::mirror(&mut client, &["items"], LIVE)?;
    ensure!(origin(&mut client, "items")?.is_none(), "rows of the checkpoint");
    Ok(())
}

fn transactions_across_a_checkpoint_are_not_lost(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    for (round, how) in LOSSES.into_iter().cycle().take(6).enumerate() {
        let mut other = cluster.connect()?;
        other.batch_execute(
            "BEGIN; INSERT INTO items (id, kind) SELECT max(id) + 1, 'across' FROM items; DELETE FROM items WHERE id % 50 = 3;
             SAVEPOINT a; UPDATE items SET kind = 'across' WHERE id % 40 = 2; UPDATE log SET size = size + 1 WHERE size = 9;
             RELEASE a; SAVEPOINT b; DELETE FROM log WHERE size = 10; ROLLBACK TO b",
        )?;
        // More transactions follow, so that the position up to which everything is known goes on.
        for _ in 0..3 {
            client.batch_execute("INSERT INTO log VALUES ('beside', 1)")?;
        }
        checkpoint(&mut client)?;
        other.batch_execute(if round % 3 == 2 { "ROLLBACK" } else { "COMMIT" })?;
        drop(other);
        lose(&cluster, &mut client, how, &TABLES)?;
        verify_all(&mut client, &TABLES).map_err(|e| format!("{how:?}: {e}"))?;
        client.batch_execute("UPDATE items SET kind = 'after' WHERE id % 50 = 4")?;
        verify_all(&mut client, &TABLES).map_err(|e| format!("{how:?}, then changes: {e}"))?;
    }
    Ok(())
}

fn prepared_transactions_are_not_lost(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("max_prepared_transactions", "10"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    create(&mut client)?;
    for how in LOSSES {
        client.batch_execute(
            "BEGIN; UPDATE items SET kind = 'prepared' WHERE id % 40 = 2; DELETE FROM log WHERE size = 11;
             PREPARE TRANSACTION 'one'",
        )?;
        client.batch_execute(
            "BEGIN; UPDATE items SET kind = 'two' WHERE id % 40 = 3; INSERT INTO log VALUES ('two', 2);
             PREPARE TRANSACTION 'two'",
        )?;
        checkpoint(&mut client)?;
        client.batch_execute("COMMIT PREPARED 'one'")?;
        lose(&cluster, &mut client, how, &[])?;
        client.batch_execute("COMMIT PREPARED 'two'")?;
        verify_all(&mut client, &TABLES).map_err(|e| format!("{how:?}: {e}"))?;
    }
    Ok(())
}

fn blocks_that_come_and_go(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    let steps = [
        "DELETE FROM items WHERE id > 9000; DELETE FROM log WHERE ctid > '(50,0)'",
        "VACUUM items, log",
        "INSERT INTO items SELECT i, 'again' FROM generate_series(30001, 35000) i",
        "VACUUM (FREEZE) items, log",
        "UPDATE items SET kind = kind WHERE id < 300",
        "BEGIN; INSERT INTO items SELECT i, 'never' FROM generate_series(40001, 45000) i; ROLLBACK",
        "SELECT count(*) FROM (SELECT 1 FROM items WHERE id % 5 = 0 FOR UPDATE) AS locked",
        "DELETE FROM items; VACUUM items",
        "INSERT INTO items SELECT i, 'at last' FROM generate_series(1, 5000) i",
    ];
    for (step, how) in steps.iter().zip(LOSSES.into_iter().cycle()) {
        checkpoint(&mut client)?;
        for statement in step.split(';') {
            if !step.starts_with("BEGIN") {
                client.batch_execute(statement)?;
            }
        }
        if step.starts_with("BEGIN") {
            client.batch_execute(step)?;
        }
        lose(&cluster, &mut client, how, &TABLES)?;
        verify_all(&mut client, &TABLES).map_err(|e| format!("{step}, {how:?}: {e}"))?;
    }
    Ok(())
}

fn equal_rows_are_told_apart_after_a_restart(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE bag (a integer, b text); INSERT INTO bag SELECT 1, 'same' FROM generate_series(1, 30000) i",
    )?;
    anker::mirror(&mut client, &["bag"], LIVE)?;
    for (round, how) in LOSSES.into_iter().enumerate() {
        checkpoint(&mut client)?;
        client.batch_execute(&format!(
            "DELETE FROM bag WHERE ctid IN ('({round},1)', '({round},7)', '(90,{})');
             UPDATE bag SET b = 'other' WHERE ctid = '(60,{})'",
            round + 1,
            round + 1
        ))?;
        lose(&cluster, &mut client, how, &["bag"])?;
        ensure_origin(&mut client, "bag", 8)?;
        verify_all(&mut client, &["bag"])?;
        // Each row is found by its address, also those that came from the checkpoint.
        client
            .batch_execute("UPDATE bag SET a = a + 1 WHERE ctid > '(100,0)'; DELETE FROM bag WHERE ctid < '(3,0)'")?;
        verify_all(&mut client, &["bag"])?;
    }
    Ok(())
}

fn definitions_that_change_while_no_engine_runs(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    let changes = [
        "ALTER TABLE items ADD COLUMN more integer DEFAULT 7",
        "UPDATE items SET kind = 'unseen' WHERE id % 100 = 5",
        "ALTER TABLE items DROP COLUMN note",
        "ALTER TABLE items ALTER COLUMN kind TYPE varchar(30)",
        "VACUUM FULL items",
        "TRUNCATE log",
        "CLUSTER items USING items_pkey",
        "ALTER TABLE items REPLICA IDENTITY FULL",
        "DELETE FROM items WHERE id % 100 = 6",
    ];
    for change in changes {
        checkpoint(&mut client)?;
        drop(client);
        cluster.stop(Stop::Fast)?;
        cluster.resume_with("-c shared_preload_libraries=")?;
        cluster.connect()?.batch_execute(change)?;
        cluster.stop(Stop::Fast)?;
        cluster.resume()?;
        client = cluster.connect()?;
        verify_all(&mut client, &TABLES).map_err(|e| format!("{change}: {e}"))?;
    }
    Ok(())
}

fn a_copied_database_does_not_use_the_files(context: &Context) -> Result<()> {
    let (cluster, client) = context.anker()?;
    drop(client);
    cluster.connect_to("template1")?.batch_execute("CREATE DATABASE first")?;
    let mut client = cluster.connect_to("first")?;
    anker::create_extension(&mut client)?;
    create(&mut client)?;
    checkpoint(&mut client)?;
    client.batch_execute("UPDATE items SET kind = 'first' WHERE id = 1")?;
    drop(client);
    let strategies = ["FILE_COPY", "WAL_LOG"];
    for strategy in strategies {
        let copied = format!("CREATE DATABASE {strategy} TEMPLATE first STRATEGY {strategy}");
        let mut administrator = cluster.connect_to("template1")?;
        let copied = wait_until(LIVE, || Ok(administrator.batch_execute(&copied).is_ok()))?;
        ensure!(copied, "the database could not be copied");
        let mut copy = cluster.connect_to(&strategy.to_lowercase())?;
        verify_all(&mut copy, &TABLES)?;
        ensure!(origin(&mut copy, "items")?.is_none(), "rows of another database's checkpoint");
    }
    verify_all(&mut cluster.connect_to("first")?, &TABLES)
}

fn older_data_do_not_use_newer_files(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    checkpoint(&mut client)?;
    drop(client);
    cluster.stop(Stop::Fast)?;
    let older = cluster.copy(&[])?;
    older.stop(Stop::Fast)?;
    cluster.resume()?;
    let mut client = cluster.connect()?;
    anker::wait_live(&mut client, "items", LIVE)?;
    client.batch_execute("UPDATE items SET kind = 'newer' WHERE id % 100 = 1; DELETE FROM log WHERE size = 3")?;
    checkpoint(&mut client)?;
    drop(client);
    cluster.stop(Stop::Fast)?;
    // Each data directory gets the files of the other one.
    let files = |cluster: &Cluster| cluster.data().join("pgsql_tmp_anker");
    let aside = context.home().join("aside");
    for (from, to) in [(files(&older), aside.clone()), (files(&cluster), files(&older)), (aside, files(&cluster))] {
        std::fs::rename(from, to)?;
    }
    for cluster in [&cluster, &older] {
        cluster.resume()?;
        let mut client = cluster.connect()?;
        verify_all(&mut client, &TABLES)?;
        for table in TABLES {
            ensure!(origin(&mut client, table)?.is_none(), "rows of a checkpoint of other data");
        }
        client.batch_execute("UPDATE items SET kind = 'later' WHERE id % 100 = 2")?;
        verify_all(&mut client, &TABLES)?;
        checkpoint(&mut client)?;
    }
    Ok(())
}

fn later_checkpoints_write_what_changed(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    let all = checkpoint(&mut client)?;
    ensure!(all > 500_000, "{all} bytes for everything");
    let nothing = checkpoint(&mut client)?;
    ensure!(nothing < all / 50, "{nothing} bytes of {all}, though nothing has changed");
    client.batch_execute("UPDATE items SET hot = NOT hot WHERE id < 100")?;
    let little = checkpoint(&mut client)?;
    ensure!(little < all / 4, "{little} bytes of {all} for one column of a chunk");
    // Afterwards nothing is left that a reader would remove from a block, and so change the block.
    client.batch_execute("VACUUM items")?;
    checkpoint(&mut client)?;
    for how in LOSSES {
        lose(&cluster, &mut client, how, &TABLES)?;
        let nothing = checkpoint(&mut client)?;
        ensure!(nothing < all / 4, "{nothing} bytes of {all} after a restart ({how:?})");
        lose(&cluster, &mut client, Loss::Engine, &TABLES)?;
        verify_all(&mut client, &TABLES)?;
    }
    client.batch_execute("SELECT anker.unmirror('log')")?;
    let (before, _) = (files(&cluster)?, checkpoint(&mut client)?);
    ensure!(files(&cluster)? < before, "the files of a table that is not mirrored any more are kept");
    Ok(())
}

/// The length of all files of the checkpoints.
fn files(cluster: &Cluster) -> Result<u64> {
    let mut bytes = 0;
    for_each_file(cluster, |path| {
        bytes += std::fs::metadata(path).map_or(0, |file| file.len());
        Ok(())
    })?;
    Ok(bytes)
}

fn for_each_file(cluster: &Cluster, mut visit: impl FnMut(&std::path::Path) -> Result<()>) -> Result<()> {
    for directory in std::fs::read_dir(cluster.data().join("pgsql_tmp_anker"))? {
        let directory = directory?.path();
        if !directory.to_string_lossy().contains("checkpoints") {
            continue;
        }
        // The directory may have been removed meanwhile.
        for file in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            visit(&file.path())?;
        }
    }
    Ok(())
}

fn damaged_files_are_not_used(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    let damages: [fn(&std::path::Path) -> Result<()>; 4] = [
        |path| {
            let mut bytes = std::fs::read(path)?;
            let middle = bytes.len() / 2;
            bytes.get_mut(middle).into_iter().for_each(|byte| *byte ^= 4);
            Ok(std::fs::write(path, bytes)?)
        },
        |path| {
            let bytes = std::fs::read(path)?;
            Ok(std::fs::write(path, &bytes[..bytes.len() * 2 / 3])?)
        },
        |path| Ok(std::fs::remove_file(path)?),
        |path| Ok(std::fs::write(path, [7; 5000])?),
    ];
    for kind in ["chunks", "manifest"] {
        for damage in damages {
            checkpoint(&mut client)?;
            drop(client);
            cluster.stop(Stop::Fast)?;
            for_each_file(&cluster, |path| if path.to_string_lossy().contains(kind) { damage(path) } else { Ok(()) })?;
            cluster.resume()?;
            client = cluster.connect()?;
            verify_all(&mut client, &TABLES)?;
            ensure!(origin(&mut client, "items")?.is_none(), "rows of damaged files");
        }
    }
    Ok(())
}

fn files_of_what_is_gone_are_removed(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create(&mut client)?;
    checkpoint(&mut client)?;
    ensure!(files(&cluster)? > 0, "no files");
    client.batch_execute("CREATE DATABASE other")?;
    let mut other = cluster.connect_to("other")?;
    anker::create_extension(&mut other)?;
    create(&mut other)?;
    let one = files(&cluster)?;
    checkpoint(&mut other)?;
    let both = files(&cluster)?;
    ensure!(both > one, "no files of the other database");
    // Without mirrored tables, the worker ends, and another one looks for tables once more.
    client.batch_execute("SELECT anker.unmirror('items'), anker.unmirror('log')")?;
    ensure!(wait_until(LIVE, || Ok(files(&cluster)? < both))?, "files of tables that are not mirrored any more");
    drop(other);
    let dropped = wait_until(LIVE, || Ok(client.batch_execute("DROP DATABASE other (FORCE)").is_ok()))?;
    ensure!(dropped, "the database could not be dropped");
    cluster.restart()?;
    ensure!(wait_until(LIVE, || Ok(files(&cluster)? == 0))?, "files of a database that was dropped");
    Ok(())
}

fn restarts_under_chaos(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    let mut used = 0;
    for round in 0..context.size(12, 4) {
        let writers = Writers::start(&cluster, 4, "", Duration::from_millis(1))?;
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(400));
            checkpoint(&mut client)?;
        }
        std::thread::sleep(Duration::from_millis(u64::from(round) * 100));
        lose(&cluster, &mut client, Loss::Engine, &chaos::TABLES)?;
        for table in chaos::TABLES {
            used += i64::from(origin(&mut client, table)?.is_some_and(|(rows, _)| rows > 0));
        }
        verify_all(&mut client, &chaos::TABLES)?;
        checkpoint(&mut client)?;
        std::thread::sleep(Duration::from_millis(400));
        writers.stop()?;
        // A server that starts anew also forgets that an engine has ended too soon, and does not wait.
        let how = if round % 2 == 0 { Loss::Crash } else { Loss::Restart };
        lose(&cluster, &mut client, how, &chaos::TABLES)?;
        verify_all(&mut client, &chaos::TABLES)?;
    }
    ensure!(used > 0, "no rows ever came from a checkpoint");
    Ok(())
}
