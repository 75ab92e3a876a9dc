//! With every snapshot mechanism that the kernel supports, queries give the heap's answers, and EXPLAIN ANALYZE names
//! the mechanism.

use std::time::{Duration, Instant};

use bench::cluster::{Options, wait_until};
use bench::{Result, anker, os};
use postgres::Client;

use crate::chaos::{self, Writers};
use crate::flagged::same;
use crate::runner::{Context, Skipped, ensure, tests};

tests![
    frames_answer_as_the_heap,
    physical_copies_answer_as_the_heap,
    rewired_pages_answer_as_the_heap,
    scooted_files_answer_as_the_heap,
    a_call_that_the_kernel_lacks_is_missed,
    tables_go_without_files_that_there_are_not,
];

/// The limit for waiting until a mirror is live. It is high because these tests also run on emulated machines, which
/// are slow.
pub const LIVE: Duration = Duration::from_secs(300);

pub const QUESTIONS: [&str; 4] = [
    "SELECT b, count(*), sum(i4), min(d), max(tz), avg(n9), sum(n30) FROM kinds WHERE anker.olap() GROUP BY b",
    "SELECT c, count(*), sum(amount), avg(amount) FROM kinds, facts WHERE id = kid AND anker.olap() GROUP BY c",
    "SELECT a, b, x, long FROM pairs WHERE anker.olap()",
    "SELECT v, count(*), sum(n) FROM bag WHERE anker.olap() GROUP BY v",
];

fn frames_answer_as_the_heap(context: &Context) -> Result<()> {
    answers_as_the_heap(context, "frames")
}

fn physical_copies_answer_as_the_heap(context: &Context) -> Result<()> {
    answers_as_the_heap(context, "physical")
}

fn rewired_pages_answer_as_the_heap(context: &Context) -> Result<()> {
    answers_as_the_heap(context, "rewired")
}

fn scooted_files_answer_as_the_heap(context: &Context) -> Result<()> {
    answers_as_the_heap(context, "scoot")
}

/// Compares the engine's answers with the heap's while other sessions write.
pub fn answers_as_the_heap(context: &Context, mechanism: &str) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.mechanism", mechanism))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    // The table has several chunks, and the runs of its columns have several lengths.
    client.batch_execute(
        "CREATE TABLE long (id integer PRIMARY KEY, n bigint, t text, few text);
         INSERT INTO long SELECT i, i::bigint * 1000003 % 65521, 'text ' || i, 'few ' || i % 7 FROM generate_series(1, 30000) i",
    )?;
    chaos::create(&mut client)?;
    let tables: Vec<&str> = chaos::TABLES.into_iter().chain(["long"]).collect();
    anker::mirror(&mut client, &tables, LIVE)?;
    ensure!(anker::text_rows(&mut client, "SELECT mechanism FROM anker.engine")? == [mechanism], "the view differs");

    let writers = Writers::start(&cluster, 2, "", Duration::from_millis(2))?;
    let (end, mut round) = (Instant::now() + context.seconds(20, 4), 0);
    while Instant::now() < end {
        round += 1;
        client.batch_execute(&format!(
            "UPDATE long SET n = n * {round} % 65521, t = t || 'x', few = few || {round} WHERE id % 97 = {round} % 97;
             DELETE FROM long WHERE id % 1009 = {round};
             INSERT INTO long SELECT 30000 + {round} * 100 + i, -i, 'new', 'new' FROM generate_series(1, 100) i"
        ))?;
        for question in QUESTIONS {
            same(&mut client, question)?;
        }
        same(&mut client, "SELECT few, count(*), sum(n), min(t), max(id) FROM long WHERE anker.olap() GROUP BY few")?;
    }
    ensure!(writers.stop()? > 20, "the writers got hardly anything done");
    client.batch_execute("SET anker.max_wait = '30s'; SET anker.fallback = off")?;
    for question in QUESTIONS {
        same(&mut client, question)?;
    }
    let told = mechanisms(&mut client, "SELECT sum(n) FROM long WHERE anker.olap()")?;
    ensure!(told == [mechanism], "EXPLAIN says {told:?}");
    for table in tables {
        anker::wait_live(&mut client, table, LIVE)?;
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {:?}", &differences[..differences.len().min(4)]);
    }
    let broken = anker::text_rows(&mut client, "SELECT relation, reason FROM anker.tables WHERE errors > 0")?;
    ensure!(broken.is_empty(), "{broken:?}");
    Ok(())
}

/// The mechanisms that EXPLAIN ANALYZE names for a query's snapshots.
pub fn mechanisms(client: &mut Client, sql: &str) -> Result<Vec<String>> {
    let lines = anker::text_rows(client, &format!("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) {sql}"))?;
    Ok(lines.iter().filter_map(|line| line.trim().strip_prefix("Mechanism: ").map(str::to_owned)).collect())
}

/// If the kernel lacks the mechanism of `anker.mechanism`, nothing is mirrored, the views tell the reason, and the heap
/// answers. When the setting is corrected, the engine answers.
fn a_call_that_the_kernel_lacks_is_missed(context: &Context) -> Result<()> {
    if os::has_vm_snapshot() {
        return Err(Skipped("this kernel has vm_snapshot").into());
    }
    let cluster = context.cluster_with(&Options::default().set("anker.mechanism", "vm_snapshot"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)")?;
    client.batch_execute("SELECT anker.mirror('t')")?;
    let wanted = "anker.mechanism = vm_snapshot does not work here: this kernel has no vm_snapshot";
    for view in ["anker.tables", "anker.engine"] {
        let mut said = String::new();
        let decided = wait_until(LIVE, || {
            said = anker::text_rows(&mut client, &format!("SELECT state, reason FROM {view}"))?.concat();
            Ok(said.contains(wanted))
        })?;
        ensure!(decided, "{view} does not say why: {said}");
    }
    let sql = "SELECT count(*), sum(id) FROM t WHERE anker.olap()";
    for _ in 0..3 {
        same(&mut client, sql)?;
    }
    let told = anker::analyzed(&mut client, sql)?.unwrap_or_default();
    ensure!(told.starts_with("heap, because"), "{told}");
    let log = cluster.log();
    ensure!(log.contains(&format!("LOG:  pg_anker mirrors nothing: {wanted}")), "the log does not say why");
    ensure!(log.contains("HINT:  Set anker.mechanism = auto"), "the log has no hint");

    cluster.alter_system(&[("anker.mechanism", "auto")])?;
    anker::wait_live(&mut client, "t", LIVE)?;
    same(&mut client, sql)?;
    let told = mechanisms(&mut client, sql)?;
    ensure!(told == ["epochs"], "EXPLAIN says {told:?}");
    Ok(())
}

/// With `scoot`, each column needs files and mapped areas. When the process may not open more files, the remaining
/// tables are not mirrored, and nothing else fails.
fn tables_go_without_files_that_there_are_not(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.mechanism", "scoot"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    let mut create = |numbers: std::ops::RangeInclusive<u32>| {
        client.batch_execute(&format!(
            "DO $$ BEGIN FOR i IN {}..{} LOOP
                EXECUTE format('CREATE TABLE t%s (id integer PRIMARY KEY, n bigint, t text, b boolean)', i);
                EXECUTE format('INSERT INTO t%s SELECT i, i, i, true FROM generate_series(1, 20) i', i);
                PERFORM anker.mirror(format('t%s', i)::regclass);
                COMMIT;
            END LOOP; END $$",
            numbers.start(),
            numbers.end()
        ))
    };
    let tables = context.size(1500, 150);
    create(1..=1)?;
    let mut viewer = cluster.connect()?;
    anker::wait_live(&mut viewer, "t1", LIVE)?;
    let engine = anker::engine_pid(&mut viewer)?;
    let files = format!("--nofile={0}:{0}", 2 * tables);
    let limited = cluster.server().command("/usr/bin/prlimit").args(["--pid", &engine.to_string(), &files]).status()?;
    ensure!(limited.success(), "the engine's files cannot be limited");
    create(2..=tables)?;

    const UNDECIDED: &str = "SELECT count(*) FROM anker.tables WHERE state <> 'live' AND reason IS NULL";
    let decided = wait_until(LIVE, || Ok(anker::text_rows(&mut viewer, UNDECIDED)? == ["0"]))?;
    ensure!(decided, "tables are not live, and not given up");
    const TOLD: &str =
        "SELECT count(*) FILTER (WHERE state = 'live') > 20, count(*) FILTER (WHERE reason ~ 'open files') > 20,
            sum(errors) FROM anker.tables";
    let told = anker::text_rows(&mut viewer, TOLD)?;
    ensure!(told == ["t|t|0"], "{told:?}");
    for table in [1, tables / 2, tables] {
        same(&mut viewer, &format!("SELECT count(*), sum(n), min(t) FROM t{table} WHERE b AND anker.olap()"))?;
    }
    let first = anker::analyzed(&mut viewer, "SELECT count(*) FROM t1 WHERE anker.olap()")?;
    ensure!(first.as_deref() == Some("engine"), "{first:?}");
    ensure!(anker::engine_pid(&mut viewer)? == engine, "the engine did not survive it");
    Ok(())
}
