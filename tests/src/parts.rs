//! Partitions that are added while their parent is being mirrored, and DDL of tables that nobody mirrors.

use std::time::Duration;

use bench::cluster::wait_until;
use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{same, unflagged};
use crate::runner::{Context, ensure, tests};

tests![
    ddl_of_other_tables_waits_for_no_list,
    parts_that_come_while_their_whole_is_mirrored_are_listed,
    parts_made_under_an_older_snapshot_are_listed,
    the_first_child_of_a_mirrored_table_is_listed,
];

const LIVE: Duration = Duration::from_secs(60);

const WHOLE: &str = "CREATE TABLE whole (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id);
    CREATE TABLE part_0 PARTITION OF whole FOR VALUES FROM (0) TO (10);
    CREATE TABLE part_1 (id integer PRIMARY KEY, v integer);
    INSERT INTO part_1 SELECT i, i FROM generate_series(10, 19) i";

fn listed(client: &mut Client) -> Result<Vec<String>> {
    anker::text_rows(client, "SELECT relation FROM anker.mirrored ORDER BY relation::text")
}

fn ddl_of_other_tables_waits_for_no_list(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(WHOLE)?;
    client.batch_execute(
        "CREATE TABLE other (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id);
         CREATE TABLE base (id integer); CREATE TABLE child (id integer); CREATE TABLE lone (id integer PRIMARY KEY);
         CREATE TABLE other_1 (id integer PRIMARY KEY, v integer)",
    )?;
    anker::mirror(&mut client, &["whole", "lone"], LIVE)?;
    let ddl = [
        "CREATE TABLE other_0 PARTITION OF other FOR VALUES FROM (0) TO (10)",
        "ALTER TABLE other ATTACH PARTITION other_1 FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE heir () INHERITS (base)",
        "ALTER TABLE child INHERIT base",
        "CREATE TEMPORARY TABLE brief () INHERITS (base)",
        "DROP TABLE brief, heir, other_0",
    ];
    // One session reads the lists in an open transaction. A second one waits to lock them exclusively.
    let mut reader = cluster.connect()?;
    let mut rewriter = cluster.connect()?;
    reader.batch_execute("BEGIN; SELECT FROM anker.mirrored, anker.mirrored_parents")?;
    let rewriting = std::thread::spawn(move || {
        rewriter
            .batch_execute("BEGIN; LOCK TABLE anker.mirrored, anker.mirrored_parents IN ACCESS EXCLUSIVE MODE; COMMIT")
    });
    let waits = "SELECT FROM pg_locks WHERE relation = 'anker.mirrored'::regclass AND NOT granted";
    ensure!(wait_until(LIVE, || Ok(client.query_opt(waits, &[])?.is_some()))?, "nobody waits for the list");
    client.batch_execute("SET lock_timeout = '10s'; SET deadlock_timeout = '60s'")?;
    for sql in ddl {
        client.batch_execute(sql).map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
    }
    reader.batch_execute("COMMIT")?;
    rewriting.join().map_err(|_| "the session panicked")??;

    // DDL of tables that nobody mirrors releases its lock on the lists at once, not at the end of its transaction.
    client.batch_execute("BEGIN; ALTER TABLE other DETACH PARTITION other_1; ALTER TABLE child NO INHERIT base")?;
    for sql in ddl {
        client.batch_execute(sql).map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
    }
    let held = "SELECT relation::regclass, mode FROM pg_locks WHERE pid = pg_backend_pid()
        AND relation IN ('anker.mirrored'::regclass, 'anker.mirrored_parents'::regclass)";
    let held = anker::text_rows(&mut client, held)?;
    ensure!(held.is_empty(), "locks held on the lists: {held:?}");
    client.batch_execute("ROLLBACK")?;
    ensure!(listed(&mut client)? == ["lone", "part_0"], "listed: {:?}", listed(&mut client)?);
    // A partition of a mirrored table is still listed when it is attached.
    client.batch_execute("ALTER TABLE whole ATTACH PARTITION part_1 FOR VALUES FROM (10) TO (20)")?;
    ensure!(listed(&mut client)? == ["lone", "part_0", "part_1"], "listed: {:?}", listed(&mut client)?);
    Ok(())
}

fn parts_that_come_while_their_whole_is_mirrored_are_listed(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(WHOLE)?;
    client.batch_execute(
        "CREATE TABLE base (id integer PRIMARY KEY); CREATE TABLE near (PRIMARY KEY (id)) INHERITS (base);
         CREATE TABLE far (id integer PRIMARY KEY); CREATE TABLE lone (id integer PRIMARY KEY)",
    )?;
    let (mut first, mut watcher) = (cluster.connect()?, cluster.connect()?);
    let attach = "ALTER TABLE whole ATTACH PARTITION part_1 FOR VALUES FROM (10) TO (20)";
    for (begun, meanwhile, part) in [
        ("SELECT anker.mirror('whole')", attach, "part_1"),
        (attach, "SELECT anker.mirror('whole')", "part_1"),
        ("SELECT anker.mirror('base')", "ALTER TABLE far INHERIT near", "far"),
        ("ALTER TABLE far INHERIT near", "SELECT anker.mirror('base')", "far"),
        ("SELECT anker.mirror('lone')", "CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (lone)", "heir"),
        ("CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (lone)", "SELECT anker.mirror('lone')", "heir"),
    ] {
        first.batch_execute(&format!("BEGIN; {begun}"))?;
        let mut second = cluster.connect()?;
        let pid: i32 = second.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let done = std::thread::spawn(move || second.batch_execute(meanwhile));
        let waits = format!("SELECT FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'");
        wait_until(LIVE, || Ok(done.is_finished() || watcher.query_opt(&waits, &[])?.is_some()))?;
        first.batch_execute("COMMIT")?;
        done.join().map_err(|_| "the session panicked")??;
        let parts = listed(&mut client)?;
        ensure!(parts.iter().any(|p| p == part), "{begun}, meanwhile {meanwhile}: listed are {parts:?}");
        client.batch_execute(match part {
            "far" => "SELECT anker.unmirror('base'); ALTER TABLE far NO INHERIT near",
            "heir" => "SELECT anker.unmirror('lone'); DROP TABLE heir",
            _ => "SELECT anker.unmirror('whole'); ALTER TABLE whole DETACH PARTITION part_1",
        })?;
        ensure!(listed(&mut client)?.is_empty(), "listed: {:?}", listed(&mut client)?);
    }
    Ok(())
}

fn parts_made_under_an_older_snapshot_are_listed(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(WHOLE)?;
    let mut old = cluster.connect()?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM whole")?;
    anker::mirror(&mut client, &["whole"], LIVE)?;
    client.batch_execute("INSERT INTO anker.mirrored VALUES ('part_1')")?;
    old.batch_execute(
        "SELECT anker.mirror('whole');
         CREATE TABLE part_2 PARTITION OF whole FOR VALUES FROM (20) TO (30);
         ALTER TABLE whole ATTACH PARTITION part_1 FOR VALUES FROM (10) TO (20); COMMIT",
    )?;
    ensure!(listed(&mut client)? == ["part_0", "part_1", "part_2"], "listed: {:?}", listed(&mut client)?);
    anker::wait_live(&mut client, "whole", LIVE)?;
    let all = "SELECT count(*), sum(v) FROM whole WHERE anker.olap()";
    same(&mut client, all)?;
    let by = anker::analyzed(&mut client, all)?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    Ok(())
}

fn the_first_child_of_a_mirrored_table_is_listed(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE base (id integer PRIMARY KEY, v integer); INSERT INTO base VALUES (1, 1);
         CREATE TABLE far (id integer PRIMARY KEY, v integer); INSERT INTO far VALUES (3, 3)",
    )?;
    // Nothing but children waits for a transaction that mirrors a table.
    let mut other = cluster.connect()?;
    client.batch_execute("BEGIN; SELECT anker.mirror('base')")?;
    other.batch_execute("SET lock_timeout = '10s'")?;
    other.batch_execute("VACUUM base")?;
    client.batch_execute("COMMIT")?;
    anker::wait_live(&mut client, "base", LIVE)?;
    let all = "SELECT count(*), sum(v) FROM base WHERE anker.olap()";
    client.batch_execute(&format!("PREPARE p AS {all}; EXECUTE p"))?;
    for (child, sql) in [
        ("near", "CREATE TABLE near (PRIMARY KEY (id)) INHERITS (base); INSERT INTO near VALUES (2, 2)"),
        ("far", "ALTER TABLE far INHERIT base"),
    ] {
        client.batch_execute(sql)?;
        // The child's rows are never left out, whether its mirror is live or not.
        same(&mut client, all)?;
        let prepared = anker::text_rows(&mut client, "EXECUTE p")?;
        ensure!(prepared == anker::text_rows(&mut client, &unflagged(all))?, "prepared: {prepared:?}");
        let parts = listed(&mut client)?;
        ensure!(parts.iter().any(|part| part == child), "{sql}: listed are {parts:?}");
        anker::wait_live(&mut client, "base", LIVE)?;
        same(&mut client, all)?;
        let by = anker::analyzed(&mut client, all)?;
        ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    client.batch_execute("SELECT anker.unmirror('base')")?;
    ensure!(listed(&mut client)?.is_empty(), "listed: {:?}", listed(&mut client)?);
    Ok(())
}
