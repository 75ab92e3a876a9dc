//! A flagged query sees exactly the rows that its snapshot sees, however old it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options};
use bench::{Result, anker};
use postgres::Client;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::chaos::{self, Writers};
use crate::flagged::{First, same_in_transaction};
use crate::runner::{Context, ensure, tests};

tests![
    pairs_under_one_snapshot_are_equal,
    a_flagged_query_sees_every_commit_that_was_told,
    snapshots_in_reverse_order,
    a_commit_that_waits_for_its_standby_is_not_seen,
    truncate_between_snapshot_and_query,
];

const LIVE: Duration = Duration::from_secs(60);

const QUESTIONS: [&str; 8] = [
    "SELECT * FROM facts WHERE anker.olap()",
    "SELECT id, b, i2, i4, i8, f8, n9, n30, t, v, c, d, ts, tz, u, r, m, tm, o, y, dm, j, a FROM kinds WHERE anker.olap()",
    "SELECT b, count(*), sum(i4), min(d), max(tz), avg(n9), sum(n30) FROM kinds WHERE anker.olap() GROUP BY b",
    "SELECT count(*), count(amount), sum(amount), min(fid), max(fid), avg(amount) FROM facts WHERE anker.olap()",
    "SELECT c, count(*), sum(amount), avg(amount) FROM kinds, facts WHERE id = kid AND anker.olap() GROUP BY c",
    "SELECT i2, fid, amount FROM kinds JOIN facts ON id = kid WHERE amount > 100 AND anker.olap()",
    "SELECT a, b, x, long FROM pairs WHERE anker.olap()",
    "SELECT v, count(*), sum(n) FROM bag WHERE anker.olap() GROUP BY v",
];

fn pairs_under_one_snapshot_are_equal(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    let wanted = context.size(2000, 160);
    let oldest = context.seconds(30, 4);
    let writers = Writers::start(&cluster, 3, "SET synchronous_commit = off", Duration::from_millis(2))?;
    let served = anker::counter(&mut client, "queries_served")?;

    let asked = AtomicU32::new(0);
    let ages = std::thread::scope(|scope| -> Result<Vec<Duration>> {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                // Two readers hold their snapshots for long, one for a while, and one takes a new snapshot for each
                // pair.
                let age = [oldest, oldest, oldest / 10, Duration::ZERO][reader as usize];
                let (cluster, asked) = (&cluster, &asked);
                // With this pause, a reader runs three times as long as the greatest age of a snapshot.
                let pause = 3 * oldest / (wanted / READERS);
                scope.spawn(move || read_pairs(cluster, reader, wanted / READERS, age, pause, asked))
            })
            .collect();
        for (i, sql) in ["TRUNCATE bag", "ALTER TABLE pairs ADD COLUMN extra integer"].iter().enumerate() {
            while asked.load(Ordering::Relaxed) < wanted / 4 * (i as u32 + 1)
                && !readers.iter().any(|r| r.is_finished())
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            client.batch_execute(sql)?;
        }
        readers.into_iter().map(|r| r.join().map_err(|_| "a reader panicked")?).collect()
    })?;
    writers.stop()?;
    let age = ages.iter().max().copied().unwrap_or_default();
    ensure!(age > oldest * 9 / 10, "the oldest snapshot was {age:?} old");
    let (asked, served) = (asked.into_inner(), anker::counter(&mut client, "queries_served")? - served);
    let share = served as f64 / f64::from(asked);
    // Queries under snapshots that are older than DDL of their tables run on the heap. In a short run they are a larger
    // share of all queries.
    let wanted = if context.quick { 0.8 } else { 0.95 };
    ensure!(share >= wanted, "only {served} of {asked} were answered by the engine; {}", states(&mut client)?);
    Ok(())
}

const READERS: u32 = 4;

fn states(client: &mut Client) -> Result<String> {
    Ok(anker::text_rows(client, "SELECT relation, state, rebuilds, errors, reason FROM anker.tables")?.join("; "))
}

/// Runs the given number of queries on both sides, in transactions whose snapshots become as old as `oldest`. Returns
/// the age of the oldest snapshot under which a query ran.
fn read_pairs(
    cluster: &Cluster,
    seed: u32,
    pairs: u32,
    oldest: Duration,
    pause: Duration,
    asked: &AtomicU32,
) -> Result<Duration> {
    let mut client = cluster.connect()?;
    let mut random = StdRng::seed_from_u64(u64::from(seed));
    let (mut started, mut reached) = (None, Duration::ZERO);
    for _ in 0..pairs {
        if started.is_none() {
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        }
        let start = *started.get_or_insert_with(Instant::now);
        let question = QUESTIONS.choose(&mut random).expect("there are questions");
        let first = if random.random() { First::Flagged } else { First::Heap };
        let age = start.elapsed();
        same_in_transaction(&mut client, question, first).map_err(|e| format!("{first:?} first, {age:?} old: {e}"))?;
        reached = reached.max(age);
        asked.fetch_add(1, Ordering::Relaxed);
        if start.elapsed() >= oldest {
            client.batch_execute("COMMIT")?;
            started = None;
        }
        std::thread::sleep(pause.mul_f64(random.random_range(0.0..2.0)));
    }
    Ok(reached)
}

fn a_flagged_query_sees_every_commit_that_was_told(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    client.batch_execute("CREATE TABLE counters (id integer PRIMARY KEY, n integer)")?;
    client.batch_execute("INSERT INTO counters SELECT i, 0 FROM generate_series(0, 3) i")?;
    anker::mirror(&mut client, &["counters", "facts"], LIVE)?;
    let rounds = context.size(5000, 400) / 4;
    let writers = Writers::start(&cluster, 2, "SET synchronous_commit = off", Duration::from_millis(3))?;
    let served = anker::counter(&mut client, "queries_served")?;
    std::thread::scope(|scope| {
        let counting: Vec<_> = (0..4)
            .map(|id| {
                let cluster = &cluster;
                scope.spawn(move || count_and_read(cluster, id, rounds))
            })
            .collect();
        counting.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a counter panicked")?)
    })?;
    writers.stop()?;
    let share = (anker::counter(&mut client, "queries_served")? - served) as f64 / f64::from(4 * rounds);
    ensure!(share >= 0.95, "only {share:.3} of the queries were answered by the engine");
    Ok(())
}

/// One session commits, then another session reads, and must see the commit. Half of the calls use synchronous commits.
fn count_and_read(cluster: &Cluster, id: i32, rounds: u32) -> Result<()> {
    let (mut writer, mut reader) = (cluster.connect()?, cluster.connect()?);
    writer.batch_execute(if id % 2 == 0 { "SET synchronous_commit = on" } else { "SET synchronous_commit = off" })?;
    let update = writer.prepare("UPDATE counters SET n = n + 1 WHERE id = $1")?;
    let select = reader.prepare("SELECT n FROM counters WHERE id = $1 AND anker.olap()")?;
    for round in 1..=rounds as i32 {
        writer.execute(&update, &[&id])?;
        let seen: i32 = reader.query_one(&select, &[&id])?.get(0);
        ensure!(seen == round, "counter {id}: {round} commits were told, the query saw {seen}");
    }
    Ok(())
}

fn snapshots_in_reverse_order(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, n integer); INSERT INTO t VALUES (0, 0)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let all = "SELECT id, n FROM t WHERE anker.olap()";
    let mut readers = Vec::new();
    for round in 1..=10 {
        let mut reader = cluster.connect()?;
        reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
        readers.push(reader);
        client.batch_execute(&format!(
            "UPDATE t SET n = {round} WHERE id % 2 = 0; INSERT INTO t VALUES ({round}, -{round}); DELETE FROM t WHERE id = {} - 3",
            round
        ))?;
    }
    // The session with the newest snapshot reads first. For the older snapshots the engine must then undo changes that
    // it has applied for the newest one.
    for reader in readers.iter_mut().rev() {
        same_in_transaction(reader, all, First::Flagged)?;
    }
    for reader in &mut readers {
        same_in_transaction(reader, all, First::Flagged)?;
        let by = anker::analyzed(reader, all)?;
        ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    }
    Ok(())
}

/// The commit record is in WAL and flushed, so the transaction is decoded. But it waits for its standby, so no snapshot
/// sees it yet.
fn a_commit_that_waits_for_its_standby_is_not_seen(context: &Context) -> Result<()> {
    let options = Options::default().set("synchronous_standby_names", "nobody").set("synchronous_commit", "local");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, n integer); INSERT INTO t VALUES (1, 1), (2, 1)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let all = "SELECT id, n FROM t WHERE anker.olap()";
    for round in 1..=context.size(20, 4) {
        let mut waiting = cluster.connect()?;
        waiting.batch_execute("SET synchronous_commit = on")?;
        let cancel = waiting.cancel_token();
        let sql = format!("UPDATE t SET n = n + 1 WHERE id = 1; INSERT INTO t VALUES ({}, 0)", 10 + round);
        let commit = std::thread::spawn(move || waiting.batch_execute(&sql));
        let stuck = bench::cluster::wait_until(Duration::from_secs(10), || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            Ok(client.query_one(sql, &[])?.get::<_, i64>(0) == 1)
        })?;
        ensure!(stuck, "the commit does not wait");
        // Another transaction commits later in WAL than the waiting one, but becomes visible at once. A query must see
        // it, but not the waiting one.
        client.batch_execute("UPDATE t SET n = n + 1 WHERE id = 2")?;
        for _ in 0..3 {
            crate::flagged::same(&mut client, all)?;
            let by = anker::analyzed(&mut client, all)?;
            ensure!(by.as_deref() == Some("engine"), "while a commit waits: answered by {by:?}");
        }
        cancel.cancel_query(postgres::NoTls)?;
        commit.join().map_err(|_| "the waiting session panicked")??;
        crate::flagged::same(&mut client, all)?;
    }
    Ok(())
}

fn truncate_between_snapshot_and_query(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE other (id integer PRIMARY KEY)")?;
    client.batch_execute("INSERT INTO t SELECT generate_series(1, 100)")?;
    anker::mirror(&mut client, &["t", "other"], LIVE)?;
    let mut reader = cluster.connect()?;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other WHERE anker.olap()")?;
    client.batch_execute("TRUNCATE t; INSERT INTO t VALUES (-1)")?;
    anker::wait_live(&mut client, "t", LIVE)?;
    // TRUNCATE is not MVCC-safe in PostgreSQL: under the old snapshot, the heap's table is empty. The engine must
    // agree.
    same_in_transaction(&mut reader, "SELECT id FROM t WHERE anker.olap()", First::Flagged)?;
    crate::flagged::same(&mut client, "SELECT id FROM t WHERE anker.olap()")?;
    Ok(())
}
